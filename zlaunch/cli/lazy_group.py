"""A group of commands whose modules are imported when one of them is called."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from zlaunch.errors import InputError


def lazy_group(commands: Mapping[str, tuple[str, str]], name: str) -> type[TyperGroup]:
    """Return a class for `typer.Typer(cls=...)`; `name` is how the group is called.

    `commands` maps a name to MODULE, whose `app` it is, or MODULE:ATTRIBUTE, and to its help. So
    `zlaunch --help` and each command pay for nothing else.
    """

    class LazyGroup(TyperGroup):
        def list_commands(self, _ctx: Any) -> list[str]:
            return [name for name in commands if not name.startswith("_")]

        def get_command(self, _ctx: Any, cmd_name: str) -> Any:
            """A command with its name and help only: enough to be listed."""
            if cmd_name not in commands:
                return None
            stub = typer.Typer(rich_markup_mode=None, add_completion=False)
            stub.command(cmd_name, help=commands[cmd_name][1])(lambda: None)
            return typer.main.get_command(stub)

        def invoke(self, ctx: Any) -> Any:
            """Typer itself would end in silence."""
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt:
                raise typer.Abort from None

        def resolve_command(self, ctx: Any, args: list[str]) -> Any:
            if args and args[0] not in commands and not args[0].startswith("-"):
                alike = difflib.get_close_matches(args[0], self.list_commands(ctx), n=2)
                hint = f"did you mean {' or '.join(alike)}?" if alike else f"{name} --help"
                if args[0].endswith(".py"):
                    hint = f"zlaunch run {args[0]}"
                raise InputError(f"there is no command '{args[0]}'", hint=hint)
            found, command, rest = super().resolve_command(ctx, args)
            if found is not None and found in commands:
                module, _, attribute = commands[found][0].partition(":")
                found_app = getattr(import_module(module), attribute or "app")
                command = typer.main.get_command(found_app)
                command.name = found
            return found, command, rest

    return LazyGroup
