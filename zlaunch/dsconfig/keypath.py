"""Look-ups in the table of known ds_config keys: what a path holds, and what is near it."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Literal, TypeAlias

from zlaunch.dsconfig.keys import KEYS, REMOVED, Leaf, Tree

Path: TypeAlias = tuple[str, ...]
Kind: TypeAlias = Leaf | Literal["section"]

_SUGGESTIONS = 3


def kind_of(path: Path) -> Kind | None:
    """What the key at `path` holds; `None` where DeepSpeed knows no such key.

    A table of keys is a "section"; anything below an open section is "any".
    """
    node: Leaf | Tree = KEYS
    for name in path:
        if node == "any":
            return "any"
        if not isinstance(node, dict):
            return None
        found = node.get(name, node.get("*"))
        if found is None:
            return None
        node = found
    return "section" if isinstance(node, dict) else node


def known_paths() -> tuple[Path, ...]:
    """Every named key, sections included, in the order of the table."""
    return tuple(_walk(KEYS, ()))


def _walk(tree: Tree, above: Path) -> Iterator[Path]:
    for name, node in tree.items():
        if name == "*":
            continue
        yield (*above, name)
        if isinstance(node, dict):
            yield from _walk(node, (*above, name))


def removed(path: Path) -> bool:
    """Whether `path` is, or lies below, a key that DeepSpeed took out."""
    return any(".".join(path[:end]) in REMOVED for end in range(1, len(path) + 1))


def nearest(path: Path) -> tuple[str, ...]:
    """Up to three known keys that `path` may have meant, best first, in dotted form.

    A misspelt name in the right section comes before the same name in another section
    (`stage` is found as `zero_optimization.stage`), and that before a similar name anywhere.
    """
    known = {".".join(known): known for known in known_paths()}
    dotted, last = ".".join(path), path[-1]
    siblings = {parts[-1]: name for name, parts in known.items() if parts[:-1] == path[:-1]}
    close = difflib.get_close_matches(last, siblings, _SUGGESTIONS, 0.75)
    found = [siblings[name] for name in close]
    found += [name for name, parts in known.items() if parts[-1] == last]
    found += difflib.get_close_matches(dotted, known, _SUGGESTIONS, 0.75)
    for leaf in difflib.get_close_matches(last, {parts[-1] for parts in known.values()}, 3, 0.75):
        found += [name for name, parts in known.items() if parts[-1] == leaf]
    return tuple(dict.fromkeys(found))[:_SUGGESTIONS]
