"""The hostfile: one host a line, with its number of slots and how to reach it.

    # DeepSpeed's form, and zlaunch's keys
    gpu01 slots=8
    bob@gpu02 slots=8 address=10.0.0.2 port=2222   # the rack by the door
    fe80::1 slots=4 python=/opt/env/bin/python workdir="/data/my runs"
    node[01-16] slots=8                            # sixteen hosts

Every hostfile that DeepSpeed reads as it was meant is read alike. What DeepSpeed passed
over in silence (`slots=2junk`, `slots=0`) is an error here, with its line and column.
"""

from __future__ import annotations

import difflib
import re

from zlaunch.errors import HostfileError, SelectionError
from zlaunch.frozen import frozen
from zlaunch.spec.hostnames import NAME, USER, Host, expand, is_ipv6
from zlaunch.spec.slots import MAX_SLOTS

__all__ = ["Host", "is_ipv6", "parse_hostfile"]


def parse_hostfile(text: str, name: str) -> tuple[Host, ...]:
    """Read the hosts of `text` in their order; `name` is the file's, for messages."""
    hosts: dict[str, Host] = {}
    for number, content in enumerate(_NEWLINE.split(text.removeprefix("\ufeff")), start=1):
        line = _Line(name, number, content)
        for host in _parse_line(line):
            first = hosts.setdefault(host.name, host)
            if first is not host:
                again = f"on line {first.line} already, and again on line {number}"
                raise line.error(
                    len(content) - len(content.lstrip()),
                    f"host {host.name!r} is {again}",
                    f"keep one line for {host.name}; its slots= is the number of all its GPUs",
                )
    if not hosts:
        raise HostfileError(
            f"the hostfile {name} names no host",
            where=f"{name}:1:1",
            hint="write one host a line, such as: gpu01 slots=8",
        )
    return tuple(hosts.values())


_NEWLINE = re.compile(r"\r\n|\r|\n")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_WORD = re.compile(r"\S+")
_FIELD = re.compile(r"""([^\s=]+)=("[^"]*"|'[^']*'|[^\s"']\S*|)(?=\s|$)""")
_NUMBER = re.compile(r"[0-9]+")

_NUMBERS = {"slots": (1, MAX_SLOTS), "port": (1, 65535), "max_slots": (0, 999_999_999)}
_TEXTS = ("address", "user", "python", "workdir")
_KEYS = ("slots", *_TEXTS, "port")  # max_slots= is OpenMPI's: read, and not used
_EXPECTED = "expected slots=N, address=, port=, user=, python= or workdir="


@frozen
class _Line:
    """One line of the file, and how to point at it."""

    name: str
    number: int
    text: str

    def error(self, position: int, problem: str, hint: str) -> HostfileError:
        """Build the error for the character at `position`, counted from 0."""
        shown = self.text.strip()
        shown = f"{shown[:117]}..." if len(shown) > 120 else shown
        place = f"{self.name}:{self.number}:{position + 1}"
        return HostfileError(f"cannot read {shown!r}: {problem}", where=place, hint=hint)


@frozen
class _Field:
    """One `key=value` of a line, its quotes taken off, and where it starts."""

    key: str
    value: str
    start: int
    end: int


def _parse_line(line: _Line) -> tuple[Host, ...]:
    word = _WORD.search(line.text)
    if word is None or word[0].startswith("#"):
        return ()
    _refuse_control_characters(line)
    fields = _parse_fields(line, word.end())
    user, names = _parse_names(line, word[0], word.start())
    if "slots" not in fields:
        raise line.error(
            len(line.text.rstrip()),
            "expected slots=N, the number of the host's GPUs, and found none",
            f"add it to the line, such as: {word[0].rpartition('@')[2]} slots=8",
        )
    if len(names) > 1 and "address" in fields:
        raise line.error(
            fields["address"].start,
            f"address= is of one host, and {word[0]} stands for {len(names)}",
            "give each of them a line of its own, or leave address= out",
        )
    if user is not None and "user" in fields:
        raise line.error(
            fields["user"].start,
            f"the user is given twice, as {word[0]} and as user={fields['user'].value}",
            "keep one of the two",
        )
    numbers = {key: _number(line, fields[key]) for key in _NUMBERS if key in fields}
    texts = {key: _text(line, fields[key]) for key in _TEXTS if key in fields}
    texts.setdefault("user", user)
    slots, port = tuple(range(numbers["slots"])), numbers.get("port")
    return tuple(Host(name, slots, port=port, line=line.number, **texts) for name in names)


def _refuse_control_characters(line: _Line) -> None:
    control = _CONTROL.search(line.text)
    if control:
        problem = f"it holds the control character {control[0]!r}"
        raise line.error(control.start(), problem, "take the character out")


def _parse_names(line: _Line, word: str, start: int) -> tuple[str | None, tuple[str, ...]]:
    if word.startswith("slots="):
        raise line.error(start, f"expected a host name, found {word}", f"write: gpu01 {word}")
    user, at, host = word.rpartition("@")
    if at and not USER.fullmatch(user):
        raise line.error(start, f"expected user@host, found {word}", "write: bob@gpu01 slots=8")
    return user or None, _host_names(line, host, start + len(user) + len(at))


