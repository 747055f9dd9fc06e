"""Two real versions of DeepSpeed side by side: a config is judged by the one that will read it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

OLD, NEW = "0.16.9", "0.19.8"
CONFIG = """\
{
  "train_batch_size": 8,
  "log_level": "info",
  "steps_per_print": 10,
  "elasticity": {"enabled": false},
  "zero_optimization": {"stage": 3, "mics_shard_size": 2}
}
"""


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This interpreter, with the older DeepSpeed in front of its own."""
    folder = tmp_path_factory.mktemp("old")
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder]
    done = subprocess.run(
        [*install, f"deepspeed=={OLD}"], capture_output=True, text=True, timeout=110, check=False
    )
    if done.returncode and os.environ.get("CI") != "true":
        pytest.skip(f"DeepSpeed {OLD} cannot be installed here: {done.stderr[-200:]}")
    assert done.returncode == 0, done.stderr
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={folder} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def check(folder: Path, python: Path) -> tuple[int, dict[str, Any]]:
    (folder / "ds.json").write_text(CONFIG)
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "DS_ACCELERATOR": "cpu"}
    command = [sys.executable, "-m", "zlaunch", "config", "check", "ds.json", "--world-size", "8"]
    done = subprocess.run(
        [*command, "--json", "--python", python], cwd=folder, env=env,
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    return done.returncode, json.loads(done.stdout)


def codes(found: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(one["code"], one["path"], one["line"]) for one in found["findings"]]


def test_each_is_asked_for_its_own_keys(tmp_path: Path, old_python: Path) -> None:
    code, found = check(tmp_path, old_python)
    assert (code, codes(found)) == (0, [("newer-key", "log_level", 3)])
    assert OLD in json.dumps(found)
    code, found = check(tmp_path, Path(sys.executable))
    assert code == 2
    assert codes(found) == [
        ("removed-key", "elasticity", 5),
        ("removed-key", "zero_optimization.mics_shard_size", 6),
    ]
    assert NEW in json.dumps(found)
    # What was kept of the one does not speak for the other.
    assert check(tmp_path, old_python)[0] == 0
