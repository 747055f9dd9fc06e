"""Operators are built on each node, on every way to it; DeepSpeed is one that builds nothing.

What the real one does, tests/journeys/test_build_ops.py shows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hosts import Lab
from namespaces import BOUND
from ways import RANKS, Way

SHM = "deepspeed_shm_comm"
PACKAGES = {
    "torch/__init__.py": "",
    "torch/version.py": "__version__ = '9.9'",
    "deepspeed/__init__.py": "",
    # Says on which node it was asked for, and fails where it is told to.
    "deepspeed/accelerator.py": """
import os
NAMES = {"CPUAdamBuilder": "cpu_adam", "FusedAdamBuilder": "fused_adam",
         "ShareMemCommBuilder": "deepspeed_shm_comm"}
class Builder:
    def load(self, verbose):
        node = os.environ["NODE_RANK"]
        if f"{self.NAME}@{node}" == os.environ.get("TORCH_TEST_FAILS"):
            raise RuntimeError("Error building\\nx.cpp:1:1: error: out of ink\\nninja: stopped")
        with open(os.environ["TORCH_TEST_BUILT"], "a") as file:
            file.write(f"{self.NAME}@{node}\\n")
class Accelerator:
    def create_op_builder(self, name):
        return type(name, (Builder,), {"NAME": NAMES[name]})()
def get_accelerator():
    return Accelerator()
""",
}


def environment(folder: Path, **more: str) -> dict[str, str]:
    """Variables that go to the hosts; packages are found through them."""
    for name, text in PACKAGES.items():
        path = folder / "packages" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return {
        "PYTHONPATH": str(folder / "packages"),
        "TORCH_EXTENSIONS_DIR": str(folder / "cache"),
        "TORCH_TEST_BUILT": str(folder / "built"),
        **more,
    }


@pytest.mark.parametrize("how", ["cold", "warm"])
def test_once_a_node_before_its_ranks(way: Way, how: str) -> None:
    (way.folder / "job.py").write_text(
        "import deepspeed, os\nprint(os.environ['NODE_RANK'], *open(os.environ"
        "['TORCH_TEST_BUILT']).read().split())\n"
    )
    launch = way.start(
        "job.py",
        options=("--start", how, "--preload", "json", "--max-restarts", "1"),
        env=environment(way.folder),
    )
    code, out, err = launch.end()
    assert code == 0, err
    nodes = [str(rank) for rank in range(way.nodes)]
    built = (way.folder / "built").read_text().split()
    assert sorted(built) == [f"{SHM}@{node}" for node in nodes]
    told = [line.partition(" | ")[2].split() for line in out.splitlines()]
    assert len(told) == sum(RANKS)
    assert all(f"{SHM}@{node}" in before for node, *before in told)
    assert err.count(f"building {SHM} for DeepSpeed, once for all ranks") == way.nodes
    assert err.count(f"{SHM} built in 0 s") == way.nodes
    assert "cold start" not in err


def doctor(lab: Lab, env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    hosts = ("--hosts", "h[0-1]:2", "--device", "cpu", "--allow", "all")
    return subprocess.run(
        [sys.executable, "-m", "zlaunch", "doctor", "--build-ops", *hosts, *options],
        env={**lab.client.environment(), **env}, capture_output=True, text=True, timeout=BOUND,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.parametrize("ssh", ["paramiko", "openssh"])
def test_doctor_builds_on_all_hosts(lab2: Lab, tmp_path: Path, ssh: str) -> None:
    done = doctor(lab2, environment(tmp_path), "--ssh", ssh)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    names = [SHM, "fused_adam", "cpu_adam"]
    words = "; ".join(f"{name} built in 0 s" for name in names)
    assert [f"h0: {words}", f"h1: {words}"] == lines[-2:]
    assert done.stderr == f"building, where missing: {', '.join(names)}\n"
    built = (tmp_path / "built").read_text().split()
    assert sorted(built) == sorted(f"{name}@{node}" for name in names for node in (0, 1))


def test_doctor_names_what_cannot_be_built(lab2: Lab, tmp_path: Path) -> None:
    (tmp_path / "own.json").write_text('{"optimizer": {"type": "Adam"}}')
    env = environment(tmp_path, TORCH_TEST_FAILS="fused_adam@1")
    options = ("--json", "--ds-config", str(tmp_path / "own.json"))
    done = doctor(lab2, env, *options)
    assert (done.returncode, done.stderr) == (2, "")
    found = json.loads(done.stdout)["operators"]
    assert found["failure"] is None
    told = {
        host: {one["op"]: (one["state"], one["why"]) for one in operators}
        for host, operators in found["hosts"].items()
    }
    shm = {SHM: ("built", "")}
    assert told == {
        "h0": {**shm, "fused_adam": ("built", "")},
        "h1": {**shm, "fused_adam": ("failed", "x.cpp:1:1: error: out of ink")},
    }


def test_doctor_takes_a_ds_config_for_what_it_builds_only(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zlaunch", "doctor", "--ds-config", "own.json"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "--ds-config says what --build-ops is to build" in done.stderr
