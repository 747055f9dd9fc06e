from __future__ import annotations

import base64

import pytest

from zlaunch.dsconfig.source import read_source
from zlaunch.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        (" \n\t", "is empty"),
        ("\ufeff", "is empty"),
        (base64.b64encode(b'{"train_batch_size": 32}').decode(), "this is base64"),
        (base64.urlsafe_b64encode(b' {"a": "\xff?>"}').decode(), "this is base64"),
    ],
)
def test_what_is_no_config_is_named(text, message):
    with pytest.raises(ConfigError) as caught:
        read_source(text, "f")
    assert message in caught.value.message
    assert caught.value.where == "f"
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("text", ["{}", "\ufeff{}", '{"a": 1}', "a: 1", "[" * 100_000, "{"])
def test_what_may_be_one_is_read(text):
    assert read_source(text, "f").oddities == () or text not in ("{}", "\ufeff{}", '{"a": 1}')
