"""`config explain`: what a key does, its default, what it costs, where it applies."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from zlaunch.dsconfig.explain_rest import REST
from zlaunch.dsconfig.explain_training import TRAINING
from zlaunch.dsconfig.explain_zero import ZERO, Said
from zlaunch.dsconfig.misnamed import MEANT
from zlaunch.dsconfig.schema import UNKNOWN, Field, Schema
from zlaunch.dsconfig.spelling import nearest, plain_form
from zlaunch.dsconfig.versions import RENAMED, gone_with, spelled
from zlaunch.frozen import frozen

Path = tuple[str, ...]

# Dotted key -> what is said of it.
TABLE: dict[str, Said] = {
    **TRAINING,
    **{".".join(filter(None, ("zero_optimization", key))): said for key, said in ZERO.items()},
    **REST,
}


@frozen
class Explanation:
    """One key. `written` is its value in the user's file, `UNKNOWN` where there is none."""

    path: str
    does: str
    cost: str
    stages: str
    default: Any
    kind: str
    written: Any = UNKNOWN

    def to_json(self) -> dict[str, Any]:
        """As data; what is not known is left out."""
        data = {"path": self.path, "does": self.does, "cost": self.cost, "kind": self.kind}
        data["stages"] = self.stages
        if self.default is not UNKNOWN:
            data["default"] = self.default
        if self.written is not UNKNOWN:
            data["written"] = self.written
        return {key: value for key, value in data.items() if value != ""}


def find_keys(text: str, schema: Schema) -> tuple[Path, ...]:
    """The keys that `text` may mean, by path or by name, in any case; a section's own with it."""
    path = tuple(plain_form(part) for part in text.strip().strip("\"'").strip(".").split("."))
    if not all(path):
        return ()
    meant = [path] if schema.field(*path) is not None else []
    meant = meant or [
        known
        for known in schema.names()
        if tuple(map(str.lower, known[-len(path) :])) == path and known[0] != "bfloat16"
    ]
    return tuple(one for found in meant for one in (found, *_below(found, schema)))


def _below(path: Path, schema: Schema) -> Iterator[Path]:
    field = schema.field(*path)
    yield from ((*path, name) for name in (field.fields if field is not None else ()))


def sections_with(paths: Sequence[Path]) -> list[str]:
    """The sections of keys that have one name; "the top" for those outside of one."""
    name = paths[0][-1] if paths else ""
    return [".".join(path[:-1]) or "the top" for path in paths if path[-1] == name]


def near_keys(text: str, schema: Schema) -> list[str]:
    """Keys that are spelled like `text`, or that others call so."""
    if text in MEANT or text in RENAMED:
        return [MEANT.get(text) or RENAMED[text]]
    lasts: dict[str, str] = {}
    for path in schema.names():
        lasts.setdefault(path[-1], ".".join(path))
    form = text.lower()
    close = difflib.get_close_matches(form, [".".join(path) for path in schema.names()], 2, 0.7)
    close += [lasts[one] for one in difflib.get_close_matches(form, lasts, 2, 0.7)]
    best = nearest(text, lasts)
    return list(dict.fromkeys([*([lasts[best]] if best else []), *close]))


def taken_out(text: str, schema: Schema) -> str | None:
    """What is to be said of a key that DeepSpeed had once; None where it is none of those."""
    went = gone_with(tuple(text.split(".")))
    if went is None or went > schema.version or text in RENAMED:
        return None
    return f"{text} was taken out of DeepSpeed in {spelled(went)}"


def explain(path: Path, schema: Schema, written: Any = UNKNOWN) -> Explanation:
    """What is known of a key that the schema has."""
    dotted = ".".join(path)
    does, cost, stages = TABLE.get(named(path), ("", "", ""))
    field = schema.field(*path) or Field(("any",))
    kind = " or ".join(field.kinds)
    if field.choices:
        kind = ", ".join(map(str, field.choices))
    default = field.default if not field.fields else UNKNOWN
    stages = stages or ("" if "section" in field.kinds else "0 1 2 3")
    return Explanation(dotted, does, cost, stages, default, kind, written)


def explain_config(config: Mapping[str, Any], schema: Schema) -> Iterator[Explanation]:
    """Every key of a config that DeepSpeed has, in its order."""
    yield from _walk(config, (), schema)


def _walk(table: Mapping[str, Any], above: Path, schema: Schema) -> Iterator[Explanation]:
    for name, value in table.items():
        path = (*above, name)
        if schema.field(*path) is None:
            continue
        if isinstance(value, Mapping):
            yield explain(path, schema)
            yield from _walk(value, path, schema)
        else:
            yield explain(path, schema, value)


def named(path: Path) -> str:
    """The name in the table: `bfloat16` is the old one of `bf16`."""
    return ".".join(("bf16", *path[1:]) if path[0] == "bfloat16" else path)
