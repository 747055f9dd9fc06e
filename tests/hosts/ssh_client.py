"""The home of a user who may log in to the hosts: identity, known hosts, configuration."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from sshd import make_key, public


@dataclass(frozen=True)
class Known:
    """What the user's files say about one host."""

    alias: str
    addresses: tuple[str, ...]  # the first one is the alias' HostName
    port: int
    key: str

    def line(self) -> str:
        names = (self.alias, *self.addresses)
        if self.port != 22:
            names = tuple(f"[{name}]:{self.port}" for name in names)
        return f"{','.join(names)} {self.key}\n"


class Client:
    """A home directory with ~/.ssh, for what goes by $HOME and for OpenSSH, which does not."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.config = home / ".ssh" / "config"
        self.included = home / ".ssh" / "config.d" / "lab.conf"
        self.known_hosts = home / ".ssh" / "known_hosts"
        self.identity = home / ".ssh" / "id_ed25519"
        for folder in (home, self.config.parent, self.included.parent, home / "bin"):
            folder.mkdir(mode=0o700)
        make_key(self.identity)
        # OpenSSH looks for ~/.ssh where the password file says that home is, so it is told.
        ssh = home / "bin" / "ssh"
        ssh.write_text(f"#!/bin/sh\nexec {shutil.which('ssh')} -F '{self.config}' \"$@\"\n")
        ssh.chmod(0o700)

    @property
    def public_key(self) -> str:
        return public(self.identity)

    def know(self, hosts: Iterable[Known]) -> None:
        """Write the files; the hosts' own lines into one that the configuration includes."""
        hosts = list(hosts)
        self._write(self.known_hosts, "".join(host.line() for host in hosts))
        aliases = (
            f"Host {host.alias}\n    HostName {host.addresses[0]}\n    Port {host.port}\n"
            for host in hosts
        )
        self._write(self.included, "".join(aliases))
        # The rest is for all, so that it is also there for who names a host by its address.
        rest = (
            f"Include {self.included.parent}/*.conf",
            "Host *",
            "    User root",
            f"    IdentityFile {self.identity}",
            "    IdentitiesOnly yes",
            f"    UserKnownHostsFile {self.known_hosts}",
            "    GlobalKnownHostsFile /dev/null",
            "    StrictHostKeyChecking yes",
        )
        self._write(self.config, "".join(f"{line}\n" for line in rest))

    def environment(self) -> dict[str, str]:
        """This process' own, with this home, an `ssh` that reads its files, and no agent."""
        env = {name: value for name, value in os.environ.items() if not name.startswith("SSH_")}
        path = f"{self.home / 'bin'}:{env.get('PATH', os.defpath)}"
        return {**env, "HOME": str(self.home), "PATH": path}

    @staticmethod
    def _write(path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        path.chmod(0o600)
