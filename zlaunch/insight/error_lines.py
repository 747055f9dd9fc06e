"""Which lines of a rank tell of something going wrong; tracebacks whole. One line after the other.

What is such a line is what the readers of a rank's end know: tracebacks, the tables of causes,
what ends a rank without a traceback, overflow lines of DeepSpeed, a loss that is nan; and beside
that the levels of logs, and what a shell or the kernel says of a process that was killed.
"""

from __future__ import annotations

import re
from collections import deque

from zlaunch.insight import deepspeed_lines, noticed, printed
from zlaunch.insight.deepspeed_lines import MinimumScale, Overflow
from zlaunch.insight.endings import TABLES
from zlaunch.insight.rank_words import RankWords, plain
from zlaunch.insight.tracebacks import HEADER, LINKS, names_exception

_LEVEL = re.compile(
    r"\b(?:ERROR|CRITICAL|FATAL)\b(?!\s*[=:]\s*0\b)|^\[?[EF]\d{4} \d\d:|\bNCCL WARN\b|"
    r"(?:^|[\s:])(?:Killed|Terminated)(?:$|\s+\S|:)|\b[Oo]ut of memory\b|\boom-kill|\(core dumped\)"
)
# What any line of interest has somewhere; a million lines of training are passed over by this.
_HINT = re.compile(
    r"rror|ERROR|CRIT|FATAL|Fatal|xception|nterrupt|Exit|imeout|imed out|Killed|Terminated|emory|"
    r"NCCL|nccl|gloo|pair\.cc|OVERFLOW|verflow|nan\b|NaN|inf\b|^\[?[EF]\d{4} |terminate|atchdog|"
    r"onnection|CUDA|cuda|rank \d|corrupt|\*\*\*|No such file|not found|denied|╭─|│ |No space|"
    r"SIG[A-Z]{3}|core dumped|CUBLAS|CUDNN|oom-kill|ailed|mismatch|EADDRINUSE|\bmodule\b"
)
_BEFORE = 60  # lines that the readers look back at
_LONGEST_MESSAGE = 60  # lines behind the one that names the exception
_LONGEST_BODY = 4000  # lines
_BOX = ("│", "|", "╭", "╰", "+")


class ErrorLines:
    """Told each line of one rank in order, says whether it is to be shown."""

    def __init__(self) -> None:
        self._before: deque[str] = deque(maxlen=_BEFORE)
        self._body = 0  # lines of the traceback so far; 0: in none
        self._message = 0  # lines behind the one that named its exception
        self._tagged = False  # torch's tag stood before the traceback's lines

    def tells(self, line: str) -> bool:
        """Whether this line, the next one, tells of something wrong."""
        words = plain(0, [line])
        text, tagged = words.lines[0], bool(words.tagged)
        shown = self._traceback_goes_on(text, tagged) or self._alone(text, tagged)
        self._before.append(text)
        return shown

    def _traceback_goes_on(self, text: str, tagged: bool) -> bool:
        if HEADER in text:
            self._body, self._message, self._tagged = 1, 0, tagged
            return True
        if text.startswith(LINKS):
            return True
        if self._message:
            return self._message_goes_on(text, tagged)
        if not self._body:
            return False
        if self._tagged and not tagged:  # another process of the rank writes in between
            return False
        self._body += 1
        if self._body > _LONGEST_BODY:
            self._body = 0
        elif not text[:1].isspace() and not text.startswith(_BOX):
            self._body, self._message = 0, 1 if names_exception(text) else 0
            return bool(self._message)
        return bool(self._body)

    def _message_goes_on(self, text: str, tagged: bool) -> bool:
        """Behind the exception's name: its message may have more lines, which nothing marks."""
        goes_on = tagged if self._tagged else text[:1].isspace() and bool(text.strip())
        self._message = self._message + 1 if goes_on else 0
        if self._message > _LONGEST_MESSAGE:
            self._message = 0
        return goes_on

    def _alone(self, text: str, tagged: bool) -> bool:
        if not _HINT.search(text):
            return False
        if _LEVEL.search(text) or noticed.NAN.search(text) or names_exception(text, sure=True):
            return True
        if any(row.compiled.search(text) for table in TABLES for row in table):
            return True
        if deepspeed_lines.maybe_interesting(text.encode()) and isinstance(
            deepspeed_lines.parse_line(text), (Overflow, MinimumScale)
        ):
            return True
        words = RankWords(0, (*self._before, text), frozenset((0,)) if tagged else frozenset())
        return any(one.tell == len(self._before) for one in printed.read_line(words))
