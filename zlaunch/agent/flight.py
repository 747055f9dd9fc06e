"""PyTorch's flight recorder: asked for a dump, and the dump read.

A dump is a pickle that one of our own ranks wrote. It is read without a single class or function,
so that nothing in it can run, and in a child of the agent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from zlaunch.frozen import frozen

_LARGEST = 64 << 20  # bytes of a dump
_PAUSE = 0.05  # seconds between looks
_GROUPS = 64  # process groups of one rank, the most that are told of
# NCCL's monitor looks at the pipe once a second (TORCH_NCCL_COORD_CHECK_MILSEC).
_PIPES = ("TORCH_NCCL_DEBUG_INFO_PIPE_FILE",)
_DUMPS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")


@frozen
class Recorder:
    """Where a rank's dump comes to lie; `after` is the age of the one that is there already."""

    path: str
    asked: bool
    after: int


def ask_recorder(rank: int, env: Mapping[str, str], pipes: str = "") -> Recorder | None:
    """Ask a rank for a dump; `pipes` is where its pipe begins, if the environment says nothing."""
    prefix = next((env[name] for name in _DUMPS if env.get(name)), "")
    if not prefix:
        return None
    path = f"{prefix}{rank}"
    recorder = Recorder(path, False, _age(path))
    for begin in (*(env[name] for name in _PIPES if env.get(name)), pipes):
        with suppress(OSError):
            pipe = os.open(f"{begin}{rank}.pipe", os.O_WRONLY | os.O_NONBLOCK)
            try:
                os.write(pipe, b"1")
            finally:
                os.close(pipe)
            return Recorder(path, True, recorder.after)
    return recorder


def read_recorder(recorder: Recorder | None, end: float) -> list[dict[str, Any]]:
    """Return what the dump says of each process group; wait for one that was asked for."""
    if recorder is None:
        return []
    while recorder.asked and _age(recorder.path) == recorder.after and time.monotonic() < end:
        time.sleep(_PAUSE)
    while True:
        found = read_dump(recorder.path)
        if found or not recorder.asked or time.monotonic() > end:
            return found or []
        time.sleep(_PAUSE)  # it is being written


def _age(path: str) -> int:
    with suppress(OSError):
        return os.stat(path).st_mtime_ns
    return 0


def read_dump(path: str) -> list[dict[str, Any]] | None:
    """Read a dump; None where there is none that can be read."""
    import pickle

    class Plain(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            raise pickle.UnpicklingError(f"{module}.{name} has no place in a dump")

    try:
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size > _LARGEST:
                return None
            return _groups(Plain(file).load())
    except Exception:  # whatever stands there, it is not a dump of ours
        return None


def _groups(dump: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each process group its name, how far it is, and its last collective."""
    last: dict[str, Mapping[str, Any]] = {}
    for entry in dump["entries"]:
        if not entry.get("is_p2p"):
            last[str(entry["process_group"][0])] = entry
    found = []
    for name, entry in list(last.items())[:_GROUPS]:
        status = dump.get("pg_status", {}).get(name, {})
        found.append(
            {
                "group": name,
                "words": str(entry["process_group"][1]),
                "enqueued": int(status.get("last_enqueued_collective", -1)),
                "completed": int(status.get("last_completed_collective", -1)),
                "number": int(entry["collective_seq_id"]),
                "operation": str(entry["profiling_name"]).partition(":")[2],
                "sizes": str(entry.get("input_sizes", ""))[:80],
                "state": str(entry["state"]),
                "frames": [_frame(frame) for frame in entry.get("frames", ())[:30]],
            }
        )
    return found


def _frame(frame: Mapping[str, Any]) -> list[Any]:
    return [str(frame["filename"]), int(frame["line"]), str(frame["name"])]
