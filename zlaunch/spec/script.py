"""What the source of the user's script says about itself, without running it."""

from __future__ import annotations

import ast

from zlaunch.frozen import frozen
from zlaunch.spec.environment import Target
from zlaunch.spec.preload import Imports, first_imports

_LOCAL_RANK_SPELLINGS = ("--local_rank", "--local-rank")


@frozen
class ScriptFacts:
    """What a script shows of itself.

    `local_rank_option` is the spelling that its own parser declares, if any; `reads_ds_config`
    whether it speaks of the variable that names zlaunch's ds_config. `imports` are the packages
    that it imports anywhere, by their top names; None where it has no source to read.
    `first_imports` are the statements that it begins with, as far as they can be done beforehand;
    they hold for `sources`: paths, from the working directory, and the SHA-256 of what was read
    there, None where nothing was.
    """

    target: Target = "plain"
    local_rank_option: str | None = None
    reads_ds_config: bool = False
    imports: frozenset[str] | None = None
    first_imports: Imports = ()
    sources: tuple[tuple[str, str | None], ...] = ()


def read_script(source: bytes, name: str) -> ScriptFacts:
    """Read a Python source.

    Raises SyntaxError as the interpreter would.
    """
    try:
        tree = ast.parse(source, filename=name)
    except ValueError as error:  # NUL bytes, before Python 3.11.4
        raise SyntaxError(str(error)) from error
    modules, names = _imported(tree)
    return ScriptFacts(
        target=_target(modules, names),
        local_rank_option=_local_rank_option(tree),
        reads_ds_config=b"ZLAUNCH_DS_CONFIG" in source,
        imports=frozenset(modules),
        first_imports=first_imports(tree),
    )


def _local_rank_option(tree: ast.Module) -> str | None:
    """Find `add_argument("--local_rank")` and the like: a call whose argument is the option."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for arg in node.args:
                if isinstance(arg, ast.Constant) and arg.value in _LOCAL_RANK_SPELLINGS:
                    return str(arg.value)
    return None


def _imported(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The top names of imported modules; and the names imported from them or used of them."""
    modules: set[str] = set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules.add(node.module.split(".")[0])
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
    return modules, names


def _target(modules: set[str], names: set[str]) -> Target:
    """Who reads the ds_config: the HF Trainer, Accelerate, or the script itself.

    A script that imports transformers for its models only is not a Trainer script, so the
    name Trainer (or a class of that kind, as in trl) has to be imported or used.
    """
    if modules & {"transformers", "trl"} and any(name.endswith("Trainer") for name in names):
        return "hf"
    if "accelerate" in modules and "Accelerator" in names and not _calls_deepspeed(modules, names):
        return "accelerate"
    return "plain"


def _calls_deepspeed(modules: set[str], names: set[str]) -> bool:
    return "deepspeed" in modules and "initialize" in names
