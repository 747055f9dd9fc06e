"""Which hosts and slots of a hostfile a run uses: --include, --exclude, --num-nodes, --num-gpus.

A filter is `NODE[@NODE...]` where NODE is `NAME[:SLOT[,SLOT...]]`, as DeepSpeed 0.19.8
reads it: `w0@w1:0,2` is all of w0 and two slots of w1. Beyond DeepSpeed, `w0:0-3` is a
range and `[fe80::1]:0,1` an IPv6 address.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import replace

from zlaunch.errors import SelectionError
from zlaunch.frozen import frozen
from zlaunch.spec.hostfile import Host, is_ipv6
from zlaunch.spec.slots import Slot, format_slots, parse_slots


@frozen
class Mention:
    """One NODE of a filter; `slots` None means all of them."""

    name: str
    slots: tuple[Slot, ...] | None


def select_hosts(
    hosts: Sequence[Host],
    *,
    include: str | None = None,
    exclude: str | None = None,
    num_nodes: int | None = None,
    num_gpus: int | None = None,
    source: str | None = None,
    counted_by: str = "--num-gpus",
) -> tuple[Host, ...]:
    """Apply a filter or limits; both at once is an error.

    `source` is the hostfile's name, `counted_by` the option that gave `num_gpus`.
    """
    filters = _given({"--include": include, "--exclude": exclude})
    limits = _given({"--num-nodes": num_nodes, counted_by: num_gpus})
    if filters and limits:
        raise SelectionError(
            f"{filters[0]} and {limits[0]} cannot be given together",
            hint=f"a filter names the slots by itself: leave {limits[0]} out",
        )
    chosen = filter_hosts(hosts, include=include, exclude=exclude, source=source)
    return limit_hosts(
        chosen, num_nodes=num_nodes, num_gpus=num_gpus, source=source, counted_by=counted_by
    )


def filter_hosts(
    hosts: Sequence[Host],
    *,
    include: str | None,
    exclude: str | None,
    source: str | None = None,
) -> tuple[Host, ...]:
    """Keep what `include` names, or what `exclude` does not, in the hostfile's order.

    A bare name means all slots of that host, also where another mention names some of
    them: `w1:0@w1` is all of w1 (DeepSpeed loses the bare mention). A host left without
    slots drops out; nothing left at all is an error.
    """
    if include is not None and exclude is not None:
        raise SelectionError(
            "--include and --exclude cannot be given together",
            hint="--include w0:0,1 alone already leaves out everything else",
        )
    option, text = ("--exclude", exclude) if include is None else ("--include", include)
    if text is None:
        kept = tuple(hosts)
    else:
        named = _named(hosts, parse_filter(text, option), option, source)
        kept = tuple(_keep(host, named, option == "--include") for host in hosts)
    kept = tuple(host for host in kept if host.slots)
    if not kept:
        raise SelectionError(
            f"{option} {text!r} leaves no slot of any host" if text else "there is no host to use",
            hint="leave at least one slot to run on",
        )
    return kept


def limit_hosts(
    hosts: Sequence[Host],
    *,
    num_nodes: int | None,
    num_gpus: int | None,
    source: str | None = None,
    counted_by: str = "--num-gpus",
) -> tuple[Host, ...]:
    """Keep the first `num_nodes` hosts, and the first `num_gpus` slots of each."""
    for option, number in (("--num-nodes", num_nodes), (counted_by, num_gpus)):
        if number is not None and number < 1:
            raise SelectionError(
                f"{option} {number} is less than 1", hint=f"leave {option} out to use all"
            )
    if num_nodes is not None and num_nodes > len(hosts):
        raise SelectionError(
            f"--num-nodes {num_nodes} asks for more than the {len(hosts)} hosts of "
            f"{source or 'the hostfile'}",
            hint=f"add hosts to it, or ask for at most {len(hosts)}",
        )
    return tuple(_first_slots(host, num_gpus, source, counted_by) for host in hosts[:num_nodes])


def parse_filter(text: str, option: str) -> tuple[Mention, ...]:
    """Read a filter; repeated names are kept apart. `option` begins the messages."""
    return tuple(_parse_node(part.strip(), text, option) for part in text.split("@"))


def _parse_node(part: str, text: str, option: str) -> Mention:
    if part.startswith("["):
        name, closed, rest = part[1:].partition("]")
        colon, slots = rest[:1], rest[1:]
        well_formed = bool(closed) and colon in ("", ":")
    elif is_ipv6(part):
        return Mention(part, None)
    else:
        name, colon, slots = part.partition(":")
        well_formed = ":" not in slots
    if not well_formed:
        raise SelectionError(
            f"{option} {text!r} cannot be read at {part!r}: expected HOST or HOST:SLOT,SLOT",
            hint="put an IPv6 address in brackets: [fe80::1]:0,1",
        )
    if not name.strip():
        raise SelectionError(
            f"{option} {text!r} has no host name at {part!r}",
            hint="write HOST or HOST:SLOT,SLOT, with @ between hosts: w0@w1:0,2",
        )
    return Mention(name.strip(), parse_slots(slots, f"{option} {name}:") if colon else None)


def _given(options: dict[str, str | None] | dict[str, int | None]) -> list[str]:
    return [option for option, value in options.items() if value is not None]


def _named(
    hosts: Sequence[Host], mentions: Sequence[Mention], option: str, source: str | None
) -> dict[str, set[Slot]]:
    """Collect the slots that each host is named with, all of them known to exist."""
    pool = {host.name: host for host in hosts}
    named: dict[str, set[Slot]] = {}
    for mention in mentions:
        host = pool.get(mention.name)
        if host is None:
            raise _unknown_host(mention.name, pool, option, source)
        for slot in mention.slots or ():
            if slot not in host.slots:
                raise _no_slot(host, slot, option, source)
        wanted = host.slots if mention.slots is None else mention.slots
        named.setdefault(host.name, set()).update(wanted)
    return named


def _keep(host: Host, named: dict[str, set[Slot]], including: bool) -> Host:
    marked = named.get(host.name, set())
    return replace(host, slots=tuple(s for s in host.slots if (s in marked) is including))


def _first_slots(host: Host, count: int | None, source: str | None, option: str) -> Host:
    if count is None:
        return host
    if count > len(host.slots):
        raise SelectionError(
            f"{option} {count} asks for more than the {len(host.slots)} slots of host "
            f"{host.name!r}",
            where=_place(host, source),
            hint=f"{_more(host, source)}ask for at most {len(host.slots)}",
        )
    return replace(host, slots=host.slots[:count])


def _unknown_host(
    name: str, pool: dict[str, Host], option: str, source: str | None
) -> SelectionError:
    users = [host for host in pool.values() if host.user == name]
    close = difflib.get_close_matches(name, pool, n=1)
    if users:
        hint = f"@ stands between hosts here: write {users[0].name} without {name}@"
    elif close:
        hint = f"did you mean {close[0]}?"
    else:
        few = list(pool)[:8]
        hint = f"its hosts are {', '.join(few)}{' ...' if len(pool) > len(few) else ''}"
    return SelectionError(
        f"{option} names host {name!r}, which is not in {source or 'the hostfile'}", hint=hint
    )


def _no_slot(host: Host, slot: Slot, option: str, source: str | None) -> SelectionError:
    return SelectionError(
        f"{option} asks for slot {slot} of host {host.name!r}, "
        f"which has {len(host.slots)} (slots {format_slots(host.slots)})",
        where=_place(host, source),
        hint="choose among those"
        if _is_grant(host, source)
        else f"slots= is the number of all GPUs of {host.name}: raise it if there are more",
    )


def _more(host: Host, source: str | None) -> str:
    return "" if _is_grant(host, source) else "raise its number of slots, or "


def _is_grant(host: Host, source: str | None) -> bool:
    """Whether a scheduler gave the host: its slots stand in no line, and are no matter of ours."""
    return host.line is None and source is not None


def _place(host: Host, source: str | None) -> str | None:
    return f"{source or 'hostfile'}:{host.line}" if host.line is not None else source
