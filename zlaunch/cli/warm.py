"""`--start` and `--preload`: whether one process imports for all ranks of a node, and what."""

from __future__ import annotations

from pathlib import Path

import zlaunch
from zlaunch.cli.request import Request
from zlaunch.errors import InputError
from zlaunch.spec.plan import Plan
from zlaunch.spec.preload import Imports, asked_for
from zlaunch.spec.script import ScriptFacts
from zlaunch.spec.worker import Preload

_PROGRAM = {
    "sitecustomize.py": "warm_server.py",
    "checks.py": "warm_checks.py",
    "imports.py": "warm_imports.py",
}

# Run with -m, these start the interpreter over, or hook into what it does.
_TOOLS = {"cProfile", "coverage", "debugpy", "ipdb", "pdb", "profile", "pytest", "trace"}


def preload_of(request: Request, facts: ScriptFacts, plan: Plan) -> tuple[Preload | None, str]:
    """Return what is imported before the ranks are forked; or None, and a note why, if asked for.

    Raises InputError for names of no modules.
    """
    wanted = _wanted(request)
    if request.start == "cold":
        return None, ""
    why = _doubt(request, facts, plan) or (
        "" if wanted or facts.first_imports else _nothing(request)
    )
    if why:
        return None, f"cold start: {why}" if request.start == "warm" else ""
    imports = (*facts.first_imports, *wanted)
    workers = Path(zlaunch.__file__).parent / "workers"
    files = ((name, (workers / source).read_text("utf-8")) for name, source in _PROGRAM.items())
    asked = request.start == "warm"
    sources = facts.sources if facts.first_imports else ()
    return Preload(imports, tuple(files), asked=asked, sources=sources), ""


def _nothing(request: Request) -> str:
    what = f"{request.script}, or a package around it," if request.module else "the script"
    return f"{what} does not begin with an import that takes long (or name it with --preload)"


def _wanted(request: Request) -> Imports:
    if request.preload is None:
        return ()
    try:
        return asked_for(request.preload)
    except ValueError as error:
        raise InputError(
            f"--preload {request.preload}: {str(error) or 'nothing'} is no name of a module",
            hint="--preload torch,transformers",
        ) from error


def _doubt(request: Request, facts: ScriptFacts, plan: Plan) -> str:
    """Why ranks are not forked, as far as it can be told here; the agents look at the rest."""
    if request.no_python:
        return "--no-python"
    if facts.imports is None:
        return "the script has no source to read"
    if request.module and request.script.split(".")[0] in _TOOLS:
        return f"-m {request.script}"
    if not request.module and Path(request.script).is_dir():
        return "the script is a directory"
    if request.debug:
        return "--debug"
    if request.start == "auto" and all(len(node.slots) < 2 for node in plan.topology.nodes):
        return "no two ranks are on one node"
    return ""
