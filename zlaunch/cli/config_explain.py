"""`zlaunch config explain`: what a key of a ds_config does, and what it costs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from zlaunch.cli.named_config import STDIN, read_stdin, recognise
from zlaunch.cli.schema_source import described, find_schema
from zlaunch.cli.screen import fitted, screen_width
from zlaunch.cli.user_files import read_file
from zlaunch.dsconfig.explain import (
    Explanation,
    explain,
    explain_config,
    find_keys,
    near_keys,
    sections_with,
    taken_out,
)
from zlaunch.dsconfig.finding import said
from zlaunch.dsconfig.schema import UNKNOWN, Schema
from zlaunch.dsconfig.versions import INSTEAD
from zlaunch.errors import ConfigError

app = typer.Typer(rich_markup_mode=None, add_completion=False)

_MOST = 6  # keys of one name that are explained together


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def explain_command(
    key_or_file: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY | FILE]", help="stage, fp16.loss_scale; or a ds_config, - for stdin."
        ),
    ] = None,
    python: Annotated[
        str | None, typer.Option("--python", metavar="PATH", help="The workers' interpreter.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As data.")] = False,
) -> None:
    """Say what a key does, its default, what it costs in memory or speed, and in which stages.

    Without an argument: the keys at the top of a ds_config. With a file: every key in it.
    """
    schema = find_schema(os.environ, python, ask=True)
    found = _find(key_or_file, schema)
    if as_json:
        typer.echo(json.dumps([one.to_json() for one in found], indent=2))
        return
    width = screen_width()
    for one in found:
        typer.echo("\n".join(fitted(line, width) for line in _lines(one)))
    typer.echo(fitted(f"(defaults of {described(schema)}, where the key has one)", width))


def _find(asked: str | None, schema: Schema) -> list[Explanation]:
    if asked is None:
        return [explain((name,), schema) for name in schema.root.fields if name != "bfloat16"]
    if asked == STDIN:
        return list(explain_config(_config(asked), schema))
    paths = find_keys(asked, schema)
    if paths and not Path(asked).is_file():
        _refuse_many(asked, paths)
        return [explain(path, schema) for path in paths]
    if _is_no_file(asked):
        raise _no_such_key(asked, schema)
    config = _config(asked)
    return list(explain_config(config, schema))


def _refuse_many(asked: str, paths: Sequence[tuple[str, ...]]) -> None:
    """A name that stands in many sections says nothing by itself."""
    sections = sections_with(paths)
    if len(sections) > _MOST:
        raise ConfigError(
            f"{len(sections)} sections have a key {asked}: {', '.join(sections)}",
            hint=f"name the section too: zlaunch config explain {sections[0]}.{asked}",
        )


def _no_such_key(asked: str, schema: Schema) -> ConfigError:
    hint = "zlaunch config explain lists the keys at the top"
    if not asked.strip(" ."):
        return ConfigError("the name of a key is empty", hint=hint)
    if "" in asked.strip(".").split("."):
        return ConfigError(
            f"{asked} is no key: there is nothing between two of its dots", hint=hint
        )
    gone = taken_out(asked, schema)
    if gone is not None:
        return ConfigError(gone, hint=INSTEAD.get(asked))
    near = near_keys(asked, schema)
    hint = f"did you mean {' or '.join(near[:3])}?" if near else hint
    return ConfigError(f"DeepSpeed has no key {asked}, and there is no such file", hint=hint)


def _config(file: str) -> Mapping[str, Any]:
    if file == STDIN:
        text, name = read_stdin(), "stdin"
    else:
        text, name = read_file(file, f"ds_config {file}", error=ConfigError), file
    named = recognise(text, name)
    if not isinstance(named.document.value, dict):
        raise ConfigError(f"{name} is no ds_config", hint=f"zlaunch config check {file}")
    return named.config


def _is_no_file(asked: str) -> bool:
    if not asked.strip("."):  # a directory, that no one means
        return True
    spelled_like_one = "/" in asked or asked.endswith((".json", ".hjson", ".yaml", ".yml"))
    return not spelled_like_one and not Path(asked).exists()


def _lines(one: Explanation) -> list[str]:
    written = f" = {_shown(one.written)}" if one.written is not UNKNOWN else ""
    lines = [f"{one.path}{written}: {one.does or 'nothing is known of it here'}"]
    facts = []
    if one.kind not in ("section", "any"):
        facts.append(f"takes {one.kind}")
    if one.default is not UNKNOWN:
        facts.append(f"default {_shown(one.default)}")
    if one.stages not in ("", "0 1 2 3"):
        facts.append(f"ZeRO stage {', '.join(one.stages.split())}")
    if facts:
        lines.append(f"    {'; '.join(facts)}")
    if one.cost:
        lines.append(f"    cost: {one.cost}")
    return lines


def _shown(value: Any) -> str:
    """A default as JSON; none where the key is best left out."""
    if value is None:
        return "none"
    if isinstance(value, int) and value == 2**63 - 1:
        return f"{value} (no limit)"
    return json.dumps(value) if isinstance(value, (list, dict)) else said(value)
