"""What tests of several folders share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where DeepSpeed keeps the operators that it compiles: once for all tests.

    Not in the user's cache: another ninja or another environment that shares it would have
    them compiled anew.
    """
    return tmp_path_factory.mktemp("compiled")
