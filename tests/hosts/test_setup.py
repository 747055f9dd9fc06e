"""--setup: a command of the user's that runs first on each host, in the login shell."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path

import pytest
from hosts import Lab
from journey_many import HI, changed, many
from test_preflight import environment

ENV = "import json, os, sys\nprint(json.dumps([sys.executable, dict(os.environ)]))\n"
SSH = ("paramiko", "openssh")


def told(out: str) -> list[tuple[str, dict[str, str]]]:
    lines = sorted(out.splitlines())
    return [tuple(json.loads(line.partition(" | ")[2])) for line in lines]


@pytest.mark.parametrize("ssh", SSH)
def test_what_it_sets_reaches_the_workers(lab2: Lab, tmp_path: Path, ssh: str) -> None:
    """Also this machine's; a file named as from the workers' directory; several lines."""
    value = 'it\'s "so" $HOME\n  `x` ä\\'
    (tmp_path / "env.sh").write_text("echo words; read line; export FROM_FILE=yes\n")
    setup = "source env.sh\nexport LINES_TOO='it'\"'\"'s \"so\" $HOME\n  `x` ä\\'"
    with many(lab2, tmp_path, ssh) as launches:
        hosts = launches.all() + "localhost slots=1\n"
        done = launches.run(hosts, ENV, options=("--setup", setup))
    assert done.code == 0, done.err
    assert len(told(done.out)) == 3
    for python, env in told(done.out):
        assert (env["FROM_FILE"], env["LINES_TOO"]) == ("yes", value)
        assert python == sys.executable
        assert not [name for name in env if name.startswith("ZLAUNCH_SETUP")]
        assert "ZLAUNCH_BEFORE_SETUP" not in env


def test_it_wins_over_what_is_sent_and_gives_way_to_what_is_written(
    lab2: Lab, tmp_path: Path
) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        launches.env |= {"NCCL_A": "sent", "NCCL_B": "sent", "NCCL_C": "sent"}
        setup = "export NCCL_A=set NCCL_B=set"
        options = ("--setup", setup, "--env", "NCCL_B=written")
        done = launches.run(launches.all(), ENV, options=options)
    assert done.code == 0, done.err
    for _, env in told(done.out):
        assert (env["NCCL_A"], env["NCCL_B"], env["NCCL_C"]) == ("set", "written", "sent")


def test_the_python_that_it_brings_is_the_workers(lab2: Lab, tmp_path: Path) -> None:
    mine, other = environment(tmp_path / "mine"), environment(tmp_path / "other")
    alias = mine.with_name("python3")
    with many(lab2, tmp_path, "paramiko") as launches:
        hosts = f"{lab2.hosts[0].name} slots=1\n{lab2.hosts[1].name} slots=1 python={other}\n"
        setup = f"export PATH={mine.parent}:$PATH"
        done = launches.run(hosts, ENV, options=("--setup", setup))
        assert done.code == 0, done.err
        assert [python for python, _ in told(done.out)] == [str(alias), str(other)]
        options = ("--setup", setup, "--python", str(other))
        done = launches.run(launches.all(), ENV, options=options)
        assert {python for python, _ in told(done.out)} == {str(other)}


@pytest.mark.parametrize("ssh", SSH)
@pytest.mark.parametrize(
    ("setup", "code", "words"),
    [
        ("source no-such.sh", "1", "no-such.sh: No such file or directory"),
        ("echo on the way; exit 7", "7", "on the way"),
        ("module load cuda", "127", "module: command not found"),
        ("if", "", "unexpected end of file"),
    ],
)
def test_its_failure_is_told_with_its_output(
    lab2: Lab, tmp_path: Path, ssh: str, setup: str, code: str, words: str
) -> None:
    with many(lab2, tmp_path, ssh) as launches:
        hosts = launches.all() + "localhost slots=1\n"
        done = launches.run(hosts, HI, options=("--setup", setup))
    for name in ("h0", "h1", "localhost"):
        done.fails_with(f"{name}: --setup failed with exit code {code}", words)


def test_a_profile_that_speaks_and_listens_is_no_hindrance(lab2: Lab, tmp_path: Path) -> None:
    profile = lab2.hosts[1].home / ".bash_profile"
    profile.write_text("echo Welcome to h1; read line; echo you said $line; export PROFILE=read\n")
    try:
        with many(lab2, tmp_path, "paramiko") as launches:
            done = launches.run(launches.all(), ENV, options=("--setup", "export B=$PROFILE"))
    finally:
        profile.unlink()
    assert done.code == 0, done.err
    assert [env["B"] for _, env in told(done.out)] == ["", "read"]


@pytest.mark.parametrize("shell", ["dash", "sh", "fish", "no/such/shell"])
def test_shells(lab2: Lab, tmp_path: Path, shell: str) -> None:
    """One that is not of Bourne's family, or is not there, gives way to bash."""
    host = lab2.hosts[1]
    passwd = host.home.parent / "passwd"
    line = f"root:x:0:0:root:{host.home}:/bin/bash"
    # sshd runs the command by the shell of passwd, which has to be there; SHELL says another.
    assert line in passwd.read_text()
    with changed(passwd, passwd.read_text()), many(lab2, tmp_path, "paramiko") as launches:
        host.configure(f"SetEnv SHELL=/bin/{shell}")
        done = launches.run(f"{host.name} slots=1\n", ENV, options=("--setup", "export A=1"))
    assert done.code == 0, done.err
    assert [env["A"] for _, env in told(done.out)] == ["1"]


