"""Agents over the system's own ssh: whatever it can do (GSSAPI, Match exec, ControlMaster)."""

from __future__ import annotations

from collections.abc import Mapping

from zlaunch.backends.process import ProcessLink
from zlaunch.backends.remote import Entrance, explain_failure, ssh_reason
from zlaunch.frozen import frozen
from zlaunch.spec.hostfile import Host


@frozen
class SshOptions:
    """What the user said of SSH as a whole; `connect_timeout` in seconds."""

    host_keys: str = "strict"
    connect_timeout: float = 15.0


class SshProcessLink(ProcessLink):
    """A link through an ssh process."""

    def explain(self, how: str, words: str, began: bool) -> str:
        """Name the host and the cause, where ssh's own words are known."""
        reason = None if began else ssh_reason(self.host, words)
        return reason or explain_failure(self.host, self.ended(how), words, began)


class OpensshBackend:
    """Reaches each node with one ssh process; they connect side by side."""

    def __init__(
        self,
        hosts: Mapping[int, Host],
        entrances: Mapping[int, Entrance],
        options: SshOptions,
    ) -> None:
        """`hosts` and `entrances` are by node rank."""
        self._hosts = hosts
        self._entrances = entrances
        self._options = options

    def open(self, node_rank: int, host: str) -> SshProcessLink:
        """Start an ssh process."""
        argv, greeting = self.argv(node_rank), self._entrances[node_rank].greeting(node_rank)
        return SshProcessLink(argv, host, greeting=greeting, remote=True)

    def argv(self, node_rank: int) -> list[str]:
        """The ssh command line: never a prompt, keys checked, nothing forwarded."""
        host = self._hosts[node_rank]
        check = {"strict": "yes", "accept-new": "accept-new"}[self._options.host_keys]
        settings = {
            "BatchMode": "yes",
            # A little behind the launcher's own limit, which says the same for every way.
            "ConnectTimeout": str(round(self._options.connect_timeout) + 2),
            "StrictHostKeyChecking": check,
            "ForwardAgent": "no",
            "ForwardX11": "no",
        }
        argv = ["ssh", "-T"]
        for name, value in settings.items():
            argv += ["-o", f"{name}={value}"]
        if host.port is not None:
            argv += ["-p", str(host.port)]
        if host.user is not None:
            argv += ["-l", host.user]
        return [*argv, "--", host.name, self._entrances[node_rank].command]

    def close(self) -> None:
        """Nothing is left once each ssh has ended."""
