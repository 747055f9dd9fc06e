from __future__ import annotations

import base64
import contextlib
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zlaunch.dsconfig.source import parse_config
from zlaunch.errors import ConfigError, ZlaunchError

HJSON = """
{
  # comments and commas
  train_batch_size: 32   // no quotes
  zero_optimization: {stage: 2,},
}
"""


def test_json():
    assert parse_config('{"a": {"b": [1, 2.5, true, null, "x"]}}', "f.json") == {
        "a": {"b": [1, 2.5, True, None, "x"]}
    }
    assert parse_config("\ufeff{}", "f.json") == {}


def test_hjson():
    pytest.importorskip("hjson")
    config = parse_config(HJSON, "f.json")
    assert config == {"train_batch_size": 32, "zero_optimization": {"stage": 2}}
    assert type(config["zero_optimization"]) is dict


def test_without_hjson_the_place_and_the_way_out(monkeypatch):
    monkeypatch.setitem(sys.modules, "hjson", None)
    with pytest.raises(ConfigError) as caught:
        parse_config('{\n  "a": 1,\n}', "ds.json")
    assert caught.value.where in ("ds.json:3:1", "ds.json:2:9")
    assert "not JSON" in caught.value.message
    assert "comes with DeepSpeed" in caught.value.hint
    assert parse_config('{"a": 1}', "ds.json") == {"a": 1}


@pytest.mark.parametrize(
    ("text", "where", "message"),
    [
        ("", "f", "is empty"),
        (" \n\t", "f", "is empty"),
        ("[]", "f", "not a list"),
        ("3", "f", "not a number"),
        ("true", "f", "not true or false"),
        ("null", "f", "not null"),
        ('"x"', "f", "not plain text"),
        ('{"a": 1, "a": 2}', "f:1", 'the key "a" stands twice'),
        ('{"z": {\n"stage": 2,\n"stage": 3}}', "f:3", 'the key "stage" stands twice'),
        ('{"s": {"d": 1}, "t": {"d": 1}, "u": {"d": 1, "d": 2}}', "f", 'the key "d" stands twice'),
        ("{a: 1\na: 2}", "f", 'the key "a" stands twice'),
        ('{"a": 1', "f:1:8", "not JSON"),
        ('{"a": 1} x', "f:1:10", "not JSON"),
        ('{"a": NaN}', "f", "NaN is not a JSON value"),
        ('{"a": -Infinity}', "f", "-Infinity is not a JSON value"),
        ("[" * 100_000, "f", "not JSON"),
        (base64.b64encode(b'{"train_batch_size": 32}').decode(), "f", "this is base64"),
        (base64.urlsafe_b64encode(b' {"a": "\xff?>"}').decode(), "f", "this is base64"),
    ],
)
def test_what_is_no_config_is_named(text, where, message):
    pytest.importorskip("hjson")
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "f")
    assert message in caught.value.message
    assert caught.value.where == where
    assert caught.value.exit_code == 2


@settings(deadline=None)
@given(st.one_of(st.text(), st.text(alphabet='{}[]":,ab1\n#', max_size=30)))
def test_no_text_breaks_the_reader(text):
    with contextlib.suppress(ZlaunchError):
        assert isinstance(parse_config(text, "f"), dict)
