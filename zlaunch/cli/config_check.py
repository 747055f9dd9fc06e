"""`zlaunch config check`: everything that is wrong with a ds_config, with line and column."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zlaunch.cli.findings_text import counted, lines
from zlaunch.cli.named_config import STDIN, Named, Part, read_stdin, recognise
from zlaunch.cli.nvme_paths import look_at, look_where_it_is_here
from zlaunch.cli.request import DeviceChoice, Request, TargetChoice
from zlaunch.cli.schema_source import described, find_schema
from zlaunch.cli.screen import fitted, screen_width
from zlaunch.cli.user_files import read_file
from zlaunch.dsconfig.document import Document, Position
from zlaunch.dsconfig.finding import Around, Finding
from zlaunch.dsconfig.lint import count, lint
from zlaunch.dsconfig.lint_auto import waits_for_a_reader
from zlaunch.dsconfig.lint_disk import nvme_paths
from zlaunch.dsconfig.target import Target
from zlaunch.dsconfig.versions import spelled
from zlaunch.errors import ConfigError, HostfileError, InputError
from zlaunch.frozen import frozen
from zlaunch.system.cpu_features import fp16_on_cpus

if TYPE_CHECKING:
    from zlaunch.spec.hostfile import Host

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_WRONG = 2  # the exit code where an error was found


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A ds_config; - for stdin.")],
    world_size: Annotated[
        int | None, typer.Option("--world-size", metavar="N", help="The ranks it will run on.")
    ] = None,
    target: Annotated[
        TargetChoice,
        typer.Option(
            "--target",
            help="Who reads it; auto: what --script imports, else as the file says.",
        ),
    ] = "auto",
    hostfile: Annotated[
        str | None, typer.Option("--hostfile", "-H", metavar="FILE", help="Its slots are counted.")
    ] = None,
    device: Annotated[
        DeviceChoice, typer.Option("--device", help="What it will train on; auto: what is here.")
    ] = "auto",
    bf16: Annotated[
        bool | None,
        typer.Option("--bf16/--no-bf16", help="Whether the GPUs compute in it; else NVML says."),
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", metavar="PATH", help="The workers' interpreter.")
    ] = None,
    script: Annotated[
        str | None,
        typer.Option("--script", metavar="PATH", help="Whose imports say who reads the config."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="What was found, as data.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> None:
    """Find what is wrong with a ds_config: syntax, keys, values, and what does not go together.

    The keys are those of the DeepSpeed that is installed. Exit code 2 where an error was found.
    """
    name = "stdin" if file == STDIN else file
    try:
        _check_options(world_size, hostfile, script, target)
        hosts = _hosts(hostfile)
        named = _named(file, name)
        asked = _Asked(target, script, world_size, python, device, bf16)
        around, elsewhere = _around(named, hosts, asked)
    except InputError as error:
        if not as_json:
            raise
        typer.echo(json.dumps(_unreadable(name, error), indent=2))
        raise typer.Exit(error.exit_code) from None
    parts = named.parts(lint(named.document, around), around.world_size)
    findings = tuple(finding for part in parts for finding in part.findings)
    if as_json:
        typer.echo(json.dumps(_data(named.name, around, parts), indent=2))
    else:
        width = screen_width()
        for part in parts:
            for line in lines(part.findings, part.name, part.text, width):
                typer.echo(line)
        typer.echo(fitted(_summary(named.name, around, findings, many=bool(hosts)), width))
    if elsewhere is not None:
        typer.echo(f"zlaunch: {elsewhere}", err=True)
    wrong = count(findings, "error") + (count(findings, "warning") if strict else 0)
    raise typer.Exit(_WRONG if wrong else 0)


@frozen
class _Asked:
    """The options that say how the config will be used."""

    target: TargetChoice
    script: str | None
    world_size: int | None
    python: str | None
    device: DeviceChoice
    bf16: bool | None


def _around(named: Named, hosts: list[Host], asked: _Asked) -> tuple[Around, str | None]:
    """Everything that counts beside the file, and what of the hosts could not be looked at."""
    paths = nvme_paths(named.config)
    disks, elsewhere = look_where_it_is_here(paths, hosts) if hosts else (look_at(paths), None)
    around = Around(
        schema=find_schema(os.environ, asked.python, ask=True),
        target=_reader(named, asked.script) if asked.target == "auto" else asked.target,
        world_size=_ranks(asked.world_size, hosts) or named.imported.processes,
        disks=disks,
        **devices_known(asked.device, asked.bf16, named.document),
    )
    return around, elsewhere


def _named(file: str, name: str) -> Named:
    """A config of others is checked as the ds_config that it means."""
    text = (
        read_stdin() if file == STDIN else read_file(file, f"ds_config {file}", error=ConfigError)
    )
    named = recognise(text, name)
    if named.imported.kind != "JSON":
        form = named.imported.form
        typer.echo(f"zlaunch: {name} is {form}; checked is the ds_config that it means", err=True)
    return named


def _check_options(
    world_size: int | None, hostfile: str | None, script: str | None, target: TargetChoice
) -> None:
    if world_size is not None and world_size < 1:
        raise InputError(f"--world-size {world_size}: at least one rank is needed")
    if world_size is not None and hostfile is not None:
        raise InputError("--world-size and --hostfile both say the ranks", hint="give one")
    if script is not None and target != "auto":
        raise InputError("--script and --target both say who reads the config", hint="give one")


def _hosts(hostfile: str | None) -> list[Host]:
    if hostfile is None:
        return []
    from zlaunch.spec.hostfile import parse_hostfile

    text = read_file(hostfile, f"--hostfile {hostfile}", error=HostfileError)
    return list(parse_hostfile(text, hostfile))


def _ranks(world_size: int | None, hosts: list[Host]) -> int | None:
    return world_size or sum(len(host.slots) for host in hosts) or None


def _reader(named: Named, script: str | None) -> Target:
    if script is None:
        return reader_of(named)
    from zlaunch.cli.target import read_facts

    return read_facts(Request(script=script)).target


def reader_of(named: Named) -> Target:
    """Who reads it: Accelerate its own files, the Trainer what holds auto, else DeepSpeed."""
    waits = waits_for_a_reader(named.config)
    return named.imported.target or ("hf" if waits else "plain")


def _table(document: Document) -> dict[str, Any]:
    return document.value if isinstance(document.value, dict) else {}


def devices_known(device: DeviceChoice, bf16: bool | None, document: Document) -> dict[str, Any]:
    """What the devices can do, as far as the config asks: NVML takes its time."""
    if device == "cpu":
        return {"cpu": True, "bf16": True, "fp16": fp16_on_cpus()}
    known: dict[str, Any] = {"cpu": False} if device == "cuda" else {}
    if bf16 is not None:
        return {**known, "bf16": bf16}
    if not {"bf16", "bfloat16"} & {*_table(document)}:
        return known
    from zlaunch.system.gpus import discover

    gpus = discover()
    return {**known, "bf16": all(gpu.bf16 for gpu in gpus)} if gpus else known


def _unreadable(name: str, error: InputError) -> dict[str, Any]:
    """In the form of `_data`: what stood against a check is its one finding."""
    place = re.search(r":(\d+):(\d+)$", error.where or "")
    position = Position(int(place[1]), int(place[2])) if place else None
    finding = Finding("unreadable", "error", "", position, error.message, error.hint or "")
    return {
        "file": name,
        "ok": False,
        "target": None,
        "world_size": None,
        "deepspeed": None,
        "findings": [finding.to_json()],
    }


def _summary(
    name: str, around: Around, findings: tuple[Finding, ...], *, many: bool = False
) -> str:
    ranks = f"{around.world_size} ranks" if around.world_size else "any number of ranks"
    whose = " of this machine, not the hosts' own" if many else ""
    against = f"checked against {described(around.schema)}{whose}, for {around.target} and {ranks}"
    return f"{name}: {counted(findings) or 'nothing wrong'} ({against})"


def _data(name: str, around: Around, parts: tuple[Part, ...]) -> dict[str, Any]:
    schema = around.schema
    return {
        "file": name,
        "ok": not any(count(part.findings, "error") for part in parts),
        "target": around.target,
        "world_size": around.world_size,
        "deepspeed": {
            "version": spelled(schema.version),
            "exact": schema.exact,
            "path": schema.origin or None,
            "why": schema.why or None,
        },
        "findings": [
            {**({} if part.name == name else {"file": part.name}), **finding.to_json()}
            for part in parts
            for finding in part.findings
        ],
    }
