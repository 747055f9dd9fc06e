"""Runs whose ranks are to be forked."""

from __future__ import annotations

from journeys import Done, Journey

WARM = ("--cpu", "2", "--grace", "5", "--start", "warm")
# A forked rank has frozen what was there before; Python 3.12 some by itself.
TELL = "import gc\nprint('warm' if gc.get_freeze_count() > 1000 else 'cold')\n"


def library(journey: Journey, text: str, name: str = "lib") -> None:
    """A module that is no neighbour of the script."""
    (journey.folder / "path").mkdir(exist_ok=True)
    (journey.folder / "path" / f"{name}.py").write_text(text)
    journey.env["PYTHONPATH"] = str(journey.folder / "path")


def how(journey: Journey, *options: str) -> tuple[Done, list[bytes]]:
    done = journey.zlaunch("run", *WARM, *options, "job.py")
    return done, [journey.log(rank).rstrip(b"\n") for rank in (0, 1)]
