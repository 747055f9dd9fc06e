"""The program that builds operators, with packages that are no more than what it looks at."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ZLAUNCH = Path(__file__).parents[2] / "zlaunch"
FILES = ("workers/build_operators.py", "system/extension_cache.py")
ACCELERATOR = """
import os, pathlib, time
print("a hook prints this")
class Builder:
    NAME = "an_op"
    def load(self, verbose):
        while os.path.exists(os.environ.get("WAITS_FOR", "")):
            time.sleep(0.05)
        if why := os.environ.get("FAILS"):
            raise RuntimeError(why)
        here = pathlib.Path(os.environ["PLACE"])
        here.mkdir(parents=True, exist_ok=True)
        source = pathlib.Path(__file__).with_name("an_op.cpp")
        torch = pathlib.Path(__file__).parents[1] / "torch"
        (here / "build.ninja").write_text(
            f"rule compile\\n  command = c++ -I {torch}/include\\n\\nbuild x.o: compile {source}\\n"
        )
        (here / "an_op.so").write_text("")
class Accelerator:
    def create_op_builder(self, name):
        return {"AnOp": Builder}.get(name, lambda: None)()
def get_accelerator():
    return Accelerator()
"""


class Home:
    """A folder with a torch and a DeepSpeed, and a cache."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages = folder / "packages"
        for name, text in {
            "torch/__init__.py": "raise ImportError('torch is imported')",
            "torch/version.py": "cuda: str | None = None\nhip = None",
            "torch/include/torch/extension.h": "",
            "deepspeed/__init__.py": "",
            "deepspeed/accelerator.py": ACCELERATOR,
            "deepspeed/an_op.cpp": "",
            "deepspeed/git_version_info_installed.py": "installed_ops={'an_op': 0, 'old': True}",
        }.items():
            self.write(name, text)
        for name in FILES:
            shutil.copy(ZLAUNCH / name, folder)
        self.cache = folder / "cache"
        python = f"py{sys.version_info[0]}{sys.version_info[1]}"
        self.place = self.cache / "torch_extensions" / f"{python}_cpu" / "an_op"
        self.env = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self.packages),
            "XDG_CACHE_HOME": str(self.cache),
            "PLACE": str(self.place),
        }

    def write(self, name: str, text: str) -> None:
        path = self.packages / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def build(self, *wanted: str, flags: tuple[str, ...] = (), **env: str) -> list[dict[str, Any]]:
        program = self.folder / "build_operators.py"
        done = subprocess.run(
            [sys.executable, *flags, str(program), str(self.folder), *(wanted or ["an_op=AnOp"])],
            env={**self.env, **env}, capture_output=True, text=True, check=True,
        )  # fmt: skip
        assert done.stderr == ""
        return [json.loads(line) for line in done.stdout.splitlines()]

    def states(self, *wanted: str, **env: str) -> list[str]:
        return [told["state"] for told in self.build(*wanted, **env)]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


def test_once(home: Home) -> None:
    building, built = home.build()
    assert building["say"].startswith("building an_op for DeepSpeed, once for all ranks")
    assert built["say"] == f"an_op built in {built['seconds']:.0f} s"
    assert home.build() == [{"op": "an_op", "state": "there", "say": ""}]


def test_a_directory_of_ones_own(home: Home, tmp_path: Path) -> None:
    own = tmp_path / "own"
    assert home.states(PLACE=str(own / "an_op")) == ["building", "built"]
    assert home.states(TORCH_EXTENSIONS_DIR=str(own)) == ["there"]
    assert home.states() == ["building", "built"]


@pytest.mark.parametrize(
    ("version", "name"),
    [("cuda = '12.8'", "cu128"), ("cuda = None\nhip = '6.2'", "rocm62"), ("hip = None", "cpu")],
)
def test_where_torch_keeps_it(home: Home, version: str, name: str) -> None:
    home.write("torch/version.py", version)
    place = home.place.parent.with_name(home.place.parent.name.replace("cpu", name)) / "an_op"
    assert home.states(PLACE=str(place)) == ["building", "built"]
    assert home.states() == ["there"]


def test_prebuilt_ones(home: Home) -> None:
    assert home.states("old=AnOp") == ["there"]


@pytest.mark.parametrize("newer", ["deepspeed/an_op.cpp", "torch/include/torch/extension.h"])
def test_one_of_another_version_is_built_anew(home: Home, newer: str) -> None:
    home.build()
    os.utime(home.packages / newer, (time.time() + 60, time.time() + 60))
    assert home.states() == ["building", "built"]


def test_one_of_another_place_is_built_anew(home: Home) -> None:
    home.build()
    moved = home.packages.rename(home.folder / "moved")
    assert home.states(PYTHONPATH=str(moved)) == ["building", "built"]


