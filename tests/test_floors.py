"""Imports run downward only, and each floor keeps to what it may touch."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from zlaunch.backends.pack import _sources

ROOT = Path(__file__).parents[1]
FLOORS = (  # from the top
    "cli",
    "launcher",
    "backends",
    "agent",
    "system",
    "insight",
    "dsconfig",
    "memory",
    "run",
    "spec",
    "errors",
    "frozen",
)
ASIDE = {"", "__main__"}  # zlaunch/__init__.py and __main__.py
SENT = "workers"  # programs that ranks run: no floor, since nothing imports them
PURE = {"insight", "dsconfig", "memory", "run", "spec"}
# What a pure floor may import beside zlaunch: nothing here touches files, clocks or the world.
PURE_MAY = {
    *("__future__", "ast", "base64", "binascii", "bisect", "collections", "copy", "dataclasses"),
    *("decimal", "difflib", "enum", "fractions", "functools", "hashlib", "heapq", "hjson", "hmac"),
    *("ipaddress", "itertools", "json", "math", "operator", "re", "shlex", "statistics"),
    *("string", "struct", "textwrap", "tomli", "tomllib", "types", "typing", "unicodedata", "yaml"),
}
PURE_MAY_NOT_CALL = {"open", "input", "print", "exec", "eval", "__import__"}
PURE_MAY_NOT_TOUCH = {
    "environ",
    "getenv",
    "read_text",
    "read_bytes",
    "write_text",
    "write_bytes",
}
ONLY_CLI = {"typer", "click", "rich"}
NEVER = {"torch", "deepspeed", "transformers", "accelerate"}
NEVER_AT_TOP = {"paramiko"}
NO_NAME_FOR_A_MODULE = {"utils", "util", "common", "helpers", "misc"}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {
    module_name(path): path.read_text(encoding="utf-8") for path in ROOT.glob("zlaunch/**/*.py")
}


def floor_of(module: str) -> str:
    """`zlaunch.run.messages` is on the floor `run`, `zlaunch` itself on none."""
    return [*module.split("."), ""][1]


def imports(nodes: Iterator[ast.AST], package: str) -> Iterator[str]:
    """Every module that is imported, by a statement or by a literal name; and `a.b` of
    `from a import b`, which may be a module.
    """
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: -node.level + 1 or None] if node.level else []
            base = ".".join([*above, *filter(None, [node.module])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if called in {"import_module", "__import__"}:
                yield str(node.args[0].value)


def at_import(tree: ast.Module) -> Iterator[ast.AST]:
    """All nodes whose code runs on import: not the bodies of functions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            waiting.extend(ast.iter_child_nodes(node))


def faults(module: str, source: str) -> list[str]:
    """What `module` does that its floor may not."""
    tree = ast.parse(source)
    floor = floor_of(module)
    package = module.rpartition(".")[0]
    imported = set(imports(ast.walk(tree), package))
    roots = {name.split(".")[0] for name in imported}
    found = []
    if set(module.split(".")) & NO_NAME_FOR_A_MODULE:
        found.append("is named after nothing")
    found += [f"imports {name}, which is sent" for name in imported if floor_of(name) == SENT]
    if floor == SENT:
        return found + [
            f"imports {root}" for root in roots - {*sys.stdlib_module_names, "torch", "deepspeed"}
        ]
    if floor not in ASIDE:
        if floor not in FLOORS:
            return [f"is on no floor: {floor}"]
        above = set(FLOORS[: FLOORS.index(floor)]) | {"__main__"}
        ours = {name for name in imported if name.startswith("zlaunch.")}
        found += [f"imports upward: {name}" for name in ours if floor_of(name) in above]
    if floor in PURE:
        found += [f"imports {root}" for root in roots - PURE_MAY - {"zlaunch", "sys"}]
        found += impure(tree)
    if floor != "cli":
        found += [f"imports {root}" for root in roots & ONLY_CLI]
    top = {name.split(".")[0] for name in imports(at_import(tree), package)}
    found += [f"imports {root}" for root in roots & NEVER]
    found += [f"imports {root} at its top" for root in top & NEVER_AT_TOP]
    return found


