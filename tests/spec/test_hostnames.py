"""Ranges of host names and the value of --hosts: what is read, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import SelectionError
from zlaunch.spec.hostnames import MAX_NAMES, Host, expand, parse_hosts

EXPANDED = {
    "node1": "node1",
    "node[01-03]": "node01 node02 node03",
    "node[1-3]": "node1 node2 node3",
    "node[08-11]": "node08 node09 node10 node11",
    "node[98-101]": "node98 node99 node100 node101",
    "node[099-101]": "node099 node100 node101",
    "node[01-100]": " ".join(f"node{number:02}" for number in range(1, 101)),
    "node[00]": "node00",
    "gpu[1,3-5]-ib": "gpu1-ib gpu3-ib gpu4-ib gpu5-ib",
    "gpu[3,1]": "gpu3 gpu1",
    "gpu[01,1]": "gpu01 gpu1",
    "a[1-2]b[1-2]": "a1b1 a1b2 a2b1 a2b2",
    "[1-2].example": "1.example 2.example",
    "10.0.0.[1-3]": "10.0.0.1 10.0.0.2 10.0.0.3",
    "fd00::[1-2]": "fd00::1 fd00::2",
    "fd00::1": "fd00::1",
    "[fd00::1]": "[fd00::1]",
    "[fe80::1%eth0]": "[fe80::1%eth0]",
    "[::]": "[::]",
    "w[5-5]": "w5",
}


@pytest.mark.parametrize("text", EXPANDED)
def test_expands(text: str) -> None:
    assert expand(text) == tuple(EXPANDED[text].split())


def test_expands_up_to_the_bound() -> None:
    assert len(expand("r[1-64]n[1-64]")) == MAX_NAMES


NOT_EXPANDED = {
    "": "a name is missing",
    "w[3-1]": "write 1-3",
    "w[1-3": "not closed",
    "w[[1]]": "not closed",
    "w1-3]": "not opened",
    "w[]": "found nothing in []",
    "w[1,]": "found nothing in [1,]",
    "w[,1]": "found nothing in [,1]",
    "w[1-]": "found '1-'",
    "w[-1]": "found '-1'",
    "w[1-2-3]": "found '1-2-3'",
    "w[1, 3]": "without blanks",
    "w[a-c]": "expected a number or a range",
    "w[*]": "expected a number or a range",
    "w[\u0663]": "expected a number or a range",
    "w[1-08]": "write 01-08",
    "w[001-16]": "write 001-016",
    "w[00-3]": "write 00-03",
    "w[1,1]": "w1 twice",
    "w[1-3,2]": "w2 twice",
    "w[1,11][1,11]": "w111 twice",
    "w[1-4097]": "4097 names, more than 4096",
    "w[1-99999999][1-99999999]": "more than 4096",
    "w[1-9999999999999999999]": "expected a number or a range",
    "[fd00::1]x": "expected a number or a range",
    "[fd00::zz]": "expected a number or a range",
}


@pytest.mark.parametrize("text", NOT_EXPANDED)
def test_does_not_expand(text: str) -> None:
    with pytest.raises(SelectionError) as caught:
        expand(text)
    assert repr(text) in caught.value.message
    assert NOT_EXPANDED[text] in str(caught.value)
    assert caught.value.hint


def test_reads_hosts() -> None:
    hosts = parse_hosts("a, b,c:4,node[01-02]:8,user@x:2,bob@corp@y,[fd00::1]:4,fd00::2,z[1,3]")
    four, eight = tuple(range(4)), tuple(range(8))
    assert hosts == (
        Host("a", ()),
        Host("b", ()),
        Host("c", four),
        Host("node01", eight),
        Host("node02", eight),
        Host("x", (0, 1), user="user"),
        Host("y", (), user="bob@corp"),
        Host("fd00::1", four),
        Host("fd00::2", ()),
        Host("z1", ()),
        Host("z3", ()),
    )


def test_hosts_without_slots_get_the_default() -> None:
    assert parse_hosts("a,b:1,[fd00::1]", 2) == (
        Host("a", (0, 1)),
        Host("b", (0,)),
        Host("fd00::1", (0, 1)),
    )


NOT_HOSTS = {
    "": ("''", "a name is missing"),
    "a,,b": ("''", "a name is missing"),
    "a,": ("''", "a name is missing"),
    "a,b,a": ("'a'", "named twice"),
    "w[1-3],w2:4": ("'w2:4'", "'w2' is named twice"),
    "a:0": ("'a:0'", "from 1 to 1024"),
    "a:": ("'a:'", "from 1 to 1024"),
    "a:x": ("'a:x'", "found 'x'"),
    "a:2222": ("'a:2222'", "port="),
    "a:" + "9" * 5000: ("'a:9999", "from 1 to 1024"),
    "a:0-3": ("'a:0-3'", "a number of GPUs"),
    "a:1,3": ("'3'", "--include"),
    "[1-3]": ("'[1-3]'", "--include"),
    "fd00::1:x": ("'fd00::1:x'", "[fd00::1]:4"),
    "[fd00::1]4": ("'[fd00::1]4'", "[fd00::1]:4"),
    "[fd00::1": ("'[fd00::1'", "not closed"),
    "w[1,3": ("'w[1'", "not closed"),
    "w[3-1]:2": ("'w[3-1]:2'", "write 1-3"),
    "@a": ("'@a'", "expected USER@NAME"),
    "-l@a": ("'-l@a'", "expected USER@NAME"),
    "bob@": ("'bob@'", "a name is missing"),
    "-oProxyCommand=x": ("'-oProxyCommand=x'", "expected a host name"),
    "a b": ("'a b'", "expected a host name"),
    "a/b": ("'a/b'", "expected a host name"),
    "a[1-4096],b": ("'b'", "over 4096 hosts"),
}


@pytest.mark.parametrize("text", NOT_HOSTS)
def test_refuses_hosts(text: str) -> None:
    item, words = NOT_HOSTS[text]
    with pytest.raises(SelectionError) as caught:
        parse_hosts(text)
    assert f"--hosts cannot be read at {item}" in caught.value.message
    assert words in str(caught.value)
    assert caught.value.hint
    assert len(str(caught.value)) < 600


NUMBERS = st.lists(st.integers(0, 10**6), min_size=1, max_size=50, unique=True)


@given(NUMBERS, st.integers(1, 9), st.sampled_from(["", "-ib", ".example"]))
def test_a_list_of_numbers_comes_back(numbers: list[int], width: int, tail: str) -> None:
    written = [str(number).zfill(width) for number in numbers]
    names = [f"n{number}{tail}" for number in written]
    assert list(expand(f"n[{','.join(written)}]{tail}")) == names
    assert [host.name for host in parse_hosts(f"n[{','.join(written)}]{tail}:3")] == names


@given(st.integers(0, 10**6), st.integers(0, 300), st.integers(1, 9))
def test_a_range_is_the_numbers_in_it(first: int, more: int, width: int) -> None:
    numbers = [str(number).zfill(width) for number in range(first, first + more + 1)]
    if len(numbers[0]) < len(numbers[-1]) and numbers[0].startswith("0") and numbers[0] != "0":
        width = len(numbers[0])
    assert list(expand(f"[{numbers[0]}-{numbers[-1]}]")) == numbers


PIECES = st.sampled_from([*"[],-:@0189 w%*", "fd00::1", "01-03", "\u0663", "\n", "\0"])


@given(st.text() | st.lists(PIECES, max_size=20).map("".join), st.none() | st.integers(1, 8))
def test_any_text_is_read_or_refused(text: str, default: int | None) -> None:
    for read in (expand, lambda text: parse_hosts(text, default)):
        try:
            names = read(text)
        except SelectionError as error:
            if not error.hint:
                raise
        else:
            assert 1 <= len(names) <= MAX_NAMES
            assert len(set(names)) == len(names)
