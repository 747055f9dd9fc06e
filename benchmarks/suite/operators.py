"""An operator that DeepSpeed compiles when it is first used: missing, and there."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from harness.case import Bench, Case, Quantity, Value
from harness.contender import Contender
from harness.process import first_seen

_RANKS = 4
_LINE = re.compile(rb"first collective of rank (\d+)\n")
_TOLD = b"building deepspeed_shm_comm"
_STEP = Quantity("command to last rank's first collective")


def cases(bench: Bench) -> Iterator[Case]:
    script = bench.script("first_collective.py")
    launchers = bench.launchers
    zlaunch, without = (
        launchers.zlaunch(_RANKS, option, script) for option in ("--build-ops", "--no-build-ops")
    )
    torchrun = launchers.torchrun(_RANKS, script)
    told = Quantity("command to a word of what is waited for", compared=False)
    cold, there = partial(_measure_cold, bench.scratch), partial(_measure_there, bench.scratch)
    yield Case("an operator missing, 4 ranks", (zlaunch, torchrun), (_STEP, told), cold, rounds=1)
    yield Case("the same, `--no-build-ops`", (without,), (_STEP, told), cold, rounds=1)
    yield Case("no operator missing, 4 ranks", (zlaunch, torchrun), (_STEP,), there, rounds=3)
    yield Case("the same, `--no-build-ops`", (without,), (_STEP,), there, rounds=3)


def _measure_cold(scratch: Path, contender: Contender) -> tuple[Value, ...]:
    with tempfile.TemporaryDirectory(dir=scratch) as cache:
        measured = _measure(contender, cache)
        shutil.copytree(cache, scratch / "operators", dirs_exist_ok=True)  # with their times
        return measured


def _measure_there(scratch: Path, contender: Contender) -> tuple[Value, ...]:
    return _measure(contender, str(scratch / "operators"))[:1]


def _measure(contender: Contender, cache: str) -> tuple[Value, Value]:
    contender = replace(contender, env={**contender.env, "TORCH_EXTENSIONS_DIR": cache})
    step, told = first_seen(
        contender,
        lambda text: len(set(_LINE.findall(text))) == _RANKS,
        lambda text: _TOLD in text,
    )
    assert step is not None
    return step, "never" if told is None else told
