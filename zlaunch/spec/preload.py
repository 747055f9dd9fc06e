"""What a script imports before anything else, so that one process can do it for all ranks.

Only what stands at the top of the script, one import after the other: whatever comes before an
import may change what it finds (the environment, paths, warnings, other modules). So reading stops
at the first statement that could, and at the first module that is not known here.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

Imports = tuple[tuple[int, str], ...]
"""Statements, each with the line that it stands in; 0 for those that a user asks for."""

HEAVY = frozenset({
    "accelerate", "bitsandbytes", "colossalai", "datasets", "deepspeed", "diffusers",
    "evaluate", "fairscale", "flash_attn", "jax", "matplotlib", "megatron", "numpy", "pandas",
    "peft", "safetensors", "scipy", "sklearn", "tensorboard", "timm", "tokenizers", "torch",
    "torchaudio", "torchvision", "transformers", "triton",
})  # fmt: skip
"""Packages for whose import alone a process of its own pays.

Lightning and torchmetrics are none: they read LOCAL_RANK when they are imported, which ranks do not
share. Nor is trl, which imports wandb where it is, and that makes a temporary directory.
"""

_LIGHT = frozenset({
    "PIL", "absl", "attr", "click", "einops", "filelock", "fsspec", "huggingface_hub", "hydra",
    "jinja2", "omegaconf", "packaging", "psutil", "pydantic", "regex", "requests", "rich",
    "sentencepiece", "simple_parsing", "tqdm", "typer", "typing_extensions", "yaml",
})  # fmt: skip

# Of the standard library: what others look at when they are imported, or what acts by itself.
_ACTING = frozenset({
    "antigravity", "ctypes", "faulthandler", "idlelib", "lib2to3", "pdb", "profile", "cProfile",
    "this", "trace", "tracemalloc",
})  # fmt: skip


def first_imports(tree: ast.Module) -> Imports:
    """Return the imports that a script begins with, up to the last heavy one."""
    found: list[tuple[int, str, bool]] = []
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            statements = list(_statements(node))
            if any(top not in _KNOWN for top, _ in statements):
                break
            found += ((node.lineno, text, top in HEAVY) for top, text in statements)
        elif not _is_harmless(node):
            break
    heavy = [index for index, (_, _, is_heavy) in enumerate(found) if is_heavy]
    last = heavy[-1] + 1 if heavy else 0
    return tuple((line, text) for line, text, _ in found[:last] if text)


_KNOWN = (HEAVY | _LIGHT | sys.stdlib_module_names) - _ACTING


def _statements(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, str]]:
    """Each module's top name, and the statement that imports it; empty for `__future__`."""
    if isinstance(node, ast.ImportFrom):
        top = (node.module or "").split(".")[0] if not node.level else ""
        yield top, "" if top == "__future__" else ast.unparse(node)
        return
    for alias in node.names:
        yield alias.name.split(".")[0], ast.unparse(ast.Import([alias]))


def _is_harmless(node: ast.stmt) -> bool:
    """Whether a statement changes nothing that an import after it would see."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        inner = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        return not node.decorator_list and all(map(_is_value, inner))
    if isinstance(node, ast.Assign):
        return all(isinstance(one, ast.Name) for one in node.targets) and _is_value(node.value)
    if isinstance(node, ast.AnnAssign):
        return isinstance(node.target, ast.Name) and (node.value is None or _is_value(node.value))
    if isinstance(node, ast.If):
        return _is_type_checking(node.test) and not node.orelse
    return isinstance(node, ast.Pass)


def _is_value(node: ast.expr) -> bool:
    """Whether nothing is called in it, save for a logger."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func) == "logging.getLogger"
    plain = (ast.Constant, ast.Name, ast.Tuple, ast.List, ast.Dict, ast.Set, ast.expr_context)
    return all(isinstance(inner, plain) for inner in ast.walk(node))


def _is_type_checking(node: ast.expr) -> bool:
    return ast.unparse(node) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def leaves_alone(tree: ast.Module) -> bool:
    """Whether the `__init__.py` of a package changes nothing for the module below it.

    It runs before, so what it imports may be but of the standard library.
    """
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if any(top not in sys.stdlib_module_names - _ACTING for top, _ in _statements(node)):
                return False
        elif not _is_harmless(node):
            return False
    return True


def asked_for(names: str) -> Imports:
    """Return the imports that `a,b.c` names.

    Raises ValueError for what is no name of a module.
    """
    parts = [name.strip() for name in names.split(",")]
    for name in parts:
        if not all(piece.isidentifier() for piece in name.split(".")):
            raise ValueError(name)
    return tuple((0, f"import {name}") for name in parts)
