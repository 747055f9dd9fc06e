"""The hostfile: what is read, what is refused, and what the refusal says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlaunch.errors import HostfileError
from zlaunch.spec.hostfile import Host, parse_hostfile

W2 = Host("w", (0, 1), line=1)

GOOD = {
    "plain": ("w slots=2\n", W2),
    "no final newline": ("w slots=2", W2),
    "CRLF": ("w slots=2\r\n", W2),
    "old Mac newline": ("w slots=2\rx slots=1\r", W2),
    "tab": ("w\tslots=2", W2),
    "indented, blanks at the end": ("  w  slots=2 \t ", W2),
    "byte order mark": ("\ufeffw slots=2", W2),
    "comment behind": ("w slots=2 # eight of them, slots=8", W2),
    "comment touching": ("w slots=2#later", W2),
    "OpenMPI's max_slots": ("w slots=2 max_slots=8", W2),
    "leading zeros": ("w slots=002", W2),
    "quoted number": ('w slots="2"', W2),
    "user": ("bob@w slots=2", Host("w", (0, 1), user="bob", line=1)),
    "user with an @": ("bob@corp@w slots=2", Host("w", (0, 1), user="bob@corp", line=1)),
    "user as a key": ("w slots=2 user=bob", Host("w", (0, 1), user="bob", line=1)),
    "IPv4": ("10.0.0.1 slots=1", Host("10.0.0.1", (0,), line=1)),
    "IPv6": ("fe80::1 slots=1", Host("fe80::1", (0,), line=1)),
    "IPv6 in brackets": ("[::1] slots=1", Host("::1", (0,), line=1)),
    "IPv6 with zone and user": (
        "bob@fe80::1%eth0 slots=1",
        Host("fe80::1%eth0", (0,), user="bob", line=1),
    ),
    "name in another script": ("größe.example slots=1", Host("größe.example", (0,), line=1)),
    "all keys, slots last": (
        "w address=10.0.0.1 port=2222 user=bob python=/opt/py workdir=/w slots=1",
        Host("w", (0,), "bob", "10.0.0.1", 2222, "/opt/py", "/w", 1),
    ),
    "quoted values": (
        """w workdir="/my runs/a#1" slots=1 python='/o"p"t/py' # c""",
        Host("w", (0,), python='/o"p"t/py', workdir="/my runs/a#1", line=1),
    ),
    "quotes and # inside a word": (
        "w slots=1 workdir=/o'neil/a#b",
        Host("w", (0,), workdir="/o'neil/a#b", line=1),
    ),
    "address in brackets": (
        "w slots=1 address=[fe80::2]",
        Host("w", (0,), None, "fe80::2", line=1),
    ),
    "after blank and comment lines": ("\n  # c\n\n#w slots=9\nw slots=1", Host("w", (0,), line=5)),
}


@pytest.mark.parametrize("case", GOOD)
def test_reads(case: str) -> None:
    text, host = GOOD[case]
    assert parse_hostfile(text, "hosts")[0] == host


def test_keeps_the_order_of_the_file() -> None:
    hosts = parse_hostfile("b slots=3\n\na slots=2\n", "hosts")
    assert [(host.name, len(host.slots), host.line) for host in hosts] == [("b", 3, 1), ("a", 2, 3)]


def test_a_range_is_several_hosts_with_the_same_fields() -> None:
    text = "bob@n[09-11] slots=2 port=22 workdir=/w # three\n[fd00::1] slots=1\nfd00::[2-3] slots=1"
    hosts = parse_hostfile(text, "hosts")
    assert hosts[:3] == tuple(
        Host(name, (0, 1), "bob", port=22, workdir="/w", line=1) for name in ("n09", "n10", "n11")
    )
    assert [(host.name, host.line) for host in hosts[3:]] == [
        ("fd00::1", 2),
        ("fd00::2", 3),
        ("fd00::3", 3),
    ]


