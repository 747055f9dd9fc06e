"""What hosts are asked before a run on them: what this script and these devices need."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from zlaunch.cli.request import Request
from zlaunch.errors import InputError
from zlaunch.launcher.preflight import Asked
from zlaunch.run.findings import CODES
from zlaunch.spec.environment import DeviceKind
from zlaunch.spec.facts import Question
from zlaunch.spec.script import ScriptFacts
from zlaunch.system.script_digest import script_digest

_ALWAYS = ("torch", "deepspeed")
KNOWN = (*_ALWAYS, "transformers", "accelerate")


def question(request: Request, script: ScriptFacts, device: DeviceKind) -> Asked:
    """Return what all nodes are asked."""
    needed = tuple(name for name in KNOWN if name in (script.imports or ()))
    if script.target == "hf" and request.wants_deepspeed:
        needed = tuple(dict.fromkeys((*needed, "deepspeed")))
    # Nodes that join have looked at their own scripts, which need not be the same.
    elsewhere = request.module or request.no_python or request.join is not None
    gpus = device == "cuda"
    return Asked(
        Question(
            python=not request.no_python,
            script="" if elsewhere else request.script,
            module=request.script if request.module and request.join is None else "",
            packages=() if request.no_python else _packages(script, needed),
            gpus=gpus,
            nvml=nvml_source() if gpus else "",
        ),
        needed=needed,
        digest=None if elsewhere else script_digest(Path(request.script)),
    )


def _packages(script: ScriptFacts, needed: tuple[str, ...]) -> tuple[str, ...]:
    """Those whose versions matter: a script of the standard library alone does not care.

    One that imports other modules may import torch through them, or may not.
    """
    known = {*KNOWN, *sys.stdlib_module_names}
    if script.imports is not None and not (script.imports - known or needed):
        return ()
    return tuple(dict.fromkeys((*_ALWAYS, *needed)))


def nvml_source() -> str:
    """The source of pynvml, one module that needs nothing else; "" where it is not installed."""
    path = nvml_path()
    return Path(path).read_text("utf-8") if path else ""


def nvml_path() -> str:
    """Where pynvml lies; "" where it is not installed."""
    spec = importlib.util.find_spec("pynvml")
    return spec.origin or "" if spec else ""


def allowed(text: str | None) -> frozenset[str]:
    """Read the value of --allow.

    Raises InputError for a code that there is not.
    """
    codes = [code.strip() for code in (text or "").split(",") if code.strip()]
    for code in codes:
        if code not in CODES and code != "all":
            listed = ", ".join(code for code in CODES if code != "unreachable")
            raise InputError(f"--allow {code}: there is no such check", hint=f"{listed}, all")
    return frozenset(CODES) if "all" in codes else frozenset(codes)
