"""`zlaunch config`: ds_configs made, shown, compared, brought in from elsewhere."""

from __future__ import annotations

import typer

from zlaunch.cli.config_diff import diff
from zlaunch.cli.config_init import init
from zlaunch.cli.config_render import import_, render, show

app = typer.Typer(
    help="Make, show and compare ds_configs.",
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("render")(render)
app.command("show")(show)
app.command("diff")(diff)
app.command("import")(import_)
app.command("init")(init)
