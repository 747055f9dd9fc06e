"""`zlaunch config`: ds_configs made, checked, explained, compared, brought in from elsewhere."""

from __future__ import annotations

import typer

from zlaunch.cli.lazy_group import lazy_group

_RENDER = "zlaunch.cli.config_render"
_COMMANDS = {
    "check": ("zlaunch.cli.config_check", "Find what is wrong with a ds_config, before it runs."),
    "explain": ("zlaunch.cli.config_explain", "Say what a key does, and what it costs."),
    "render": (f"{_RENDER}:render_app", "Write the ds_config.json that a recipe makes."),
    "show": (f"{_RENDER}:show_app", "Show a ds_config as DeepSpeed will read it."),
    "diff": ("zlaunch.cli.config_diff", "Show what differs between two ds_configs."),
    "import": ("zlaunch.cli.config_import", "Turn a config of others into a ds_config.json."),
    "init": ("zlaunch.cli.config_init", "Write a ds_config.json by answering a few questions."),
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
    """Make, check and compare ds_configs, and explain what a key does."""
