"""What could stand where the cursor is: (word, what it is), in the order to show them in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from zlaunch.errors import ZlaunchError
from zlaunch.spec import completion as kinds
from zlaunch.spec.completion import Wanted

if TYPE_CHECKING:
    from zlaunch.system.rundir import RunDir

Words = Iterator[tuple[str, str]]

_MOST = 100  # ids and names; nobody looks through more
_NAMED = 300  # of the newest runs are looked through for their names
_LONGEST = 60  # characters of what a recipe is for


def words_for(wanted: Wanted, env: Mapping[str, str]) -> Words:
    """Give the words of the wanted kind that go on from its beginning."""
    return (one for one in _all(wanted, env) if one[0].startswith(wanted.beginning))


def _all(wanted: Wanted, env: Mapping[str, str]) -> Words:
    kind, command = wanted.kind, wanted.command
    if kind == kinds.COMMAND:
        yield from ((name, one.help) for name, one in (command.commands or {}).items())
    elif kind == kinds.OPTION:
        shown = {name: one for name, one in command.options.items() if not one.hidden}
        yield from ((name, one.help) for name, one in shown.items())
    elif kind == kinds.CHOICE:
        yield from ((choice, "") for choice in wanted.choices)
    elif kind == kinds.RECIPE:
        yield from _recipes()
    elif kind == kinds.CONFIG:
        yield from _recipes()
        yield from _runs(wanted, env)
    elif kind == kinds.HOST:
        yield from _hosts(wanted.given)
    elif kind == kinds.SSH_HOST:
        yield from _ssh_hosts(Path.home())
    else:
        yield from _runs(wanted, env)


def _recipes() -> Words:
    from zlaunch.cli.recipe_files import recipe_sources

    with suppress(ZlaunchError):
        for name, text in sorted(recipe_sources().items()):
            if name.startswith("_"):  # what the others have in common
                continue
            lines = (line.partition("=") for line in text.splitlines())
            told = next((value for key, _, value in lines if key.strip() == "description"), "")
            yield name, told.strip().strip('"')[:_LONGEST]


# Runs


def _runs(wanted: Wanted, env: Mapping[str, str]) -> Words:
    """By name and by id, newest first; of one name the newest run is meant."""
    from zlaunch.system.run_store import RunStore, home_directory

    beginning, known = wanted.beginning, {""}
    with suppress(ZlaunchError):
        for place, run in enumerate(RunStore(home_directory(env)).newest_first()):
            by_id = run.id.startswith(beginning)
            if not by_id and place >= _NAMED:
                continue
            name, state = _described(run, wanted.kind) or ("", "")
            if name.startswith(beginning) and name not in known:
                yield name, f"{state}  {run.id}"
                known.add(name)
            if by_id and state:
                yield run.id, f"{state}  {name}".rstrip()
                known.add(run.id)
            if len(known) > _MOST:
                return


def _described(run: RunDir, kind: str) -> tuple[str, str] | None:
    """Name and state; None where it is no run of this kind, or broken."""
    lives = run.launcher_lives() or _is_queued(run)
    if kind == (kinds.PAST_RUN if lives else kinds.LIVE_RUN):
        return None
    try:
        record = json.loads(run.record_path.read_bytes())
        state = "gathering" if record.get("gathering") else record["state"]
        return record["name"] or "", state if lives or record["ended"] is not None else "lost"
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _is_queued(run: RunDir) -> bool:
    """By what is written, since Slurm would take too long for a press of Tab."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        return bool(json.loads(run.record_path.read_bytes())["state"] == "queued")
    return False


# Hosts


def _hosts(given: Mapping[str, str]) -> Words:
    """Those of the hostfile, or of the list, on the same line."""
    from zlaunch.spec.hostfile import parse_hostfile
    from zlaunch.spec.hostnames import parse_hosts

    path, listed = given.get("--hostfile") or given.get("-H"), given.get("--hosts")
    with suppress(ZlaunchError, OSError, ValueError):
        if path:
            text = _beginning_of(Path(path).expanduser())
            hosts = parse_hostfile(text, path)
        else:
            hosts = parse_hosts(listed, None) if listed else ()
        for host in hosts:
            slots = len(host.slots)
            yield host.name, f"{slots} slot{'s' if slots != 1 else ''}" if slots else ""


def _beginning_of(path: Path) -> str:
    """A hostfile; whatever else it is must not hold up the shell."""
    if not path.is_file():
        raise OSError
    with path.open(encoding="utf-8", errors="surrogateescape") as file:
        return file.read(1 << 20)


def _ssh_hosts(home: Path) -> Words:
    from zlaunch.system.ssh_names import host_names

    yield from ((name, "") for name in host_names(home))
