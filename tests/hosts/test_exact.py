"""Arguments, environment, script and directory arrive byte for byte, whatever the way (property).

One agent on each way starts a worker for every example; the plan is data all the way, so that
no shell, no quoting and no encoding is between the two.
"""

from __future__ import annotations

import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hosts import Lab
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from join_nodes import PORT, TOKEN, nodes_of
from namespaces import BOUND

from zlaunch.backends.base import Backend, Link
from zlaunch.backends.join import JoinBackend
from zlaunch.backends.lobby import Lobby
from zlaunch.backends.local import LocalBackend
from zlaunch.backends.openssh import OpensshBackend, SshOptions
from zlaunch.backends.remote import Entrance
from zlaunch.backends.ssh import SshBackend
from zlaunch.run.handshake import Hello
from zlaunch.run.messages import Closed, Message, Output, Ready, Start
from zlaunch.run.wire import Decoder, encode
from zlaunch.spec.hostfile import Host
from zlaunch.spec.worker import NodePlan, WorkerSpec
from zlaunch.system.busy_port import listen

SHOW = """
import os, sys
mine = {k: v for k, v in os.environb.items() if k.startswith(b"ODD_")}
print([os.fsencode(a) for a in sys.argv], os.getcwdb(), sorted(mine.items()))
"""
NASTY = [
    "a b",
    "",
    "$HOME",
    "`x` $(y)",
    "'",
    '"',
    "a\nb",
    "*",
    "ä€",
    "--x=1",
    "\\",
    "\udcff",
    "64(x2)",
]

# What exec takes: any bytes but NUL.
texts = st.sampled_from(NASTY) | st.binary(max_size=40).map(
    lambda data: os.fsdecode(data.replace(b"\0", b""))
)
# What a file may be called, and is short enough.
names = texts.map(lambda text: text.replace("/", "_")).filter(
    lambda text: text not in {"", ".", ".."}
)


class Way:
    """A link to an agent, and what it said last."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._decoder = Decoder(preamble=True)
        self._messages: list[Message] = []
        os.set_blocking(link.incoming, False)
        if link.greeting:
            os.write(link.outgoing, link.greeting)
        self._until(Ready)

    def output(self, spec: WorkerSpec) -> bytes:
        """What this worker prints."""
        self._messages.clear()
        data = encode(Start(NodePlan(0, {"PATH": os.defpath}, (spec,), inherit=True), 5.0))
        while data:
            data = data[os.write(self.link.outgoing, data) :]
        self._until(Closed)
        return b"".join(m.data for m in self._messages if isinstance(m, Output))

    def _until(self, kind: type[Message]) -> None:
        end = time.monotonic() + BOUND
        while not any(isinstance(message, kind) for message in self._messages):
            assert select.select([self.link.incoming], [], [], end - time.monotonic())[0]
            data = os.read(self.link.incoming, 1 << 20)
            assert data, os.read(self.link.errors, 1 << 16)
            self._messages += self._decoder.feed(data)


def backend(name: str, lab: Lab) -> Backend:
    hosts = {1: Host(lab.hosts[1].name, (0,), line=1)}
    entrances = {1: Entrance((sys.executable,))}
    if name == "openssh":
        return OpensshBackend(hosts, entrances, SshOptions())
    if name == "paramiko":
        return SshBackend(hosts, entrances, SshOptions(), lab.client.home)
    if name == "set up":
        return LocalBackend(Entrance((sys.executable,), setup="true"))
    return LocalBackend()


@contextmanager
def joined(lab: Lab, folder: Path) -> Iterator[Backend]:
    """A backend to whose lobby a real `zlaunch join` on another host has come, as node 1."""
    mine = Hello(0, 2, "here", (0,), "cpu", False, (), (), None, str(folder))
    with nodes_of(folder, lab) as nodes:
        lobby = Lobby(listen(PORT, "another port"), TOKEN.encode(), mine, BOUND, print, print)
        try:
            nodes.start(1, rendezvous=f"{lab.address()}:{PORT}")
            lobby.gather(BOUND)
            yield JoinBackend(lobby.joined)
        finally:
            lobby.close()


@contextmanager
def reached(name: str, lab: Lab, folder: Path) -> Iterator[Backend]:
    if name == "join":
        with joined(lab, folder) as came:
            yield came
        return
    opened = backend(name, lab)
    yield opened
    # LocalBackend.close() would end the lab's own processes: they are children of ours too.
    if not isinstance(opened, LocalBackend):
        opened.close()


@pytest.fixture(scope="module", params=["local", "set up", "paramiko", "openssh", "join"])
def way(
    request: pytest.FixtureRequest, lab2: Lab, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Way]:
    with pytest.MonkeyPatch.context() as patch:
        for key, value in lab2.client.environment().items():
            patch.setenv(key, value)
        with reached(request.param, lab2, tmp_path_factory.mktemp("way")) as opened:
            way = Way(opened.open(1, lab2.hosts[1].name))
            yield way
            way.link.hang_up()
            way.link.close(BOUND)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    args=st.lists(texts, max_size=4),
    env=st.dictionaries(st.sampled_from(["ODD_A", "ODD_B"]), texts),
    folder=names,
    script=names,
)
def test_exact(
    way: Way, tmp_path: Path, args: list[str], env: dict[str, str], folder: str, script: str
) -> None:
    place = tmp_path / folder
    place.mkdir(exist_ok=True)
    (place / script).write_text(SHOW)
    # Python takes a script that begins with a hyphen for an option, as from any shell.
    named = f"./{script}" if script.startswith("-") else script
    argv = (sys.executable, named, *args)
    told = way.output(WorkerSpec(0, argv, env, str(place)))
    given_env = sorted((os.fsencode(k), os.fsencode(v)) for k, v in env.items())
    expected = f"{[os.fsencode(a) for a in argv[1:]]} {os.fsencode(place)!r} {given_env}\n"
    assert told.decode() == expected
