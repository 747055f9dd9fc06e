"""Packs the agent for a host that has nothing but Python: its modules as one program.

The program goes down the link in front of the first order. So launcher and agent are always of
one version, and nothing is written on the host.
"""

from __future__ import annotations

import ast
import zlib
from functools import cache
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_ENTRY = "zlaunch.agent.packed"

_PROGRAM = """\
import importlib.abc, importlib.util, sys, zlib
SOURCES = {sources!r}
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path=None, target=None):
        if name in SOURCES:
            return importlib.util.spec_from_loader(name, self, is_package=SOURCES[name][0])
    def exec_module(self, module):
        source = SOURCES[module.__name__][1]
        exec(compile(source, "<agent>/" + module.__name__, "exec"), module.__dict__)
sys.meta_path.insert(0, Finder())
from {entry} import serve
serve({node_rank})
"""


def payload(node_rank: int) -> bytes:
    """Return what is to be sent first: the length and the program."""
    program = _PROGRAM.format(sources=_sources(), entry=_ENTRY, node_rank=node_rank)
    packed = zlib.compress(program.encode(), 6)
    body = b"import zlib; exec(zlib.decompress(" + repr(packed).encode("ascii") + b"))"
    return b"%08d" % len(body) + body


@cache
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
        found[name] = (is_package, file.read_text("utf-8"))
        waiting += _imports(found[name][1])
        if "." in name:
            waiting.append(name.rpartition(".")[0])
    return found


def _imports(source: str) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return [name for name in names if name.split(".")[0] == "zlaunch"]
