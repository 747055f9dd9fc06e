"""Hosts to start runs on: those of tests/hosts, network namespaces with an sshd each."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from harness import proc

_TESTS = Path(__file__).parents[2] / "tests" / "hosts"


@dataclass(frozen=True)
class Hosts:
    """Hosts that are up, and how their user reaches them; the first ones are taken first."""

    names: Sequence[str]
    first_address: str
    env: Mapping[str, str]
    sshds: frozenset[int]

    def cpu_seconds(self) -> float:
        """CPU time of all that ran on them and has ended, sshd's own among it."""
        return sum(proc.cpu_seconds_with_reaped(pid) for pid in self.sshds)

    def hostfile(self, count: int, directory: Path) -> str:
        """A hostfile with one slot on each of the first hosts, as DeepSpeed reads it too."""
        path = directory / f"hosts-{count}"
        path.write_text("".join(f"{name} slots=1\n" for name in self.names[:count]))
        return str(path)


def none_here() -> str | None:
    """Why there can be no hosts on this machine, or None."""
    reason: str | None = _of_the_tests().missing()
    return reason


@contextmanager
def hosts(count: int) -> Iterator[Hosts]:
    """So many hosts, gone on leaving."""
    with _of_the_tests().Lab(count) as lab:
        user = lab.client.environment()
        # On a host DeepSpeed would look for a GPU again.
        (lab.client.home / ".deepspeed_env").write_text("DS_ACCELERATOR=cpu\n")
        yield Hosts(
            names=[host.name for host in lab.hosts],
            first_address=lab.hosts[0].address,
            env={name: user[name] for name in ("HOME", "PATH")},
            sshds=frozenset(host.sshd.pid for host in lab.hosts),
        )


def _of_the_tests() -> Any:
    if str(_TESTS) not in sys.path:
        sys.path.append(str(_TESTS))
    return import_module("hosts")
