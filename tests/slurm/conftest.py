"""One cluster for the tests here; after each of them no job is left on it, and no process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import Cluster, missing
from slurm_site import Site, need


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """Two nodes; skip with the reason where there can be none; in CI that is a failure."""
    need(missing())
    with Cluster() as cluster:
        yield cluster


@pytest.fixture
def site(cluster: Cluster, tmp_path: Path) -> Iterator[Site]:
    site = Site(cluster, tmp_path)
    yield site
    site.close()
