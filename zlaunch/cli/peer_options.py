"""Options of `deepspeed`, `torchrun` and `accelerate launch`, and what to say instead of them."""

from __future__ import annotations

_JOIN = "zlaunch join starts nodes without SSH: --nnodes N --node-rank R --rendezvous HOST:PORT"
_NO_ELASTIC = "a run has a fixed number of ranks: leave it out"

_INSTEAD = {
    # deepspeed
    "launcher": "hosts are reached by SSH: --ssh paramiko or openssh",
    "launcher-args": "~/.ssh/config counts, with --ssh openssh all of it",
    "ssh-port": "port= in the hostfile, or Port in ~/.ssh/config",
    "no-ssh": "{join}",
    "no-ssh-check": "--no-preflight does not look at the hosts before the start",
    "save-pid": "zlaunch ps and the run directory know it",
    "enable-each-rank-log": "each rank has a file of its own: zlaunch logs path",
    "force-multi": "zlaunch multinode --hosts localhost:N",
    "elastic-training": _NO_ELASTIC,
    "bind-cores-to-rank": "OMP_NUM_THREADS is shared out already; numactl goes into --no-python",
    "autotuning": "zlaunch has none",
    "venv-script": "--setup 'source env.sh'",
    "deepspeed-config": "behind SCRIPT it is the script's; before it: --ds-config FILE",
    # torchrun
    "nnodes": "{nodes}",
    "node-rank": "{join}",
    "rdzv-endpoint": "{join}",
    "rdzv-backend": "leave it out: there is one way to meet",
    "rdzv-id": "leave it out: each run has an id",
    "rdzv-conf": "leave it out",
    "standalone": "zlaunch run is for one machine",
    "nproc-per-node": "--nproc N, or --num-gpus N",
    "max-restarts": _NO_ELASTIC.replace("a fixed number of ranks", "one attempt"),
    "monitor-interval": "leave it out: ends are seen at once",
    "start-method": "leave it out",
    "log-dir": "files of all ranks: zlaunch logs path",
    "tee": "leave it out: ranks are shown and kept",
    "redirects": "leave it out: ranks are kept in files",
    "local-addr": "--master-addr",
    # accelerate launch
    "num-processes": "--num-gpus N, or --nproc N",
    "num-machines": "zlaunch multinode --hostfile FILE",
    "machine-rank": "{join}",
    "main-process-ip": "--master-addr",
    "main-process-port": "--master-port",
    "multi-gpu": "leave it out",
    "use-deepspeed": "--recipe zero2",
    "zero-stage": "--recipe zero1, zero2 or zero3",
    "mixed-precision": "--precision bf16",
    "config-file": "zlaunch reads no file of its own: --recipe, or --ds-config FILE",
    "gradient-accumulation-steps": "--accumulate N",
    # of one command and not of another
    "gpus": "--include HOST:0,2 chooses slots of hosts",
    "env": "each node keeps the environment that it is started in",
    "setup": "each node is started where it is set up already",
    "hostfile": "zlaunch multinode --hostfile FILE",
    "hosts": "zlaunch multinode --hosts A,B",
}


def instead_of(option: str, command: str) -> str | None:
    """Say what to give instead of an option that `command` does not have; None if unknown."""
    advice = _INSTEAD.get(option.lstrip("-").partition("=")[0].replace("_", "-"))
    if advice is None:
        return None
    many = "multinode" in command
    nodes = "--num-nodes N, or --hosts A,B" if many else "zlaunch multinode --hostfile FILE"
    return advice.format(join=_JOIN, nodes=nodes)
