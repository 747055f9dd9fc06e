"""Lint before a run: on the config that is about to be used, and never at the price of a process.

The keys of the installed DeepSpeed are used where `zlaunch config check` has asked for them
before; else those of zlaunch's own table, which is enough to find most of what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from zlaunch.cli.ds_config import DevicesUsed
from zlaunch.cli.findings_text import as_note, refuse_errors
from zlaunch.cli.nvme_paths import look_at
from zlaunch.cli.request import Request
from zlaunch.cli.schema_source import described, find_schema
from zlaunch.dsconfig.document import Document, Where
from zlaunch.dsconfig.finding import Around, Finding
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.lint_disk import nvme_paths
from zlaunch.dsconfig.overrides import Override
from zlaunch.dsconfig.target import Target
from zlaunch.frozen import frozen
from zlaunch.system.cpu_features import fp16_on_cpus

# Said by the notes of `dsconfig.render` already.
_SAID = frozenset({"auto-default", "silent-overflow"})


@frozen
class Circumstances:
    """Where a config is about to be used.

    `here`: on this machine, perhaps among others (`many`). A config that is only `written` may be
    meant for any machine: what is missing on this one is no error then.
    """

    env: Mapping[str, str]
    python: str | None
    target: Target
    world_size: int
    cpu: bool | None = None
    bf16: bool | None = None
    fp16: bool | None = None
    here: bool = True
    many: bool = False
    written: bool = False


def circumstances(
    request: Request,
    target: Target,
    world_size: int,
    devices: DevicesUsed,
    env: Mapping[str, str],
) -> Circumstances:
    """Where the config of a run will be used."""
    cpu = devices.kind == "cpu"
    joined = request.join is not None and request.join.member.nnodes > 1
    here = request.many is None
    return Circumstances(
        env=env,
        python=request.python,
        target=target,
        world_size=world_size,
        cpu=cpu,
        bf16=cpu or devices.bf16,
        fp16=fp16_on_cpus() if cpu and here and not joined else None,
        here=here,
        many=not here or joined,
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
    paths = nvme_paths(config)
    schema = find_schema(around.env, around.python, ask=False)
    findings = lint(
        document,
        Around(
            schema=schema,
            target=around.target,
            world_size=around.world_size,
            bf16=around.bf16,
            fp16=around.fp16,
            cpu=around.cpu,
            direct=False,
            disks=look_at(paths) if around.here else {},
        ),
    )
    if around.written:
        findings = tuple(map(only_written, findings))
    against = f"checked against {described(schema)} of this machine, not the hosts' own"
    refuse_errors(findings, name, f" ({against})" if around.many else "")
    warnings = [f for f in findings if f.level == "warning" and f.code not in _SAID]
    notes = [as_note(finding, name) for finding in warnings]
    notes += [f"{name}: {against}"] if notes and around.many else []
    notes = list(dict.fromkeys(notes))  # two sections may name one disk
    return (*notes, *(_not_looked_at(paths, around) if around.many else ()))


def only_written(finding: Finding) -> Finding:
    """Of a file that is used later: the disks of this machine, and numbers that `run` adds."""
    if finding.level == "error" and finding.code.startswith("nvme-"):
        return replace(finding, level="warning", text=f"on this machine {finding.text}", mend="")
    if finding.level == "error" and finding.code == "batch-missing":
        return replace(finding, level="warning")
    return finding


def _not_looked_at(paths: Sequence[str], around: Circumstances) -> Iterator[str]:
    if paths:
        where = "on other nodes" if around.here else "on the hosts"
        yield f"{' and '.join(paths)} for offload to NVMe: not looked at {where}"
