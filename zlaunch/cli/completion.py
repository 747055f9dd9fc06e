"""`zlaunch completion`: what a shell has to be told to complete our command line."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from zlaunch.cli.completion_scripts import SCRIPTS

app = typer.Typer(rich_markup_mode=None, add_completion=False)

Shell = Literal["bash", "zsh", "fish"]


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def completion(
    shell: Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="Whose script.")],
) -> None:
    """Print the script that completes zlaunch on Tab: commands, options, runs, recipes, hosts.

    In ~/.bashrc or ~/.zshrc: source <(zlaunch completion bash), or zsh. For fish:
    zlaunch completion fish > ~/.config/fish/completions/zlaunch.fish
    """
    typer.echo(SCRIPTS[shell], nl=False)
