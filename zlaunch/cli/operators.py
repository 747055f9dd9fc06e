"""`--build-ops`: which of DeepSpeed's operators are built before the ranks start."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import zlaunch
from zlaunch.cli.ds_config import DsConfig
from zlaunch.cli.request import Request
from zlaunch.dsconfig.operators import BUILDERS, operators_of
from zlaunch.spec.environment import DeviceKind, Target
from zlaunch.spec.script import ScriptFacts
from zlaunch.spec.worker import Operators

# The first one is the program.
_FILES = ("workers/build_operators.py", "system/extension_cache.py")


def operators_for(
    request: Request,
    facts: ScriptFacts,
    target: Target,
    device: DeviceKind,
    ds: DsConfig,
    *,
    read: bool,
) -> Operators | None:
    """Return what the ranks would compile, None where that is nothing or not to be built.

    `read` is whether the ds_config is read by the script, as far as that can be seen.
    """
    if not request.build_ops or request.no_python:
        return None
    if not _trains_with_deepspeed(request, facts, target, ds):
        return None
    return to_build(operators_of(ds.config if read else None, device, target))


def _trains_with_deepspeed(
    request: Request, facts: ScriptFacts, target: Target, ds: DsConfig
) -> bool:
    if target != "plain":
        return ds.config is not None
    if facts.imports is None:  # there is no source to read
        return request.wants_deepspeed and ds.config is not None
    return "deepspeed" in facts.imports


def to_build(names: Iterable[str]) -> Operators | None:
    """Return the order to build these, with the program that does; None where they are none."""
    builders = tuple((name, BUILDERS[name]) for name in names)
    if not builders:
        return None
    package = Path(zlaunch.__file__).parent
    files = ((Path(file).name, (package / file).read_text("utf-8")) for file in _FILES)
    return Operators(builders, tuple(files))
