"""`zlaunch doctor`: a table or data, one line for each thing that is wrong, and exit code 2."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hosts import Lab
from namespaces import BOUND

TOOL = (sys.executable, "-m", "zlaunch", "doctor")


def doctor(env: dict[str, str], *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOOL, *options], env=env, capture_output=True, text=True, timeout=BOUND,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def data(env: dict[str, str], *options: str) -> tuple[int, dict[str, Any]]:
    done = doctor(env, "--json", *options)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


@pytest.fixture
def env(lab8: Lab, tmp_path: Path) -> dict[str, str]:
    return {**lab8.client.environment(), "ZLAUNCH_HOME": str(tmp_path / "runs")}


@pytest.mark.parametrize("ssh", ["paramiko", "openssh"])
def test_good_hosts(lab8: Lab, env: dict[str, str], tmp_path: Path, ssh: str) -> None:
    done = doctor(env, "--hosts", "h[0-7]:2", "--device", "cpu", "--ssh", ssh)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith("│")]
    assert [row[0].strip() for row in rows] == [host.name for host in lab8.hosts]
    assert {row[-1].strip() for row in rows} == {"fine"}
    assert f"every host reaches {lab8.hosts[0].address}:" in done.stdout
    assert not (tmp_path / "runs").exists()  # it is no run


def test_hosts_that_cannot_be_reached_beside_one_that_is_wrong(
    lab8: Lab, env: dict[str, str], tmp_path: Path
) -> None:
    lab8.hosts[1].refuse_key()
    lab8.hosts[2].stop_sshd()
    lab8.hosts[3].hang()
    hosts = "h0 slots=1\nh1 slots=1\nh2 slots=1\nh3 slots=1\nh4 slots=2 workdir=/no/such\n"
    (tmp_path / "hosts").write_text(hosts + "nowhere.invalid slots=1\n")
    options = ("--hostfile", str(tmp_path / "hosts"), "--device", "cpu", "--connect-timeout", "8")
    code, found = data(env, *options)
    assert code == 2
    assert found["ok"] is False
    wrong = {h["host"]: [(f["code"], f["text"]) for f in h["findings"]] for h in found["hosts"]}
    assert [code for ((code, _),) in list(wrong.values())[1:]] == [
        *("unreachable", "unreachable", "unreachable", "directory", "unreachable")
    ]
    assert wrong["h0"] == []
    assert wrong["h1"][0][1].startswith("it refuses our key")
    assert wrong["h2"][0][1].startswith("it refuses connections")
    assert wrong["h3"][0][1].startswith("it did not answer within 8 s")
    assert wrong["nowhere.invalid"][0][1].startswith("its name does not resolve")
    by_name = {host["host"]: host for host in found["hosts"]}
    assert by_name["h0"]["facts"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert by_name["h0"]["address"] == lab8.hosts[0].address
    assert by_name["h4"]["slots"] == [0, 1]
    assert by_name["h1"]["facts"] is None


def test_no_host_at_all_can_be_reached(env: dict[str, str]) -> None:
    done = doctor(env, "--hosts", "nowhere.invalid,elsewhere.invalid")
    assert done.returncode == 2
    assert done.stdout.count("its name does not resolve") == 2


def test_what_is_allowed_counts_no_more(env: dict[str, str]) -> None:
    assert doctor(env, "--hosts", "h0,h1", "--device", "cuda").returncode == 2
    allowed = ("--allow", "gpus,cuda")
    assert doctor(env, "--hosts", "h0,h1", "--device", "cuda", *allowed).returncode == 0


def test_this_machine(tmp_path: Path) -> None:
    env = {**os.environ, "ZLAUNCH_HOME": str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    lock = tmp_path / "extensions" / "cpu_adam" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    os.utime(lock, (0, 0))
    env |= {"TORCH_EXTENSIONS_DIR": str(tmp_path / "extensions")}
    code, found = data(env, "--cpu", "2")
    (host,) = found["hosts"]
    assert (code, found["ok"], host["host"], host["slots"]) == (0, True, "localhost", [0, 1])
    assert host["facts"]["packages"].keys() >= {"torch", "deepspeed"}
    (finding,) = host["findings"]
    assert (finding["code"], finding["warning"]) == ("lock", True)
    assert finding["hint"] == f"rm {lock}"


def test_bandwidth(env: dict[str, str]) -> None:
    code, found = data(env, "--hosts", "h0,h1:2", "--device", "cpu", "--bandwidth")
    assert (code, found["ok"]) == (0, True)
    measured = [(one["kind"], one["hosts"], one["ranks"]) for one in found["bandwidth"]["measured"]]
    assert sorted(measured) == [
        ("pair", ["h0", "h1"], 2),
        ("within", ["h1"], 2),
        ("world", ["h0", "h1"], 3),
    ]
    assert all(one["bus_bytes_per_second"] > 0 for one in found["bandwidth"]["measured"])
    assert found["bandwidth"]["failure"] is None


def test_no_bandwidth_where_something_is_wrong(env: dict[str, str]) -> None:
    done = doctor(env, "--hosts", "h0,nowhere.invalid", "--device", "cpu", "--bandwidth")
    assert done.returncode == 2
    assert "all-reduce was not measured: first mend what is wrong" in done.stdout


def test_a_hostfile_that_is_wrong_ends_before_anything(env: dict[str, str], tmp_path: Path) -> None:
    done = doctor(env, "--hostfile", str(tmp_path / "hosts"))
    assert (done.returncode, done.stdout) == (2, "")
    assert "was not found" in done.stderr


@pytest.mark.parametrize(
    "options", [("--num-nodes", "5"), ("--setup", "true"), ("--force-ssh",), ("--env", "A=1")]
)
def test_options_about_hosts_need_hosts(tmp_path: Path, options: tuple[str, ...]) -> None:
    done = doctor({**os.environ, "ZLAUNCH_HOME": str(tmp_path)}, *options, "--cpu", "1")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{options[0]} is about hosts" in done.stderr


def test_what_is_allowed_is_ok_in_the_data_too(env: dict[str, str]) -> None:
    code, found = data(env, "--hosts", "h0", "--device", "cuda", "--allow", "gpus,cuda")
    assert (code, found["ok"]) == (0, True)
