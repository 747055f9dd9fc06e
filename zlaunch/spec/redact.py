"""Keeps secrets out of whatever is printed or saved."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

HIDDEN = "***"
_SECRET_NAME = re.compile(
    r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|COOKIE|_(?:PWD|PASS)$", re.IGNORECASE
)  # PWD itself and OLDPWD are directories
# For options whole words count, so that --tokenizer and --max-tokens stay readable.
_SECRET_WORDS = {
    "key", "apikey", "token", "secret", "password", "passwd", "passphrase", "pwd", "cookie",
    "cookies", "credentials",
}  # fmt: skip
_PASSWORD_IN_URL = re.compile(r"(://[^/\s:@]*:)[^@\s/]+(?=@)")
_PATH_IN_URL = re.compile(r"(://[^/\s\"'?#]+[/?#])[^\s\"']+")
# Words of a command before which a secret stands: `Authorization: Bearer ...`, `curl -u me:...`.
_CREDENTIALS = re.compile(r"bearer|basic|-u|--user", re.IGNORECASE)
_SHORTEST_SECRET = 6  # shorter values of secret names are words like "true" or "0"


def is_secret(name: str) -> bool:
    """Whether the variable `name` holds something that must be written nowhere."""
    return _SECRET_NAME.search(name) is not None


def redact_environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return `env` with the values of secret names hidden."""
    return {name: HIDDEN if is_secret(name) else value for name, value in env.items()}


def redact_arguments(argv: Iterable[str], env: Mapping[str, str]) -> tuple[str, ...]:
    """Hide secrets in an argument vector.

    Hidden are the value after `--some-key` (or `--some-key=`, `SOME_KEY=`), and the value of
    any secret variable of `env` wherever it stands inside an argument.
    """
    values = _secret_values(env)
    shown: list[str] = []
    previous = ""
    for arg in argv:
        shown.append(_redact_one(arg, previous, values))
        previous = arg
    return tuple(shown)


def redact_shell(command: str, env: Mapping[str, str]) -> str:
    """Hide secrets in a command for the shell, word by word.

    Of an address only the host stays: that of a webhook is a secret as a whole.
    """
    values = _secret_values(env)
    shown: list[str] = []
    previous = ""
    for piece in re.split(r"(\s+)", command):
        word = piece.strip()
        if word and _CREDENTIALS.fullmatch(previous):
            shown.append(HIDDEN)
        else:
            hidden = _redact_one(piece, previous, values) if word else piece
            shown.append(_PATH_IN_URL.sub(rf"\1{HIDDEN}", hidden))
        previous = word or previous
    return "".join(shown)


def secret_values(env: Mapping[str, str], names: Iterable[str] = ()) -> list[str]:
    """The values in `env` of variables with secret names, and of `names`."""
    wanted = set(names)
    return [value for name, value in env.items() if is_secret(name) or name in wanted]


def _secret_values(env: Mapping[str, str]) -> list[str]:
    return [value for value in secret_values(env) if len(value) >= _SHORTEST_SECRET]


def _redact_one(arg: str, previous: str, values: list[str]) -> str:
    if _names_secret(previous) and not arg.startswith("--"):
        return HIDDEN
    name, equals, _ = arg.partition("=")
    if equals and (_names_secret(name) or (name.isidentifier() and is_secret(name))):
        return f"{name}={HIDDEN}"
    for value in sorted(values, key=len, reverse=True):  # one may contain another
        arg = arg.replace(value, HIDDEN)
    return _PASSWORD_IN_URL.sub(rf"\1{HIDDEN}", arg)


def redact_values(data: Any, env: Mapping[str, str]) -> Any:
    """Hide the values of secret variables of `env` in the texts of JSON data."""
    values = _secret_values(env)
    if isinstance(data, dict):
        return {name: redact_values(value, env) for name, value in data.items()}
    if isinstance(data, list):
        return [redact_values(value, env) for value in data]
    return _redact_one(data, "", values) if isinstance(data, str) else data


def _names_secret(option: str) -> bool:
    words = re.split(r"[-_.]", option.lstrip("-").lower())
    return option.startswith("--") and not _SECRET_WORDS.isdisjoint(words)