def _host_names(line: _Line, host: str, start: int) -> tuple[str, ...]:
    if not re.search(r"[\[\]]", host) or re.search(r":[0-9]+$", host):
        return (_host_name(line, host, start),)
    try:
        names = expand(host)
    except SelectionError as error:
        raise line.error(start, error.message, error.hint or "") from error
    return tuple(_host_name(line, name, start) for name in names)


def _host_name(line: _Line, host: str, start: int) -> str:
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if NAME.fullmatch(bare) or is_ipv6(bare):
        return bare
    name, colon, number = host.rpartition(":")
    if colon and _NUMBER.fullmatch(number):
        hint = f"write {name} slots={number} for that many GPUs, or port={number} for an SSH port"
    elif re.search(r"[\[\]*?,]", host):
        hint = "lists and patterns are not expanded: write one host or node[01-16] a line"
    else:
        hint = "a name is letters, digits, dots and hyphens, or an IPv4 or IPv6 address"
    raise line.error(start, f"expected a host name or address, found {host!r}", hint)


def _parse_fields(line: _Line, position: int) -> dict[str, _Field]:
    fields: dict[str, _Field] = {}
    while True:
        word = _WORD.search(line.text, position)
        if word is None or word[0].startswith("#"):
            return fields
        field = _parse_field(line, word)
        if field.key in fields:
            raise line.error(field.start, f"{field.key}= is given twice", "keep one of the two")
        fields[field.key] = field
        position = field.end


def _parse_field(line: _Line, word: re.Match[str]) -> _Field:
    match = _FIELD.match(line.text, word.start())
    if match is None:
        raise _not_a_field(line, word)
    key, value, end = match[1], match[2], match.end()
    if key not in _KEYS and key not in _NUMBERS:
        raise _unknown_key(line, word, key, value)
    if value[:1] in ('"', "'"):
        return _Field(key, value[1:-1], word.start(), end)
    if key in _NUMBERS and "#" in value:  # slots=8#comment, as DeepSpeed reads it
        value, end = value[: value.index("#")], len(line.text)
    if not value and _NUMBER.match(line.text[end:].lstrip()):
        raise _blanks(line, word, key)
    return _Field(key, value, word.start(), end)


def _not_a_field(line: _Line, word: re.Match[str]) -> HostfileError:
    found, start = word[0], word.start()
    if re.match(r"\s*=", line.text[word.end() :]) and "=" not in found:
        return _blanks(line, word, found)
    if re.match(r"""[^\s=]+=["']""", found):
        return line.error(
            start + found.index("=") + 1,
            f"expected one closing quote and then a blank after {found.partition('=')[0]}=",
            "put the whole value in \" or ' and a blank after it",
        )
    count = _NUMBER.fullmatch(found) and found.strip("0")
    hint = f"write: slots={found}" if count else "begin a comment with #"
    return line.error(start, f"{_EXPECTED}, found {found}", hint)


def _blanks(line: _Line, word: re.Match[str], key: str) -> HostfileError:
    value = re.match(r"\s*=?\s*(\S*)", line.text[word.start() + len(key) :])
    mend = f"{key.lower()}={value[1] if value else ''}"
    return line.error(word.start(), f"expected {mend} without blanks around =", f"write: {mend}")


def _unknown_key(line: _Line, word: re.Match[str], key: str, value: str) -> HostfileError:
    close = difflib.get_close_matches(key.lower(), _KEYS, n=1)
    if key.lower() in _KEYS:
        hint = f"keys are in lower case: write {key.lower()}={value}"
    elif close:
        hint = f"did you mean {close[0]}={value}?"
    else:
        hint = "slots=N is the number of the host's GPUs; begin a comment with #"
    return line.error(word.start(), f"{_EXPECTED}, found {key}=", hint)


def _number(line: _Line, field: _Field) -> int:
    low, high = _NUMBERS[field.key]
    digits = field.value.lstrip("0") or "0"
    plain = _NUMBER.fullmatch(field.value)
    if plain and len(digits) <= 9 and low <= int(digits) <= high:
        return int(digits)
    expected = f"{field.key}= and a whole number from {low} to {high}"
    raise line.error(
        field.start + len(field.key) + 1,
        f"expected {expected}, found {field.key}={field.value}",
        _mend(field),
    )


def _mend(field: _Field) -> str:
    key, value = field.key, field.value
    leading = _NUMBER.match(value)
    if key == "slots" and re.fullmatch(r"0+|-[0-9]+", value):
        return "to leave the host out, begin its line with #"
    if key == "slots" and re.fullmatch(r"[0-9]+[,-][0-9,-]+", value):
        return f"slots= is the number of all GPUs; choose among them with --include HOST:{value}"
    if leading and leading[0] != value and leading[0].strip("0"):
        return f"write: {key}={leading[0]}"
    if value.isdecimal() and not leading and len(value) < 10:
        return f"write it with the digits 0 to 9: {key}={int(value)}"
    return f"write it as {key}=8" if key != "port" else "SSH listens on port=22 as a rule"


def _text(line: _Line, field: _Field) -> str | None:
    value, start = field.value, field.start + len(field.key) + 1
    if not value or value.startswith("-"):
        problem = f"expected a value after {field.key}=, found {value!r}"
        raise line.error(start, problem, f"write a value, or leave {field.key}= out")
    if field.key == "address":
        return _host_name(line, value, start)
    if field.key == "user" and not USER.fullmatch(value):
        problem = f"expected a user name, found {value!r}"
        raise line.error(start, problem, "write the name by which you log in there")
    return value
