"""Labs of hosts for the tests here: made once, mended after each test that had them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts import Lab, missing
from ways import WAYS, Way

LABS = ("lab2", "lab8")


@pytest.fixture(scope="session")
def hosts_here() -> None:
    """Skip with the reason where there can be none; in CI that is a failure."""
    reason = missing()
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    if reason:
        pytest.skip(reason)


@pytest.fixture(scope="session")
def lab2(hosts_here: None) -> Iterator[Lab]:
    with Lab(2) as lab:
        yield lab


@pytest.fixture(scope="session")
def lab8(hosts_here: None) -> Iterator[Lab]:
    with Lab(8) as lab:
        yield lab


@pytest.fixture(autouse=True)
def mended(request: pytest.FixtureRequest) -> Iterator[None]:
    labs = [request.getfixturevalue(name) for name in LABS if name in request.fixturenames]
    yield
    for lab in labs:
        lab.mend()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest, lab2: Lab, tmp_path: Path) -> Iterator[Way]:
    """Each way to an agent in turn."""
    way = Way(request.param, lab2, tmp_path)
    yield way
    way.close()
