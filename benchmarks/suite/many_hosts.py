"""Start-up on many hosts over SSH, all of them on this machine and on its cores."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial

from harness import proc
from harness.case import Bench, Case, Quantity, Unmeasured
from harness.contender import DEEPSPEED, ZLAUNCH, Contender
from harness.hosts import Hosts, hosts, none_here
from harness.process import running

_LINE = re.compile(rb"first line of rank (\d+)\n")
_SCRIPTS = {"one_line.py": "nothing imported", "import_torch.py": "`import torch`"}
_AGAINST_DEEPSPEED = 8  # hosts
_COUNTS = (2, 8, 32)
_OPENSSH = "zlaunch --ssh openssh"
_BARE = "ssh alone"


def cases(bench: Bench) -> Iterator[Case]:
    reason = none_here()
    if reason:
        yield Case(
            "many hosts",
            tuple(Contender(name).because(reason) for name in (ZLAUNCH, _OPENSSH, DEEPSPEED)),
            (Quantity("command to exit"),),
            _not_here,
        )
        return
    counts = _COUNTS[:2] if bench.quick else _COUNTS
    with hosts(max(counts)) as there:
        for script in _SCRIPTS:
            yield _first_line(bench, there, script)
        for count in counts:
            yield _start(bench, there, count)


def _not_here(contender: Contender) -> tuple[float]:
    raise Unmeasured(contender.cannot or "")


def _first_line(bench: Bench, there: Hosts, script: str) -> Case:
    """One rank a host, as in `first_line`, against DeepSpeed over pdsh."""
    count = _AGAINST_DEEPSPEED
    contenders = _Contenders(bench, there, count, bench.script(script))
    return Case(
        f"{count} hosts, {_SCRIPTS[script]}",
        (*contenders.zlaunch(), contenders.deepspeed(), contenders.bare()),
        (Quantity("command to last rank's first line"), Quantity("command to exit")),
        lambda contender: _measure(there, count, contender)[:2],
        rounds=3,
    )


def _start(bench: Bench, there: Hosts, count: int) -> Case:
    """What a start costs here and there, as the number of hosts grows."""
    contenders = _Contenders(bench, there, count, bench.script("one_line.py"))
    return Case(
        f"start on {count} hosts",
        (*contenders.zlaunch(), contenders.bare()),
        (
            Quantity("command to exit"),
            Quantity("the same, for each host", "ms"),
            Quantity("CPU time of the launcher and its ssh"),
            Quantity("CPU time on the hosts"),
            Quantity("peak memory of the launcher", "MB", compared=False),
        ),
        partial(_measure_start, there, count),
    )


class _Contenders:
    """Who starts one rank of a script on each of so many hosts."""

    def __init__(self, bench: Bench, there: Hosts, count: int, script: str) -> None:
        self._launchers = bench.launchers
        self._there = there
        self._names = there.names[:count]
        self._hostfile = there.hostfile(count, bench.scratch)
        self._script = script

    def zlaunch(self) -> tuple[Contender, Contender]:
        """By paramiko, and by the system's ssh."""
        start = ("multinode", "--hostfile", self._hostfile, "--device", "cpu", "--recipe", "ddp")
        paramiko = self._launchers.contender(ZLAUNCH, *start, self._script)
        openssh = self._launchers.contender(ZLAUNCH, *start, "--ssh", "openssh", self._script)
        return self._at_home(paramiko), replace(self._at_home(openssh), name=_OPENSSH)

    def deepspeed(self) -> Contender:
        """Over pdsh, its usual way; the address of rank 0 given, as ours is not asked for it."""
        given = ("--master_addr", self._there.first_address, "--no_local_rank")
        start = ("--hostfile", self._hostfile, *given, self._script)
        contender = self._at_home(self._launchers.contender(DEEPSPEED, *start))
        without = shutil.which("pdsh") is None
        return contender.because("pdsh is not installed") if without else contender

    def bare(self) -> Contender:
        """No launcher: the script by one ssh a host, all at once, for what nobody can avoid."""
        each = [
            f"ssh -o BatchMode=yes {name} RANK={rank} {sys.executable} {self._script} &"
            for rank, name in enumerate(self._names)
        ]
        return self._at_home(Contender(_BARE, ("sh", "-c", "\n".join([*each, "wait"]))))

    def _at_home(self, contender: Contender) -> Contender:
        env: Mapping[str, str] = {**contender.env, **self._there.env}
        return replace(contender, env=env)


def _measure_start(there: Hosts, count: int, contender: Contender) -> tuple[float, ...]:
    before = there.cpu_seconds()
    _, seconds, cpu, peak = _measure(there, count, contender)
    return seconds, seconds / count * 1000, cpu, there.cpu_seconds() - before, peak


def _measure(there: Hosts, count: int, contender: Contender) -> tuple[float, float, float, float]:
    """Seconds to the last first line and to the exit, then the launcher's CPU time and memory."""
    text = b""
    shown: float | None = None
    peak = 0.0
    with running(contender, subprocess.PIPE, beside=there.sshds) as process:
        for data in process.read():
            text += data
            peak = max(peak, proc.megabytes(process.pid, "VmHWM"))
            if shown is None and len(set(_LINE.findall(text))) == count:
                shown = process.elapsed()
        code = process.wait()
        ended = process.elapsed()
    if shown is None or code != 0:
        last = text.decode(errors="replace").strip().rpartition("\n")[2]
        raise Unmeasured(f"exit code {code}, not all first lines; the last line is '{last}'")
    return shown, ended, process.cpu_seconds, peak
