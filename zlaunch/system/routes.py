"""Addresses of this machine, asked of the kernel.

Travels to the agent, so it stays within Python 3.9 and the standard library.
"""

from __future__ import annotations

import os
import socket


def own_address_towards(peer: str) -> str | None:
    """Return the address from which `peer` would be reached; None where there is no way.

    Connecting a datagram socket sends nothing: it only makes the kernel choose a route.
    """
    try:
        family, kind, _, _, where = socket.getaddrinfo(peer, 9, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind) as probe:
            probe.connect(where)
            return str(probe.getsockname()[0])
    except OSError:
        return None


def ends_of_link() -> tuple[str, str]:
    """Both ends of the connection that sshd or srun started us for, ours first; "" without one."""
    ends = os.environ.get("SSH_CONNECTION", "").split()  # client, its port, server, its port
    if len(ends) == 4:
        return ends[2], ends[0]
    srun = os.environ.get("SLURM_LAUNCH_NODE_IPADDR", "")
    return (own_address_towards(srun) or "", srun) if srun else ("", "")


def is_this_machine(host: str) -> bool:
    """Whether `host` names this machine: its address is one that can be bound here."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return False
    for family, kind, _, _, where in found:
        try:
            with socket.socket(family, kind) as probe:
                probe.bind(where)
                return True
        except OSError:
            continue
    return False
