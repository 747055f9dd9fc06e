"""Causes: ranks that talk to each other. NCCL, gloo, the store, the rendezvous.

What a rank says when a peer is gone makes it a victim (LOST), what it says after waiting for
one makes it a witness (WAITED); who the peer is, absent_ranks.py finds out.
"""

from __future__ import annotations

import re

from zlaunch.insight.cause_table import Case, Kind, Row, Told

_LOOK = "NCCL_DEBUG=INFO shows what NCCL tried"
_PLACES = r"(?:connect(?:ing)? to|host) \(?(?P<host>[\w.:\[\]-]+?)(?:, |:)(?P<port>\d{2,5})\b"


def _duplicate(case: Case) -> Told:
    ranks = f"ranks {case.group('one')} and {case.group('other')}"
    return Told(
        f"two ranks use the same GPU: {ranks} are both on CUDA device {case.group('device')}",
        (),
        (
            (
                'each rank its own: torch.cuda.set_device(int(os.environ["LOCAL_RANK"])) before '
                "init_process_group and before the first tensor on the GPU"
            ),
            "not more ranks on a host than it has GPUs: --num-gpus",
        ),
    )


def _unreached(case: Case) -> Told:
    host, port = case.group("host"), case.group("port")
    where = f"{host}, port {port}" if port else "rank 0"
    return Told(
        f"rank 0 could not be reached at {where}",
        (),
        (
            f"rank 0 has to run and listen there (MASTER_ADDR, MASTER_PORT): `nc -vz {host} {port}`"
            if port
            else "MASTER_ADDR and MASTER_PORT have to be those of rank 0",
            "a firewall between the hosts: open the port, or name an open one with --master-port",
            "`zlaunch doctor --hostfile FILE` tries it between all hosts",
        ),
    )


def _unknown_host(case: Case) -> Told:
    return Told(
        f"the host name {case.group('host') or 'of rank 0'} cannot be looked up",
        (),
        ("an address that all hosts know: --master-addr ADDRESS, or the name in /etc/hosts",),
    )


def _mismatch(case: Case) -> Told:
    return Told(
        "the ranks called different collectives, or the same with tensors of different sizes",
        (_short(case.found.group(0)),),
        (
            (
                "each rank has to call the same collectives in the same order: look for an `if` "
                "on the "
                "rank, data of different length, a branch that only some ranks take"
            ),
            "TORCH_DISTRIBUTED_DEBUG=DETAIL names the collective of each rank",
        ),
    )


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 200 else line[:199] + "…"


def _in_use(case: Case) -> Told:
    port = re.search(r"port: (\d+)", case.found.string)
    words = f"port {port[1]} is in use" if port else "an address is in use"
    return Told(
        words,
        (),
        (
            "leave --master-port out: a free port is picked",
            f"`ss -ltnp 'sport = :{port[1]}'` shows who has it" if port else "`ss -ltnp` shows who",
        ),
    )


_COLLECTIVE = r"torch/distributed|torch/nn/parallel|torch/autograd|deepspeed"
_NCCL_ERROR = r"(?:NCCL error|ncclInvalidUsage|ncclSystemError|ncclInternalError|ncclRemoteError)"

