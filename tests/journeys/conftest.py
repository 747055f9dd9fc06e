"""Each journey gets a home of its own, and must leave no process behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_nvml import Gpus, nvml_library
from journeys import Journey, journey

__all__ = ["journey", "nvml_library"]


@pytest.fixture
def gpus(nvml_library: Path, journey: Journey, tmp_path: Path) -> Gpus:
    """This journey's machine has them."""
    found = Gpus(tmp_path / "gpus")
    journey.env |= {"LD_LIBRARY_PATH": str(nvml_library), "FAKE_NVML": str(found.folder)}
    return found
