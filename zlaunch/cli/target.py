"""The user's script, module or program: looked at before anything starts."""

from __future__ import annotations

import difflib
import importlib.util
import os
import shutil
import sys
from pathlib import Path

from zlaunch.cli.request import Request
from zlaunch.errors import HostfileError, InputError
from zlaunch.spec.hostfile import parse_hostfile
from zlaunch.spec.script import ScriptFacts, read_script


def command_prefix(request: Request) -> tuple[str, ...]:
    """Return interpreter and script, or the program, as the workers get them.

    Raises InputError where one of them is not there.
    """
    if request.no_python:
        return (_program(request.script, "program"),)
    python = _program(request.python, "--python") if request.python else sys.executable
    return (python, "-m", request.script) if request.module else (python, request.script)


def _program(name: str, what: str) -> str:
    if shutil.which(name) is not None:
        return name
    if Path(name).is_file():
        raise InputError(f"{what} {name} is not executable", hint=f"chmod +x {name}")
    raise InputError(f"{what} {name} was not found", hint=_similar(name))


def read_facts(request: Request) -> ScriptFacts:
    """Check that the script is there, and return what its source says.

    Raises InputError for what Python could not run.
    """
    if request.no_python:
        return ScriptFacts()
    if request.module:
        source = _module_source(request.script)
        return _facts(source, request) if source is not None else ScriptFacts()
    script = Path(request.script)
    if script.is_dir():
        script /= "__main__.py"
        if not script.is_file():
            raise InputError(f"{request.script} is a directory without a __main__.py")
    if not script.exists():
        raise InputError(f"script {request.script} was not found", hint=_similar(request.script))
    return _facts(script, request)


def _facts(path: Path, request: Request) -> ScriptFacts:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InputError(f"script {path} cannot be read: {error.strerror}") from error
    if source.startswith(b"PK\x03\x04"):  # a zip archive with a __main__.py
        return ScriptFacts()
    try:
        return read_script(source, str(path))
    except (SyntaxError, ValueError) as error:
        if request.python is not None:  # another interpreter may know another grammar
            return ScriptFacts()
        raise _not_python(path, source, error) from error


def _not_python(path: Path, source: bytes, error: Exception) -> InputError:
    first = source.split(b"\n", 1)[0]
    if first.startswith(b"#!") and b"python" not in first:
        return InputError(
            f"{path} is no Python script: it begins with {first.decode(errors='replace')}",
            hint="run it with --no-python",
        )
    if _is_hostfile(source):
        return InputError(
            f"{path} is a hostfile; the script is missing before it",
            hint=f"zlaunch multinode --hostfile {path} SCRIPT",
        )
    if isinstance(error, SyntaxError):
        where = f"{path}:{error.lineno or 1}:{error.offset or 1}"
        line = (error.text or "").rstrip()
        return InputError(f"{error.msg}: {line.strip()}" if line else str(error.msg), where=where)
    return InputError(f"script {path} cannot be read as Python: {error}")


def _is_hostfile(source: bytes) -> bool:
    try:
        parse_hostfile(source.decode(), "hostfile")
    except (HostfileError, UnicodeDecodeError):
        return False
    return True


def _module_source(name: str) -> Path | None:
    """Find the module as `python -m` would, without importing it or its parents."""
    top, _, rest = name.partition(".")
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    finally:
        sys.path.pop(0)
    if spec is None:
        hint = f"leave out .py and use dots: -m {name[:-3]}" if name.endswith(".py") else None
        raise InputError(f"module {name} was not found", hint=hint)
    places = list(spec.submodule_search_locations or ())
    if not places:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    below = Path(*rest.split(".")) if rest else Path()
    for place in places:
        for candidate in (
            Path(place, below).with_suffix(".py") if rest else Path(place, "__main__.py"),
            Path(place, below, "__main__.py"),
        ):
            if candidate.is_file():
                return candidate
    return None


def _similar(name: str) -> str | None:
    """Name files beside `name` that are spelled alike."""
    path = Path(name)
    try:
        names = os.listdir(path.parent)  # noqa: PTH208 - names are what is compared
    except OSError:
        return f"there is no directory {path.parent}"
    alike = difflib.get_close_matches(path.name, names, n=3)
    return f"similar: {', '.join(str(path.parent / name) for name in alike)}" if alike else None
