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
from pathlib import Path

import pytest
from hosts import Lab
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from namespaces import BOUND

from zlaunch.backends.base import Backend, Link
from zlaunch.backends.local import LocalBackend
from zlaunch.backends.openssh import OpensshBackend, SshOptions
from zlaunch.backends.remote import Entrance
from zlaunch.backends.ssh import SshBackend
from zlaunch.run.messages import Closed, Message, Output, Ready, Start
from zlaunch.run.wire import Decoder, encode
from zlaunch.spec.hostfile import Host
from zlaunch.spec.worker import NodePlan, WorkerSpec

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
    hosts = {0: Host(lab.hosts[1].name, (0,), line=1)}
    entrances = {0: Entrance((sys.executable,))}
    if name == "openssh":
        return OpensshBackend(hosts, entrances, SshOptions())
    if name == "paramiko":
        return SshBackend(hosts, entrances, SshOptions(), lab.client.home)
    if name == "set up":
        return LocalBackend(Entrance((sys.executable,), setup="true"))
    return LocalBackend()


@pytest.fixture(scope="module", params=["local", "set up", "paramiko", "openssh"])
def way(request: pytest.FixtureRequest, lab2: Lab) -> Iterator[Way]:
    with pytest.MonkeyPatch.context() as patch:
        for key, value in lab2.client.environment().items():
            patch.setenv(key, value)
        reached = backend(request.param, lab2)
        way = Way(reached.open(0, lab2.hosts[1].name))
        yield way
        way.link.hang_up()
        way.link.close(BOUND)
        # LocalBackend.close() would end the lab's own processes: they are children of ours too.
        if not isinstance(reached, LocalBackend):
            reached.close()


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
