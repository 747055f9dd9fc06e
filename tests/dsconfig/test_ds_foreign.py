"""Configs of others are recognised and become the ds_config that they mean."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from zlaunch.dsconfig.foreign import import_config
from zlaunch.errors import ConfigError

CONFIG = {"train_batch_size": 32, "zero_optimization": {"stage": 2}, "gradient_clipping": 1.0}
JSON = json.dumps(CONFIG)
YAML = """\
# as some keep it
train_batch_size: 32
zero_optimization:
  stage: 2
gradient_clipping: 1.0
"""
HJSON = "train_batch_size: 32\nzero_optimization: {stage: 2}\ngradient_clipping: 1.0\n"


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        (JSON, "x", "JSON"),
        (f"\ufeff{JSON}", "x", "JSON"),
        ("{train_batch_size: 32, zero_optimization: {stage: 2}, gradient_clipping: 1.0}", *"xJ"),
        (base64.urlsafe_b64encode(JSON.encode()).decode(), "x", "base64"),
        (base64.b64encode(JSON.encode()).decode() + "\n", "x", "base64"),
        (YAML, "x", "YAML"),
        (f"---\n{YAML}", "x", "YAML"),
        (HJSON, "x", "YAML"),
        # what a file is called decides between two readings
        (HJSON, "ds.json", "JSON"),
        (HJSON, "ds.hjson", "JSON"),
        (JSON, "ds.yaml", "JSON"),
        ("{train_batch_size: 32, zero_optimization: {stage: 2}, gradient_clipping: 1.0}", *"yY"),
    ],
)
def test_recognised(text: str, name: str, kind: str) -> None:
    name, kind = {"y": "ds.yaml"}.get(name, name), {"J": "JSON", "Y": "YAML"}.get(kind, kind)
    found = import_config(text, name)
    assert (found.kind, found.config, found.findings) == (kind, CONFIG, ())


def test_an_empty_text() -> None:
    with pytest.raises(ConfigError, match="empty"):
        import_config("", "x")
    [finding] = import_config("# nothing\n", "x.yaml").findings
    assert (finding.level, finding.code) == ("error", "empty")


def found(text: str) -> list[tuple[str, str, str]]:
    """What is said of a YAML text: level, place, text."""
    findings = import_config(text, "x.yaml").findings
    places = [f"{one.place.line}:{one.place.column}" if one.place else "" for one in findings]
    return [(one.level, place, one.text) for one, place in zip(findings, places, strict=True)]


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("a: 1\nb: [1, 2\n", "3:1", "expected"),
        ("a: 1\nb: 2\na: 3\n", "3:1", 'the key "a" stands twice'),
        ("a:\n  b: 1\n  b: 2\n", "3:3", 'the key "b" stands twice'),
        ("a: !!python/object:os.system x\n", "1:4", "!!python/object:os.system"),
        ("!!python/object/apply:os.system [x]\n", "1:1", "!!python/object/apply:os.system"),
        ("a: !!binary aGk=\n", "1:4", "!!binary"),
        ("a: !!set {b, c}\n", "1:4", "!!set"),
        ("a: !mine 3\n", "1:4", "!mine"),
        ("a: !!int many\n", "1:4", "many is no int"),
        ("a: !!map 3\n", "1:4", "tagged"),
        ("1: a\n", "1:1", "the key 1 is a number to YAML"),
        ("on: a\n", "1:1", "the key on is true or false to YAML"),
        ("null: a\n", "1:1", "the key null is null to YAML"),
        ("2020-01-01: a\n", "1:1", "the key 2020-01-01 is no text"),
        ("? [a, b]\n: 1\n", "1:3", "is no text"),
        ("a: 1\n  b: 2\n", "2:4", "mapping values are not allowed"),
        ("a:\n\tb: 1\n", "2:1", "cannot start any token"),
        ("a: 1\n---\nb: 2\n", "2:1", "a second document begins here"),
        ("a: *b\n", "1:4", "undefined alias"),
        ("a: &a [*a]\n", "1:4", "contains itself"),
        ("a: &a\n  <<: *a\n", "1:4", ""),
        ("a: .inf\n", "1:4", ".inf is no finite number"),
        ("a: .NaN\n", "1:4", ".NaN is no finite number"),
        ("a: 1e999\n", "1:4", "1e999 is no finite number"),
        ("a: x\x07\n", "1:5", "cannot stand in YAML"),
        ("- a\n- b\n", "1:1", "one mapping"),
        ("just a text\n", "1:1", "one mapping"),
    ],
)
def test_what_cannot_be_read(text: str, place: str, word: str) -> None:
    errors = [one for one in found(text) if one[0] == "error"]
    assert errors, found(text)
    assert any(word in said and (at in (place, "")) for _, at, said in errors), errors


def test_a_bomb_of_aliases_is_refused_at_once() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    [(level, _, text)] = found("\n".join(lines))
    assert (level, text) == ("error", "this YAML is too large")


def test_deep_nesting_is_refused() -> None:
    for text in ("a: " + "[" * 5000 + "]" * 5000, "a: " + "{b: " * 300 + "1" + "}" * 300):
        [(level, _, said)] = found(text)
        assert (level, said) == ("error", "this YAML is nested too deeply")


@pytest.mark.parametrize(
    ("text", "value", "word"),
    [
        ("5e8", 5e8, "5e8 is a text to YAML 1.1"),
        ("1e-5", 1e-5, "1e-5 is a text to YAML 1.1"),
        ("-2.5E3", -2500.0, "is a text to YAML 1.1"),
        (".5e1", 5.0, "is a text to YAML 1.1"),
        ("010", 8, "010 is 8 to YAML 1.1"),
        ("1:30", 90, "1:30 is 90 to YAML 1.1"),
        ("2020-01-01", "2020-01-01", "is a date to YAML"),
        ("2001-12-14t21:59:43.10-05:00", "2001-12-14t21:59:43.10-05:00", "is a date to YAML"),
        ("12", 12, ""),
        ("1_000", 1000, ""),
        ("0x10", 16, ""),
        ("0", 0, ""),
        ("1.0e+8", 1e8, ""),
        ("'1e-5'", "1e-5", ""),
        ("'010'", "010", ""),
        ("!!str 5", "5", ""),
        ("0o10", "0o10", ""),
        ("auto", "auto", ""),
        ("true", True, ""),
        ("~", None, ""),
        ("", None, ""),
    ],
)
def test_values_are_what_pyyaml_reads_or_it_is_said(text: str, value: Any, word: str) -> None:
    said = found(f"a: {text}\n")
    config = import_config(f"a: {text}\n", "x.yaml").config
    assert config == {"a": value}
    assert type(config["a"]) is type(value)
    assert [word in one[2] for one in said] == ([True] if word else [])


def test_switches_where_a_word_is_wanted() -> None:
    text = "zero_optimization:\n  overlap_comm: yes\n  offload_param:\n    device: off\n"
    config = import_config(text, "x.yaml").config["zero_optimization"]
    assert config == {"overlap_comm": True, "offload_param": {"device": False}}
    assert found(text) == [("warning", "4:13", "off is false to YAML, and not a word")]


def test_anchors_and_merged_keys() -> None:
    text = """\
base: &base {device: cpu, pin_memory: true}
other: &other {device: nvme, nvme_path: /x}
a: *base
b: {<<: *base, device: none}
c:
  device: cpu
  <<: [*base, *other]
"""
    document = import_config(text, "x.yaml").document
    assert document.value["a"] == {"device": "cpu", "pin_memory": True}
    assert document.value["b"] == {"device": "none", "pin_memory": True}
    assert document.value["c"] == {"device": "cpu", "pin_memory": True, "nvme_path": "/x"}
    place = document.place(("b", "device"), of_value=True)
    assert place is not None
    assert (place.line, place.column) == (4, 24)


def test_places_are_those_of_the_text() -> None:
    document = import_config(f"---\n{YAML}", "x").document
    place = document.place(("zero_optimization", "stage"), of_value=True)
    assert place is not None
    assert (place.line, place.column) == (5, 10)
