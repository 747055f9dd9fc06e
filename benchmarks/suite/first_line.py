"""Start-up: from Enter until every rank has printed its first line."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from functools import partial

from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import Contender
from harness.process import running

_LINE = re.compile(rb"first line of rank (\d+)\n")
_SCRIPTS = {
    "one_line.py": ("nothing imported", (1, 2, 4), 5),
    "import_torch.py": ("`import torch`", (1, 2, 8), 3),
}


def cases(bench: Bench) -> Iterator[Case]:
    for script, (what, counts, rounds) in _SCRIPTS.items():
        for ranks in counts:
            yield Case(
                f"{what}, {ranks} rank{'s' if ranks > 1 else ''}",
                bench.launchers.all(ranks, bench.script(script)),
                (Quantity("command to last rank's first line"),),
                partial(_measure, ranks),
                rounds=rounds,
            )


def _measure(ranks: int, contender: Contender) -> tuple[float]:
    """Read the console as a person would: what counts is when the line can be seen."""
    seconds: float | None = None
    with running(contender, subprocess.PIPE) as process:
        text = b""
        for data in process.read():
            text += data
            if seconds is None and len(set(_LINE.findall(text))) == ranks:
                seconds = process.elapsed()
        code = process.wait()
    if seconds is None or code != 0:
        last = text.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unmeasured(f"exit code {code}, not all first lines; the last line is '{last}'")
    return (seconds,)
