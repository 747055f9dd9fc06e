"""Lists of ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import InputError
from zlaunch.spec.ranks import parse_ranks


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("0", {0}),
        ("0,-1", {0, 7}),
        ("3-5", {3, 4, 5}),
        ("3-3", {3}),
        (" 1 , 2-3 ,1", {1, 2, 3}),
        ("-2--1", {6, 7}),
        ("6--1", {6, 7}),
        ("-8", {0}),
        ("all", set(range(8))),
    ],
)
def test_reads(text: str, ranks: set[int]) -> None:
    assert parse_ranks(text, 8) == ranks


@pytest.mark.parametrize("text", ["8", "-9", "3-8", "99999999"])
def test_out_of_range_names_the_world_size(text: str) -> None:
    with pytest.raises(InputError, match=r"--console-ranks .* world size is 8"):
        parse_ranks(text, 8)


@pytest.mark.parametrize(
    "text", ["", ",", "0,", "a", "1.0", "5-3", "1-2-3", "--1", "+1", "٣", "all,0", "9" * 5000]
)
def test_refuses(text: str) -> None:
    with pytest.raises(InputError, match="--debug-ranks"):
        parse_ranks(text, 8, option="--debug-ranks")


@given(st.text("0123456789-, al") | st.text(), st.integers(1, 16))
def test_any_text_is_ranks_or_refused(text: str, world_size: int) -> None:
    try:
        ranks = parse_ranks(text, world_size)
    except InputError:
        return
    assert ranks
    assert ranks <= set(range(world_size))
