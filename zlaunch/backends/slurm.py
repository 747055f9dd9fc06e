"""Agents in steps of Slurm's: one srun a node, whose stdin and stdout are the link."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from zlaunch.backends.process import ProcessLink
from zlaunch.backends.remote import Entrance, explain_failure
from zlaunch.backends.slurm_words import ends, failed_node, told, why_lost, without_noise
from zlaunch.spec.slurm_variables import GPU_OPTIONS, for_srun, names_of_task

# One step a node, beside whatever other steps the job has. It takes the node's whole share of
# the job, also while another one does, and leaves cores and memory to the ranks.
_STEP = (
    *("--nodes=1", "--ntasks=1", "--overlap", "--mem=0", "--cpu-bind=none", "--mpi=none"),
    *("--export=ALL", "--job-name=zlaunch", "--kill-on-bad-exit=0"),
    # Without it slurmstepd keeps what is no whole line; it gives stdout a terminal in raw mode.
    "--unbuffered",
)
_LAST_WORDS = 64 << 10  # bytes


class SlurmLink(ProcessLink):
    """A link through an srun process.

    `said` is what was told of the job already, `ended` how Slurm's words say that it was ended.
    """

    def __init__(
        self,
        argv: list[str],
        host: str,
        *,
        greeting: bytes,
        env: Mapping[str, str],
        said: set[str],
        ended: dict[str, str],
    ) -> None:
        self._said = said
        self._ends = ended
        super().__init__(argv, host, greeting=greeting, remote=True, env=env)

    def explain(self, how: str, words: str, began: bool) -> str:
        """Name the node and the cause, where Slurm's own words are known."""
        reason = why_lost(words)
        if reason is not None:
            return f"{self.host}: {reason}"
        return explain_failure(self.host, self.ended(how), without_noise(words), began)

    def heard(self, words: str) -> tuple[str, ...]:
        """Return what these words tell of the job, once for all nodes."""
        self._note(words)
        new = [line for line in told(words) if line.partition(" (")[0] not in self._said]
        self._said.update(line.partition(" (")[0] for line in new)
        return tuple(new)

    def close(self, timeout: float) -> str:
        """Hear also what slurmstepd says of a step that is over: that memory had run out in it."""
        self.hang_up()
        if self._ends_within(timeout):
            with suppress(BlockingIOError):
                self._note(os.read(self.errors, _LAST_WORDS).decode(errors="replace"))
        return super().close(0.0)

    def _note(self, words: str) -> None:
        for code, line in ends(words):
            if code not in self._ends or failed_node(line):  # which node is worth knowing
                self._ends[code] = line


class SlurmBackend:
    """Reaches each node by one srun; they start side by side.

    `ends` has how Slurm's words say that it ended the job or a step: code and line.
    """

    def __init__(
        self,
        job: str,
        entrances: Mapping[int, Entrance],
        env: Mapping[str, str],
        gpus: Mapping[str, str],
    ) -> None:
        """`entrances` are by node rank; `env` is the launcher's environment.

        `gpus` says by node what a step there is to get of the job's, as `2` or `a100:2`.
        """
        self._gpus = gpus
        # Where Slurm knows of no GPUs, it does not know the option either.
        self._has_gpus = bool(gpus) or not env.keys().isdisjoint(GPU_OPTIONS)
        self._job = job
        self._entrances = entrances
        self._env = for_srun(env)
        self._said: set[str] = set()
        self.ends: dict[str, str] = {}

    def open(self, node_rank: int, host: str) -> SlurmLink:
        """Start an srun process."""
        greeting = self._entrances[node_rank].greeting(node_rank)
        argv = self.argv(node_rank, host)
        return SlurmLink(
            argv, host, greeting=greeting, env=self._env, said=self._said, ended=self.ends
        )

    def argv(self, node_rank: int, host: str) -> list[str]:
        """The command line of srun; what is about its own task is kept from the ranks."""
        unset = [word for name in names_of_task() for word in ("-u", name)]
        agent = ["env", *unset, "/bin/sh", "-c", self._entrances[node_rank].command]
        where = (f"--jobid={self._job}", f"--nodelist={host}")
        # Left out, they would be what the whole job asked for, which may not be on one node.
        gpus = (f"--gpus={self._gpus.get(host, '0')}",) if self._has_gpus else ()
        return ["srun", *where, *gpus, *_STEP, *agent]

    def close(self) -> None:
        """Nothing is left once each srun has ended."""
