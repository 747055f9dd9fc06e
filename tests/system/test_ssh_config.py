"""The user's SSH configuration, compared with what the system's ssh makes of it."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zlaunch.errors import BackendError
from zlaunch.system.ssh_config import SshTarget, parse_jump, resolve

ME = pwd.getpwuid(os.getuid())
NO_SSH = shutil.which("ssh") is None and "CI" not in os.environ
needs_ssh = pytest.mark.skipif(
    NO_SSH, reason="ssh is not installed: apt-get install openssh-client"
)

Files = dict[str, str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


def write(home: Path, files: str | Files) -> None:
    """`files` are in ~/.ssh; a text alone is its config."""
    for name, text in ({"config": files} if isinstance(files, str) else files).items():
        path = home / ".ssh" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("HOME", str(home)), encoding="utf-8", newline="")
        path.chmod(0o600)


def ours(home: Path, alias: str = "h", **given: object) -> SshTarget:
    return resolve(alias, home=home, system_config=home / "etc/ssh_config", **given)


def asked(home: Path, alias: str, *options: str) -> dict[str, list[str]]:
    """What `ssh -G` says; ~ is the home of the user's entry, whatever HOME is."""
    command = ["ssh", "-G", "-F", str(home / ".ssh/config"), *options, "--", alias]
    done = subprocess.run(
        command, env={**os.environ, "HOME": str(home)}, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise BackendError(done.stderr)
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        key, _, value = line.partition(" ")
        said.setdefault(key, []).append(value)
    return said


def as_ssh_says(home: Path, target: SshTarget) -> dict[str, list[str]]:
    """`target` in the words of `ssh -G`, where those are settled and short."""
    jump = ",".join(target.proxy_jump).replace("ssh://", "")
    command = target.proxy_command
    time = target.connect_timeout
    return {
        "hostname": [target.hostname],
        "port": [str(target.port)],
        "user": [target.user],
        "identitiesonly": ["yes" if target.identities_only else "no"],
        "userknownhostsfile": [" ".join(target.known_hosts) or "none"],
        "globalknownhostsfile": [" ".join(target.global_known_hosts) or "none"],
        "proxyjump": [jump] if jump else [],
        "proxycommand": [command] if command else [],
        "hostkeyalias": [target.host_key_alias] if target.host_key_alias else [],
        "identityagent": [target.identity_agent] if target.identity_agent else [],
        "connecttimeout": [str(time) if time else "none"],
    }


def compare(home: Path, alias: str, *options: str, **given: object) -> None:
    said, target = asked(home, alias, *options), ours(home, alias, **given)
    mine = as_ssh_says(home, target)
    theirs = {key: [_at(home, value) for value in said.get(key, [])] for key in mine}
    theirs["proxyjump"] = [value.replace("ssh://", "") for value in theirs["proxyjump"]]
    assert mine == theirs
    files = [_at(home, value) for value in said["identityfile"] if value != "none"]
    if f"{home}/.ssh/id_dsa" not in files:  # the default, which is longer than ours
        assert list(target.identities) == files


def _at(home: Path, value: str) -> str:
    return value.replace("~/", f"{home}/").replace(f"{ME.pw_dir}/", f"{home}/")


SAME: dict[str, str | Files] = {
    "nothing": "",
    "alias, port, user": "Host h\n HostName Gpu01.Example\n Port 2222\n User bob\n",
    "of another": "Host x\n Port 1\nHost h2\n Port 2\nHost H\n Port 3\n",
    "first wins": "Port 1\nHost h\n Port 2\nHost *\n Port 3\n User bob\n User ann\n",
    "later for others": "Host h\n Port 2\nHost *\n Port 3\n User bob\n",
    "patterns": "Host g* ?\n Port 2\nHost ??\n Port 3\nHost h*\n User bob\n",
    "brackets are letters": "Host [h]\n Port 2\nHost [!x]\n Port 3\n",
    "negated": "Host * !h\n Port 2\nHost !h *\n Port 3\nHost !x\n Port 4\nHost !x h\n Port 5\n",
    "spelling": "  hOsT=h\n\tPORT = 4 \nUSER=bob\r\n\n# c\n   # c\n",
    "comments": "Host h # x\n Port 4 # c\n User b#b\n",
    "quotes": 'Host "h" \n Port "4"\n User "bob"\n IdentityFile "HOME/a b"\n "HostName" x\n',
    "single quotes": "Host 'h'\n User 'bob'\n IdentityFile 'a \"b\"'\n",
    "backslashes": 'User a\\b\nIdentityFile "HOME/a\\"b\\\\c\\d"\nHostKeyAlias a\\ b\n',
    "CRLF, form feed": "Host h\r\n Port 4\r\n User bob \f\n",
    "no final newline": "Host h\n Port 4",
    "identity files": "IdentityFile ~/.ssh/a\nHost h\n IdentityFile HOME/b\n IdentityFile none\n"
    " IdentityFile ~/.ssh/a\n IdentitiesOnly yes\n",
    "known hosts": 'UserKnownHostsFile ~/a "~/b c" /d\nGlobalKnownHostsFile /e /f\n',
    "no known hosts": "UserKnownHostsFile none\nGlobalKnownHostsFile none\nHostKeyAlias Rack.One\n",
    "time": "ConnectTimeout 7\n",
    "time in minutes": "ConnectTimeout 1m30\n",
    "time in hours": "ConnectTimeout 1H2s\n",
    "no time": "ConnectTimeout none\n",
    "agent": "IdentityAgent ~/agent.sock\n",
    "no agent": "IdentityAgent none\n",
    "jump": "ProxyJump a\n",
    "jumps": "ProxyJump = bob@a:22,[fd00::1]:23,ssh://ann@c:24\n",
    "jump and comment": "ProxyJump a # by the door\n",
    "no jump": "Host h\n ProxyJump none\nHost *\n ProxyJump a\n",
    "command": "Host h\n ProxyCommand nc -X 5 'a b' \"c\" ~ # d\n",
    "no command": "ProxyCommand none\nHost *\n ProxyCommand x\n",
    "command behind no jump": "ProxyJump none\nProxyJump a\nProxyCommand x\nProxyCommand y\n",
    "no command behind no jump": "ProxyJump none\nProxyCommand none\nProxyJump a\n",
    "command before jump": "ProxyCommand x y\nProxyJump a\n",
    "jump before command": "ProxyJump a\nProxyCommand x y\n",
    "no command before jump": "ProxyCommand none\nProxyJump a\n",
    "flags": "IdentitiesOnly True\n",
    "host name from alias": "HostName %h.Example\n",
    "zone": "HostName fe80::1%%eth0\n",
    "unknown to us": "ServerAliveInterval 5\nSendEnv LANG LC_*\nLocalForward 1 b:2\n",
    "match host": "Match host h\n Port 2\nMatch host=x,h*,!hh\n User bob\nMatch host x\n Port 9\n",
    "match sees HostName": "Host h\n HostName Node-%h\nMatch host node-h\n Port 2\n"
    "Match host h\n User x\n",
    "match originalhost": "HostName n\nMatch originalhost H\n Port 2\n"
    "Match originalhost n\n User x\n",
    "match user": f"Match user {ME.pw_name}\n Port 2\nMatch all\n User bob\n"
    "Match user b*\n HostName x\n",
    "match localuser": f"User bob\nMatch localuser {ME.pw_name},x\n Port 2\n"
    "Match localuser bob\n HostName x\n",
    "match several": "Match host h user nobody\n Port 2\nMatch host h !user nobody\n Port 3\n",
    "match negated": "Match !host x\n Port 2\nMatch !host h\n User bob\nMatch !all\n User ann\n",
    "match all": "Host x\n Port 1\nMatch all\n Port 2\n",
    "match with a comment": "Match host h # all of h\n Port 2\n",
    "match quoted": 'Match host "h" user "*"\n Port 2\n',
    "match final": "Match final\n Port 2\nMatch final host n\n User bob\nHost h\n HostName n\n",
    "match final comes last": "Match final all\n Port 2\n User ann\nHost h\n Port 3\n",
    "match canonical": "Match canonical\n Port 2\n",
    "second reading": "Match host n\n Port 2\nHost h\n HostName n\nMatch final host x\n User bob\n",
    "second reading is for the HostName": "Host n\n Port 2\nHost h\n HostName N\n User bob\n"
    "Match final user x\n",
    "canonical names, none of ours": "CanonicalizeHostname yes\nMatch canonical all\n Port 2\n",
    "canonical names behind a proxy": "CanonicalizeHostname yes\nCanonicalDomains x.invalid\n"
    "ProxyJump a\nMatch canonical\n Port 2\n",
    "canonical names of names with dots": "CanonicalizeHostname yes\nCanonicalDomains x.invalid\n"
    "HostName a.b.c\n",
    "exec that does not matter": "Match exec true host y\n Port 2\n",
    "include": {"config": "Include a\nPort 9\n", "a": "Host h\n Port 2\nHost x\n Port 3\n"},
    "include from home": {"config": "Include ~/.ssh/a\n", "a": "Port 2\n"},
    "include absolute, quoted": {"config": 'Include "HOME/.ssh/a b"\n', "a b": "Port 2\n"},
    "include several": {"config": "Include b a\n", "a": "Port 2\n", "b": "Port 3\nUser b\n"},
    "include nothing": "Include none/* nothing\nPort 2\n",
    "include a directory": {"config": "Include d\nPort 2\n", "d/x": "Port 3\n"},
    "include by pattern": {
        "config": "Include d/*\n",
        "d/2": "Port 2\nUser two\n",
        "d/10": "Port 10\n",
        "d/.hidden": "HostName hidden\n",
    },
    "include keeps the block": {
        "config": "Host h\n Include a\n Port 2\nHost *\n User ann\n",
        "a": "HostName n\nHost x\n User bob\n Port 3\n",
    },
    "include in a block of another": {
        "config": "Host x\n Include a\n Port 2\n",
        "a": "Port 3\nHost h\n Port 4\nMatch all\n Port 5\n",
    },
    "include in a match": {
        "config": "Match host h\n Include a\nMatch host x\n Include b\n",
        "a": "Host x\n Port 2\nHost *\n Port 3\n",
        "b": "User bob\n",
    },
    "include of several, each from the start": {
        "config": "Host h\n Include a b\n",
        "a": "Host x\n Port 2\n",
        "b": "Port 3\n",
    },
    "include nested": {
        "config": "Include 1\n",
        "1": "Host h\n Include 2\n User one\n",
        "2": "Host *\n Include 3\n",
        "3": "Port 3\n",
    },
}


@needs_ssh
@pytest.mark.parametrize("case", SAME)
def test_resolves_as_ssh_does(case: str, home: Path) -> None:
    write(home, SAME[case])
    compare(home, "h")
    compare(home, "x")


@needs_ssh
def test_the_callers_user_and_port_win(home: Path) -> None:
    write(home, "Host h\n Port 2222\n User bob\nMatch user ann\n HostName n\n")
    compare(home, "h", "-l", "ann", "-p", "23", user="ann", port=23)
    assert ours(home, user="ann", port=23).hostname == "n"


@needs_ssh
@pytest.mark.parametrize("alias", ["H", "10.0.0.1", "fd00::1", "fe80::1%lo", "a.b", "größe"])
def test_any_name_of_a_host(alias: str, home: Path) -> None:
    write(
        home, "Host h\n Port 2\nHost 10.*\n Port 3\nHost fd00::*\n Port 4\nMatch host h\n User b\n"
    )
    compare(home, alias)


TOKENS = (
    "Host h\n HostName n\n Port 23\n User bob\n IdentityFile ~/%n-%h-%p-%r-%u-%%h\n"
    " IdentityFile %d/${ZL_X}\n UserKnownHostsFile ~/%k\n IdentityAgent $ZL_X\n ProxyCommand nc"
    " %h %p %r %n %% ~ a~b\n"
)


def test_puts_tokens_in(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZL_X", "a b")
    write(home, TOKENS)
    target = ours(home)
    assert target.identities == (f"{home}/h-n-23-bob-{ME.pw_name}-%h", f"{home}/a b")
    assert target.known_hosts == (f"{home}/h",)
    assert target.identity_agent == "a b"
    assert target.proxy_command == "nc n 23 bob h % ~ a~b"
    write(
        home,
        "ProxyJump %r@gate-%n:%p\nIdentityFile %L%i\nIdentityAgent ${ZL_X}/s\nPort 5\nUser u\n",
    )
    target = ours(home)
    assert target.proxy_jump == ("u@gate-h:5",)
    assert target.identities == (f"{socket.gethostname().partition('.')[0]}{os.getuid()}",)
    assert target.identity_agent == "a b/s"


def test_without_files_a_host_is_its_name(home: Path) -> None:
    assert ours(home, "Gpu01") == SshTarget(
        host="Gpu01",
        hostname="gpu01",
        port=22,
        user=ME.pw_name,
        identities=tuple(f"{home}/.ssh/{key}" for key in ("id_rsa", "id_ecdsa", "id_ed25519")),
        known_hosts=(f"{home}/.ssh/known_hosts", f"{home}/.ssh/known_hosts2"),
        global_known_hosts=("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"),
    )


def test_identity_file_none_means_no_key(home: Path) -> None:
    write(home, "IdentityFile none\nIdentityAgent SSH_AUTH_SOCK\n")
    assert ours(home).identities == ()
    assert ours(home).identity_agent is None


def test_the_systems_file_comes_behind_the_users(home: Path) -> None:
    write(home, "Host h\n Port 2\n IdentityFile a\n")
    (home / "etc").mkdir()
    (home / "etc/ssh_config").write_text("Include more\nPort 3\nUser ann\nIdentityFile b\n")
    (home / "etc/more").write_text("Host h\n User bob\n")
    target = ours(home)
    assert (target.port, target.user, target.identities) == (2, "bob", ("a", "b"))


def test_an_unused_user_file_is_not_needed(home: Path) -> None:
    (home / ".ssh").rmdir()
    assert ours(home).port == 22


BROKEN: dict[str, tuple[str | Files, str, str]] = {
    "no value": ("Host h\n\n Port\n", "config:3", "expected a keyword and its value"),
    "only =": ("Port=\n", "config:1", "expected a keyword and its value"),
    "open quote": ('Port "22\n', "config:1", "a quote is not closed"),
    "not a port": ("Host *\n Port ssh22\n", "config:2", "from 1 to 65535"),
    "port zero": ("Port 0\n", "config:1", "from 1 to 65535"),
    "port too high": ("Port 65536\n", "config:1", "from 1 to 65535"),
    "two ports": ("Port 22 23\n", "config:1", "expected one value, found 2"),
    "empty host": ('Host ""\n', "config:1", "a value is missing"),
    "not a flag": ("IdentitiesOnly maybe\n", "config:1", "yes or no"),
    "not a time": ("ConnectTimeout soon\n", "config:1", "1m30s"),
    "not a jump": ("ProxyJump a:b\n", "config:1", "[USER@]HOST[:PORT]"),
    "empty jump": ("ProxyJump a,\n", "config:1", "[USER@]HOST[:PORT]"),
    "unknown token": ("HostName %n\n", "config:1", "%n"),
    "unknown criterion": ("Match colour red\n", "config:1", "no criterion 'colour'"),
    "criterion without a value": ("Match host\n", "config:1", "missing behind host"),
    "all and more": ("Match all host h\n", "config:1", "'all' stands alone"),
    "in an included file": ({"config": "\nInclude a\n", "a": "\nPort x\n"}, "a:2", "65535"),
    "includes itself": ({"config": "Include a\n", "a": "Include a\n"}, "a:1", "16 deep"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_points_at_what_is_broken(case: str, home: Path) -> None:
    files, place, words = BROKEN[case]
    write(home, files)
    with pytest.raises(BackendError) as caught:
        ours(home)
    assert caught.value.where == f"{home}/.ssh/{place}"
    assert words in str(caught.value)
    assert caught.value.hint


@needs_ssh
@pytest.mark.parametrize("case", BROKEN)
def test_ssh_does_not_read_what_is_broken_either(case: str, home: Path) -> None:
    write(home, BROKEN[case][0])
    with pytest.raises(BackendError):
        asked(home, "h")


NOT_OURS = {
    "exec": 'Match exec "touch HOME/ran"\n Port 2\n',
    "exec and what holds": 'Match host h exec "touch HOME/ran" user *\n Port 2\n',
    "not exec": "Match !exec false\n Port 2\n",
    "network": "Match localnetwork 10.0.0.0/8\n Port 2\n",
    "tag": "Match tagged x\n Port 2\n",
    "canonical name": "CanonicalizeHostname yes\nCanonicalDomains x.invalid\n",
    "canonical name behind a proxy": "CanonicalizeHostname always\nCanonicalDomains x.invalid\n"
    "ProxyJump a\n",
    "hash": "IdentityFile ~/%C\n",
}


@pytest.mark.parametrize("case", NOT_OURS)
def test_leaves_to_ssh_what_only_ssh_can_decide(case: str, home: Path) -> None:
    write(home, NOT_OURS[case])
    with pytest.raises(BackendError, match=r"--ssh openssh") as caught:
        ours(home)
    assert str(caught.value.where).startswith(f"{home}/.ssh/config:")
    assert not (home / "ran").exists()


def test_what_only_ssh_can_decide_is_no_matter_for_other_hosts(home: Path) -> None:
    write(home, {"config": "Host x\n Include a\nHost *\n Port 2\n", "a": "Match exec false\n"})
    assert ours(home).port == 2


@pytest.mark.parametrize("user", ["$(id)", "a;b", "a b", "-x", "a'b", "a\\b", "`id`"])
def test_nothing_gets_into_the_shell_of_a_proxy_command(user: str, home: Path) -> None:
    write(home, "Host h\n ProxyCommand nc %h %r\nHost *\n ProxyCommand nc %h\n")
    with pytest.raises(BackendError, match="a shell would read"):
        ours(home, user=user)
    assert ours(home, "x", user=user).proxy_command == "nc x"


def test_a_file_that_others_can_write_is_not_read(home: Path) -> None:
    write(home, "Port 2\n")
    (home / ".ssh/config").chmod(0o666)
    with pytest.raises(BackendError, match="chmod go-w"):
        ours(home)


def test_a_file_that_cannot_be_read(home: Path) -> None:
    (home / ".ssh/config").symlink_to("config")
    with pytest.raises(BackendError, match="cannot be read: Too many levels") as caught:
        ours(home)
    assert caught.value.where == f"{home}/.ssh/config"


@pytest.mark.parametrize(
    ("text", "jump"),
    [
        ("a", (None, "a", None)),
        ("bob@a.b:22", ("bob", "a.b", 22)),
        ("bob@corp@a", ("bob@corp", "a", None)),
        ("[fd00::1]:23", (None, "fd00::1", 23)),
        ("ssh://bob@[fd00::1]:23/", ("bob", "fd00::1", 23)),
    ],
)
def test_reads_a_jump(text: str, jump: tuple[str | None, str, int | None]) -> None:
    assert parse_jump(text) == jump


@pytest.mark.parametrize("text", ["", "@a", "a:", "a:0", "a:65536", "a b", "-a", "-l@a", "fd00::1"])
def test_refuses_a_jump(text: str) -> None:
    with pytest.raises(BackendError, match="ProxyJump"):
        parse_jump(text)


KEYWORDS = [
    *("Host", "Match", "Include", "Port", "User", "HostName", "IdentityFile"),
    *("ProxyJump", "ProxyCommand"),
]
VALUES = [
    *("h", "x", "*", "!h", "2", "%h", "a,b", '"', "'", "=", "#", "none", "host", "all", "final"),
    *("!all", "user", "h=h", "host=h", "\\", "a\\ b"),
]
LINES = st.builds(
    "{} {}".format,
    st.sampled_from(KEYWORDS),
    st.lists(st.sampled_from(VALUES), max_size=4).map(" ".join),
)


@needs_ssh
@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(LINES, max_size=6).map("\n".join))
def test_where_both_read_a_file_they_agree(home: Path, text: str) -> None:
    write(home, text)
    try:
        asked(home, "h")
        ours(home)
    except BackendError:
        return
    # Only ssh writes a host that is a number as the address 0.0.0.2.
    if "%" not in text and "HostName 2" not in text:
        compare(home, "h")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"])) | st.lists(LINES).map("\n".join))
def test_any_text_is_read_or_refused(home: Path, text: str) -> None:
    write(home, text)
    try:
        ours(home)
    except BackendError as error:
        if not (error.where and error.hint):
            raise
