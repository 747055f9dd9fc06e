"""Hosts and their names: ranges of names, and the hosts of --hosts.

    node[01-16]        sixteen names, zeros kept
    gpu[1,3-5]-ib      gpu1-ib gpu3-ib gpu4-ib gpu5-ib
    a[1-2]b[1-2]       a1b1 a1b2 a2b1 a2b2: the left varies slowest
    a,b:4,bob@node[01-03]:8,[fd00::1]:2      for --hosts, the number of slots behind the colon

Travels to the agent with the hostfile, so it stays within Python 3.9.
"""

from __future__ import annotations

import ipaddress
import itertools
import math
import re
from collections.abc import Iterator

from zlaunch.errors import SelectionError
from zlaunch.frozen import frozen
from zlaunch.spec.slots import MAX_SLOTS, Slot

MAX_NAMES = 4096  # more hosts than that are a slip of the hand

NAME = re.compile(r"\w[\w.\-]*")
USER = re.compile(r"[\w.][\w.@\\+$\-]*")

_GROUP = re.compile(r"(\[[^\[\]]*\])")
_PART = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")
_IPV6 = "write an IPv6 address and its slots as [fd00::1]:4"
_COMMA = re.compile(r",(?![^\[\]]*\])")  # one that is not inside brackets


@frozen
class Host:
    """A machine and its slots; `name` is without user and brackets, `line` in its hostfile.

    Empty `slots` stand for all devices of the host, as many as it turns out to have.
    """

    name: str
    slots: tuple[Slot, ...]
    user: str | None = None
    address: str | None = None
    port: int | None = None
    python: str | None = None
    workdir: str | None = None
    line: int | None = None


def is_ipv6(text: str) -> bool:
    """Tell whether `text` is an IPv6 address, without brackets; a zone is allowed."""
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def expand(text: str) -> tuple[str, ...]:
    """Return the names that `text` stands for.

    A name without a range stands for itself, and so does an IPv6 address in brackets.
    """
    if text[:1] == "[" and text[-1:] == "]" and is_ipv6(text[1:-1]):
        return (text,)
    pieces = _GROUP.split(text)
    _refuse_stray_brackets(text, pieces[::2])
    groups = [_ranges(text, group[1:-1]) for group in pieces[1::2]]
    count = math.prod(sum(len(numbers) for numbers, _ in group) for group in groups)
    if count > MAX_NAMES:
        raise _bad(text, f"it stands for {count} names, more than {MAX_NAMES}", "shorten the range")
    choices = [[piece] for piece in pieces]
    choices[1::2] = [list(_written(group)) for group in groups]
    names = tuple("".join(choice) for choice in itertools.product(*choices))
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise _bad(text, f"it stands for {twice} twice", "name each host once")
    return names


def parse_hosts(text: str, default_slots: int | None = None) -> tuple[Host, ...]:
    """Read the value of --hosts, `[USER@]NAME[:SLOTS],...`, in the order typed.

    A host without :SLOTS gets `default_slots`; without those, its slots stay empty.
    """
    hosts: dict[str, Host] = {}
    for item in (part.strip() for part in _COMMA.split(text)):
        for host in _parse_item(item, default_slots):
            if host.name in hosts:
                raise _unreadable(item, f"host {host.name!r} is named twice", "name it once")
            hosts[host.name] = host
        if len(hosts) > MAX_NAMES:
            raise _unreadable(item, f"with it there are over {MAX_NAMES} hosts", "name fewer")
    return tuple(hosts.values())


def _refuse_stray_brackets(text: str, literals: list[str]) -> None:
    if not text:
        raise _bad(text, "a name is missing", "write a name, such as node[01-16]")
    for literal in literals:
        if "[" in literal:
            raise _bad(text, "a bracket [ is not closed", "close it: node[01-16], without blanks")
        if "]" in literal:
            raise _bad(text, "a bracket ] was not opened", "write a range as node[01-16]")


