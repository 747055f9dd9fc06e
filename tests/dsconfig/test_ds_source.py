from __future__ import annotations

import base64

import pytest

from zlaunch.dsconfig.source import is_base64, read_source
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


UNPADDED = base64.urlsafe_b64encode(b'{"train_batch_size": 8}').decode()


@pytest.mark.parametrize("text", [UNPADDED.rstrip("="), UNPADDED[:21], UNPADDED[:22] + "\n"])
def test_base64_that_nobody_decodes_is_named(text):
    """Neither DeepSpeed nor transformers takes it without its padding."""
    assert UNPADDED.endswith("=")
    with pytest.raises(ValueError, match=r"padding|data characters"):
        base64.urlsafe_b64decode(text.strip())
    with pytest.raises(ConfigError) as caught:
        read_source(text, "f")
    assert "base64 that is cut off, or lacks the = at its end" in caught.value.message


@pytest.mark.parametrize("text", ["e", "eyJ", "abcdefgh", "train_batch_size", "8", "true"])
def test_words_are_no_base64(text):
    assert not is_base64(text)


@pytest.mark.parametrize("text", ["{}", "\ufeff{}", '{"a": 1}', "a: 1", "[" * 100_000, "{"])
def test_what_may_be_one_is_read(text):
    assert read_source(text, "f").oddities == () or text not in ("{}", "\ufeff{}", '{"a": 1}')
