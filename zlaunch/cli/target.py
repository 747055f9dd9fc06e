"""The user's script, module or program: looked at before anything starts."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import shutil
import sys
from dataclasses import replace
from importlib.machinery import BYTECODE_SUFFIXES, EXTENSION_SUFFIXES, ModuleSpec
from pathlib import Path

from zlaunch.cli.request import Request
from zlaunch.cli.user_files import similar_files
from zlaunch.errors import HostfileError, InputError
from zlaunch.spec.hostfile import parse_hostfile
from zlaunch.spec.preload import leaves_alone
from zlaunch.spec.script import ScriptFacts, read_script
from zlaunch.system.script_digest import script_digest

_END_OF_ZIP, _LONGEST_END_OF_ZIP = b"PK\x05\x06", 22 + (1 << 16) - 1  # APPNOTE.TXT 4.3.16

_COMPILED = (*BYTECODE_SUFFIXES, *EXTENSION_SUFFIXES)


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
    here = Path(name).is_file()
    if here and not os.access(name, os.X_OK):
        raise InputError(f"{what} {name} is not executable", hint=f"chmod +x {name}")
    if here:
        raise InputError(f"{what} {name} is not on PATH", hint=f"the one here is ./{name}")
    raise InputError(f"{what} {name} was not found", hint=similar_files(name))


def read_facts(request: Request) -> ScriptFacts:
    """Check that the script is there, and return what its source says.

    Raises InputError for what Python could not run.
    """
    if not request.script:
        raise InputError("the script's name is empty")
    if request.no_python:
        return ScriptFacts()
    if request.module:
        try:
            source = _module_source(request.script)
        except InputError:
            if request.python is None:
                raise
            source = None  # another interpreter has other modules
        return _module_facts(source, request) if source is not None else ScriptFacts()
    script = Path(request.script)
    if script.is_dir():
        script /= "__main__.py"
        if not script.is_file():
            raise InputError(f"{request.script} is a directory without a __main__.py")
    if not script.exists():
        hint = similar_files(request.script)
        if hint is None and request.wait is not None and request.script[:1].isalnum():
            hint = "--wait may be given 90s, 15m, 2h or 1d; what else follows it is the script"
        raise InputError(f"script {request.script} was not found", hint=hint)
    return _facts(script, request)


def _module_facts(path: Path, request: Request) -> ScriptFacts:
    """Of a module, to which the packages that it is in come first."""
    facts = _facts(path, request)
    depth = request.script.count(".") + (path.name == "__main__.py")
    packages = [folder / "__init__.py" for folder in path.parents[:depth]]
    if not all(_leaves_alone(package) for package in packages):
        return replace(facts, first_imports=())
    around = ((_from_here(package), script_digest(package)) for package in packages)
    return replace(facts, sources=(*facts.sources, *around))


def _leaves_alone(package: Path) -> bool:
    try:
        return leaves_alone(ast.parse(package.read_bytes()))
    except FileNotFoundError:
        return True
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return False


def _from_here(path: Path) -> str:
    """As it may be found on another node, whose working directory is elsewhere."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def _facts(path: Path, request: Request) -> ScriptFacts:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InputError(f"script {path} cannot be read: {error.strerror}") from error
    if _is_archive(source) or _is_bytecode(path, source):
        return ScriptFacts()
    try:
        facts = read_script(source, str(path))
    except (RecursionError, MemoryError):  # too deep for the parser: let Python say so
        return ScriptFacts()
    except SyntaxError as error:
        if request.python is not None:  # another interpreter may know another grammar
            return ScriptFacts()
        raise _not_python(path, source, error) from error
    if facts.first_imports:
        digest = hashlib.sha256(source).hexdigest()
        facts = replace(facts, sources=((_from_here(path), digest),))
    return facts


def _is_archive(source: bytes) -> bool:
    """Whether it ends as zip archives do, as Python sees it: it may begin with anything."""
    return _END_OF_ZIP in source[-_LONGEST_END_OF_ZIP:]


def _is_bytecode(path: Path, source: bytes) -> bool:
    """Whether Python would take it for that, by its name or by how each magic number ends."""
    magic = source[2:4] == b"\r\n" and b"\0" in source[:16]
    return path.suffix in BYTECODE_SUFFIXES or magic


def _not_python(path: Path, source: bytes, error: SyntaxError) -> InputError:
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
    where = f"{path}:{error.lineno or 1}:{error.offset or 1}"
    line = (error.text or "").strip()
    return InputError(f"{error.msg}: {line}" if line else str(error.msg), where=where)


def _is_hostfile(source: bytes) -> bool:
    try:
        parse_hostfile(source.decode(), "hostfile")
    except (HostfileError, UnicodeDecodeError):
        return False
    return True


def _module_source(name: str) -> Path | None:
    """Find the module as `python -m` would, without importing it or its parents.

    None where it is found and is not source. Raises InputError where it is not there.
    """
    top, _, rest = name.partition(".")
    spec = _find_top(top)
    if spec is None:
        raise _no_module(name)
    places = list(spec.submodule_search_locations or ())
    if not places and rest:
        raise _no_module(name)
    if not places:
        return Path(spec.origin) if spec.origin and spec.origin.endswith(".py") else None
    for place in places:
        below = Path(place, *rest.split(".")) if rest else Path(place)
        for candidate in (below / "__main__.py", below.with_name(below.name + ".py")):
            if candidate.is_file() and (rest or candidate.parent == below):
                return candidate
        if any(below.with_name(below.name + suffix).exists() for suffix in _COMPILED):
            return None
    if any(Path(place, *rest.split(".")).is_dir() for place in places):
        raise InputError(f"package {name} cannot be run: it has no __main__.py")
    raise _no_module(name)


def _find_top(name: str) -> ModuleSpec | None:
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    finally:
        sys.path.pop(0)


def _no_module(name: str) -> InputError:
    hint = f"leave out .py and use dots: -m {name[:-3]}" if name.endswith(".py") else None
    return InputError(f"module {name} was not found", hint=hint)