def _ranges(text: str, group: str) -> list[tuple[range, int]]:
    """Read what is between brackets: numbers, and the digits that each is written with."""
    return [_range(text, group, part) for part in group.split(",")]


def _range(text: str, group: str, part: str) -> tuple[range, int]:
    match = _PART.fullmatch(part)
    if match is None:
        found = f"{part!r} in [{group}]" if part else f"nothing in [{group}]"
        hint = "write numbers and ranges of numbers, without blanks: node[1,3-5]"
        raise _bad(text, f"expected a number or a range, found {found}", hint)
    first, last = match[1], match[2] or match[1]
    numbers = range(int(first), int(last) + 1)
    if not numbers:
        raise _bad(text, f"the range {part} runs backwards", f"write {last}-{first}")
    padded = first.startswith("0") and len(first) > 1
    if (padded and len(last) < len(first)) or (last.startswith("0") and len(last) > len(first)):
        width = max(len(first), len(last))
        mend = f"write {first.zfill(width)}-{last.zfill(width)}, or no zeros in front"
        raise _bad(text, f"the range {part} has zeros in front of one of its ends", mend)
    return numbers, len(first) if padded else 0


def _written(group: list[tuple[range, int]]) -> Iterator[str]:
    for numbers, width in group:
        for number in numbers:
            yield str(number).zfill(width)


def _parse_item(item: str, default_slots: int | None) -> tuple[Host, ...]:
    user, at, rest = item.rpartition("@")
    if at and not USER.fullmatch(user):
        raise _unreadable(item, "expected USER@NAME", "write a user as bob@gpu01")
    names, count = _split_slots(item, rest)
    slots = tuple(range((default_slots or 0) if count is None else _slots(item, count)))
    return tuple(Host(name, slots, user=user or None) for name in names)


def _split_slots(item: str, text: str) -> tuple[tuple[str, ...], str | None]:
    address, closed, count = text[1:].partition("]")
    if text.startswith("[") and closed and is_ipv6(address):
        if count and not count.startswith(":"):
            raise _unreadable(
                item, f"expected nothing or :SLOTS behind ], found {_shown(count)}", _IPV6
            )
        return (address,), count[1:] if count else None
    if is_ipv6(text):
        return (text,), None
    name, colon, count = text.partition(":")
    try:
        names = expand(name)
    except SelectionError as error:
        raise _unreadable(item, error.message, error.hint or "") from error
    for each in names:
        if each.isdecimal():
            hint = "to choose devices, write --hosts NAME and --include NAME:0,2"
            raise _unreadable(item, f"{each} is a number and not the name of a host", hint)
        if not NAME.fullmatch(each):
            hint = "a name is letters, digits, dots and hyphens, or an IPv4 or IPv6 address"
            raise _unreadable(item, f"expected a host name or address, found {each!r}", hint)
    return names, count if colon else None


def _slots(item: str, count: str) -> int:
    digits = count.lstrip("0")
    if re.fullmatch(r"[0-9]{1,9}", digits) and 1 <= int(digits) <= MAX_SLOTS:
        return int(digits)
    if ":" in count:
        hint = _IPV6
    else:
        hint = "it is a number of GPUs; an SSH port goes into a hostfile (port=) or ~/.ssh/config"
    expected = f"expected a number of slots from 1 to {MAX_SLOTS}"
    raise _unreadable(item, f"{expected} behind the colon, found {_shown(count)}", hint)


def _bad(text: str, problem: str, hint: str) -> SelectionError:
    return SelectionError(f"host name {_shown(text)}: {problem}", hint=hint)


def _unreadable(item: str, problem: str, hint: str) -> SelectionError:
    return SelectionError(f"--hosts cannot be read at {_shown(item)}: {problem}", hint=hint)


def _shown(text: str) -> str:
    return repr(f"{text[:77]}..." if len(text) > 80 else text)
