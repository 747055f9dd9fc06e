"""What ends a rank without a traceback of Python.

Refused arguments, a script that is not there, faults in native code, NCCL's watchdog.

Each reader looks only where the line has its fixed beginning, so that a text about an error is
none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zlaunch.frozen import frozen
from zlaunch.insight.cause_table import Kind, Told
from zlaunch.insight.frame import Frame
from zlaunch.insight.rank_words import RankWords
from zlaunch.insight.tracebacks import Raised


@frozen
class Printed:
    """A cause that lines `start` to `end` name; `tell` is the line that says it best."""

    code: str
    told: Told
    start: int
    tell: int
    end: int
    kind: Kind = Kind.OWN
    needs_code: tuple[int, ...] = ()


_ARGPARSE = re.compile(r"([^\s:]{1,200}(?: [\w-]{1,40})?): error: (.{1,400})")
_CLICK = re.compile(r"(?:Error: |│ )(.{1,300}?)\s*│?")
_NO_SCRIPT = re.compile(r"\S*python[\d.]*: can't open file '([^']+)': \[Errno \d+\] (.*)")
_NO_MODULE = re.compile(
    r"\S*python[\d.]*: (?:No module named ([\w.'-]+)|"
    r"Error while finding module specification for '([^']+)' \(?(.*?)\)?)(?:;.*)?"
)
_NO_COMMAND = re.compile(
    r"(?:/\S+/)?(?:ba|z|k|da)?sh: (?:line )?(?:\d+: )?(\S+): (?:command )?not found|"
    r"\S+: line \d+: (\S+): command not found|env: .(\S+?).: No such file or directory"
)
_NO_PERMISSION = re.compile(r"\S*sh: (?:line )?(?:\d+: )?(\S+): Permission denied")
_SYNTAX = re.compile(r"((?:Syntax|Indentation|Tab)Error: .*)")
_SYNTAX_FILE = re.compile(r'  File "([^"]+)", line (\d+)')
_FATAL_FRAME = re.compile(r'  File "([^"]+)", line (\d+) in (\S+)')
_HEAP = re.compile(
    r"(?:free|malloc|realloc|munmap_chunk)\(\): .*|double free or corruption.*|corrupted .*|"
    r"\*\*\* stack smashing detected \*\*\*.*|\*\*\* Error in `.*"
)
_THROWN = re.compile(r"terminate called after throwing an instance of '([^']+)'")
_WATCHDOG = "Watchdog caught collective operation timeout: "
_LOOK_AHEAD = 60  # lines
_LOOK_BACK = 2000  # lines before the end


def find(words: RankWords) -> list[Printed]:
    """All that is read, in the order of the lines."""
    numbers = range(_first(words), len(words.lines))
    return [one for number in numbers for one in _read(words, number)]


def read_line(words: RankWords) -> list[Printed]:
    """What is read of the last line, with those before it."""
    return list(_read(words, len(words.lines) - 1))


def _read(words: RankWords, number: int) -> Iterator[Printed]:
    line = words.lines[number]
    for marker, read in _READERS:
        if marker in line:
            one = read(words.lines, number)
            if one is not None:
                yield one


def thrown(words: RankWords) -> Iterator[Raised]:
    """Exceptions of C++ that nobody caught, as if they were Python's."""
    for number in range(_first(words), len(words.lines)):
        line = words.lines[number]
        if not line.startswith("terminate called after"):
            continue
        named = _THROWN.match(line)
        if named is None:
            continue
        at, message = _what(words.lines, number)
        yield Raised(named[1].replace("::", "."), message, (), number, at, at + 1)


def _first(words: RankWords) -> int:
    return max(0, len(words.lines) - _LOOK_BACK)


def _what(lines: tuple[str, ...], number: int) -> tuple[int, str]:
    for at in range(number + 1, min(len(lines), number + _LOOK_AHEAD)):
        if lines[at].startswith("  what():"):
            return at, lines[at].partition(":")[2].strip()
    return number, ""


def _argparse(lines: tuple[str, ...], number: int) -> Printed | None:
    found = _ARGPARSE.fullmatch(lines[number])
    if found is None:
        return None
    start = _before(lines, number, "usage: ")
    if start is None:
        return None
    return _arguments(found[1], found[2], start, number)


def _click(lines: tuple[str, ...], number: int) -> Printed | None:
    """Click prints usage, a hint at the help, and the error, in a box where rich is there."""
    start = _before(lines, number, "Usage: ")
    in_box = lines[number].startswith("╭")
    at = number + 1 if in_box else number
    if start is None or number - start > 8 or at >= len(lines):
        return None
    found = _CLICK.fullmatch(lines[at])
    return None if found is None else _arguments("the script", found[1], start, at)


def _arguments(who: str, what: str, start: int, tell: int) -> Printed:
    mends = [("what stands behind the script belongs to it and arrives as typed; options of "
    "zlaunch "
             "stand before it")]  # fmt: skip
    if "local_rank" in what or "local-rank" in what:
        mends.insert(0, "--no-local-rank: LOCAL_RANK is in the environment all the same")
    told = Told(f"{who} refuses its arguments: {what}", (), tuple(mends))
    return Printed("script-arguments", told, start, tell, tell + 1, needs_code=(2, 1))


