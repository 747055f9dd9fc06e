"""py-spy, where a host has it: reads a process's stacks from outside, if the kernel lets it."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress

from zlaunch.frozen import frozen
from zlaunch.system.processes import environment


@frozen
class Dump:
    """What py-spy said of one process: its stacks, or why not."""

    text: str = ""
    why: str = ""


def dump_stacks(pids: Sequence[int], end: float) -> dict[int, Dump]:
    """Ask for the stacks of processes, all at once, until `end` (monotonic).

    Those for which there is no py-spy are left out.
    """
    running = {pid: process for pid in pids if (process := _start(pid)) is not None}
    return {pid: _finish(process, end) for pid, process in running.items()}


def _start(pid: int) -> subprocess.Popen[bytes] | None:
    program = _find(pid)
    if program is None:
        return None
    command = [program, "dump", "--full-filenames", "--pid", str(pid)]
    with suppress(OSError):
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    return None


def _finish(process: subprocess.Popen[bytes], end: float) -> Dump:
    try:
        out, err = process.communicate(timeout=max(0.1, end - time.monotonic()))
    except subprocess.TimeoutExpired:
        process.kill()
        return Dump(why="it took too long")
    if process.returncode == 0:
        return Dump(out.decode("utf-8", "replace"))
    lines = err.decode("utf-8", "replace").split("\n")
    return Dump(why=lines[0][:200] or f"exit code {process.returncode}")


def _find(pid: int) -> str | None:
    """Look beside the process's own interpreter, and on its PATH."""
    folders = environment(pid).get("PATH", os.defpath).split(os.pathsep)
    with suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
        folders.insert(0, os.path.dirname(os.fsdecode(file.read().split(b"\0")[0])))
    paths = (os.path.join(folder, "py-spy") for folder in folders if folder)
    return next((path for path in paths if os.access(path, os.X_OK)), None)
