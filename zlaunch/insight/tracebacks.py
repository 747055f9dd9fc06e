"""Finds the tracebacks in what a rank printed.

Read are the forms of Python itself, of exception groups, and of rich. A traceback ends with the
line that names the exception; its message may go on for some lines, which nothing marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from zlaunch.frozen import frozen
from zlaunch.insight.frame import Frame
from zlaunch.insight.rank_words import RankWords

HEADER = "Traceback (most recent call last)"
_CAUSE = "The above exception was the direct cause of the following exception"
_CONTEXT = "During handling of the above exception, another exception occurred"
LINKS = (_CAUSE, _CONTEXT)
_LONGEST_MESSAGE = 60  # lines
_LONGEST_GROUP = 400  # lines
_WIDEST_GROUP = 500  # characters
_SHORT_REST = 12  # lines
_LONGEST_BODY = 4000  # lines
_MOST_STRAY = 200  # lines of other ranks within a traceback, in a log that mixes them

_FRAME = re.compile(r'\s*File "([^"]+)", line (\d+)(?:, in (.+))?')
_RICH_FRAME = re.compile(r"[│|] (\S[^│]*?):(\d+) in (\S+)")
_RAISED = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?:: ?(.*))?", re.DOTALL)
_SURE = re.compile(r"(?:Error|Exception|Interrupt|Exit|Warning|Timeout|NotMet|Group|Failure)$")
_GROUP = re.compile(r"\s*(?:\| ?|\+[-+ ]*(?:\d+[ -]*)?)+")
# Lines of logs, which no message holds: glog's, logging's, DeepSpeed's.
_LOGGED = re.compile(r"\[?[EWIF]\d{4} \d\d:\d\d:|\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:|wandb: |srun: ")


@frozen
class Raised:
    """An exception as it was printed: lines `start` to `end`, of which `tell` names it.

    `before` is the exception that it was raised from, or while handling which. `aside`: it did
    not end the program (a thread's, or one that Python ignored).
    """

    type: str
    message: str
    frames: tuple[Frame, ...]
    start: int
    tell: int
    end: int
    before: Raised | None = None
    aside: bool = False

    @property
    def text(self) -> str:
        """`ValueError: row 17 is empty`, without the module of the type."""
        name = self.type.rpartition(".")[2]
        return f"{name}: {self.message}" if self.message else name

    @property
    def summary(self) -> str:
        """One line; where a data loader's worker raised it, what that one said."""
        text = self.text.strip()
        if HEADER not in text:
            return text.split("\n", 1)[0]
        inner = [line for line in text.splitlines() if _RAISED.fullmatch(line)]
        return f"{inner[-1]} (in a worker process)"

    @property
    def place(self) -> str:
        """The last frame in the user's own files: `train.py:41, in main`."""
        own = next((frame for frame in reversed(self.frames) if frame.own), None)
        if own is None:
            return ""
        inside = f", in {own.function}" if own.function not in ("", "<module>") else ""
        return f"{own.file}:{own.line}{inside}"

    def chain(self) -> Iterator[Raised]:
        """This one, and those before it, the latest first."""
        one: Raised | None = self
        while one is not None:
            yield one
            one = one.before

    @property
    def first_line(self) -> int:
        """Where the first of the chain begins."""
        return list(self.chain())[-1].start


def find(words: RankWords) -> list[Raised]:
    """All tracebacks of a rank, in the order in which they were printed; a chain is one."""
    found: list[Raised] = []
    lines = words.lines
    at, linked = _cut_off(words, found), False
    while at < len(lines):
        line = lines[at]
        if HEADER not in line:
            if linked or line.startswith(LINKS):
                linked = line.startswith(LINKS) or (linked and not line)
            at += 1
            continue
        raised = _read(words, at)
        if raised is None:
            linked, at = False, at + 1
            continue
        if linked and found:
            raised = replace(raised, before=found.pop())
        found.append(raised)
        linked, at = False, max(raised.end, at + 1)
        while at < len(lines) and (other := _beside(lines[at], at, raised)) is not None:
            found.append(other)
            at += 1
    return found


def _cut_off(words: RankWords, found: list[Raised]) -> int:
    """Read a traceback of which only the end is there; give the line behind it."""
    lines = words.lines
    if not lines or not lines[0][:1].isspace():
        return 0
    body = _body(words, 0)
    if body is None or not body[0] or any(not line[:1].isspace() for line in lines[: body[1]]):
        return 0
    frames, tell, type_, message = body
    found.append(_finish(words, 0, tell, type_, message, frames))
    return found[-1].end


def _beside(line: str, at: int, raised: Raised) -> Raised | None:
    """Read an exception of another rank, whose traceback is mixed with this one."""
    if not _another(line):
        return None
    told = _RAISED.fullmatch(line)
    return told and Raised(told[1], told[2] or "", raised.frames, raised.start, at, at + 1)


def _another(line: str) -> bool:
    """Whether a line names an exception, and is none of NCCL's, which stand in messages."""
    raised = _RAISED.fullmatch(line)
    if raised is None or not _SURE.search(raised[1]):
        return False
    return raised[1].rpartition(".")[2][:1].isupper()


def _read(words: RankWords, start: int) -> Raised | None:
    head = words.lines[start]
    if "─" in head or head.startswith("+--"):
        return _read_rich(words, start)
    if "Exception Group" in head:
        return _read_group(words, start)
    body = _body(words, start + 1)
    if body is None:
        return None
    frames, tell, type_, message = body
    return _finish(words, start, tell, type_, message, frames)


def _body(words: RankWords, at: int) -> tuple[list[Frame], int, str, str] | None:
    """Read frames up to the line that names the exception."""
    lines, frames, stray = words.lines, [], 0
    follows_code = True
    tagged = at - 1 in words.tagged
    for number in range(at, min(len(lines), at + _LONGEST_BODY)):
        line = lines[number]
        if tagged and number not in words.tagged:  # a line of another rank
            continue
        if line[:1].isspace():
            frame = _FRAME.match(line)
            if frame is not None:
                frames.append(Frame(frame[1], int(frame[2]), frame[3] or ""))
            follows_code = True
            continue
        if HEADER in line:
            return None
        raised = _RAISED.fullmatch(line)
        if raised is not None and (follows_code or _SURE.search(raised[1])) and _named(raised[1]):
            return frames, number, raised[1], raised[2] or ""
        stray, follows_code = stray + 1, False
        if stray > _MOST_STRAY:
            return None
    return None


def names_exception(line: str, *, sure: bool = False) -> bool:
    """Whether a line can name an exception, as the last of a traceback does; `sure`: by its type.

    Without a traceback before it only a type that is called an error or the like is one.
    """
    raised = _RAISED.fullmatch(line.rstrip())
    if raised is None:
        return False
    if sure:
        return bool(_SURE.search(raised[1])) and not raised[1].endswith("Warning")
    return _named(raised[1])


def _named(type_: str) -> bool:
    """Whether this can be the name of an exception: `ready` or `loss` are none."""
    last = type_.rpartition(".")[2]
    return last[:1].isupper() or bool(_SURE.search(last)) or "." in type_ or "_" in last


def _finish(
    words: RankWords, start: int, tell: int, type_: str, message: str, frames: Sequence[Frame]
) -> Raised:
    end = _end_of_message(words, tell)
    more = words.lines[tell + 1 : end]
    frames = [*frames, *(f for f in map(_frame, more) if f is not None)]  # of a data loader's own
    text = "\n".join([message, *more]).strip()
    before = words.lines[start - 1] if start else ""
    aside = before.startswith(("Exception ignored", "Exception in thread"))
    return Raised(type_, text, tuple(frames), start, tell, end, aside=aside)


def _frame(line: str) -> Frame | None:
    found = _FRAME.match(line)
    return None if found is None else Frame(found[1], int(found[2]), found[3] or "")


def _end_of_message(words: RankWords, tell: int) -> int:
    """Where the message of the exception ends: torch's tag says it, else a guess."""
    lines, tagged, nested = words.lines, tell in words.tagged, False
    last = min(len(lines), tell + 1 + _LONGEST_MESSAGE)
    for number in range(tell + 1, last):
        line = lines[number]
        if (tagged and number not in words.tagged) or line.startswith(LINKS):
            return number
        if HEADER in line and not line.startswith("Original "):
            return number
        if _LOGGED.match(line) or (not line.strip() and _ends_at_blank(words, number, tagged)):
            return number
        if _another(line) and not (nested or tagged):
            return number
        nested = nested or HEADER in line
    return last


def _ends_at_blank(words: RankWords, blank: int, tagged: bool) -> bool:
    """Whether a blank line ends a message: not where only a little more was printed at all."""
    rest = words.lines[blank + 1 :]
    if rest and rest[0].startswith(LINKS):
        return True
    if tagged:
        return False
    return len(rest) > _SHORT_REST or any(HEADER in line or _LOGGED.match(line) for line in rest)


def _read_rich(words: RankWords, start: int) -> Raised | None:
    frames = []
    for number in range(start + 1, min(len(words.lines), start + _LONGEST_BODY)):
        line = words.lines[number]
        frame = _RICH_FRAME.match(line)
        if frame is not None:
            frames.append(Frame(frame[1], int(frame[2]), frame[3]))
        elif not line.startswith(("│", "|", "╭", "╰", "+")):
            raised = _RAISED.fullmatch(line.rstrip())
            if raised is None:
                return None
            return _finish(words, start, number, raised[1], raised[2] or "", frames)
    return None


def _read_group(words: RankWords, start: int) -> Raised | None:
    """Read an exception group as its first exception, which is the reason for it."""
    frames: list[Frame] = []
    told: list[tuple[int, str, str]] = []
    end = start + 1
    last = min(len(words.lines), start + _LONGEST_GROUP)
    while end < last and words.lines[end].lstrip().startswith(("|", "+")):
        if HEADER in words.lines[end]:
            break
        line = _GROUP.sub("", words.lines[end][:_WIDEST_GROUP], count=1)
        frame = _FRAME.match(line)
        raised = _RAISED.fullmatch(line)
        if frame is not None:
            frames.append(Frame(frame[1], int(frame[2]), frame[3] or ""))
        elif raised is not None and _SURE.search(raised[1]):
            told.append((end, raised[1], raised[2] or ""))
        end += 1
    real = [one for one in told if not one[1].endswith("Group")] or told
    if not real:
        return None
    tell, type_, message = real[0]
    return Raised(type_, message, tuple(frames), start, tell, end)
