"""`zlaunch config check`: everything that is wrong with a ds_config, with line and column."""

from __future__ import annotations

import json
import os
import sys
from typing import Annotated, Any

import typer

from zlaunch.cli.findings_text import counted, lines
from zlaunch.cli.nvme_paths import look_at
from zlaunch.cli.request import DeviceChoice, TargetChoice
from zlaunch.cli.schema_source import described, find_schema
from zlaunch.cli.user_files import read_file
from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.finding import Around, Finding
from zlaunch.dsconfig.foreign import import_config, is_foreign
from zlaunch.dsconfig.lint import count, lint
from zlaunch.dsconfig.lint_auto import waits_for_a_reader
from zlaunch.dsconfig.lint_disk import nvme_paths
from zlaunch.dsconfig.source import read_source
from zlaunch.dsconfig.target import Target
from zlaunch.dsconfig.versions import spelled
from zlaunch.errors import ConfigError, HostfileError, InputError

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
        typer.Option("--target", help="Who reads it; auto: hf where it holds auto, else plain."),
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
    as_json: Annotated[bool, typer.Option("--json", help="What was found, as data.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings count as errors.")] = False,
) -> None:
    """Find what is wrong with a ds_config: syntax, keys, values, and what does not go together.

    The keys are those of the DeepSpeed that is installed. Exit code 2 where an error was found.
    """
    text = _read(file)
    ranks = _ranks(world_size, hostfile)
    document = _document(text, "stdin" if file == "-" else file)
    reader: Target = _reader(document) if target == "auto" else target
    around = Around(
        schema=find_schema(os.environ, python, ask=True),
        target=reader,
        world_size=ranks,
        disks={} if hostfile else look_at(nvme_paths(_table(document))),
        **_devices(device, bf16, document),
    )
    findings = lint(document, around)
    name = "stdin" if file == "-" else file
    if as_json:
        typer.echo(json.dumps(_data(name, around, findings), indent=2))
    else:
        for line in lines(findings, name, text):
            typer.echo(line)
        typer.echo(_summary(name, around, findings))
    wrong = count(findings, "error") + (count(findings, "warning") if strict else 0)
    raise typer.Exit(_WRONG if wrong else 0)


def _document(text: str, name: str) -> Document:
    """A config of others is checked as the ds_config that it means; lines of it are not known."""
    if not is_foreign(text):
        return read_source(text, name)
    from zlaunch.cli.named_config import follow

    found = follow(import_config(text, name), name)
    typer.echo(f"zlaunch: {name} is {found.kind}; checked is the ds_config that it means", err=True)
    return Document(found.config)


def _read(file: str) -> str:
    if file != "-":
        return read_file(file, f"ds_config {file}", error=ConfigError)
    try:
        return sys.stdin.buffer.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("stdin is not UTF-8 text") from None


def _ranks(world_size: int | None, hostfile: str | None) -> int | None:
    if world_size is not None:
        if world_size < 1:
            raise InputError(f"--world-size {world_size}: at least one rank is needed")
        if hostfile is not None:
            raise InputError("--world-size and --hostfile both say the ranks", hint="give one")
        return world_size
    if hostfile is None:
        return None
    from zlaunch.spec.hostfile import parse_hostfile

    text = read_file(hostfile, f"--hostfile {hostfile}", error=HostfileError)
    return sum(len(host.slots) for host in parse_hostfile(text, hostfile))


def _reader(document: Document) -> Target:
    return "hf" if waits_for_a_reader(_table(document)) else "plain"


def _table(document: Document) -> dict[str, Any]:
    return document.value if isinstance(document.value, dict) else {}


def _devices(device: DeviceChoice, bf16: bool | None, document: Document) -> dict[str, Any]:
    """What the devices can do, as far as the config asks: NVML takes its time."""
    if device == "cpu":
        return {"cpu": True, "bf16": True}
    known: dict[str, Any] = {"cpu": False} if device == "cuda" else {}
    if bf16 is not None:
        return {**known, "bf16": bf16}
    if not {"bf16", "bfloat16"} & {*_table(document)}:
        return known
    from zlaunch.system.gpus import discover

    gpus = discover()
    return {**known, "bf16": all(gpu.bf16 for gpu in gpus)} if gpus else known


def _summary(name: str, around: Around, findings: tuple[Finding, ...]) -> str:
    ranks = f"{around.world_size} ranks" if around.world_size else "any number of ranks"
    against = f"checked against {described(around.schema)}, for {around.target} and {ranks}"
    return f"{name}: {counted(findings) or 'nothing wrong'} ({against})"


def _data(name: str, around: Around, findings: tuple[Finding, ...]) -> dict[str, Any]:
    schema = around.schema
    return {
        "file": name,
        "ok": not count(findings, "error"),
        "target": around.target,
        "world_size": around.world_size,
        "deepspeed": {
            "version": spelled(schema.version),
            "exact": schema.exact,
            "path": schema.origin or None,
        },
        "findings": [finding.to_json() for finding in findings],
    }
