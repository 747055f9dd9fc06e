"""`zlaunch doctor --build-ops`: builds DeepSpeed's operators on every host, and says what came."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from zlaunch.cli.errand import Errand, Failure, send
from zlaunch.cli.operators import to_build
from zlaunch.cli.place import Place
from zlaunch.cli.recipe_files import recipe_sources
from zlaunch.cli.user_files import read_file
from zlaunch.dsconfig.operators import operators_of
from zlaunch.dsconfig.recipes import load_recipe, recipe_names
from zlaunch.dsconfig.source import parse_config
from zlaunch.errors import ConfigError
from zlaunch.frozen import frozen
from zlaunch.spec.environment import DeviceKind

_FAILED = 2  # the exit code where something would make training fail
_GOOD = {"there", "built", "needless"}
_NEEDS_A_DISK = {"async_io", "gds"}  # and a library that who has no NVMe does without


@frozen
class Operator:
    """What became of one on one host; `state` as `workers/build_operators.py` has it."""

    op: str
    state: str
    seconds: float | None = None
    why: str = ""

    def __str__(self) -> str:
        """Return what is said of it."""
        words = {
            "there": "already there",
            "built": f"built in {self.seconds or 0:.0f} s",
            "needless": "not for these devices",
            "building": "not finished",
            "waiting": "not finished by whoever builds it",
        }
        return f"{self.op} {words.get(self.state) or f'failed: {self.why}'}"


@frozen
class Built:
    """What became of each operator, by the names of hosts; and why that is not all, if so."""

    hosts: Mapping[str, tuple[Operator, ...]]
    failure: Failure | None = None

    @property
    def exit_code(self) -> int:
        """0 where all that is needed is there."""
        if self.failure is not None:
            return self.failure.exit_code
        every = [operator for operators in self.hosts.values() for operator in operators]
        return 0 if all(operator.state in _GOOD for operator in every) else _FAILED

    @property
    def lines(self) -> Iterable[str]:
        """A line a host, and the failure."""
        for host, operators in self.hosts.items():
            yield f"{host}: {'; '.join(map(str, operators)) or 'no operator was looked at'}"
        if self.failure is not None:
            yield self.failure.message
            yield from (f"  {word}" for word in self.failure.words)

    def to_json(self) -> dict[str, Any]:
        """Return it as data."""
        hosts = {host: [asdict(one) for one in ops] for host, ops in self.hosts.items()}
        return {"hosts": hosts, "failure": None if self.failure is None else asdict(self.failure)}


def needed(device: DeviceKind, ds_config: str | None) -> tuple[str, ...]:
    """Return the operators of a ds_config file, else of all recipes but those for NVMe.

    Raises ConfigError.
    """
    if ds_config is not None:
        text = read_file(ds_config, f"--ds-config {ds_config}", error=ConfigError)
        return operators_of(parse_config(text, ds_config), device)
    sources = recipe_sources()
    recipes = (load_recipe(name, sources) for name in recipe_names(sources))
    each = [operators_of(recipe.config, device) for recipe in recipes if recipe.deepspeed]
    usual = [names for names in each if not _NEEDS_A_DISK.intersection(names)]
    return tuple(dict.fromkeys(name for names in usual for name in names))


def build(
    names: Iterable[str], place: Place, env: Mapping[str, str], *, python: str | None
) -> Built:
    """Build what is missing of these on every host of the place."""
    order = to_build(names)
    if order is None:
        return Built({host.name: () for host in place.hosts})
    limit = order.within * len(order.builders)
    args = order.arguments("")
    errand = Errand("building operators", order.files, args, limit)
    done = send(errand, place, env, python=python)
    hosts, first = {}, 0
    for host in place.hosts:
        hosts[host.name] = _read(done.lines.get(first, ()))
        first += len(host.slots)
    return Built(hosts, done.failure)


def _read(lines: Iterable[str]) -> tuple[Operator, ...]:
    """What the first rank of a host reported last of each operator."""
    found: dict[str, Operator] = {}
    for line in lines:
        try:
            told = json.loads(line)
            operator = Operator(told["op"], told["state"], told.get("seconds"), told.get("why", ""))
        except (ValueError, TypeError, KeyError):  # what an interpreter prints at its start
            continue
        found[operator.op] = operator
    return tuple(found.values())
