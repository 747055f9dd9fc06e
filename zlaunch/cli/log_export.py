"""`zlaunch logs export`: a run in one file, for a bug report, without secrets."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from zlaunch.cli.one_run import NamedRunArgument, find_run, say
from zlaunch.errors import InputError
from zlaunch.spec.redact import secret_values
from zlaunch.system.rundir import RunDir

_SUFFIXES = {
    ".tar.zst": "zst", ".tzst": "zst", ".tar.gz": "gz", ".tgz": "gz", ".tar.xz": "xz",
    ".txz": "xz",
}  # fmt: skip


def export(
    run: NamedRunArgument,
    out: Annotated[
        str | None,
        typer.Argument(
            metavar="[OUT]", help="NAME.tar.zst, .tar.gz or .tar.xz; by default ID.tar.zst."
        ),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Leave nothing of long logs out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
) -> None:
    """Pack a run into one file, for a bug report; secrets are hidden.

    Hidden are the values of secret variables that are set here, tokens of known forms, passwords
    and signatures in addresses, and private keys. Look through it all the same before it is given
    away.
    """
    from zlaunch.system.run_archive import write_archive

    found = find_run(run)
    path = Path(out or f"{found.id}.tar.zst")
    form = _form(path)
    if os.path.lexists(path) and not force:
        raise InputError(f"{path} is there already", hint="--force overwrites it")
    secrets = secret_values(os.environ, _secret_names(found))
    told = write_archive(found, path, form, secrets, whole=whole, force=force)
    typer.echo(path)
    hidden = f"{told.hidden} value{'s' if told.hidden != 1 else ''} hidden"
    say(f"{told.files} files of run {found.id}, {path.stat().st_size:,} bytes, {hidden}")
    for line in told.left_out:
        say(f"left out: {line}")


def _form(path: Path) -> str:
    for suffix, form in _SUFFIXES.items():
        if path.name.endswith(suffix):
            return form
    raise InputError(f"{path}: the name has to end in .tar.zst, .tar.gz or .tar.xz")


def _secret_names(run: RunDir) -> list[str]:
    """The variables of which the record says that their values are secret."""
    from zlaunch.spec.redact import HIDDEN

    plan = run.read_record().plan
    spaces = [plan.get("env"), *(worker.get("env") for worker in plan.get("workers", ()))]
    return [name for env in spaces if isinstance(env, dict) for name in env if env[name] == HIDDEN]