def impure(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in PURE_MAY_NOT_CALL:
                yield f"calls {node.func.id}"
        elif isinstance(node, ast.Attribute):
            if node.attr in PURE_MAY_NOT_TOUCH:
                yield f"touches {node.attr}"
            of_sys = isinstance(node.value, ast.Name) and node.value.id == "sys"
            if of_sys and node.attr not in {"version_info", "stdlib_module_names"}:
                yield f"touches sys.{node.attr}"


@pytest.mark.parametrize("module", sorted(SOURCES))
def test_keeps_to_its_floor(module: str) -> None:
    assert faults(module, SOURCES[module]) == []


def test_every_floor_is_there_and_none_is_unknown() -> None:
    assert {floor_of(module) for module in SOURCES} == {*FLOORS, *ASIDE, SENT}


@pytest.mark.parametrize(
    ("module", "source", "fault"),
    [
        ("zlaunch.system.x", "import zlaunch.agent.node", "imports upward: zlaunch.agent.node"),
        ("zlaunch.run.x", "from zlaunch import system", "imports upward: zlaunch.system"),
        ("zlaunch.agent.x", "def f():\n from ..backends import base", "imports upward"),
        ("zlaunch.spec.x", "from zlaunch.run.messages import Exit", "imports upward"),
        ("zlaunch.errors", "import zlaunch.spec.slots", "imports upward"),
        ("zlaunch.agent.x", "import_module('zlaunch.cli.run')", "imports upward"),
        ("zlaunch.helm.x", "", "is on no floor: helm"),
        ("zlaunch.workers.x", "import zlaunch.errors", "imports zlaunch"),
        ("zlaunch.cli.x", "import zlaunch.workers.all_reduce", "which is sent"),
        ("zlaunch.run.utils", "", "is named after nothing"),
        ("zlaunch.spec.common.x", "", "is named after nothing"),
        ("zlaunch.spec.x", "import os.path", "imports os"),
        ("zlaunch.run.x", "def f():\n import time", "imports time"),
        ("zlaunch.insight.x", "from logging import getLogger", "imports logging"),
        ("zlaunch.dsconfig.x", "import pathlib", "imports pathlib"),
        ("zlaunch.dsconfig.x", "text = open('x').read()", "calls open"),
        ("zlaunch.dsconfig.x", "def f(p): return p.read_text()", "touches read_text"),
        ("zlaunch.spec.x", "import sys\nsys.stdout.write('x')", "touches sys.stdout"),
        ("zlaunch.spec.x", "from somewhere import environ as e\nx.environ", "touches environ"),
        ("zlaunch.system.x", "def f():\n from rich.table import Table", "imports rich"),
        ("zlaunch.launcher.x", "import typer", "imports typer"),
        ("zlaunch.cli.x", "def f():\n import torch.cuda", "imports torch"),
        ("zlaunch.backends.x", "try:\n import paramiko\nexcept E: pass", "paramiko at its top"),
    ],
)
def test_a_fault_is_seen(module: str, source: str, fault: str) -> None:
    assert any(fault in found for found in faults(module, source))


def test_what_is_allowed_is_no_fault() -> None:
    assert faults("zlaunch.backends.x", "def f():\n import paramiko") == []
    assert faults("zlaunch.cli.x", "import os, rich, zlaunch.launcher.launcher") == []
    assert faults("zlaunch.run.x", "import sys, json\nsys.version_info\nimport zlaunch.spec") == []


# What travels to the agent: standard library only, and Python 3.9.


def closure(start: str) -> dict[str, ast.Module]:
    """The modules of zlaunch that importing `start` loads, parsed."""
    trees: dict[str, ast.Module] = {}
    waiting = [start]
    while waiting:
        module = waiting.pop()
        if module in trees or module not in SOURCES:
            continue
        trees[module] = tree = ast.parse(SOURCES[module], feature_version=(3, 9))
        parents = module.split(".")[:-1]
        waiting += [".".join(parents[:count]) for count in range(1, len(parents) + 1)]
        waiting += imports(at_import(tree), module.rpartition(".")[0])
    return trees


AGENT = {**closure("zlaunch.agent.node"), **closure("zlaunch.agent.join")}


def test_all_that_an_agent_imports_is_packed() -> None:
    assert set(_sources()) >= set(closure("zlaunch.agent.packed"))


def too_new(tree: ast.Module) -> Iterator[str]:
    """What the grammar of 3.9 lets pass and 3.9 cannot run."""
    annotations = {
        id(inner)
        for node in ast.walk(tree)
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if isinstance(annotation, ast.AST)
        for inner in ast.walk(annotation)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Match):
            yield f"line {node.lineno}: match"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            types = _looks_like_a_type(node.left) or _looks_like_a_type(node.right)
            if types and id(node) not in annotations:
                yield f"line {node.lineno}: X | Y"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            words = {str(keyword.arg) for keyword in node.keywords}
            new = {"zip": {"strict"}, "dataclass": {"slots", "kw_only"}}.get(node.func.id, set())
            if words & new:
                yield f"line {node.lineno}: {node.func.id}({', '.join(words & new)}=)"


def _looks_like_a_type(node: ast.expr) -> bool:
    if isinstance(node, ast.Subscript):
        return _looks_like_a_type(node.value)
    if isinstance(node, ast.Constant):
        return node.value is None
    name = getattr(node, "attr", getattr(node, "id", ""))
    builtin = name in {"int", "str", "bytes", "float", "bool", "list", "dict", "tuple", "set"}
    return builtin or (name[:1].isupper() and not name.isupper())


def test_the_agent_is_more_than_itself() -> None:
    assert {"zlaunch", "zlaunch.run.messages", "zlaunch.spec.worker", "zlaunch.system.spawn"} < set(
        AGENT
    )


@pytest.mark.parametrize("module", sorted(AGENT))
def test_travels_to_the_agent(module: str) -> None:
    tree = AGENT[module]
    roots = {name.split(".")[0] for name in imports(ast.walk(tree), module.rpartition(".")[0])}
    # typing_extensions is for type checkers alone: the agent runs without site-packages.
    assert roots <= {*sys.stdlib_module_names, "zlaunch", "typing_extensions"}
    assert floor_of(module) not in FLOORS[: FLOORS.index("agent")]
    assert list(too_new(tree)) == []
    future = "from __future__ import annotations"
    assert future in SOURCES[module] or len(tree.body) == 1  # a docstring only


OLD = [module for module in SOURCES if floor_of(module) == SENT]
OLD += closure("zlaunch.system.gpu_links")  # asked for by an agent, with what it finds there
OLD += closure("zlaunch.agent.leaseholder")  # where there are GPUs
OLD += closure("zlaunch.system.gpu_idle")
OLD += closure("zlaunch.system.gpu_free")
OLD += closure("zlaunch.system.changes")
OLD += closure("zlaunch.agent.stack_look")  # by the agent's child alone


@pytest.mark.parametrize("module", sorted(OLD))
def test_what_is_sent_runs_on_an_old_python(module: str) -> None:
    assert list(too_new(ast.parse(SOURCES[module], feature_version=(3, 9)))) == []


@pytest.mark.parametrize(
    "source",
    ["match x:\n case 1: pass", "A = int | None", "cast(X | None, y)", "zip(a, b, strict=True)"],
)
def test_what_is_too_new_is_seen(source: str) -> None:
    assert len(list(too_new(ast.parse(source)))) == 1


def test_flags_and_annotations_are_not_too_new() -> None:
    source = "def f(a: int | None) -> X | Y:\n b: dict[str, int | None] = os.A | READ | 4"
    assert list(too_new(ast.parse(source))) == []