BAD = {
    "no slots": ("w", "1:2", "slots=N"),
    "no slots, other keys": ("w port=22", "1:10", "slots=N"),
    "no slots but a comment": ("w #slots=3", "1:11", "slots=N"),
    "number alone": ("w 2", "1:3", "write: slots=2"),
    "MPICH's form": ("w:2 slots=1", "1:1", "write w slots=2"),
    "MPICH's form, no slots": ("w:2", "1:1", "write w slots=2"),
    "port behind an IPv6 address": ("[::1]:22 slots=1", "1:1", "port=22"),
    "word before slots": ("w foo slots=2", "1:3", "found foo"),
    "wrong key": ("w lots=8", "1:3", "did you mean slots=8?"),
    "wrong key behind": ("w slots=8 adress=x", "1:11", "did you mean address=x?"),
    "unknown key": ("w slots=8 colour=red", "1:11", "found colour="),
    "upper case": ("w SLOTS=8", "1:3", "lower case: write slots=8"),
    "blanks around =": ("w slots = 8", "1:3", "write: slots=8"),
    "blank before =": ("w slots =8", "1:3", "write: slots=8"),
    "blank after =": ("w slots= 8", "1:3", "write: slots=8"),
    "upper case and blanks": ("w SLOTS = 8", "1:3", "write: slots=8"),
    "no value": ("w slots=", "1:9", "found slots="),
    "no text value": ("w slots=1 user=", "1:16", "leave user= out"),
    "option as a value": ("w slots=1 user=-oProxyCommand=x", "1:16", "leave user= out"),
    "zero": ("w slots=0", "1:9", "begin its line with #"),
    "negative": ("w slots=-1", "1:9", "begin its line with #"),
    "plus": ("w slots=+1", "1:9", "whole number"),
    "junk behind": ("w slots=2junk", "1:9", "write: slots=2"),
    "fraction": ("w slots=2.5", "1:9", "write: slots=2"),
    "hexadecimal": ("w slots=0x8", "1:9", "whole number"),
    "not a number": ("w slots=two", "1:9", "whole number"),
    "list of devices": ("w slots=0,2", "1:9", "--include HOST:0,2"),
    "other digits": ("w slots=\uff18", "1:9", "digits 0 to 9: slots=8"),
    "absurd": ("w slots=80000000", "1:9", "from 1 to 1024"),
    "beyond int()": ("w slots=" + "9" * 5000, "1:9", "from 1 to 1024"),
    "port zero": ("w slots=1 port=0", "1:16", "from 1 to 65535"),
    "port too high": ("w slots=1 port=65536", "1:16", "from 1 to 65535"),
    "max_slots unreadable": ("w slots=1 max_slots=x", "1:21", "whole number"),
    "key twice": ("w slots=1 slots=2", "1:11", "slots= is given twice"),
    "user twice": ("bob@w slots=1 user=ann", "1:15", "user is given twice"),
    "user with blanks": ('w slots=1 user="a b"', "1:16", "expected a user name"),
    "open quote": ('w slots=1 workdir="/my runs', "1:19", "closing quote"),
    "text behind a quote": ('w slots=1 workdir="/a"b', "1:19", "closing quote"),
    "no host": ("slots=2", "1:1", "expected a host name"),
    "no user": ("@w slots=2", "1:1", "expected user@host"),
    "no host behind the user": ("bob@ slots=2", "1:5", "host name"),
    "option as a host": ("-oProxyCommand=x slots=1", "1:1", "host name"),
    "option as a user": ("-l@w slots=1", "1:1", "expected user@host"),
    "assignment as a user": ("a=b@w slots=1", "1:1", "expected user@host"),
    "pattern": ("w* slots=1", "1:1", "not expanded"),
    "range that runs backwards": ("w[3-1] slots=1", "1:1", "write 1-3"),
    "range not closed": ("bob@w[1-3 slots=1", "1:5", "not closed"),
    "range with blanks": ("w[1, 3] slots=1", "1:6", "found 3]"),
    "range without numbers": ("w[a-c] slots=1", "1:1", "expected a number or a range"),
    "range of too many": ("w[1-9999] slots=1", "1:1", "more than 4096"),
    "range that makes no name": ("[1-3]/x slots=1", "1:1", "found '1/x'"),
    "range and a port": ("w[1-3]:22 slots=1", "1:1", "port=22"),
    "range and an address": ("w[1-3] slots=1 address=x", "1:16", "address= is of one host"),
    "range as an address": ("w slots=1 address=x[1-3]", "1:19", "not expanded"),
    "list of hosts": ("a,b slots=1", "1:1", "not expanded"),
    "invisible character": ("w\u200b slots=1", "1:1", "host name"),
    "control character": ("w slots=1 \x1b[0m", "1:11", "control character '\\x1b'"),
    "NUL": ("w slots=1 workdir=/a\0b", "1:21", "control character"),
    "bad address": ("w slots=1 address=10.0.0.1:22", "1:19", "port=22"),
    "second line": ("v slots=1\n w lots=8", "2:4", "cannot read 'w lots=8'"),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses_with_the_place_the_line_and_the_mend(case: str) -> None:
    text, place, words = BAD[case]
    with pytest.raises(HostfileError) as caught:
        parse_hostfile(text, "my/hosts")
    error = caught.value
    assert error.where == f"my/hosts:{place}"
    assert words in str(error)
    assert error.hint
    assert error.exit_code == 2
    line = text.splitlines()[int(place[0]) - 1] if text.isprintable() else ""
    assert repr(line.strip()[:100])[:-1] in error.message
    assert len(str(error)) < 6000


def test_names_both_lines_of_a_duplicate() -> None:
    with pytest.raises(HostfileError, match=r"hosts:3:1: .*'w'.*line 1 already.*line 3"):
        parse_hostfile("w slots=1\nv slots=1\nbob@w slots=2\n", "hosts")
    with pytest.raises(HostfileError, match=r"hosts:2:1: .*'w2'.*line 1 already.*line 2"):
        parse_hostfile("w[1-3] slots=1\nw[2,4] slots=1\n", "hosts")


@pytest.mark.parametrize("text", ["", "\n", "# only\n#comments", "\ufeff", "  \t\r\n"])
def test_refuses_a_file_without_hosts(text: str) -> None:
    with pytest.raises(HostfileError, match="names no host") as caught:
        parse_hostfile(text, "hosts")
    assert caught.value.where == "hosts:1:1"


def _quoted(value: str) -> str:
    return f'"{value}"' if '"' not in value else f"'{value}'"


PRINTABLE = st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"])
VALUES = st.text(PRINTABLE, min_size=1, max_size=20).filter(
    lambda text: not text.startswith("-") and not ('"' in text and "'" in text)
)
USERS = st.from_regex(r"[a-z_][a-z0-9_]{0,8}", fullmatch=True)
ADDRESSES = st.one_of(
    st.ip_addresses().map(str),
    st.from_regex(r"[a-z0-9][a-z0-9.-]{0,12}", fullmatch=True),
)
HOSTS = st.builds(
    Host,
    name=ADDRESSES,
    slots=st.integers(1, 1024).map(lambda count: tuple(range(count))),
    user=st.none() | USERS,
    address=st.none() | ADDRESSES,
    port=st.none() | st.integers(1, 65535),
    python=st.none() | VALUES,
    workdir=st.none() | VALUES,
)


def _render(host: Host, order: list[str], user_in_front: bool) -> str:
    fields = {
        "slots": str(len(host.slots)),
        "address": host.address,
        "port": host.port and str(host.port),
        "python": host.python and _quoted(host.python),
        "workdir": host.workdir and _quoted(host.workdir),
        "user": None if user_in_front else host.user,
    }
    name = f"{host.user}@{host.name}" if user_in_front and host.user else host.name
    return " ".join([name, *(f"{key}={fields[key]}" for key in order if fields[key])])


@given(
    st.lists(HOSTS, min_size=1, max_size=4, unique_by=lambda host: host.name),
    st.permutations(["slots", "address", "port", "python", "workdir", "user"]),
    st.booleans(),
    st.sampled_from(["\n", "\r\n", "\n# comment\n", "  # tail\n\n"]),
)
def test_round_trip(hosts: list[Host], order: list[str], front: bool, newline: str) -> None:
    text = newline.join(_render(host, order, front) for host in hosts)
    read = parse_hostfile(text, "hosts")
    assert [(h.name, h.slots, h.user, h.address, h.port, h.python, h.workdir) for h in read] == [
        (h.name, h.slots, h.user, h.address, h.port, h.python, h.workdir) for h in hosts
    ]


PIECES = st.sampled_from(
    ["w", "slots", "=", "slots=", "8", " ", "\t", "\n", "#", '"', "'", "@", "[", "]", ":", "-", "٣"]
)


@given(st.text() | st.lists(PIECES, max_size=20).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        hosts = parse_hostfile(text, "hosts")
    except HostfileError as error:
        if not (error.where and error.hint):
            raise
    else:
        assert all(host.slots for host in hosts)
