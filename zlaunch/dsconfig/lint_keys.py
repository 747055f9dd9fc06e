"""Lint: keys that DeepSpeed does not have, or not there, or not in this version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zlaunch.dsconfig.finding import Finding, Level, Look, said
from zlaunch.dsconfig.keys import REMOVED
from zlaunch.dsconfig.misnamed import MEANT
from zlaunch.dsconfig.schema import Field
from zlaunch.dsconfig.spelling import alike, nearest
from zlaunch.dsconfig.values import AUTO
from zlaunch.dsconfig.versions import (
    INSTEAD,
    LOG_LEVEL_SINCE,
    NEWEST_READ,
    ONCE_RIGHT,
    RENAMED,
    gone_with,
    since,
    spelled,
)

Path = tuple[str, ...]

# In so many sections that they say nothing.
_EVERYWHERE = frozenset({"enabled", "type", "params", "dtype"})
# Keys of one's own, which DeepSpeed leaves alone, and which nobody takes for its.
_REMARKS = ("_", "$", "/", "#", "x-")
_REMARK = frozenset({"comment", "comments", "note", "notes", "description", "name", "version"})
# Of tools that put their own sections into the same file.
_OF_OTHERS = frozenset({"msamp", "hf_deepspeed", "megatron"})


def check_keys(look: Look) -> Iterator[Finding]:
    """Every key of the config against the schema."""
    yield from _walk(look, look.config, look.schema.root, ())


def _walk(look: Look, table: Mapping[str, Any], section: Field, above: Path) -> Iterator[Finding]:
    for name, value in table.items():
        path = (*above, name)
        field = section.find(name)
        if field is None:
            if not section.open or _removed(path):
                yield from _unknown(look, section, path)
            continue
        yield from _deprecated(look, field, path)
        if isinstance(value, dict) and "section" in field.kinds:
            yield from _walk(look, value, field, path)


def _deprecated(look: Look, field: Field, path: Path) -> Iterator[Finding]:
    dotted = ".".join(path)
    if path == ("bfloat16",):
        if "bf16" in look.config:
            text = "bfloat16 is not read where bf16 is there"
            yield look.finds("warning", "useless-key", path, text, "take it out", at_value=False)
            return
        text = "bfloat16 is the old name of bf16"
        yield look.finds("note", "deprecated-key", path, text, "write bf16", at_value=False)
    if not field.deprecated:
        return
    if path[-1] == "cpu_offload_use_pin_memory":
        text = f"{dotted} has no effect any more"
        mend = "write pin_memory in offload_optimizer or offload_param"
        yield look.finds("warning", "useless-key", path, text, mend, at_value=False)
        return
    new = (*path[:-1], *field.new.split("."))
    section = look.schema.field(*path[:-1])
    current = section.find(field.new) if section is not None else None
    named = next((k for k, v in section.fields.items() if v is current), "") if section else ""
    written = [name for name in {named, field.new} if name and look.get(*path[:-1], name)]
    if written and look.get(*path) != AUTO:  # that one DeepSpeed drops
        text = f"{dotted} and {written[0]}, which replaces it, are both there: DeepSpeed refuses"
        mend = f"take {path[-1]} out"
        yield look.finds("error", "both-names", path, text, mend, at_value=False)
        return
    text = f"{dotted} is an old name; DeepSpeed takes it with a warning"
    better = named or ".".join(new)
    mend = f"write {_offload(better) if path[-1].startswith('cpu_offload') else better}"
    mend = "take it out" if look.get(*path) is False else mend
    yield look.finds("note", "deprecated-key", path, text, mend, at_value=False)


def _offload(name: str) -> str:
    return f'"{name}": {{"device": "cpu"}}'


def _unknown(look: Look, section: Field, path: Path) -> Iterator[Finding]:
    dotted, version = ".".join(path), look.schema.version
    in_model = section.lax
    reading = f"DeepSpeed {spelled(version)}"
    went, came = gone_with(path), since(path)
    level: Level
    if dotted in RENAMED and look.schema.field(*RENAMED[dotted].split(".")) is not None:
        new = RENAMED[dotted]
        when = f" since {spelled(went)}" if went else ""
        text = f"{dotted} is called {new}{when}, and is {_fate(in_model)} under its old name"
        level = _of_old_name(look, path, new)
        yield look.finds(level, "renamed-key", path, text, f"write {new}", at_value=False)
    elif _removed(path) and (went is None or went <= version):
        text = f"{dotted} was taken out of DeepSpeed{f' in {spelled(went)}' if went else ''}"
        mend = INSTEAD.get(dotted, "take it out")
        text += "" if in_model or went is None else f"; {reading} refuses a config that has it"
        yield look.finds("error", "removed-key", path, text, mend, at_value=False)
    elif came is not None and version < came:
        level = "error" if in_model else "warning"
        if dotted == "log_level" and version < LOG_LEVEL_SINCE:
            level = "note"  # it does no harm, and is wanted once DeepSpeed is newer
        text = f"{dotted} came with DeepSpeed {spelled(came)}; {reading} {_does(in_model)} it"
        mend = "take it out, or install a newer DeepSpeed"
        yield look.finds(level, "newer-key", path, text, mend, at_value=False)
    else:
        yield from _never_known(look, section, path, reading)


def _is_remark(name: str) -> bool:
    return name.startswith(_REMARKS) or name.lower() in _REMARK | _OF_OTHERS


def _of_old_name(look: Look, path: Path, new: str) -> Level:
    """A name that once was right does little harm, and none where it asks for the default."""
    if ".".join(path) not in ONCE_RIGHT:
        return "error"
    field, value = look.schema.field(*new.split(".")), look.get(*path)
    same = value is False or (field is not None and field.default == value)
    return "note" if same else "warning"


def _never_known(look: Look, section: Field, path: Path, reading: str) -> Iterator[Finding]:
    dotted, in_model = ".".join(path), section.lax
    name = path[-1]
    if not in_model and _is_remark(name):
        text = f"{reading} does not read {dotted}"
        yield look.finds("note", "unknown-key", path, text, at_value=False)
        return
    if dotted in MEANT:
        text = f"{reading} has no key {dotted}, and {_does(in_model)} it"
        mend = f"did you mean {MEANT[dotted]}?"
        yield look.finds("error", "unknown-key", path, text, mend, at_value=False)
        return
    if not name.strip():
        text = f"a key is empty{_in(path)}, and {reading} {_does(in_model)} it"
        level: Level = "error" if in_model else "warning"
        yield look.finds(
            level, "unknown-key", path, text, "name it, or take it out", at_value=False
        )
        return
    nested = _nested(look, section, path)
    if nested:
        text = f"{name} is one key with dots in its name, and {reading} {_does(in_model)} it"
        yield look.finds("error", "dotted-key", path, text, f"write {nested}", at_value=False)
        return
    near = nearest(name, _spellings(section))
    elsewhere = [] if near and alike(near, name.lower()) > 0.9 else _elsewhere(look, path)
    if elsewhere:
        text = f"{dotted} is not read here{_refused(in_model)}; the key belongs to another section"
        mend = f"move it to {' or '.join(elsewhere[:2])}"
        yield look.finds("error", "misplaced-key", path, text, mend, at_value=False)
        return
    close = [".".join((*path[:-1], near))] if near else _close_anywhere(look, path)
    text = f"{reading} has no key {dotted}, and {_does(in_model)} it"
    if not in_model and look.schema.version > NEWEST_READ:
        text = f"{dotted} is unknown to zlaunch, which knows DeepSpeed {spelled(NEWEST_READ)}"
        mend = f"did you mean {close[0]}?" if close else ""
        yield look.finds("warning", "unknown-key", path, text, mend, at_value=False)
    elif close:
        mend = f"did you mean {close[0]}?"
        yield look.finds("error", "unknown-key", path, text, mend, at_value=False)
    elif in_model:
        yield look.finds("error", "unknown-key", path, text, "take it out", at_value=False)
    else:
        mend = "take it out, unless another program reads it"
        yield look.finds("warning", "unknown-key", path, text, mend, at_value=False)


def _spellings(section: Field) -> list[str]:
    return [*section.fields, *(field.also for field in section.fields.values() if field.also)]


def _elsewhere(look: Look, path: Path) -> list[str]:
    """Where a key of exactly this name lives, the nearest section first."""
    name = path[-1]
    found = [
        known
        for known in look.schema.names()
        if known[-1] == name and known[:-1] != path[:-1] and known[0] != "bfloat16"
    ]
    if name in _EVERYWHERE:
        return []
    found.sort(key=lambda known: -_shared(known, path))
    return [".".join(known) for known in found]


def _shared(one: Path, other: Path) -> int:
    count = 0
    while count < min(len(one), len(other)) and one[count] == other[count]:
        count += 1
    return count


def _close_anywhere(look: Look, path: Path) -> list[str]:
    names = {
        known[-1]: ".".join(known)
        for known in look.schema.names()
        if len(known[-1]) > 5 and known[-1] not in _EVERYWHERE
    }
    near = nearest(path[-1], names, 0.85)
    return [names[near]] if near else []


def _nested(look: Look, section: Field, path: Path) -> str:
    """How a key with dots in its name is written: as sections in each other."""
    known: Field | None = section
    names = []
    for part in path[-1].split("."):
        fields = _spellings(known) if known is not None else []
        name = part if part in fields else nearest(part, fields)
        if known is None or name is None or not part:
            return ""
        names.append(name)
        known = known.find(name)
    if len(names) < 2:
        return ""
    value = look.get(*path)
    text = (
        "{...}" if isinstance(value, dict) else "[...]" if isinstance(value, list) else said(value)
    )
    for name in reversed(names[1:]):
        text = f'{{"{name}": {text}}}'
    return f'"{names[0]}": {text}'


def _in(path: Path) -> str:
    return f" in {'.'.join(path[:-1])}" if path[:-1] else ""


def _removed(path: Path) -> bool:
    return ".".join(path) in REMOVED


def _fate(in_model: bool) -> str:
    return "refused" if in_model else "not read"


def _refused(in_model: bool) -> str:
    return ", and DeepSpeed refuses it" if in_model else ""


def _does(in_model: bool) -> str:
    return "refuses" if in_model else "does not read"
