"""Recordings, and evidence as a launcher would hand it over, for the tests beside this file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zlaunch.insight.diagnosis import Diagnosis, Evidence, RankEnd, diagnose
from zlaunch.insight.peer_log import PeerLog, Reading

RECORDINGS = Path(__file__).parents[1] / "recordings"


def reading(text: str) -> Reading:
    """Read the log of some launcher."""
    lines = text.split("\n")
    log = PeerLog(lines[:3000])
    for number, line in enumerate(lines, 1):
        log.take(number, line)
    return log.read()


def recorded(name: str) -> str:
    path = RECORDINGS / f"cause_{name}.log"
    if not path.exists():
        path = RECORDINGS / f"{name}.log"
    return path.read_text("utf-8", "backslashreplace")


def of_recording(name: str) -> Diagnosis:
    return diagnose(reading(recorded(name)).evidence)


def evidence(
    words: Mapping[int, str], ends: Mapping[int, Mapping[str, Any] | int], **more: Any
) -> Evidence:
    """Evidence from texts; an end is an exit code or the fields of a RankEnd."""
    made = {
        rank: RankEnd(rank, code=end) if isinstance(end, int) else RankEnd(rank, **end)
        for rank, end in ends.items()
    }
    lines = {rank: text.rstrip("\n").split("\n") for rank, text in words.items()}
    return Evidence(made, lines, **{"world_size": len({*made, *lines}), **more})


def raised(message: str, file: str = "/srv/job/train.py") -> str:
    """A traceback, as Python prints it."""
    return (
        "Traceback (most recent call last):\n"
        f'  File "{file}", line 12, in main\n'
        "    step()\n"
        f"{message}\n"
    )


def in_torch(message: str) -> str:
    """A traceback that ends in torch's own code."""
    return raised(message, "/opt/venv/lib/python3.12/site-packages/torch/distributed/c10d.py")


LOST_PEER = in_torch(
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer "
    "[127.0.0.1]:11173. This is typically caused by a remote worker crashing."
)
