"""The shipped recipes as the pure code gets them: name -> text."""

from __future__ import annotations

from pathlib import Path

import pytest

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(scope="session")
def sources() -> dict[str, str]:
    return {path.stem: path.read_text(encoding="utf-8") for path in RECIPES.glob("*.toml")}
