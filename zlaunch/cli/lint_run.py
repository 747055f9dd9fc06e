"""Lint before a run: on the config that is about to be used, and never at the price of a process.

The keys of the installed DeepSpeed are used where `zlaunch config check` has asked for them
before; else those of zlaunch's own table, which is enough to find most of what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from zlaunch.cli.ds_config import DevicesUsed
from zlaunch.cli.findings_text import counted, one_line
from zlaunch.cli.nvme_paths import look_at
from zlaunch.cli.request import Request
from zlaunch.cli.schema_source import find_schema
from zlaunch.dsconfig.document import Document, Where
from zlaunch.dsconfig.finding import Around, Finding
from zlaunch.dsconfig.lint import count, lint
from zlaunch.dsconfig.lint_disk import nvme_paths
from zlaunch.dsconfig.overrides import Override
from zlaunch.dsconfig.target import Target
from zlaunch.errors import ConfigError

# Said by the notes of `dsconfig.render` already.
_SAID = frozenset({"auto-default", "silent-overflow"})


@dataclass(frozen=True)
class Circumstances:
    """Where a config is about to be used; `here` where that is this machine alone."""

    env: Mapping[str, str]
    python: str | None
    target: Target
    world_size: int
    cpu: bool
    bf16: bool
    here: bool


def circumstances(
    request: Request,
    target: Target,
    world_size: int,
    devices: DevicesUsed,
    env: Mapping[str, str],
) -> Circumstances:
    """Where the config of a run will be used."""
    cpu = devices.kind == "cpu"
    return Circumstances(
        env=env,
        python=request.python,
        target=target,
        world_size=world_size,
        cpu=cpu,
        bf16=cpu or devices.bf16,
        here=request.many is None,
    )


def lint_file(
    document: Document,
    config: Mapping[str, Any],
    overrides: Sequence[Override],
    name: str,
    around: Circumstances,
) -> tuple[str, ...]:
    """Notes on the user's file; `config` is what it holds with the options laid in.

    Raises ConfigError with everything that was found where one of it is an error.
    """
    changed = {override.path for override in overrides}
    document = replace(
        document,
        value=config if isinstance(document.value, dict) else document.value,
        keys=_unchanged(document.keys, changed),
        values=_unchanged(document.values, changed),
    )
    return _judge(document, name, around)


def lint_config(config: Mapping[str, Any], name: str, around: Circumstances) -> tuple[str, ...]:
    """Notes on a config made from a recipe; raises ConfigError as `lint_file`."""
    return _judge(Document(dict(config)), name, around)


def _unchanged(places: Mapping[Where, Any], changed: set[tuple[str, ...]]) -> dict[Where, Any]:
    """The places without those of keys that an option has set: the file does not say that."""
    return {
        where: place
        for where, place in places.items()
        if not any(where[: len(path)] == path for path in changed)
    }


def _judge(document: Document, name: str, around: Circumstances) -> tuple[str, ...]:
    config = document.value if isinstance(document.value, dict) else {}
    findings = lint(
        document,
        Around(
            schema=find_schema(around.env, around.python, ask=False),
            target=around.target,
            world_size=around.world_size,
            bf16=around.bf16,
            cpu=around.cpu,
            direct=False,
            disks=look_at(nvme_paths(config)) if around.here else {},
        ),
    )
    if count(findings, "error"):
        raise ConfigError(_listed(findings, name))
    warnings = (f for f in findings if f.level == "warning" and f.code not in _SAID)
    return tuple(_as_note(finding, name) for finding in warnings)


def _listed(findings: Sequence[Finding], name: str) -> str:
    shown = [finding for finding in findings if finding.level != "note"]
    lines = [f"{name} cannot be used as it is: {counted(shown)}"]
    for finding in shown:
        lines.append(f"  {one_line(finding, name)}")
        lines += [f"    hint: {finding.mend}"] if finding.mend else []
    return "\n".join(lines)


def _as_note(finding: Finding, name: str) -> str:
    mend = f"; {finding.mend}" if finding.mend else ""
    return f"{one_line(finding, name)}{mend}"
