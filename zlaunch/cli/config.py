"""`zlaunch config`: ds_configs, looked at and explained."""

from __future__ import annotations

import typer

from zlaunch.cli.lazy_group import lazy_group

_COMMANDS = {
    "check": ("zlaunch.cli.config_check", "Find what is wrong with a ds_config, before it runs."),
    "explain": ("zlaunch.cli.config_explain", "Say what a key does, and what it costs."),
}

app = typer.Typer(
    cls=lazy_group(_COMMANDS, "zlaunch config"),
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def config() -> None:
    """Look at ds_configs: find what is wrong, explain what a key does."""
