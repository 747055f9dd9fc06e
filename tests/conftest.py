"""What tests of several folders share."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The machine may be slow, or busy with others.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Tests that were started in the background of a shell, or under nohup, ignore these; so would all
# that they start, and nothing would end on Ctrl-C.
for _number, _handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGQUIT, signal.SIG_DFL),
    (signal.SIGHUP, signal.SIG_DFL),
):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where DeepSpeed keeps the operators that it compiles: once for all tests.

    Not in the user's cache: another ninja or another environment that shares it would have
    them compiled anew, and the lock of a build that was killed keeps all others waiting.
    """
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("compiled")
        patch.setenv("TORCH_EXTENSIONS_DIR", str(path))
        yield path