def test_what_is_half_built_is_built(home: Home) -> None:
    home.build()
    (home.place / "build.ninja").unlink()
    assert home.states() == ["building", "built"]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (
            "Error building\nx.cpp:3:1: error: no ';'\nx.cpp:9:9: error: late\nninja: stopped",
            "x.cpp:9:9: error: late",
        ),
        ("Error\n/bin/ld: cannot find -laio: No such file\ncollect2: error: ld returned 1",
         "/bin/ld: cannot find -laio: No such file"),
        ("FAILED: [code=127] x.o \nnot-there -c x.cpp\n/bin/sh: 1: not-there: not found\nninja: no",
         "/bin/sh: 1: not-there: not found"),
        ("x.s: Fatal error: can't write x.o: 'No space left on device'\nx.s: Fatal error: x.o: No",
         "x.s: Fatal error: can't write x.o: 'No space left on device'"),
        ("Error\nFAILED: [code=1] x.o \n/bin/false -c x.cpp\n", "FAILED: [code=1] x.o"),
        ("\nno ninja\nhere", "RuntimeError: no ninja"),
    ],
)  # fmt: skip
def test_one_that_fails_does_not_keep_the_others(home: Home, said: str, why: str) -> None:
    told = home.build("an_op=AnOp", "none=None", FAILS=said)
    assert [one["state"] for one in told] == ["building", "failed", "building", "needless"]
    assert told[1]["say"] == f"an_op could not be built: {why}"
    assert told[1]["why"] == why


def test_without_the_packages_nothing_is_said(home: Home) -> None:
    """The ranks say it themselves. Without `site` there are no other packages."""
    shutil.rmtree(home.packages / "torch")
    assert home.build(flags=("-S",)) == []


def lock(home: Home, seconds: float) -> Path:
    home.place.mkdir(parents=True, exist_ok=True)
    path = home.place / "lock"
    path.touch()
    os.utime(path, (time.time() - seconds, time.time() - seconds))
    return path


def test_a_lock_that_nobody_holds(home: Home) -> None:
    path = lock(home, 3600)
    (told,) = home.build()
    assert told["state"] == "stale"
    assert told["say"].startswith(f"{path} was left by a build of an_op that was killed")
    home.place.joinpath("an_op.so").touch()
    assert home.states() == ["stale"]  # torch looks at the lock before anything else


def test_a_lock_that_another_process_holds(home: Home) -> None:
    path = lock(home, 3600)
    with path.open():
        waiting, built = home.build()
        assert home.states() == ["there"]  # as where another run has a look at it
    who = f"process {os.getpid()}"
    assert waiting["say"] == f"waiting for an_op, which {who} builds: {path}"
    assert built["state"] == "built"


def test_a_lock_that_another_host_may_hold(home: Home) -> None:
    path = lock(home, 1)
    waiting, built = home.build()
    assert waiting["say"] == f"waiting for an_op, which another host builds: {path}"
    assert built["state"] == "built"


def test_a_lock_of_one_that_was_killed_just_now(home: Home) -> None:
    """It looks like another host's, until it is old."""
    path = lock(home, 58)
    command = [sys.executable, str(home.folder / "build_operators.py"), str(home.folder)]
    env = {**home.env, "WAITS_FOR": str(path)}
    with subprocess.Popen([*command, "an_op=AnOp"], env=env, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        waiting, still = (json.loads(process.stdout.readline()) for _ in range(2))
        path.unlink()
        (built,) = map(json.loads, process.stdout)
    assert [one["state"] for one in (waiting, still, built)] == ["waiting", "waiting", "built"]
    assert still["say"].startswith(f"still waiting for an_op: no process of this host holds {path}")


# An empty value is one to torch, a path relative to where it is.
AGREE = """
import os, runpy, sys, torch
from torch.utils.cpp_extension import _get_build_directory
builder, looker = map(runpy.run_path, sys.argv[1:])
for name in ("XDG_CACHE_HOME", "HOME", "TORCH_EXTENSIONS_DIR"):
    for value in (os.getcwd(), "", "relative"):
        os.environ[name] = value
        theirs = _get_build_directory("an_op", False)
        ours = os.path.join(builder["_root"](builder["_folder_of"]("torch")), "an_op")
        assert ours == theirs, (name, value, ours, theirs)
        above = "/.." if name == "TORCH_EXTENSIONS_DIR" else "/../.."  # one for Python and CUDA
        root = os.path.realpath(looker["cache_root"](os.environ))
        assert root == os.path.realpath(theirs + above), (name, value, root, theirs)
    del os.environ[name]
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="without torch")
def test_the_real_torch_looks_there(tmp_path: Path) -> None:
    """All three agree: torch, the program that builds, and who looks for locks."""
    done = subprocess.run(
        [sys.executable, "-c", AGREE, *(str(ZLAUNCH / name) for name in FILES)],
        capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"]}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
