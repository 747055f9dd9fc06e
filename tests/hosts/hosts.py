"""Real hosts on one machine: namespaces on a bridge, each with its addresses and its sshd.

The bridge is in a namespace of its own too: firewall rules of the machine, such as those that
come with Docker, do not see what passes it. The machine has one end of a cable to it.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

from namespaces import BOUND, PATH, Namespace, entering, ip, program
from ssh_client import Client, Known
from sshd import Sshd

NETWORKS = range(256)
LAUNCHER = 254  # the machine's own number in the network


def missing() -> str | None:
    """Why there can be no hosts here, or None."""
    if os.geteuid():
        return "hosts as network namespaces need root"
    wanted = {
        "iproute2": ("ip",),
        "openssh-server": ("sshd",),
        "openssh-client": ("ssh", "ssh-keygen"),
        "util-linux": ("unshare", "setpriv", "mount"),
        "hostname": ("hostname",),
    }
    lacking = [name for name, programs in wanted.items() if not all(map(program, programs))]
    if lacking:
        return f"hosts as network namespaces need the packages {', '.join(lacking)}"
    attempt = "ip link add name br0 type bridge && ip link add name a type veth peer name b"
    command = ["unshare", "--net", "--mount", "--uts", "sh", "-c", attempt]
    env = {**os.environ, "PATH": PATH}
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, timeout=BOUND, check=False
    )
    if done.returncode:
        return f"root may not make network namespaces here: {done.stderr.strip()}"
    return None


class Host:
    """One host. What is done to it is undone by `mend`; the lab's fixtures call that."""

    def __init__(self, lab: Lab, number: int) -> None:
        self.name = f"h{number}"
        self.address = lab.address(number + 1)
        self.address6 = lab.address6(number + 1)
        self.port = lab.port
        self.namespace = Namespace(f"{lab.name}-{self.name}")
        self._lab = lab
        folder = lab.folder / self.name
        self.home = folder / "home"  # of root on this host
        self.home.mkdir(parents=True)
        passwd = Path("/etc/passwd").read_text(encoding="utf-8")
        root = f"root:x:0:0:root:{self.home}:/bin/bash"
        (folder / "passwd").write_text(re.sub("^root:.*", root, passwd, flags=re.M), "utf-8")
        # Root may be locked on this machine, and sshd refuses it then; not here.
        (folder / "shadow").write_text("root:*:20000:0:99999:7:::\n", "ascii")
        (folder / "hosts").write_text(lab.names(), "ascii")
        self._entering = entering(
            self.namespace,
            self.name,
            {f"/etc/{name}": folder / name for name in ("passwd", "shadow", "hosts")},
        )
        self.sshd = Sshd(self._entering, folder, self.address, self.port, lab.client.public_key)
        self._cut = self._silent = self._stopped = False

    @property
    def log(self) -> str:
        """What its sshd said."""
        return self.sshd.log.read_text(encoding="utf-8", errors="replace")

    def known(self) -> Known:
        return Known(self.name, (self.address, self.address6), self.port, self.sshd.host_key)

    def command(self, *words: str) -> list[str]:
        """The command that runs this one on the host, without SSH."""
        return [*self._entering, *words]

    def processes(self, marker: str) -> list[int]:
        """Who has the marker in its environment, among those that live here."""
        return [pid for pid in self.namespace.pids() if marker.encode() in _environ(pid)]

    def cut(self, *, silently: bool = False) -> None:
        """Pull the cable. The machine soon says "no route to host" to who connects.

        Silently: it never does, as with a host behind a router, and connecting hangs.
        """
        if silently:
            self._silent = True
            self._neighbours("replace", f" lladdr {self._hardware()} nud permanent")
        self._cut = True
        self._link("down")

    def stop_sshd(self) -> None:
        """Connecting is refused from now on."""
        self.sshd.stop()

    def hang(self) -> None:
        """The kernel still accepts for sshd, and nobody is greeted; sessions go on."""
        assert self.sshd.pid is not None
        self._stopped = True
        self.namespace.freeze([self.sshd.pid])

    def freeze(self) -> None:
        """Stop every process here, as on a host that ran out of memory or of its disk."""
        self._stopped = True
        self.namespace.freeze(self.namespace.pids())

    def change_host_key(self) -> None:
        self.sshd.change_host_key()

    def refuse_key(self) -> None:
        self.sshd.refuse_key()

    def configure(self, *options: str) -> None:
        """Further lines for sshd_config, such as `SetEnv A=1`."""
        self.sshd.configure(*options)

    def kill_sshd_sessions(self) -> int:
        """SIGKILL to sshd's children, not to what they started; how many."""
        others = (pid for pid in self.namespace.pids() if pid != self.sshd.pid)
        children = [pid for pid in others if _comm(pid).startswith("sshd")]
        return self.namespace.signal(children, signal.SIGKILL)

    def mend(self) -> None:
        """Undo all of the above, and wait until the host can be logged in to again."""
        if self._stopped:
            self.namespace.signal(self.namespace.pids(), signal.SIGCONT)
        if self._cut:
            self._link("up")
        if self._silent:
            self._neighbours("del", "")
        mended = self._stopped or self._cut
        self._cut = self._silent = self._stopped = False
        self.sshd.mend()
        if mended:
            self.sshd.wait_ready()

    def start(self, undo: ExitStack) -> None:
        """Make the namespace, plug it in, start its sshd."""
        undo.callback(self.namespace.delete)
        self.namespace.create()
        inside, bridge = self.namespace.name, self._lab.bridge.name
        ends = f"link add name eth0 netns {inside} type veth peer name {self.name} netns {bridge}"
        ip(*ends.split())
        self._lab.plug(self.name)
        addresses = (f"{self.address}/24", f"{self.address6}/64 nodad")
        lines = [f"address add {address} dev eth0" for address in addresses]
        ip("-n", inside, "-batch", "-", lines=[*lines, "link set eth0 up"])
        undo.callback(self.sshd.stop)
        self.sshd.start()

    def _link(self, state: str) -> None:
        ip("-n", self._lab.bridge.name, "link", "set", self.name, state)

    def _neighbours(self, verb: str, rest: str) -> None:
        lines = [
            f"neighbour {verb} {address} dev {self._lab.interface}{rest}"
            for address in (self.address, self.address6)
        ]
        ip("-batch", "-", lines=lines)

    def _hardware(self) -> str:
        command = self.command("cat", "/sys/class/net/eth0/address")
        done = subprocess.run(command, capture_output=True, text=True, timeout=BOUND, check=True)
        return done.stdout.strip()