def _before(lines: tuple[str, ...], number: int, beginning: str) -> int | None:
    for at in range(number - 1, max(-1, number - _LOOK_AHEAD), -1):
        if lines[at].startswith(beginning):
            return at
    return None


def _no_script(lines: tuple[str, ...], number: int) -> Printed | None:
    found = _NO_SCRIPT.fullmatch(lines[number])
    if found is None:
        return None
    told = Told(
        f"the script cannot be opened: {found[1]}: {found[2]}",
        (),
        ("the path, from the directory in which the ranks run; on each host the same",),
    )
    return Printed("script-not-found", told, number, number, number + 1)


def _no_module(lines: tuple[str, ...], number: int) -> Printed | None:
    found = _NO_MODULE.fullmatch(lines[number])
    if found is None:
        return None
    name = (found[1] or found[2]).strip("'")
    told = Told(
        f"there is no module {name} to run" + (f": {found[3]}" if found[3] else ""),
        (),
        ("run from the directory that holds the package, or PYTHONPATH; -m takes no file name",),
    )
    return Printed("script-not-found", told, number, number, number + 1)


def _no_command(lines: tuple[str, ...], number: int) -> Printed | None:
    found = _NO_COMMAND.fullmatch(lines[number])
    if found is None:
        return None
    name = next(filter(None, found.groups()))
    told = Told(f"there is no program {name}", (), ("its path; what PATH is on that host",))
    return Printed("program-not-found", told, number, number, number + 1, needs_code=(127, 126, 1))


def _no_permission(lines: tuple[str, ...], number: int) -> Printed | None:
    found = _NO_PERMISSION.fullmatch(lines[number])
    if found is None:
        return None
    told = Told(f"permission denied: {found[1]}", (), ("`chmod +x` it, on each host",))
    return Printed("permission-denied", told, number, number, number + 1, needs_code=(126,))


def _syntax(lines: tuple[str, ...], number: int) -> Printed | None:
    found = _SYNTAX.fullmatch(lines[number])
    if found is None:
        return None
    for at in range(number - 1, max(-1, number - 5), -1):
        place = _SYNTAX_FILE.fullmatch(lines[at])
        if place is not None:
            told = Told(found[1], (f"at {place[1]}:{place[2]}",))
            return Printed("syntax-error", told, at, number, number + 1)
    return None


FATAL = {
    "Segmentation fault": "segmentation-fault",
    "Bus error": "bus-error",
    "Aborted": "aborted",
    "Illegal instruction": "illegal-instruction",
    "Floating point exception": "floating-point-exception",
}


def _fatal(lines: tuple[str, ...], number: int) -> Printed | None:
    """What faulthandler prints, the innermost frame first."""
    if not lines[number].startswith("Fatal Python error: "):
        return None
    what = lines[number].removeprefix("Fatal Python error: ")
    frames, end = [], number + 1
    for at in range(number + 1, min(len(lines), number + _LOOK_AHEAD)):
        frame = _FATAL_FRAME.fullmatch(lines[at])
        if frame is not None:
            frames.append(Frame(frame[1], int(frame[2]), frame[3]))
            end = at + 1
        elif frames:
            break
    own = next((frame for frame in frames if frame.own), None)
    details = []
    if frames:
        details.append(f"in {frames[0].file}:{frames[0].line}, in {frames[0].function}")
    if own is not None and own != frames[0]:
        details.append(f"called from {own.file}:{own.line}, in {own.function}")
    code = FATAL.get(what.partition(":")[0], "fatal-python-error")
    return Printed(
        code, Told(f"{what} in native code", tuple(details), NATIVE), number, number, end
    )


NATIVE = (
    "a compiled extension that does not fit this torch or Python: install it anew",
    "PYTHONFAULTHANDLER=1 shows the line of Python in which it happens",
)


def _heap(lines: tuple[str, ...], number: int) -> Printed | None:
    if not _HEAP.fullmatch(lines[number]):
        return None
    told = Told(f"native code corrupted its memory: {lines[number]}", (), NATIVE)
    return Printed("memory-corrupted", told, number, number, number + 1)


def _watchdog(_: tuple[str, ...], number: int) -> Printed:
    told = Told("a collective timed out")
    return Printed("collective-timeout", told, number, number, number + 1, Kind.WAITED)


_READERS = (
    (": error: ", _argparse),
    ("Error: ", _click),
    ("╭─ Error", _click),
    ("can't open file", _no_script),
    (" module ", _no_module),
    ("not found", _no_command),
    ("No such file or directory", _no_command),
    ("Permission denied", _no_permission),
    ("Error: ", _syntax),
    ("Fatal Python error: ", _fatal),
    ("(): ", _heap),
    ("corrupt", _heap),
    ("*** ", _heap),
    (_WATCHDOG, _watchdog),
    ("due to a collective timeout", _watchdog),
    ("ProcessGroupNCCL watchdog hang", _watchdog),
)
