"""What is hidden, and what only looks as if it should be."""

from __future__ import annotations

import pytest

from zlaunch.spec.redact import (
    HIDDEN,
    is_secret,
    redact_arguments,
    redact_environment,
    redact_shell,
)


@pytest.mark.parametrize(
    "name",
    [
        "WANDB_API_KEY",
        "HF_TOKEN",
        "hf_token",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "Key",
        "TOKENS",
        "DB_PWD",
        "SMTP_PASS",
        "MYSQL_PASSWD",
        "SESSION_COOKIE",
    ],
)
def test_secret_names(name: str) -> None:
    assert is_secret(name)
    assert redact_environment({name: "value", "PATH": "/bin"}) == {name: HIDDEN, "PATH": "/bin"}


@pytest.mark.parametrize(
    "name", ["PATH", "HOME", "RANK", "NCCL_DEBUG", "PWD", "OLDPWD", "COMPASS", ""]
)
def test_ordinary_names(name: str) -> None:
    assert not is_secret(name)
    assert redact_environment({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (["--api-key", "abc"], ["--api-key", HIDDEN]),
        (["--api_key", "abc", "x"], ["--api_key", HIDDEN, "x"]),
        (["--api-key=abc=d"], [f"--api-key={HIDDEN}"]),
        (["--hub.token=abc"], [f"--hub.token={HIDDEN}"]),
        (["--hub_token", ""], ["--hub_token", HIDDEN]),
        (["--Password", "p w"], ["--Password", HIDDEN]),
        (["--passwd=x", "--secret=y"], [f"--passwd={HIDDEN}", f"--secret={HIDDEN}"]),
        (["HF_TOKEN=abc"], [f"HF_TOKEN={HIDDEN}"]),
        (["my_key=abc"], [f"my_key={HIDDEN}"]),
        (["--token", "--token", "abc"], ["--token", "--token", HIDDEN]),
    ],
)
def test_hidden(argv: list[str], shown: list[str]) -> None:
    assert redact_arguments(argv, {}) == tuple(shown)


@pytest.mark.parametrize(
    "argv",
    [
        ["--tokenizer", "gpt2"],
        ["--tokenizer=gpt2"],
        ["--max-tokens", "512"],
        ["--max_new_tokens=512"],
        ["--keyboard=us", "--monkey", "x"],
        ["token", "abc"],  # a word, not an option
        ["-k", "abc"],
        ["key value=1"],
        ["--use-token", "--lr"],  # a flag, and the next option
        ["a=b", "=", "", "--", "--x="],
    ],
)
def test_shown(argv: list[str]) -> None:
    assert redact_arguments(argv, {}) == tuple(argv)


def test_values_of_secret_variables_are_hidden_wherever_they_stand() -> None:
    env = {"HF_TOKEN": "hf_abcdef", "WANDB_API_KEY": "0", "USE_KEY": "true", "HOME": "/home/me"}
    argv = ["https://me:hf_abcdef@hub", "hf_abcdefhf_abcdef", "--bf16=true", "10", "/home/me"]
    hidden = (f"https://me:{HIDDEN}@hub", HIDDEN * 2, "--bf16=true", "10", "/home/me")
    assert redact_arguments(argv, env) == hidden


def test_a_value_that_contains_another_leaves_no_rest() -> None:
    for env in (
        {"A_KEY": "abcdef", "B_KEY": "abcdefSECRETREST"},
        {"B_KEY": "abcdefSECRETREST", "A_KEY": "abcdef"},
    ):
        (shown,) = redact_arguments(["abcdefSECRETREST"], env)
        assert "SECRETREST" not in shown


def test_of_a_command_for_the_shell_secrets_are_hidden_word_by_word() -> None:
    env = {"MY_TOKEN": "open-sesame"}
    shown = {
        "notify-send 'over'  $X": "notify-send 'over'  $X",
        "curl -d x https://hooks.example.com/T0/B0/xyz": "curl -d x https://hooks.example.com/***",
        'curl "https://me:pw@h.org/a?b=c" -s': 'curl "https://me:***@h.org/***" -s',
        "curl https://h.org": "curl https://h.org",
        "curl -H 'Authorization: Bearer abc123'": "curl -H 'Authorization: Bearer ***",
        "curl -u me:pw http://h/": "curl -u *** http://h/",
        "API_KEY=abc tell --token abc --to me": "API_KEY=*** tell --token *** --to me",
        "tell open-sesame": "tell ***",
    }
    assert {command: redact_shell(command, env) for command in shown} == shown
