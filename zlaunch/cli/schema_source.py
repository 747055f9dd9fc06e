"""The keys of the DeepSpeed that will read a config: asked of it, kept, or zlaunch's own table."""

from __future__ import annotations

from collections.abc import Mapping

from zlaunch.dsconfig.schema import Schema, exported_schema, own_schema
from zlaunch.dsconfig.versions import parse_version, spelled
from zlaunch.system.ds_schema import SchemaCache, find_deepspeed


def find_schema(env: Mapping[str, str], python: str | None, *, ask: bool) -> Schema:
    """The schema for the workers' interpreter, None for our own.

    Without `ask` no process is started: what was not asked for before is read from the table.
    """
    cache = SchemaCache(env)
    data = cache.ask(python, env) if ask else cache.kept(python)
    version = parse_version(str(data["version"])) if data is not None else None
    if data is not None and version is not None:
        return exported_schema(data, version)
    installed = find_deepspeed() if python is None else None
    return own_schema(parse_version(installed.version) if installed else None)


def described(schema: Schema) -> str:
    """What a config was checked against, for the user."""
    if schema.exact:
        return f"DeepSpeed {spelled(schema.version)}"
    return f"zlaunch's own, smaller table of DeepSpeed {spelled(schema.version)}"
