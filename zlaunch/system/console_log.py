"""console.log, what a launcher without a terminal shows; of --log-max the newest is kept."""

from __future__ import annotations

import os

from zlaunch.system.rank_log import GrowingFile, LogReader, SizedLog
from zlaunch.system.rundir import RunDir
from zlaunch.system.sink import write_all


class _Stdout(GrowingFile):
    """The file that is our stdout; it is never closed, and a disk may get free again."""

    def __init__(self) -> None:
        super().__init__(1)

    def append(self, data: bytes) -> str | None:
        return write_all(1, data)

    def close(self) -> None:
        pass


class ConsoleLog(SizedLog):
    """Writes to stdout, which is console.log and open for appending already, as is stderr."""

    def __init__(self, run: RunDir, most: int) -> None:
        """`most` is as in `SizedLog`."""
        self._run = run
        self._begun = False
        super().__init__(run.console, run.older_console, self._next, most)
        self.size = os.fstat(1).st_size

    def _next(self) -> GrowingFile:
        if self._begun:
            fd = self._run.open_to_append(self._run.console)
            os.dup2(fd, 1)
            os.dup2(fd, 2)
            os.close(fd)
        self._begun = True
        return _Stdout()


class ConsoleReader(LogReader):
    """Reads it, from `offset` on."""

    def __init__(self, run: RunDir, offset: int = 0) -> None:
        super().__init__(run.console, run.older_console, offset)


def last_line_end(run: RunDir, longest: int) -> int:
    """The offset behind the last whole line; one of more than `longest` bytes counts as whole."""
    end = ConsoleReader(run).size()
    reader = ConsoleReader(run, max(0, end - longest))
    data = reader.read_until(end)
    return reader.offset - len(data) + data.rfind(b"\n") + 1
