"""A reserved port: ours against strangers, open to torch's store."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from zlaunch.errors import InputError
from zlaunch.system.busy_port import reserve
from zlaunch.system.ports import ReservedPort

# As torch's TCPStore listens: SO_REUSEADDR, on IPv6 or IPv4; says whether it worked.
LISTEN = """
import socket, sys
family, reuse, address, port = (int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
listener = socket.socket(family)
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
try:
    listener.bind((address, port))
except OSError as error:
    print(error.strerror, flush=True)
    sys.exit()
listener.listen()
print("listens", listener.getsockname()[1], flush=True)
listener.accept()[0].sendall(b"hello")
sys.stdin.read()
"""


class Listener:
    """Another process that listens, or says why it cannot."""

    def __init__(self, reuse: bool, address: str, port: int) -> None:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        command = [sys.executable, "-c", LISTEN, str(int(family)), str(int(reuse)), address]
        self.process = subprocess.Popen(
            [*command, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        self.said = self.process.stdout.readline().strip()

    @property
    def port(self) -> int:
        return int(self.said.split()[1])

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def reserved() -> Iterator[ReservedPort]:
    port = reserve()
    yield port
    port.release()


addresses = pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "0.0.0.0",
        pytest.param(
            "::", marks=pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
        ),
    ],
)


@addresses
def test_torch_may_listen_on_it(reserved: ReservedPort, address: str) -> None:
    listener = Listener(True, address, reserved.port)
    try:
        assert listener.said == f"listens {reserved.port}"
        with socket.create_connection(("127.0.0.1", reserved.port), timeout=30) as connection:
            assert connection.recv(5) == b"hello"
    finally:
        listener.close()


@addresses
def test_a_plain_bind_fails(reserved: ReservedPort, address: str) -> None:
    listener = Listener(False, address, reserved.port)
    listener.close()
    assert listener.said == "Address already in use"


def test_reserving_the_same_again_is_refused(reserved: ReservedPort) -> None:
    with pytest.raises(InputError, match=f"port {reserved.port} is in use"):
        reserve(reserved.port)


def test_two_hundred_reservations_are_distinct() -> None:
    ports = [reserve() for _ in range(200)]
    numbers = {port.port for port in ports}
    for port in ports:
        port.release()
    assert len(numbers) == 200
    assert all(1024 <= number < 65536 for number in numbers)


def test_release_gives_it_back() -> None:
    port = reserve()
    port.release()
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", port.port))


def test_an_explicit_port_is_taken_as_it_is() -> None:
    number = reserve()
    number.release()
    again = reserve(number.port)
    assert again.port == number.port
    again.release()


@addresses
def test_a_busy_port_names_its_holder(address: str) -> None:
    listener = Listener(True, address, 0)
    try:
        with pytest.raises(InputError) as caught:
            reserve(listener.port)
    finally:
        listener.close()
    assert f"port {listener.port} is in use by pid {listener.process.pid} (" in str(caught.value)
    assert "--master-port" in str(caught.value)
    assert caught.value.exit_code == 2


def test_connections_that_fade_out_are_in_nobodys_way() -> None:
    """The run before has ended a moment ago; its port may be asked for again."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        number = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", number)) as client:
            accepted, _ = server.accept()
            accepted.close()  # whoever closes first is left with TIME_WAIT
            assert client.recv(1) == b""
    again = reserve(number)
    assert again.port == number
    again.release()
