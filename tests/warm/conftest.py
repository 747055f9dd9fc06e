"""Launches as in `tests/journeys`, with its fixture."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "journeys"))

from journeys import journey

__all__ = ["journey"]