ROWS = (
    Row(
        "duplicate-gpu",
        r"Duplicate GPU detected : rank (?P<one>\d+) and rank (?P<other>\d+) both on CUDA device "
        r"(?P<device>\w+)",
        tell=_duplicate,
    ),
    Row(
        "nccl-no-interface",
        r"Bootstrap : no socket interface found|NCCL.{0,200}no socket interface",
        "NCCL found no network interface of the name that it was given",
        ("NCCL_SOCKET_IFNAME has to name interfaces of every host (`ip -br addr`), or unset it",),
    ),
    Row(
        "nccl-peer-lost",
        r"ncclRemoteError|NCCL communicator was aborted|remote process exit(?:ed|ing)|"
        r"NCCL.{0,300}(?:Connection (?:closed|reset)|socketProgress|peer closed)",
        "NCCL lost the connection to a peer",
        ("the network between the hosts, if no rank failed: " + _LOOK,),
        Kind.LOST,
    ),
    Row(
        "nccl-system-error",
        r"(?:ncclSystemError|unhandled system error)(?:.{0,500}?Last error:\s*(?P<what>[^\n]*))?",
        "NCCL: a system call failed: {what}",
        (
            "most often the network, /dev/shm or a limit: " + _LOOK,
            "name the interface with NCCL_SOCKET_IFNAME; NCCL_IB_DISABLE=1 leaves InfiniBand out",
        ),
    ),
    Row(
        "nccl-cuda-error",
        r"unhandled cuda error|ncclUnhandledCudaError",
        "NCCL: a call of CUDA failed",
        (
            _LOOK,
            "two ranks on one GPU, GPU memory that is full, or a driver older than NCCL needs",
        ),
    ),
    Row(
        "nccl-invalid-usage",
        r"ncclInvalidUsage(?:.{0,500}?Last error:\s*(?P<what>[^\n]*))?|" + _NCCL_ERROR + r"[^\n]*"
        r"invalid (?:usage|argument)",
        "NCCL was called wrongly: {what}",
        (_LOOK, "each rank needs a GPU of its own, set before the first collective"),
    ),
    Row(
        "nccl-error",
        r"NCCL error in: [^\n]*, (?P<what>[^\n,(]*)",
        "NCCL failed: {what}",
        (_LOOK,),
    ),
    Row(
        "collective-mismatch",
        r"Detected mismatch between collectives on ranks?[^\n]*|"
        r"Received data size doesn't match expected size[^\n]*|"
        r"op\.preamble\.length <= op\.nbytes[^\n]*",
        kind=Kind.MISFIT,
        tell=_mismatch,
    ),
    Row(
        "barrier-timeout",
        r"\[Rank \d+\]: Ranks? (?P<absent>[\d, ]+) failed to pass monitoredBarrier in "
        r"(?P<limit>\d+) ?ms",
        "a barrier timed out",
        kind=Kind.WAITED,
    ),
    Row(
        "rendezvous-timeout",
        r"Timed out after (?P<limit>\d+) seconds waiting for clients\. (?P<joined>\d+)/(?P<all>\d+)"
        r" clients joined",
        "after {limit} s only {joined} of {all} ranks had joined",
        kind=Kind.WAITED,
    ),
    Row(
        "rendezvous-timeout",
        r"^RendezvousTimeoutError",
        "torchrun's rendezvous timed out: not all nodes came",
        kind=Kind.WAITED,
    ),
    Row(
        "master-not-reached",
        r"^RendezvousConnectionError",
        "torchrun's rendezvous could not be reached",
        ("--rdzv-endpoint has to be an address of one node at which the others reach it",),
    ),
    Row(
        "collective-timeout",
        r"Watchdog caught collective operation timeout|Timed out waiting (?P<limit>\d+) ?ms for "
        r"(?:recv|send) operation|collective operation timeout",
        "a collective timed out",
        kind=Kind.WAITED,
    ),
    Row(
        "store-timeout",
        r"wait timeout after (?P<limit>\d+) ?ms, keys: (?P<keys>[^\n]*)|DistStoreError: [^\n]*",
        "a rank waited too long for what a peer puts into the store {keys}",
        kind=Kind.WAITED,
    ),
    Row(
        "store-timeout",
        r"Socket Timeout|Store(?:Timeout| timeout)",
        "a rank waited too long for what a peer puts into the store",
        kind=Kind.WAITED,
        where=_COLLECTIVE,
    ),
    Row(
        "address-in-use",
        r"EADDRINUSE|[Aa]ddress already in use",
        tell=_in_use,
        where="torch|deepspeed",
    ),
    Row(
        "address-in-use",
        r"[Aa]ddress already in use",
        "an address is in use",
        ("`ss -ltnp` shows who has it",),
    ),
    Row(
        "unknown-host",
        r"(?:Name or service not known|Temporary failure in name resolution|"
        r"nodename nor servname|getaddrinfo)",
        tell=_unknown_host,
        where="torch|deepspeed",
    ),
    Row(
        "peer-lost",
        r"Connection closed by peer \[|pair\.cc.{0,80}(?:Connection (?:closed|reset)|Read error|"
        r"Broken pipe|Socket closed)|Connection was likely closed|recvValue failed|"
        r"sendBytes failed|failed to recv, got 0 bytes|Application timeout caused pair closure|"
        r"Rank \d+ successfully reached monitoredBarrier",
        "the connection to a peer broke",
        ("the network between the hosts, if no rank failed; `dmesg` of the hosts",),
        Kind.LOST,
    ),
    Row(
        "peer-lost",
        r"Connection (?:closed|reset) by peer|Broken pipe|Connection closed by remote",
        "the connection to a peer broke",
        ("the network between the hosts, if no rank failed; `dmesg` of the hosts",),
        Kind.LOST,
        where=_COLLECTIVE,
    ),
    Row(
        "master-not-reached",
        r"(?:client socket has (?:timed out|failed to connect)|failed to connect to|"
        r"trying to connect to|DistNetworkError.{0,200}[Cc]onnection refused)"
        r"(?:.{0,300}?" + _PLACES + r")?",
        tell=_unreached,
        where=r"torch",
    ),
    Row(
        "no-rank-variables",
        r"environment variable (?P<name>\w+) expected, but not "
        r"set|"
        r"^KeyError: '(?P<key>(?:LOCAL_)?(?:RANK|WORLD_SIZE)|MASTER_(?:ADDR|PORT))'",
        "the script was not started by a launcher: {name}{key} is not set",
        ("start it with `zlaunch run`, which sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT",),
    ),
    Row(
        "no-process-group",
        r"Default process group has not been initialized|torch\.distributed is not yet initialized",
        "a collective was called before init_process_group",
        ("torch.distributed.init_process_group() or deepspeed.init_distributed() first",),
    ),
)