class Lab:
    """`count` hosts that can be reached from here and from each other, gone on leaving."""

    hosts: list[Host]
    client: Client
    folder: Path
    interface: str  # the machine's end of its cable
    network: int  # of this lab alone: 10.213.<network>.0/24

    def __init__(self, count: int, port: int = 22) -> None:
        assert 0 < count < LAUNCHER
        self.name = f"zlab-{secrets.token_hex(4)}"
        self.count = count
        self.port = port
        self.bridge = Namespace(f"{self.name}-bridge")

    def __enter__(self) -> Lab:
        with ExitStack() as undo:
            self._build(undo)
            self._undo = undo.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._undo.close()

    def address(self, number: int = LAUNCHER) -> str:
        """A host's address, counted from 1; without a number the machine's own."""
        return f"10.213.{self.network}.{number}"

    def address6(self, number: int = LAUNCHER) -> str:
        return f"fd5a:6c61:62:{self.network:x}::{number:x}"

    def names(self) -> str:
        """The hosts' /etc/hosts: there, and only there, their names resolve."""
        lines = [f"{self.address(number + 1)} h{number}\n" for number in range(self.count)]
        return "".join(["127.0.0.1 localhost\n", "::1 localhost\n", *lines])

    def ssh(self, host: Host, *words: str, options: Sequence[str] = ()) -> list[str]:
        """OpenSSH's command line for this command on a host, by its alias."""
        config = ("-F", str(self.client.config), "-o", "BatchMode=yes")
        return ["ssh", *config, *options, host.name, *words]

    def run(
        self, host: Host, *words: str, options: Sequence[str] = (), **more: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run that command to its end."""
        asked: dict[str, Any] = {"stdin": subprocess.DEVNULL, "timeout": BOUND, **more}
        command = self.ssh(host, *words, options=options)
        return subprocess.run(command, capture_output=True, text=True, check=False, **asked)

    def processes(self, marker: str) -> dict[str, list[int]]:
        """Who has the marker in its environment, host by host; hosts without any left out."""
        found = {host.name: host.processes(marker) for host in self.hosts}
        return {name: pids for name, pids in found.items() if pids}

    def mend(self) -> None:
        for host in self.hosts:
            host.mend()

    def plug(self, port: str) -> None:
        """Put this end of a cable, which is in the bridge's namespace, into the bridge."""
        ip("-n", self.bridge.name, "link", "set", port, "master", "bridge", "up")

    def _build(self, undo: ExitStack) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"{self.name}-"))
        undo.callback(shutil.rmtree, self.folder)
        undo.callback(self.bridge.delete)
        self.bridge.create()
        bridge = "link add name bridge up type bridge mcast_snooping 0"
        ip("-n", self.bridge.name, *bridge.split())
        self._claim_network()
        undo.callback(ip, "link", "del", self.interface)
        self.plug("machine")
        addresses = (f"{self.address()}/24", f"{self.address6()}/64 nodad")
        lines = [f"address add {address} dev {self.interface}" for address in addresses]
        ip("-batch", "-", lines=[*lines, f"link set {self.interface} up"])
        self.client = Client(self.folder / "home")
        self.hosts = [Host(self, number) for number in range(self.count)]
        for host in self.hosts:
            host.start(undo)
        self.client.know(host.known() for host in self.hosts)

    def _claim_network(self) -> None:
        """The interface of that name can be made once, so the network is this lab's alone."""
        for network in random.sample(NETWORKS, len(NETWORKS)):
            self.network, self.interface = network, f"zlab{network}"
            cable = f"link add name {self.interface} type veth peer name machine netns"
            with contextlib.suppress(FileExistsError):
                ip(*cable.split(), self.bridge.name)
                return
        raise RuntimeError("every network of 10.213.0.0/16 has a lab in it")


def _environ(pid: int) -> bytes:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/environ").read_bytes()
    return b""


def _comm(pid: int) -> str:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/comm").read_text(encoding="utf-8", errors="replace")
    return ""
