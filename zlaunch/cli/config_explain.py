"""`zlaunch config explain`: what a key of a ds_config does, and what it costs."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from zlaunch.cli.schema_source import described, find_schema
from zlaunch.cli.user_files import read_file
from zlaunch.dsconfig.explain import Explanation, explain, explain_config, find_keys, near_keys
from zlaunch.dsconfig.finding import said
from zlaunch.dsconfig.reader import read_document
from zlaunch.dsconfig.schema import UNKNOWN, Schema
from zlaunch.errors import ConfigError

app = typer.Typer(rich_markup_mode=None, add_completion=False)


@app.command(context_settings={"help_option_names": ["-h", "--help"]})
def explain_command(
    key_or_file: Annotated[
        str | None,
        typer.Argument(metavar="[KEY | FILE]", help="stage, fp16.loss_scale; or a ds_config."),
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
    for one in found:
        typer.echo("\n".join(_lines(one)))
    typer.echo(f"(defaults of {described(schema)}, where the key has one)")


def _find(asked: str | None, schema: Schema) -> list[Explanation]:
    if asked is None:
        return [explain((name,), schema) for name in schema.root.fields if name != "bfloat16"]
    paths = find_keys(asked, schema)
    if paths and not Path(asked).is_file():
        return [explain(path, schema) for path in paths]
    if _is_no_file(asked):
        near = near_keys(asked, schema)
        hint = f"did you mean {' or '.join(near[:3])}?" if near else "zlaunch config explain"
        raise ConfigError(f"DeepSpeed has no key {asked}, and there is no such file", hint=hint)
    document = read_document(read_file(asked, f"ds_config {asked}", error=ConfigError))
    if not isinstance(document.value, dict):
        raise ConfigError(f"{asked} is no ds_config", hint=f"zlaunch config check {asked}")
    return list(explain_config(document.value, schema))


def _is_no_file(asked: str) -> bool:
    spelled_like_one = "/" in asked or asked.endswith((".json", ".hjson"))
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
