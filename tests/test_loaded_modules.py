"""What a command or an agent loads, asked of real interpreters."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from zlaunch.backends.pack import _sources, payload
from zlaunch.backends.remote import BOOTSTRAP
from zlaunch.run.messages import Ready
from zlaunch.run.wire import Decoder

ROOT = str(Path(__file__).parents[1])
HEAVY = {"torch", "deepspeed", "paramiko", "rich", "pydantic"}
COMMAND = """
import sys
from zlaunch.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("loaded:", *sys.modules, file=sys.stderr)
"""
SERVE = "import sys; sys.path.append(sys.argv[1]); from zlaunch.agent.node import serve; serve(7)"


def loaded_by(*args: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *args], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "Usage" in done.stdout
    return set(done.stderr.rpartition("loaded:")[2].split())


def test_help_loads_nothing_heavy() -> None:
    loaded = loaded_by("--help")
    assert "typer" in loaded
    assert HEAVY & loaded == set()


def test_help_of_run_loads_nothing_heavy() -> None:
    loaded = loaded_by("run", "--help")
    assert "zlaunch.cli.run" in loaded
    assert HEAVY & loaded == set()


def test_a_run_is_submitted_without_anything_heavy(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import torch\n")
    words = ("submit", "--nodes", "2", "--cpu", "1", "--dry-run", str(script))
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words],
        cwd=ROOT, env={**os.environ, "ZLAUNCH_HOME": str(tmp_path)}, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert "#SBATCH --nodes=2" in done.stdout
    assert HEAVY & set(done.stderr.rpartition("loaded:")[2].split()) == set()


def test_a_press_of_tab_loads_no_command_and_nothing_heavy(tmp_path: Path) -> None:
    """Once it is known what commands there are; and that is found out anew after a change."""
    code = "import sys; from zlaunch.__main__ import run; run(); print(*sys.modules)"
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "ZLAUNCH_HOME": str(tmp_path)}

    def press(*words: str) -> tuple[str, set[str]]:
        args = [sys.executable, "-c", code, "__complete", "zsh", *words]
        done = subprocess.run(args, cwd=ROOT, env=env, capture_output=True, text=True, check=True)
        said, _, loaded = done.stdout.rstrip().rpartition("\n")
        return said, set(loaded.split())

    first, loaded = press("run", "--recipe", "zero1")
    assert first.startswith("words\nzero1\t")
    assert "zlaunch.cli.run" in loaded
    (kept,) = tmp_path.rglob("commands.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    again, loaded = press("run", "--recipe", "zero1")
    assert again == first
    assert (HEAVY | {"typer", "click", "zlaunch.cli.main", "zlaunch.cli.run"}) & loaded == set()
    _, loaded = press("status", "2026")
    assert (HEAVY | {"typer", "click", "zlaunch.cli.main", "zlaunch.cli.status"}) & loaded == set()
    for broken in ('{"key": 1}', "", kept.read_text().replace('"key": ["', '"key": ["0')):
        kept.write_text(broken)
        assert press("run", "--recipe", "zero1")[0] == first


def test_the_agent_loads_the_standard_library_only() -> None:
    code = "import sys, zlaunch.agent.node; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert "zlaunch.system.loop" in loaded
    assert (HEAVY | {"typer", "click", "psutil", "pynvml"}) & loaded == set()
    assert not any(name.startswith(("zlaunch.cli", "zlaunch.launcher")) for name in loaded)


def python39() -> str | None:
    """A Python 3.9 that really starts; a shim of a version manager may not."""
    named = os.environ.get("ZLAUNCH_TEST_PYTHON39") or shutil.which("python3.9")
    if named is None:
        return None
    version = "import sys; print(sys.version_info[:2] == (3, 9))"
    said = subprocess.run([named, "-c", version], capture_output=True, text=True, check=False)
    return named if said.stdout.strip() == "True" else None


def test_the_packed_agent_loads_no_more_than_it_needs() -> None:
    """On many hosts at once what its loader or a convenience brings in counts."""
    program = zlib.decompress(payload(7)[8:-8]).replace(
        b"serve(int(r(8)))", b"import zlaunch.agent.node; print(*sys.modules)"
    )
    command = [sys.executable, "-I", "-S", "-c", b"import sys; exec(sys.stdin.buffer.read())"]
    done = subprocess.run(command, input=program, capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "zlaunch.agent.node" in loaded
    assert {
        "pathlib",
        "shutil",
        "tempfile",
        "random",
        "importlib.util",
        "importlib.abc",
    } & loaded == set()


@pytest.mark.parametrize("packed", [False, True], ids=["as it lies", "packed"])
@pytest.mark.parametrize("old", [False, True], ids=["this Python", "Python 3.9"])
def test_an_agent_serves_without_site_packages(old: bool, packed: bool) -> None:
    """Without `site` nothing installed can be imported; the link is closed at once."""
    python = python39() if old else sys.executable
    if python is None:
        pytest.skip("no Python 3.9 here; ZLAUNCH_TEST_PYTHON39 may name one")
    command = [python, "-I", "-S", "-B", "-c", *((BOOTSTRAP,) if packed else (SERVE, ROOT))]
    sent = payload(7) if packed else b""
    done = subprocess.run(command, input=sent, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    (ready,) = Decoder(preamble=True).feed(done.stdout)
    assert isinstance(ready, Ready)
    assert ready.node_rank == 7


def test_the_packed_agent_is_small() -> None:
    """It goes down a link to every host, which may be a slow one, and it fits into one pipe.

    While --setup runs nobody reads it there, and sshd says that the link is closed only behind
    what came before.
    """
    assert len(payload(0)) < 56_000


@pytest.mark.parametrize("module", sorted(_sources()))
def test_what_is_packed_is_the_same_program(module: str) -> None:
    is_package, packed = _sources()[module]
    path = Path(ROOT, *module.split("."))
    file = path / "__init__.py" if is_package else path.with_suffix(".py")
    assert program(packed) == program(file.read_text("utf-8"))


def program(source: str) -> tuple[str, list[tuple[str, int]]]:
    """All but its docstrings, and the lines where things are."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = ""
    lines = [(type(node).__name__, getattr(node, "lineno", 0)) for node in ast.walk(tree)]
    return ast.dump(tree), lines
