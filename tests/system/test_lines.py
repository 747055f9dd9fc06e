"""Chunks become lines for a screen; the files keep every byte anyway."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zlaunch.system.lines import LONGEST, LineCutter

relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def shown(chunks: Iterable[bytes]) -> bytes:
    cutter = LineCutter()
    return b"".join([cutter.feed(chunk) for chunk in chunks] + [cutter.finish()])


def cut_at(data: bytes, cuts: list[int]) -> list[bytes]:
    return [data[a:b] for a, b in pairwise([0, *sorted(cuts), len(data)])]


def bytewise(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def test_lines_come_as_soon_as_they_are_complete() -> None:
    cutter = LineCutter()
    assert cutter.feed(b"one\ntw") == b"one\n"
    assert cutter.unfinished() == b"tw"
    assert cutter.feed(b"o\nthree\nfo") == b"two\nthree\n"
    assert cutter.feed(b"ur") == b""
    assert cutter.finish() == b"four\n"
    assert cutter.finish() == b""
    assert cutter.unfinished() == b""


def test_nothing_is_nothing_and_empty_lines_are_lines() -> None:
    assert shown([]) == b""
    assert shown([b""]) == b""
    assert shown([b"\n", b"\n\n"]) == b"\n\n\n"


text_lines = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=("Cc",), include_characters="\a\b\t"))
)


@relaxed
@given(text_lines, st.booleans(), st.data())
def test_ordinary_text_passes_however_it_is_cut(
    lines: list[str], newline: bool, data: st.DataObject
) -> None:
    text = "\n".join(lines).encode() + b"\n" * newline
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = text if text.endswith(b"\n") or not text else text + b"\n"
    assert shown(cut_at(text, cuts)) == whole
    assert shown(bytewise(text)) == whole


pieces = st.sampled_from(
    [b"a", b"\n", b"\r", b"\r\n", b"\x1b[31m", b"\x1b[2K", b"\x1b", b"[", b"\xff", "é".encode()]
)


@relaxed
@given(st.lists(pieces, max_size=20).map(b"".join), st.data())
def test_any_bytes_are_shown_the_same_however_they_are_cut(
    text: bytes, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    result = shown(cut_at(text, cuts))
    assert result == shown([text])
    assert result.count(b"\n") == text.count(b"\n") + (text[-1:] not in {b"", b"\n"})
    assert b"\r" not in result
    result.decode()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"a\r\n", b"a\n"),
        (b"\r\n", b"\n"),
        (b"10%\r20%\r30%\n", b"30%\n"),
        (b"10%\r20%\r\n", b"20%\n"),
        (b"\r10%\r20%", b"20%\n"),
        (b"10%\r20%\r", b"20%\n"),
        (b"done\r\nnext\r\n", b"done\nnext\n"),
        (b"\x1b[2K\r\x1b[1A50%|##  |\x1b[0m\n", b"50%|##  |\x1b[0m\n"),
        (b"\x1b[31mred\x1b[0m \x1b[1;38;5;7mbold\x1b[m\n", None),
        (b"\x1b]0;title\x07text\x1b]8;;http://x\x1b\\link\n", b"textlink\n"),
        (b"\x1b[?25lhidden\x1b[?25h\x1b[10;20H\x1b(B\x1b7\x1b8\x1bM\x1b=\n", b"hidden\n"),
        (b"a\xff\xfeb \xc3\xa9\n", "a\\xff\\xfeb é\n".encode()),
        (b"\xe2\x82\n", b"\\xe2\\x82\n"),
        (b"tab\tand bell\x07\n", None),
    ],
)
def test_what_a_screen_shows(text: bytes, line: bytes | None) -> None:
    assert shown([text]) == (line or text)
    assert shown(bytewise(text)) == (line or text)


def test_an_unterminated_title_swallows_its_own_line_at_most() -> None:
    assert shown([b"a\n\x1b]0;x\nb\nc\x07d\n"]).count(b"\n") == 4


def test_a_progress_bar_shows_its_newest_state() -> None:
    cutter = LineCutter()
    for percent in range(100):
        assert cutter.feed(b"\r%d%%" % percent) == b""
        assert cutter.unfinished() == b"%d%%" % percent
        assert cutter.in_progress
    assert cutter.feed(b"\r100%\n") == b"100%\n"
    assert not cutter.in_progress


def test_a_prompt_is_no_progress_bar_nor_is_half_a_line_end() -> None:
    cutter = LineCutter()
    cutter.feed(b"Continue? ")
    assert not cutter.in_progress
    cutter.feed(b"\r")  # of a \r\n that was cut in two
    assert not cutter.in_progress
    assert cutter.feed(b"\n") == b"Continue? \n"


@pytest.mark.parametrize("state", [b"\r%7d it", b"%7d it\r"])
def test_a_bar_that_runs_for_days_keeps_its_last_state(state: bytes) -> None:
    count = 3 * LONGEST // 10
    last = b"%7d it\n" % (count - 1)
    assert shown(state % number for number in range(count)) == last
    assert shown([b"".join(state % number for number in range(count))]) == last


def test_a_line_of_ten_megabytes_is_shown_cut() -> None:
    size = 10 << 20
    line = b"0123456789" * (size // 10) + b"\n"
    for chunk in (1000, 64 << 10, 1 << 20, size + 1):
        chunks = [line[at : at + chunk] for at in range(0, len(line), chunk)]
        result = shown([b"before\n", *chunks, b"after\n"])
        assert result.startswith(b"before\n01234567890123456789")
        assert result.endswith(b" ... [a line of 10,485,760 bytes; whole in the log]\nafter\n")
        assert result.count(b"\n") == 3
        assert len(result) < LONGEST


def test_an_unfinished_line_of_ten_megabytes_is_shown_cut_too() -> None:
    cutter = LineCutter()
    for _ in range(160):
        assert cutter.feed(b"x" * (64 << 10)) == b""
        assert len(cutter.unfinished()) <= LONGEST
    result = cutter.finish()
    assert result.startswith(b"xxxx")
    assert result.endswith(b" ... [a line of 10,485,760 bytes; whole in the log]\n")
    assert cutter.feed(b"next\n") == b"next\n"


@pytest.mark.parametrize("length", [LONGEST - 1, LONGEST])
def test_a_long_line_within_the_limit_is_whole(length: int) -> None:
    line = b"x" * length + b"\n"
    assert shown([line]) == line
    assert shown([line[:-1], b"\n"]) == line


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\x1bPx", b""),  # a device control string that nobody ends
        (b"a\x1b_hidden\x1b\\b", b"ab"),
        (b"\x1b]0;title\x07text", b"text"),
        (b"\x1b[31mred\x1b[0m", b"\x1b[31mred\x1b[0m"),
        (b"\x1b[38:2::1:2:3mred", b"\x1b[38:2::1:2:3mred"),
        (b"\x1b[>4;2mtext", b"text"),
        (b"\x1b#8\x1bZ\x1bn\x1b~text", b"text"),
        (b"\x1b", b""),
        (b"shift \x0e\x0f\x00 out", rb"shift \x0e\x0f\x00 out"),
        ("c1 \x9b2J \xe9".encode(), "c1 \\x9b2J \xe9".encode()),
    ],
)
def test_nothing_but_colour_reaches_the_screen(written: bytes, shown: bytes) -> None:
    assert LineCutter().feed(written + b"\n") == shown + b"\n"
    cutter = LineCutter()
    assert cutter.feed(written) == b""
    assert cutter.unfinished() == shown


def tqdm_at(position: int, text: bytes) -> list[bytes]:
    """The writes with which tqdm refreshes a bar below others."""
    return [b"\n" * position, b"\r" + text, b"\x1b[A" * position] if position else [b"\r" + text]


def test_nested_progress_bars_are_one_line_in_progress() -> None:
    cutter, shown = LineCutter(), b""
    for outer in range(3):
        for inner in range(50):
            for write in [*tqdm_at(0, b"outer %d" % outer), *tqdm_at(1, b"inner %d" % inner)]:
                shown += cutter.feed(write)
        assert cutter.unfinished() == b"inner 49"
    shown += cutter.feed(b"\nall done\n")
    assert shown.count(b"\n") <= 4
    assert shown.endswith(b"all done\n")


def test_what_follows_a_bar_lets_it_go() -> None:
    cutter = LineCutter()
    cutter.feed(b"\n\rinner\x1b[A\r")
    assert cutter.feed(b"\r100%\n") == b""
    assert cutter.unfinished() == b"100%"
    assert cutter.feed(b"saved\n") == b"100%\nsaved\n"
    assert cutter.feed(b"\rlast\n") == b""
    assert cutter.finish() == b"last\n"
