"""The keys of the DeepSpeed that will read a config: asked of it, kept, or zlaunch's own table."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from zlaunch.cli.user_files import similar_files
from zlaunch.dsconfig.schema import Schema, exported_schema, own_schema
from zlaunch.dsconfig.versions import parse_version, spelled
from zlaunch.errors import InputError
from zlaunch.system.ds_schema import Asked, SchemaCache, find_deepspeed


def find_schema(env: Mapping[str, str], python: str | None, *, ask: bool) -> Schema:
    """The schema for the workers' interpreter, None for our own.

    Without `ask` no process is started: what was not asked for before is read from the table.
    With it, raises InputError for an interpreter that is not there.
    """
    cache = SchemaCache(env)
    asked = _asked(cache, python, env) if ask else Asked(cache.kept(python))
    data = asked.schema
    version = parse_version(str(data["version"])) if data is not None else None
    if data is not None and version is not None:
        return exported_schema(data, version)
    installed = find_deepspeed() if python is None else None
    return own_schema(parse_version(installed.version) if installed else None, asked.why)


def _asked(cache: SchemaCache, python: str | None, env: Mapping[str, str]) -> Asked:
    if python is not None and shutil.which(python) is None:
        here = Path(python).is_file()
        message = "is not executable" if here else "was not found"
        hint = None if here else similar_files(python)
        raise InputError(f"--python {python} {message}", hint=hint)
    asked = cache.ask(python, env)
    if python is not None and not asked.is_python:
        raise InputError(f"--python {python} is no Python: {asked.why}")
    return asked


def described(schema: Schema) -> str:
    """What a config was checked against, for the user."""
    if schema.exact:
        return f"DeepSpeed {spelled(schema.version)}"
    why = f", since {schema.why}" if schema.why else ""
    return f"zlaunch's own, smaller table of DeepSpeed {spelled(schema.version)}{why}"