def test_nothing_of_it_is_seen_in_ps(lab2: Lab, tmp_path: Path) -> None:
    """Beyond the command that the user typed, that is; it may hold a token."""
    seen = tmp_path / "ps"
    setup = f"export HUB_TOKEN=hf-very-secret; ps axww >>{seen}"
    code = f"import os\nos.system('ps axww >>{seen}')\n"
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), code, options=("--setup", setup))
    assert done.code == 0, done.err
    lines = [line for line in seen.read_text().splitlines() if "zlaunch multinode" not in line]
    assert len(lines) > 10
    assert not [line for line in lines if "very-secret" in line]


@pytest.mark.parametrize("ssh", SSH)
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_what_it_started_does_not_outlive_the_launcher(
    lab2: Lab, tmp_path: Path, ssh: str, how: signal.Signals
) -> None:
    """Nor this machine's own, nor what left the shell's session."""
    setup = "(setsid sleep 600 &); sleep 600 & sleep 600"
    with many(lab2, tmp_path, ssh) as launches:
        hosts = launches.all() + "localhost slots=1\n"
        process = launches.start(hosts, HI, options=("--setup", setup))
        begun = time.monotonic()
        while len(sleeping(launches.marker)) < 9:
            assert time.monotonic() - begun < 60
            time.sleep(0.05)
        process.send_signal(how)
        process.communicate(timeout=30)
        end = time.monotonic() + 10
        while sleeping(launches.marker) and time.monotonic() < end:
            time.sleep(0.05)
        assert sleeping(launches.marker) == []


def sleeping(marker: str) -> list[int]:
    """The sleeps of a run, on hosts and here: `marker` is in their set-up command's folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                asleep = (entry / "cmdline").read_bytes() == b"sleep\x00600\x00"
                if (
                    asleep
                    and marker.rpartition("-")[2].encode() in (entry / "environ").read_bytes()
                ):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_what_it_left_in_the_background_ends_with_the_run(lab2: Lab, tmp_path: Path) -> None:
    setup = "(setsid sleep 600 >/dev/null 2>&1 &); sleep 600 &"
    with many(lab2, tmp_path, "paramiko") as launches:
        begun = time.monotonic()
        done = launches.run(launches.all(), HI, options=("--setup", setup))
        assert done.code == 0, done.err
        assert time.monotonic() - begun < 60
        assert sleeping(launches.marker) == []


@pytest.mark.parametrize(
    "setup",
    [
        "for p in a b; do :; done; q=1; find=2; boot=3; ask=1; s=4; g=5; run=6",
        "set -- a b",
        "readonly p=1 q=5 find=x boot=y",
        "set -u; set -e; true",
        "f() { shift; shift; }; f 1 2",
        "trap 'true' EXIT",
    ],
)
def test_nothing_of_ours_is_in_its_way(lab2: Lab, tmp_path: Path, setup: str) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), ENV, options=("--setup", setup))
    assert done.code == 0, done.err
    assert {python for python, _ in told(done.out)} == {sys.executable}


def test_it_gets_no_argument_of_ours(lab2: Lab, tmp_path: Path) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), ENV, options=("--setup", 'export N="$#"'))
    assert [env["N"] for _, env in told(done.out)] == ["0", "0"]


def test_a_failure_behind_words_without_an_end(lab2: Lab, tmp_path: Path) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), HI, options=("--setup", "printf 50%%; false"))
    done.fails_with("h1: --setup failed with exit code 1, having said:", "  50%")


def test_a_failure_is_told_while_others_are_still_setting_up(lab2: Lab, tmp_path: Path) -> None:
    setup = "if [ $(hostname) = h1 ]; then echo no such module; exit 4; else sleep 600; fi"
    with many(lab2, tmp_path, "paramiko") as launches:
        options = ("--setup", setup, "--connect-timeout", "3")
        process = launches.start(launches.all(), HI, options=options)
        assert process.stderr is not None
        while "h1: --setup failed" not in process.stderr.readline():
            assert process.poll() is None
        out, err = process.communicate(timeout=60)  # the others would take ten minutes
        assert (process.returncode, out) == (125, "")
        assert "--setup failed" not in err  # once is enough
