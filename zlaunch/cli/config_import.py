"""`zlaunch config import`: a config of others becomes the ds_config.json that it means."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from zlaunch.cli.config_check import devices_known, reader_of
from zlaunch.cli.config_render import ForceOption, OutputOption, give, tell
from zlaunch.cli.findings_text import refuse_errors, say
from zlaunch.cli.lint_run import only_written
from zlaunch.cli.named_config import Named, Part, read_named
from zlaunch.cli.nvme_paths import look_at
from zlaunch.cli.schema_source import find_schema
from zlaunch.dsconfig.finding import Around
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.lint_disk import nvme_paths

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def import_(
    name: Annotated[
        str, typer.Argument(metavar="FILE", help="YAML, base64, Accelerate's; - for stdin.")
    ],
    output: OutputOption = None,
    force: ForceOption = False,
) -> None:
    """Turn a config of others into the ds_config.json that it means.

    What `config check` says of it is said here as well; where it finds an error, nothing is
    written and the exit code is 2.
    """
    found = read_named(name)
    tell((f"this is {found.imported.form}",))
    parts = _judged(found)
    for part in parts:
        refuse_errors(part.findings, part.name)
    for part in parts:
        say(part.findings, part.name)
    tell(found.imported.notes)
    give(found.config, output, force=force)


def _judged(found: Named) -> tuple[Part, ...]:
    """What `config check` finds without options; it will be read from the file that is written."""
    around = Around(
        schema=find_schema(os.environ, None, ask=True),
        target=reader_of(found),
        direct=False,
        world_size=found.imported.processes,
        disks=look_at(nvme_paths(found.config)),
        **devices_known("auto", None, found.document),
    )
    return found.parts(tuple(map(only_written, lint(found.document, around))))
