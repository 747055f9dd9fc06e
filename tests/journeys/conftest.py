"""Each journey gets a home of its own, and must leave no process behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from journeys import Journey


@pytest.fixture
def journey(tmp_path: Path) -> Iterator[Journey]:
    journey = Journey(tmp_path)
    try:
        yield journey
        if not journey.checked:
            journey.assert_gone()
    finally:
        journey.close()
