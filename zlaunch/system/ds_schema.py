"""The schema of the DeepSpeed that the workers will import, asked of it once and kept.

Importing DeepSpeed takes seconds and starts torch, so its models are exported by a process of
the workers' interpreter. The answer is kept in the user's cache under the version and the path
of that DeepSpeed; what an interpreter finds is kept beside it, so that a later look starts no
process at all.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zlaunch.frozen import frozen
from zlaunch.system.ds_program import PROGRAM

_FORM = 4  # of the files in the cache: another form is asked for anew
_PATIENCE = 120  # seconds; the first import of torch from a network disk is slow


@frozen
class Asked:
    """What an interpreter answered: the schema, else why there is none.

    `is_python` is false where it did not run at all, or not as Python does.
    """

    schema: dict[str, Any] | None
    why: str = ""
    is_python: bool = True


@frozen
class Installed:
    """A DeepSpeed as it lies on disk."""

    version: str
    path: str


def find_deepspeed() -> Installed | None:
    """The DeepSpeed that this interpreter would import; nothing is imported."""
    try:
        spec = importlib.util.find_spec("deepspeed")
    except (ImportError, ValueError):
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return _look(places[0]) if places else None


def _look(path: str) -> Installed | None:
    """What the directory beside a package, or the package itself, says of its version."""
    beside, name = os.path.split(path)
    with contextlib.suppress(OSError):
        for found in os.listdir(beside):  # noqa: PTH208 - names are all that is wanted
            if found.startswith(f"{name}-") and found.endswith(".dist-info"):
                return Installed(found[len(name) + 1 : -len(".dist-info")], path)
    return _source_tree(path, beside)


def _source_tree(path: str, beside: str) -> Installed | None:
    """A DeepSpeed that is used from where its sources lie."""
    for file in (Path(path, "git_version_info_installed.py"), Path(beside, "version.txt")):
        with contextlib.suppress(OSError, UnicodeDecodeError):
            found = re.search(r"\d+\.\d+\.\d+", file.read_text("utf-8"))
            if found:
                return Installed(found[0], path)
    return Installed("0", path) if Path(path, "__init__.py").is_file() else None


class SchemaCache:
    """The files in the user's cache directory; who cannot write there goes without."""

    def __init__(self, env: Mapping[str, str]) -> None:
        base = env.get("XDG_CACHE_HOME") or ""
        home = Path(base) if os.path.isabs(base) else _home(env) / ".cache"  # noqa: PTH117
        self.directory = home / "zlaunch"

    def kept(self, python: str | None) -> dict[str, Any] | None:
        """What is kept for the workers' interpreter, None for our own; starts no process."""
        python = _other(python)
        installed = self._installed(python)
        return None if installed is None else self._read(_schema_name(installed))

    def ask(self, python: str | None, env: Mapping[str, str]) -> Asked:
        """The schema, asked of the interpreter where it is not kept."""
        python = _other(python)
        kept = self.kept(python)
        if kept is not None:
            return Asked(kept)
        if python is None and find_deepspeed() is None:
            return Asked(None, "DeepSpeed is not installed here")
        asked = _ask(python or sys.executable, env)
        answer = asked.schema
        if answer is None:
            return asked
        installed = Installed(answer["version"], answer["origin"])
        found = find_deepspeed() if python is None else None
        self._write(_schema_name(found or installed), answer)
        if python is not None:
            data = {"version": installed.version, "path": installed.path}
            self._write(_interpreter_name(python), data)
        return asked

    def _installed(self, python: str | None) -> Installed | None:
        if python is None:
            return find_deepspeed()
        kept = self._read(_interpreter_name(python))
        if kept is None:
            return None
        now = _look(kept["path"])
        known = Installed(kept["version"], kept["path"])
        # A source tree says its version otherwise than the package does.
        same = now is not None and parse(now.version) == parse(known.version)
        return known if same else None

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            data = json.loads((self.directory / name).read_text("utf-8"))
        except (OSError, ValueError):
            return None
        return data if isinstance(data, dict) and data.get("form") == _FORM else None

    def _write(self, name: str, data: Mapping[str, Any]) -> None:
        """Beside and renamed, so that nobody reads half of it."""
        import tempfile

        text = json.dumps({"form": _FORM, **data})
        with contextlib.suppress(OSError):
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd, beside = tempfile.mkstemp(dir=self.directory, prefix=f".{name}.")  # mode 0600
            try:
                with os.fdopen(fd, "w", encoding="utf-8") as file:
                    file.write(text)
                os.replace(beside, self.directory / name)  # noqa: PTH105
            except OSError:
                os.unlink(beside)  # noqa: PTH108


def parse(version: str) -> str:
    """A version without what a build adds to it."""
    return version.partition("+")[0]


def _home(env: Mapping[str, str]) -> Path:
    home = env.get("HOME")
    return Path(home) if home else Path(os.path.expanduser("~"))  # noqa: PTH111


def _other(python: str | None) -> str | None:
    """The interpreter by its whole path, so that a name on PATH is no other's; None for ours."""
    found = shutil.which(python) if python is not None else None
    return None if found == sys.executable else found or python


def _schema_name(installed: Installed) -> str:
    path = hashlib.sha256(installed.path.encode(errors="surrogateescape")).hexdigest()[:16]
    return f"deepspeed-{parse(installed.version)}-{path}.json"


def _interpreter_name(python: str) -> str:
    name = hashlib.sha256(python.encode(errors="surrogateescape")).hexdigest()[:16]
    return f"python-{name}.json"


def _ask(python: str, env: Mapping[str, str]) -> Asked:
    """Without the devices, which are none of its business; 0.14.0 has no other way than them."""
    quiet = {**env, "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    asked = _answer(python, quiet)
    return asked if asked.schema is not None or not asked.is_python else _answer(python, env)


def _answer(python: str, env: Mapping[str, str]) -> Asked:
    import subprocess

    try:
        done = subprocess.run(
            [python, "-c", PROGRAM],
            env=dict(env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Asked(None, f"{python} did not answer within {_PATIENCE} s")
    except OSError as error:
        return Asked(None, f"{python} cannot be run: {error.strerror}", is_python=False)
    lines = done.stdout.splitlines()
    for line in reversed(lines):
        if line.startswith(b"SCHEMA "):
            return _read_answer(python, json.loads(line[len(b"SCHEMA ") :]))
    if b"PYTHON" not in lines:
        return Asked(None, f"{python} does not answer as Python does", is_python=False)
    said = done.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    return Asked(None, f"{python} cannot import DeepSpeed: {said or f'code {done.returncode}'}")


def _read_answer(python: str, answer: dict[str, Any]) -> Asked:
    missing = answer.get("missing")
    if missing is None:
        return Asked(answer)
    if missing == "No module named 'deepspeed'":
        return Asked(None, f"{python} has no DeepSpeed")
    return Asked(None, f"{python} cannot import DeepSpeed: {missing}")
