"""Who takes part: zlaunch and its peers, as they are installed beside this Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

ZLAUNCH, TORCHRUN, DEEPSPEED, ACCELERATE = "zlaunch", "torchrun", "deepspeed", "accelerate"
NAMES = (ZLAUNCH, TORCHRUN, DEEPSPEED, ACCELERATE)

# What would make a launcher slower or faster than at a user's prompt, tell a rank that it is
# one already, or offer a host keys of whoever measures.
_NOT_INHERITED = (
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONUNBUFFERED",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
    "SSH_AUTH_SOCK",
)


@dataclass(frozen=True)
class Contender:
    """One way to do what a case measures; `cannot` says why there is no number."""

    name: str
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    cannot: str | None = None

    def because(self, reason: str) -> Contender:
        """The same contender, for a case that it cannot do."""
        return replace(self, cannot=self.cannot or reason)

    def environment(self) -> dict[str, str]:
        """The whole environment to start it with."""
        kept = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
        return {**kept, **self.env}


class Launchers:
    """Makes contenders; `home` is where they may keep their files."""

    def __init__(self, home: Path) -> None:
        self._bin = Path(sys.executable).parent
        self.home = home
        self._env = {
            "ZLAUNCH_HOME": str(home / "zlaunch"),
            "HF_HOME": str(home / "huggingface"),  # no default_config.yaml of the user's
            "DS_ACCELERATOR": "cpu",
        }

    def contender(self, name: str, *arguments: str) -> Contender:
        """`name` with these arguments, or the word that it is not installed."""
        program = self._bin / name
        if not program.exists():
            return Contender(name, cannot="not installed")
        return Contender(name, (str(program), *arguments), self._env)

    def zlaunch(self, ranks: int, *command: str) -> Contender:
        """`zlaunch run` of a script that does not ask for DeepSpeed."""
        return self.contender(ZLAUNCH, "run", "--cpu", str(ranks), "--recipe", "ddp", *command)

    def torchrun(self, ranks: int, *command: str) -> Contender:
        """`torchrun` as its manual starts one node."""
        return self.contender(TORCHRUN, "--nproc-per-node", str(ranks), *command)

    def deepspeed(self, ranks: int, *command: str) -> Contender:
        """`deepspeed`, which counts ranks as GPUs even where DS_ACCELERATOR is cpu."""
        options = ("--no_local_rank", "--num_gpus", str(ranks))
        return self.contender(DEEPSPEED, *options, *command)

    def accelerate(self, ranks: int, *command: str) -> Contender:
        """`accelerate launch`; its way without GPUs needs MPI, so it too is told of GPUs."""
        many = ("--multi_gpu",) if ranks > 1 else ("--cpu",)
        given = ("--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no")
        count = ("--num_processes", str(ranks))
        return self.contender(ACCELERATE, "launch", *many, *given, *count, *command)

    def all(self, ranks: int, *command: str) -> tuple[Contender, ...]:
        """Every launcher, to start the same command as so many ranks."""
        starts = (self.zlaunch, self.torchrun, self.deepspeed, self.accelerate)
        return tuple(start(ranks, *command) for start in starts)
