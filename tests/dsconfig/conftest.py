"""What the tests of ds_configs share: the shipped recipes, the installed DeepSpeed's keys."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zlaunch.dsconfig.schema import Schema, exported_schema
from zlaunch.dsconfig.versions import parse_version
from zlaunch.system.ds_schema import SchemaCache

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="session")
def sources() -> dict[str, str]:
    """The shipped recipes as the pure code gets them: name -> text."""
    return {path.stem: path.read_text(encoding="utf-8") for path in RECIPES.glob("*.toml")}


@pytest.fixture(scope="session")
def installed(tmp_path_factory) -> Schema:
    """The schema of the DeepSpeed that is installed here."""
    pytest.importorskip("deepspeed")
    cache = SchemaCache({"XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))})
    data = cache.ask(None, os.environ).schema
    assert data is not None
    return exported_schema(data, parse_version(data["version"]))
