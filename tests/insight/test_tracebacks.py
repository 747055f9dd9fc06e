"""Tracebacks are found through colours, progress bars, tags and the lines of other ranks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import raised

from zlaunch.insight import folding, tracebacks
from zlaunch.insight.rank_words import LONGEST, plain, plain_line
from zlaunch.insight.tracebacks import Raised


def found(text: str) -> list[Raised]:
    return tracebacks.find(plain(0, text.rstrip("\n").split("\n")))


def only(text: str) -> Raised:
    (one,) = found(text)
    return one


def test_a_plain_one() -> None:
    one = only("step 1\n" + raised("pkg.errors.BadRow: row 17: empty") + "wandb: bye\n")
    assert (one.type, one.message) == ("pkg.errors.BadRow", "row 17: empty")
    assert one.text == "BadRow: row 17: empty"
    assert one.place == "/srv/job/train.py:12, in main"
    assert (one.start, one.tell, one.end) == (1, 4, 5)


def test_the_last_own_frame_is_the_place() -> None:
    one = only(
        "Traceback (most recent call last):\n"
        '  File "/home/me/train.py", line 3, in <module>\n'
        "    main()\n"
        '  File "/home/me/data.py", line 7, in load\n'
        "    torch.load(x)\n"
        '  File "/opt/venv/lib/python3.12/site-packages/torch/serialization.py", line 9, in load\n'
        "    raise E\n"
        "EOFError: Ran out of input\n"
    )
    assert one.place == "/home/me/data.py:7, in load"


@pytest.mark.parametrize(
    "change",
    [
        lambda line: f"\x1b[31m{line}\x1b[0m",
        lambda line: f"12%|###   | 3/9\r{line}",
        lambda line: f"{line}\r",
        lambda line: f"[rank3]: {line}",
    ],
)
def test_through_what_screens_and_launchers_add(change) -> None:
    text = "\n".join(map(change, raised("ValueError: row 17").splitlines()))
    assert only(text).text == "ValueError: row 17"


def test_a_tagged_one_is_read_through_lines_of_others() -> None:
    lines = [f"[rank1]: {line}" for line in raised("ValueError: row\nsecond line").splitlines()]
    mixed = "\n".join(f"{line}\nstep {n}: fine" for n, line in enumerate(lines))
    assert only(mixed).message.startswith("row")


def test_a_chain_is_one() -> None:
    text = (
        raised("KeyError: 'lr'")
        + "\nThe above exception was the direct cause of the following exception:\n\n"
        + raised("RuntimeError: no learning rate")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + raised("OSError: [Errno 28] No space left on device")
    )
    one = only(text)
    assert [each.type for each in one.chain()] == ["OSError", "RuntimeError", "KeyError"]
    assert one.first_line == 0


def test_a_message_of_many_lines_ends_with_the_log_that_follows() -> None:
    text = raised("ValidationError: 2 errors\nstage\n  Input should be 3") + (
        "[2026-11-30 01:48:45,578] [INFO] [launch.py:1:f] Killing subprocess 7\n"
    )
    assert only(text).message == "2 errors\nstage\n  Input should be 3"


@pytest.mark.parametrize(
    "text",
    [
        "Traceback (most recent call last):",
        'Traceback (most recent call last):\n  File "x", line 1, in f\n    f()\n',
        "Traceback (most recent call last):\nready\n" * 3,
        "Traceback (most recent call last) was seen in the docs\nloss: 3\n",
    ],
)
def test_half_of_one_is_none(text: str) -> None:
    assert found(text) == []


def test_a_class_of_small_letters_and_one_without_a_message() -> None:
    assert only(raised("bad_row: 17")).text == "bad_row: 17"
    assert only(raised("AssertionError")).text == "AssertionError"
    assert found(raised("ready\nloss: 3\nstep")) == []


def test_one_whose_beginning_is_cut_off() -> None:
    text = raised("ValueError: row 17").split("\n", 1)[1]
    assert only(text).text == "ValueError: row 17"
    assert only(text).place == "/srv/job/train.py:12, in main"
    assert found("  indented help\n    more\nValueError: is what it raises\n") == []


def test_tracebacks_of_ranks_that_are_mixed_line_by_line() -> None:
    one = raised("ValueError: row 17").splitlines()
    other = raised("KeyError: 'lr'").splitlines()
    mixed = [line for pair in zip(one, other, strict=True) for line in pair]
    assert [each.text for each in found("\n".join(mixed))] == [
        "ValueError: row 17",
        "KeyError: 'lr'",
    ]


def test_equal_ones_are_folded_but_for_what_differs_from_rank_to_rank() -> None:
    def lines(rank: int) -> list[str]:
        message = f"RuntimeError: [rank {rank}] bad row at 0x7f{rank}a (pid {900 + rank})"
        return raised(message).splitlines()

    shown = [(rank, lines(rank)) for rank in range(8)] + [(8, raised("KeyError: 1").splitlines())]
    groups = folding.folded(shown)
    assert [group.ranks for group in groups] == [tuple(range(8)), (8,)]


def test_numbers_in_a_message_do_not_part_equal_frames() -> None:
    shown = [(rank, raised(f"IndexError: row {7 * rank}").splitlines()) for rank in range(3)]
    assert [group.ranks for group in folding.folded(shown)] == [(0, 1, 2)]
    elsewhere = raised("IndexError: row 0").replace("line 12", "line 13").splitlines()
    assert len(folding.folded([*shown, (3, elsewhere)])) == 2


def test_a_plain_line() -> None:
    assert plain_line("10%\r20%\r\x1b[1mdone\x1b[0m\r") == "done"
    assert plain_line("\x1b]0;title\x07text") == "text"
    assert len(plain_line("x" * 100_000)) == LONGEST


@given(st.lists(st.sampled_from([
    "Traceback (most recent call last):", '  File "a.py", line 1, in f', "    f()", "ValueError: x",
    "", "During handling of the above exception, another exception occurred:", "step 1",
    "  + Exception Group Traceback (most recent call last):", "  | ExceptionGroup: x (1 sub)",
    "╭───── Traceback (most recent call last) ─────╮", "│ /a.py:3 in f │", "╰───╯", "[rank1]: x",
    "Exception ignored in: x", "    | ValueError: a",
]), max_size=40))  # fmt: skip
def test_any_mixture_is_survived(lines: list[str]) -> None:
    words = plain(0, lines)
    for one in tracebacks.find(words):
        assert 0 <= one.first_line <= one.tell < one.end <= len(lines)
        assert one.type
        assert one.summary or one.text == ""
