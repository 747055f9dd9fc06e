"""Reads YAML as PyYAML does, keeps where everything stands, and says what is not as it looks.

PyYAML reads YAML 1.1, where `010` is eight, `no` is false and `1e-5` is a text. Whoever reads the
file by other means than zlaunch gets just that, so it is what counts here as well, with two
exceptions that are told: a number is a number, and a date is the text that was typed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

from zlaunch.dsconfig.document import Document, Position, Where
from zlaunch.dsconfig.finding import Finding, Level
from zlaunch.dsconfig.keypath import kind_of

_TAG = "tag:yaml.org,2002:"
_MERGE = f"{_TAG}merge"
_SCALARS = frozenset({f"{_TAG}{kind}" for kind in ("str", "int", "float", "bool", "null", "value")})
_DATE = f"{_TAG}timestamp"
# A few lines of aliases to aliases can stand for more than memory holds.
_MOST_NODES = 50_000
_DEEPEST = 100

_NUMBER = re.compile(r"[-+]?([0-9][0-9_]*\.?[0-9_]*|\.[0-9_]+)[eE][-+]?[0-9]+")
_OCTAL = re.compile(r"[-+]?0[0-7_]*[1-7][0-7_]*")
_SWITCHES = frozenset({"yes", "no", "on", "off"})
_KINDS = {"int": "a number", "float": "a number", "bool": "true or false", "null": "null"}


class _UnreadableError(Exception):
    def __init__(self, code: str, mark: Any, text: str, mend: str = "") -> None:
        super().__init__(text)
        self.finding = Finding(code, "error", "", _position(mark), text, mend)


def read_yaml(text: str) -> tuple[Document, tuple[Finding, ...]]:
    """The document that `text` holds, and what has to be said of it. Never raises.

    What cannot be read is a finding with the level error, and the document is not complete.
    """
    import yaml

    try:
        reader = _Reader(yaml.SafeLoader(text))
        value = reader.root()
    except _UnreadableError as error:
        return _nothing(error.finding)
    except yaml.MarkedYAMLError as error:
        return _nothing(_of_yaml(error))
    except yaml.reader.ReaderError as error:
        place = _at(text, error.position)
        words = f"the character {error.character!r} cannot stand in YAML"
        return _nothing(Finding("syntax", "error", "", place, words, "take it out"))
    except RecursionError:
        return _nothing(Finding("syntax", "error", "", None, "this YAML is nested too deeply"))
    if not isinstance(value, dict):
        words = "a config in YAML is one mapping of keys"
        wrong = Finding("not-an-object", "error", "", reader.values.get(()), words)
        return _nothing(wrong)
    return Document(value, reader.keys, reader.values), tuple(reader.findings)


def _nothing(finding: Finding) -> tuple[Document, tuple[Finding, ...]]:
    return Document(None, complete=False), (finding,)


def _of_yaml(error: Any) -> Finding:
    mark = error.problem_mark or error.context_mark
    problem, mend = f"this YAML cannot be read: {error.problem}", ""
    if "\\t" in str(error.problem):
        mend = "YAML is indented with spaces"
    elif error.problem == "but found another document":
        problem, mend = "a second document begins here, and a config is one", "take one of them out"
    return Finding("syntax", "error", "", _position(mark), problem, mend)


def _position(mark: Any) -> Position | None:
    return Position(mark.line + 1, mark.column + 1) if mark is not None else None


def _at(text: str, index: int) -> Position:
    before = text[:index]
    return Position(before.count("\n") + 1, index - (before.rfind("\n") + 1) + 1)


class _Reader:
    """From nodes to values; each node is taken for what the safe loader makes of it."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader
        self.keys: dict[Where, Position] = {}
        self.values: dict[Where, Position] = {}
        self.findings: list[Finding] = []
        self.open: list[Any] = []
        self.nodes = 0

    def root(self) -> Any:
        """The value of the only document."""
        node = self.loader.get_single_node()
        if node is None:
            raise _UnreadableError("empty", None, "this YAML is empty", "write at least one key")
        return self.value(node, ())

    def value(self, node: Any, where: Where) -> Any:
        """The value of a node."""
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            mend = "write out what the aliases stand for"
            raise _UnreadableError("syntax", node.start_mark, "this YAML is too large", mend)
        if len(where) > _DEEPEST:
            raise _UnreadableError("syntax", node.start_mark, "this YAML is nested too deeply")
        if any(node is above for above in self.open):
            raise _UnreadableError("syntax", node.start_mark, "this YAML contains itself")
        self._place(self.values, where, node)
        if node.tag in (f"{_TAG}map", f"{_TAG}seq"):
            self.open.append(node)
            inner = self._mapping if node.tag.endswith("map") else self._list
            found = inner(node, where)
            self.open.pop()
            return found
        return self._scalar(node, where)

    def _place(self, places: dict[Where, Position], where: Where, node: Any) -> None:
        places[where] = Position(node.start_mark.line + 1, node.start_mark.column + 1)

    def _say(self, level: Level, code: str, where: Where, node: Any, text: str, mend: str) -> None:
        path = ".".join(map(str, where))
        self.findings.append(Finding(code, level, path, _position(node.start_mark), text, mend))

    # Sections and lists

    def _list(self, node: Any, where: Where) -> list[Any]:
        self._expect(node, "sequence")
        return [self.value(item, (*where, index)) for index, item in enumerate(node.value)]

    def _mapping(self, node: Any, where: Where) -> dict[str, Any]:
        """Keys that are merged in (`<<: *base`) give way to those that are written."""
        self._expect(node, "mapping")
        table: dict[str, Any] = {}
        for source in reversed(list(self._merged(node))):
            table.update(self._mapping(source, where))
        written: set[str] = set()
        for key_node, value_node in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self._key(key_node, where)
            path = (*where, key)
            if key in written:
                text = f'the key "{key}" stands twice, and YAML takes the last one'
                self._say("error", "duplicate-key", path, key_node, text, "take one of them out")
            written.add(key)
            self._place(self.keys, path, key_node)
            table[key] = self.value(value_node, path)
        return table

    def _merged(self, node: Any) -> Iterator[Any]:
        for key_node, value_node in node.value:
            if key_node.tag != _MERGE:
                continue
            listed = value_node.tag == f"{_TAG}seq" and isinstance(value_node.value, list)
            for source in value_node.value if listed else [value_node]:
                if source.tag != f"{_TAG}map":
                    text = "<< is followed by a mapping, or a list of them"
                    raise _UnreadableError("syntax", source.start_mark, text)
                self.nodes += 1
                yield source

    def _key(self, node: Any, where: Where) -> str:
        if node.tag in (f"{_TAG}str", f"{_TAG}value"):
            return str(node.value)
        raw = node.value if isinstance(node.value, str) else "this"
        kind = _KINDS.get(node.tag.removeprefix(_TAG), "no text")
        text = f"the key {raw} is {kind} to YAML, not a text"
        self._say("error", "key-no-text", (*where, raw), node, text, "put it in quotes")
        return raw

    def _expect(self, node: Any, kind: str) -> None:
        if node.id != kind:  # an explicit tag that does not fit
            raise _UnreadableError("syntax", node.start_mark, f"this is tagged {node.tag} wrongly")

    # Single values

    def _scalar(self, node: Any, where: Where) -> Any:
        if node.id != "scalar" or node.tag not in _SCALARS | {_DATE}:
            tag = node.tag.replace(_TAG, "!!")
            text = f"{tag} is nothing that a ds_config can hold"
            raise _UnreadableError("syntax", node.start_mark, text, "write the plain value")
        raw, plain = node.value, node.style is None
        if node.tag == _DATE:
            text = f"{raw} is a date to YAML; it is taken as the text"
            self._say("note", "yaml-date", where, node, text, "put it in quotes")
            return raw
        if node.tag == f"{_TAG}str":
            return self._text(node, where) if plain else raw
        try:
            value = self.loader.construct_object(node, deep=True)
        except (ValueError, KeyError, IndexError):
            text = f"{raw[:40]} is no {node.tag.removeprefix(_TAG)}"
            raise _UnreadableError("syntax", node.start_mark, text) from None
        if plain:
            self._looks_different(node, where, value)
        return self._finite(node, where, value)

    def _text(self, node: Any, where: Where) -> Any:
        """PyYAML takes 1e-5 for a text, since YAML 1.1 wants a dot and a sign; nobody means it."""
        raw = node.value
        if not _NUMBER.fullmatch(raw):
            return raw
        value = float(raw.replace("_", ""))
        text = f"{raw} is a text to YAML 1.1, which wants a dot and a sign; taken as the number"
        self._say("warning", "yaml-number", where, node, text, f"write {_spelled(value)}")
        return self._finite(node, where, value)

    def _finite(self, node: Any, where: Where, value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            text = f"{node.value} is no finite number, and JSON has no other"
            self._say("error", "nan", where, node, text, "write a number")
        return value

    def _looks_different(self, node: Any, where: Where, value: Any) -> None:
        raw = node.value
        if isinstance(value, bool):
            names = tuple(str(name) for name in where)
            kind = kind_of(names)
            if raw.lower() in _SWITCHES and kind not in (None, "bool", "any", "section"):
                text = f"{raw} is {str(value).lower()} to YAML, and not a word"
                self._say(
                    "warning", "yaml-switch", where, node, text, f'write "{raw}" for the word'
                )
        elif isinstance(value, (int, float)) and ":" in raw:
            text = f"{raw} is {value} to YAML 1.1, which counts in sixties there"
            self._say("warning", "yaml-number", where, node, text, "put a text in quotes")
        elif isinstance(value, int) and _OCTAL.fullmatch(raw):
            text = f"{raw} is {value} to YAML 1.1: a number that begins with 0 is octal"
            self._say("warning", "yaml-number", where, node, text, f"write {value}")


def _spelled(value: float) -> str:
    """A number as both YAML and people read it."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e16:
        return str(int(value))
    mantissa, e, exponent = repr(value).partition("e")
    dot = mantissa if "." in mantissa else f"{mantissa}.0"
    return f"{dot}{e}{exponent}"
