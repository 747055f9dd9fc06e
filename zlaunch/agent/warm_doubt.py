"""What speaks against a warm start before there is one: what is not shared, and what watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from zlaunch.frozen import frozen
from zlaunch.spec.worker import Preload, WorkerSpec

# What hooks into the start of an interpreter, or watches it: it would see one where it expects
# many.
_HOOKS = (
    "COVERAGE_PROCESS", "PYDEVD_", "DEBUGPY_", "CUDA_INJECTION", "NVTX_INJECTION", "LD_AUDIT",
    "PYTHONDUMPREFS", "PYTHONFAULTHANDLER", "PYTHONINSPECT", "PYTHONMALLOCSTATS",
    "PYTHONPERFSUPPORT", "PYTHONPROFILEIMPORTTIME", "PYTHONTRACEMALLOC", "PYTHONVERBOSE",
    "PYTHON_PERF", "PYTHONDEVMODE", "VIZTRACER", "SCALENE",
)  # fmt: skip
_EARLY = ("PYTHON", "LD_", "OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "MALLOC_")  # at the start
_HARMLESS = ("libtcmalloc", "libjemalloc", "libmimalloc", "libiomp", "libgomp")  # LD_PRELOAD


@frozen
class Rank:
    """A worker to start: its command, the environment that it is to see, and what is its own."""

    spec: WorkerSpec
    env: Mapping[str, str]


def doubt(preload: Preload, ranks: Sequence[Rank]) -> str:
    """Say why these cannot be forked, empty if they can; `ranks` read nothing."""
    if len(ranks) < 2 and not (ranks and preload.asked):
        return "one rank alone"
    if not sys.platform.startswith("linux"):
        return "no Linux"
    shared = shared_environment(ranks)
    for name in {name for rank in ranks for name in rank.env}:
        if name.startswith(_HOOKS):
            return f"{name} is set"
        if name not in shared and name.startswith(_EARLY):
            return f"{name} differs from rank to rank"
    libraries = shared.get("LD_PRELOAD", "").replace(":", " ").split()
    if not all(os.path.basename(one).startswith(_HARMLESS) for one in libraries):
        return "LD_PRELOAD is set"
    import shutil  # for warm starts alone: they cost more than this module
    from pathlib import Path

    from zlaunch.system.script_digest import script_digest

    for path, digest in preload.sources:
        if script_digest(Path(ranks[0].spec.cwd or "", path)) != digest:
            return f"{path} is not as it was read"

    program = shutil.which(ranks[0].spec.argv[0], path=shared.get("PATH"))
    if program is None or not _is_binary(program):
        # Who knows what a script makes of the environment: the server might not be one.
        return f"{ranks[0].spec.argv[0]} is no binary"
    return ""


def _is_binary(program: str) -> bool:
    try:
        with open(program, "rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def shared_environment(ranks: Sequence[Rank]) -> dict[str, str]:
    """The variables that are the same for all ranks."""
    first, *others = (rank.env for rank in ranks)
    return {
        name: value
        for name, value in first.items()
        if all(env.get(name) == value for env in others)
    }
