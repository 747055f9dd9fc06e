"""Host keys are looked up in known_hosts as OpenSSH does; no host is needed for that."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
from pathlib import Path

import pytest

from zlaunch.backends.ssh_host_keys import by_preference, check_host_key
from zlaunch.errors import BackendError
from zlaunch.system.ssh_config import SshTarget


def target(file: Path, **more: object) -> SshTarget:
    plain = SshTarget(
        host="a", hostname="gpu1.example.org", port=22, user="u", identities=(),
        known_hosts=(str(file),), global_known_hosts=(),
    )  # fmt: skip
    return dataclasses.replace(plain, **more)  # type: ignore[arg-type]


KEY, OTHER = b"\0\0\0\x0bssh-ed25519 one", b"\0\0\0\x0bssh-ed25519 two"


def line(names: str, key: bytes = KEY, kind: str = "ssh-ed25519") -> str:
    return f"{names} {kind} {base64.b64encode(key).decode()}\n"


def hashed(name: str) -> str:
    salt = b"0123456789abcdefghij"
    digest = hmac.new(salt, name.encode(), hashlib.sha1).digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


@pytest.mark.parametrize(
    ("text", "more", "says"),
    [
        (line("gpu1.example.org"), {}, ""),
        (line("other,GPU1.example.org"), {}, ""),
        (line("*.example.org"), {}, ""),
        (line("*.example.org,!gpu1.*"), {}, "is not known"),
        (line(hashed("gpu1.example.org")), {}, ""),
        (line(hashed("gpu2.example.org")), {}, "is not known"),
        (line("gpu1.example.org", OTHER), {}, "has changed"),
        (line("gpu1.example.org", OTHER) + line("gpu1.example.org"), {}, ""),
        (line("gpu1.example.org", OTHER, "ssh-rsa"), {}, "has changed"),
        ("@revoked " + line("*") + line("gpu1.example.org"), {}, "is revoked"),
        ("@cert-authority " + line("*"), {}, "is not known"),
        ("# " + line("gpu1.example.org"), {}, "is not known"),
        ("gpu1.example.org ssh-ed25519 ~\n", {}, "has changed"),
        (line("[gpu1.example.org]:2222"), {"port": 2222}, ""),
        (line("[gpu1.example.org]:2222"), {}, "is not known"),
        (line("gpu1.example.org"), {"port": 2222}, ""),
        (line("gpu1.example.org", OTHER), {"port": 2222}, "is not known"),
        (line("pool"), {"host_key_alias": "pool", "port": 2222}, ""),
        (line("gpu1.example.org"), {"host_key_alias": "pool"}, "is not known"),
    ],
)
def test_host_keys_strictly(tmp_path: Path, text: str, more: dict[str, object], says: str) -> None:
    (tmp_path / "known").write_text(text)
    wanted = target(tmp_path / "known", **more)
    if not says:
        check_host_key(wanted, "ssh-ed25519", KEY, accept_new=False)
        return
    with pytest.raises(BackendError, match=says):
        check_host_key(wanted, "ssh-ed25519", KEY, accept_new=False)


def test_a_new_key_is_appended_behind_a_last_line_without_end(tmp_path: Path) -> None:
    file = tmp_path / "ssh" / "known"
    wanted = target(file, port=2222)
    check_host_key(wanted, "ssh-ed25519", KEY, accept_new=True)
    assert file.read_text() == line("[gpu1.example.org]:2222")
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_text("# no end")
    check_host_key(wanted, "ssh-ed25519", KEY, accept_new=True)
    assert file.read_text() == "# no end\n" + line("[gpu1.example.org]:2222")
    with pytest.raises(BackendError, match="has changed"):
        check_host_key(wanted, "ssh-ed25519", OTHER, accept_new=True)


def test_a_host_is_asked_for_the_kind_of_key_that_is_known(tmp_path: Path) -> None:
    (tmp_path / "known").write_text(line("gpu1.example.org", KEY, "ssh-rsa"))
    kinds = ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]
    expected = ["rsa-sha2-512", "rsa-sha2-256", "ssh-ed25519"]
    assert by_preference(target(tmp_path / "known"), kinds) == expected
