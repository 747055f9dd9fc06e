"""Packs the agent for a host that has nothing but Python: its modules as one program.

The program goes down the link in front of the first order. So launcher and agent are always of
one version, and nothing is written on the host.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_ENTRY = "zlaunch.agent.packed"

# The loader is no importlib.abc.Loader: that module brings in tempfile, shutil, random and more,
# a tenth of the agent's start.
_PROGRAM = """\
import sys
if sys.version_info < (3, 9):
    sys.exit("Python %d.%d is too old: an agent needs 3.9 or newer" % sys.version_info[:2])
from importlib.machinery import ModuleSpec
SOURCES = {sources!r}
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return ModuleSpec(name, self, is_package=SOURCES[name][0])
    def create_module(self, spec):
        return None
    def exec_module(self, module):
        source = SOURCES[module.__name__][1]
        exec(compile(source, "<agent>/" + module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Finder())
from {entry} import serve
serve(int(r(8)))
"""


def payload(node_rank: int) -> bytes:
    """Return what is to be sent first: the length of the program, it, and the node's rank."""
    return b"%08d%s%08d" % (len(_program()), _program(), node_rank)


@cache
def _program() -> bytes:
    """The same for all nodes, so it is packed once; it runs where `BOOTSTRAP` left `r`."""
    program = _PROGRAM.format(sources=_sources(), entry=_ENTRY)
    return zlib.compress(program.encode(), 9)


@cache
def one_line(module: str) -> str:
    """A module that needs none of ours as one line of Python, without a quote for any shell."""
    source = _ROOT.joinpath(*module.split(".")).with_suffix(".py").read_bytes()
    packed = base64.b64encode(zlib.compress(source, 9)).decode("ascii")
    return f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{packed}")))'


def _sources() -> dict[str, tuple[bool, str]]:
    """Module name -> (is a package, source) of the entry and all that it imports of ours."""
    found: dict[str, tuple[bool, str]] = {}
    waiting = [_ENTRY]
    while waiting:
        name = waiting.pop()
        path = _ROOT.joinpath(*name.split("."))
        is_package = path.is_dir()
        file = path / "__init__.py" if is_package else path.with_suffix(".py")
        if name in found or not file.is_file():
            continue
        found[name] = (is_package, bare(file.read_text("utf-8")))
        waiting += _imports(found[name][1])
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return found


def bare(source: str) -> str:
    """The same program without most comments and docstrings; every line keeps its number.

    By two patterns, since tokens would take longer than a host does to answer. A test holds every
    module to it that the program stays the same.
    """
    without = re.sub(_DOCSTRING, _emptied, source, flags=re.MULTILINE)
    return re.sub(_COMMENT, "", without, flags=re.MULTILINE)


# Compiled when something is packed: who trains on this machine alone does not pay for it.
_COMMENT = r"^[ \t]*#.*$"
_DOCSTRING = r'^([ \t]*)r?"""(?:[^"\\]|"(?!"")|\\.)*"""$'
_IMPORT = r"^[ \t]*(?:from (zlaunch[\w.]*) import (\([^)]*\)|.*)|import (zlaunch[\w.]*))"


def _emptied(found: re.Match[str]) -> str:
    return f'{found[1]}""' + "\n" * found[0].count("\n")


def _imports(source: str) -> Iterator[str]:
    """What it imports of ours: modules, and names that may be some. A parser takes far longer."""
    for found in re.finditer(_IMPORT, source, re.MULTILINE):
        module = found[1] or found[3]
        yield module
        yield from (f"{module}.{name}" for name in re.findall(r"\w+", found[2] or ""))
