"""Which hosts are this machine, by name, by address and by the SSH configuration."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from zlaunch.spec.hostfile import Host
from zlaunch.system.here import which_are_here

CONFIG = """
Host me
    HostName 127.0.0.1
Host behind-a-port
    HostName 127.0.0.1
    Port 2222
Host as-another
    HostName 127.0.0.1
    User somebody-else
Host behind-another
    HostName 127.0.0.1
    ProxyJump gate
Host far
    HostName 192.0.2.1
Host localhost
    User somebody-else
"""


def host(name: str, **more: Any) -> Host:
    return Host(name, (0,), line=1, **more)


def here(home: Path, *hosts: Host, config: str = CONFIG) -> list[bool]:
    (home / ".ssh").mkdir(exist_ok=True)
    (home / ".ssh/config").write_text(config)
    return which_are_here(hosts, home, 60.0)


def test_by_name_and_by_address(tmp_path: Path) -> None:
    names = ("localhost", "127.0.0.1", "::1", socket.gethostname(), "192.0.2.1", "", "a b")
    assert here(tmp_path, *map(host, names))[:2] == [True, True]
    assert here(tmp_path, *map(host, names))[-3:] == [False, False, False]


def test_not_where_the_hostfile_says_how_to_log_in(tmp_path: Path) -> None:
    assert here(tmp_path, host("localhost", port=22), host("localhost", user="root")) == [False] * 2


def test_an_alias_counts_as_what_it_stands_for(tmp_path: Path) -> None:
    names = ("me", "ME", "far", "behind-a-port", "as-another", "behind-another")
    assert here(tmp_path, *map(host, names)) == [True, False, False, False, False, False]


def test_a_configuration_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    config = "Match exec true\n HostName 127.0.0.1\n"
    assert here(tmp_path, host("localhost"), host("192.0.2.1"), config=config) == [True, False]


def test_no_lookup_waits_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(8)

    def look_up(*_: object, **__: object) -> None:
        together.wait(timeout=10)
        raise socket.gaierror("nobody knows")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert here(tmp_path, *(host(f"n{number}") for number in range(8))) == [False] * 8
    assert not together.broken


def test_what_an_alias_is_called_is_never_looked_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    def look_up(name: object, *_: object, **__: object) -> list[object]:
        asked.append(name)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    here(tmp_path, host("far"), host("behind-another"), host("n1"))
    assert sorted(map(str, asked)) == ["192.0.2.1", "n1"]
