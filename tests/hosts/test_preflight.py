"""What is found wrong with hosts before anything starts: one line a host, and exit code 2."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import venv
from pathlib import Path

import pytest
from hosts import Lab
from journey_many import HI, Done, Many, many
from namespaces import BOUND, ip

TORCH = "import torch\nprint('started')\n"
ALLOWED = ("--allow", "all")


def unfit(done: Done, *lines: str) -> None:
    """Nothing was started, and of each host that is named the whole line is this."""
    assert (done.code, done.out) == (2, ""), done
    told = [line.removeprefix("zlaunch:   ") for line in done.err.splitlines()]
    hosts = [line for line in told if line.startswith(("h0: ", "h1: "))]
    assert hosts == list(lines), done.err
    assert "Traceback" not in done.err


def wrapper(folder: Path, name: str, *, python: str = sys.executable, **env: str) -> Path:
    """An interpreter with something about it changed."""
    settings = "".join(f"export {key}={value}\n" for key, value in env.items())
    path = folder / name
    path.write_text(f'#!/bin/sh\n{settings}exec {python} "$@"\n')
    path.chmod(0o755)
    return path


def environment(folder: Path, **versions: str) -> Path:
    """An interpreter that has these packages, of which there is no more than can be looked up."""
    venv.create(folder, with_pip=False, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name, version in versions.items():
        (site / name).mkdir()
        (site / name / "__init__.py").write_text("raise ImportError('looked up, not imported')\n")
        (site / f"{name}-{version}.dist-info").mkdir()
        if name == "torch":
            text = f"__version__ = '{version}'\ncuda: str = '12.4'\nhip = None\n"
            (site / name / "version.py").write_text(text)
    return folder / "bin" / "python"


def two(launches: Many, second: str = "", first: str = "") -> str:
    hosts = launches.lab.hosts
    return f"{hosts[0].name} slots=1 {first}\n{hosts[1].name} slots=1 {second}\n"


def test_directory_missing_on_both(lab2: Lab, tmp_path: Path) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(two(launches, "workdir=/no/such", "workdir=/dev/null"), HI)
    unfit(
        done,
        "h0: directory /dev/null: Not a directory",
        "h1: directory /no/such: No such file or directory",
    )
    assert "--allow directory starts all the same" in done.err


def test_script_missing_or_another(lab2: Lab, tmp_path: Path) -> None:
    for name, text in (("empty", None), ("old", "print('old')\n")):
        (tmp_path / name).mkdir()
        if text is not None:
            (tmp_path / name / "job.py").write_text(text)
    with many(lab2, tmp_path, "paramiko") as launches:
        hosts = two(launches, f"workdir={tmp_path}/old", f"workdir={tmp_path}/empty")
        unfit(
            launches.run(hosts, HI),
            "h0: script job.py is missing",
            "h1: script job.py is not the one here",
        )
        hosts = two(launches, f"workdir={tmp_path}/old")
        done = launches.run(hosts, HI, options=("--allow", "script"))
        assert done.code == 0, done.err
        assert sorted(line.split()[-1] for line in done.out.splitlines()) == ["hi", "old"]
        assert "h1: script job.py is not the one here" in done.err


def test_interpreter_that_is_missing_or_fails(lab2: Lab, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    good = f'case "$1" in -I) exec {sys.executable} "$@";; esac'
    broken.write_text(f"#!/bin/sh\n{good}\necho libz.so.1 is missing >&2\nexit 127\n")
    broken.chmod(0o755)
    with many(lab2, tmp_path, "paramiko") as launches:
        hosts = two(launches, f"python={broken}", "python=/no/python")
        unfit(
            launches.run(hosts, TORCH),
            "h0: /no/python: No such file or directory",
            f"h1: {broken} fails (exit code 127): libz.so.1 is missing",
        )


def test_packages_missing_and_of_other_versions(lab2: Lab, tmp_path: Path) -> None:
    new = environment(tmp_path / "new", torch="2.5.1", deepspeed="0.15.0")
    old = environment(tmp_path / "old", torch="2.4.0")
    with many(lab2, tmp_path, "paramiko") as launches:
        hosts = two(launches, f"python={old}", f"python={new}")
        code = "import deepspeed\n"
        unfit(
            launches.run(hosts, code),
            f"h1: deepspeed is missing from {old}; torch 2.4.0, and 2.5.1 on h0",
        )
        # It may need them through another module, or may not.
        code = "import os\nimport of_my_own\n"
        unfit(
            launches.run(hosts, code),
            "h1: torch 2.4.0, and 2.5.1 on h0; deepspeed is missing, and 0.15.0 on h0",
        )
        done = launches.run(hosts, "import os\nprint('started')\n")
        assert done.code == 0, done.err  # it needs neither


def test_a_module_that_is_missing(lab2: Lab, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with many(lab2, tmp_path, "paramiko") as launches:
        hosts = two(launches, f"workdir={tmp_path}/empty")
        (tmp_path / "hosts").write_text(hosts)
        (tmp_path / "job.py").write_text(HI)
        line = [sys.executable, "-m", "zlaunch", "multinode", "-H", "hosts", "--device", "cpu"]
        done = subprocess.run(
            [*line, "-m", "job"], cwd=tmp_path, env=launches.env, capture_output=True, text=True,
            timeout=BOUND, check=False,
        )  # fmt: skip
    unfit(Done(done.returncode, done.stdout, done.stderr), "h1: module job is missing")


CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t id, struct timespec *t) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int result = real(id, t);
    if (id == CLOCK_REALTIME) t->tv_sec += 90;
    return result;
}
"""


def test_a_clock_that_is_off(lab2: Lab, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    assert compiler, "a C compiler is needed"
    (tmp_path / "clock.c").write_text(CLOCK)
    command = [compiler, "-shared", "-fPIC", "-o", tmp_path / "clock.so", tmp_path / "clock.c"]
    subprocess.run(command, check=True, timeout=BOUND)
    late = wrapper(tmp_path, "python", LD_PRELOAD=str(tmp_path / "clock.so"))
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(two(launches, f"python={late}"), HI)
        (line,) = [line for line in done.err.splitlines() if "h1: " in line]
        assert "ahead of this machine's" in line
        off = float(line.partition("its clock is ")[2].split()[0])
        assert 89.5 < off < 90.5
        assert (done.code, done.out) == (2, "")


def test_a_port_that_is_in_use_on_node_0(lab2: Lab, tmp_path: Path) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), HI, options=("--master-port", "22"))
    unfit(done, "h0: port 22 cannot be had: Address already in use")


def test_a_port_that_a_peer_cannot_reach(lab2: Lab, tmp_path: Path) -> None:
    first, second = lab2.hosts
    route = ("route", "add", "prohibit", f"{first.address}/32")
    ip("-n", second.namespace.name, *route)
    try:
        with many(lab2, tmp_path, "paramiko") as launches:
            done = launches.run(launches.all(), HI)
    finally:
        ip("-n", second.namespace.name, "route", "del", *route[2:])
    assert (done.code, done.out) == (2, "")
    (line,) = [line for line in done.err.splitlines() if "h1: " in line]
    assert f"h1: {first.address}:" in line
    assert "of node 0 cannot be reached: " in line
    assert not any("h0: " in line for line in done.err.splitlines())


def test_a_port_that_can_be_had_is_used(lab2: Lab, tmp_path: Path) -> None:
    """It is listened on and let go: the store of rank 0 binds the same one."""
    code = """
import os, socket
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if os.environ["RANK"] == "0":
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(address)
        server.listen()
        server.accept()[0].sendall(b"met")
else:
    import time
    for _ in range(100):
        try:
            with socket.create_connection(address) as client:
                print(client.recv(3).decode())
                break
        except ConnectionRefusedError:
            time.sleep(0.05)
"""
    with socket.socket() as free:
        free.bind(("", 0))
        port = str(free.getsockname()[1])
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), code, options=("--master-port", port))
    assert done.code == 0, done.err
    assert done.out.split()[-1] == "met"
    assert f":{port}" in done.err


def test_gpus_that_are_not_there(lab2: Lab, tmp_path: Path) -> None:
    smi = tmp_path / "nvidia-smi"
    smi.write_text("#!/bin/sh\necho '0, GPU-5c89-aa, NVIDIA H200, 143771, 9.0'\n")
    smi.chmod(0o755)
    one = wrapper(tmp_path, "python", PATH=f"{tmp_path}:$PATH")
    with many(lab2, tmp_path, "paramiko") as launches:
        (tmp_path / "hosts").write_text(f"h0 slots=1\nh1 slots=2 python={one}\n")
        hosts = f"h0 slots=1\nh1 slots=2 python={one}\n"
        done = launches.run(hosts, HI, options=("--device", "cuda"))
    unfit(
        done,
        "h0: neither NVML nor nvidia-smi finds a driver",
        "h1: 2 slots, but 1 GPU there: 1 missing",
    )


def test_a_lock_that_is_left_is_a_warning(lab2: Lab, tmp_path: Path) -> None:
    lock = tmp_path / "extensions" / "py311_cpu" / "cpu_adam" / "lock"
    lock.parent.mkdir(parents=True)
    lock.touch()
    with many(lab2, tmp_path, "paramiko") as launches:
        launches.env["TORCH_EXTENSIONS_DIR"] = str(tmp_path / "extensions")
        code = "import of_my_own\n"
        (tmp_path / "of_my_own.py").touch()
        assert "lock is left" not in launches.run(launches.all(), code).err  # it may be at work
        os.utime(lock, (0, time.time() - 3600))
        done = launches.run(launches.all(), code)
        assert done.code == 0, done.err
        assert f"h1: {lock} is left from a build that was killed" in done.err
        with lock.open():  # by the builder
            assert "lock is left" not in launches.run(launches.all(), code).err


def test_what_is_wrong_is_told_beside_a_host_that_cannot_be_reached(
    lab2: Lab, tmp_path: Path
) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        hosts = two(launches, "workdir=/no/such") + "nowhere.invalid slots=1\n"
        done = launches.run(hosts, HI)
    assert (done.code, done.out) == (125, "")
    assert "nowhere.invalid: its name does not resolve" in done.err
    assert "h1: directory /no/such: No such file or directory" in done.err


def test_hosts_without_a_number(lab2: Lab, tmp_path: Path) -> None:
    """All their GPUs, which are counted there; one worker each on CPUs."""
    smi = tmp_path / "nvidia-smi"
    smi.write_text(
        "#!/bin/sh\necho '0, GPU-5c89-aa, NVIDIA H200, 143771, 9.0'\n"
        "echo '1, GPU-5c89-bb, NVIDIA H200, 143771, 9.0'\n"
    )
    smi.chmod(0o755)
    profile = lab2.hosts[1].home / ".bash_profile"
    (tmp_path / "job.py").write_text("import os\nprint(os.environ['CUDA_VISIBLE_DEVICES'])\n")

    def run(*options: str) -> Done:
        line = [sys.executable, "-m", "zlaunch", "multinode", *options, "job.py"]
        env = {**lab2.client.environment(), "ZLAUNCH_HOME": str(tmp_path / "runs")}
        env["ZLAUNCH_LEASE_DIR"] = str(tmp_path / "leases")
        done = subprocess.run(
            line, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=BOUND, check=False
        )
        return Done(done.returncode, done.stdout, done.stderr)

    done = run("--hosts", "h0:1,h1", "--device", "cpu")
    assert (done.code, len(done.out.splitlines())) == (0, 2), done.err
    done = run("--hosts", "h0:2,h1:3", "--cpu", "1")
    assert (done.code, len(done.out.splitlines())) == (0, 2), done.err
    done = run("--hosts", "h0:1,h1:3", "--cpu", "2")
    assert done.code == 2
    assert "--cpu 2 asks for more than the 1 slots of host 'h0'" in done.err
    done = run("--hosts", "h1")
    assert done.code == 2
    assert "h1 has no GPU that could be found" in done.err
    profile.write_text(f"export PATH={tmp_path}:$PATH\n")
    try:
        done = run("--hosts", "h1", "--setup", "true")
        assert (done.code, sorted(done.out.splitlines())) == (0, ["0 | 0,1", "1 | 0,1"]), done.err
        assert run("--hosts", "h1", "--num-gpus", "1", "--setup", "true").out == "0 | 0\n"
    finally:
        profile.unlink()
    done = run("--hosts", "h0,nowhere.invalid")
    assert done.code == 125
    assert "nowhere.invalid: its name does not resolve" in done.err
    assert "not said" in run("--hosts", "h0", "--dry-run").err


def test_a_run_that_started_nothing_is_no_run_to_look_at(lab2: Lab, tmp_path: Path) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        assert launches.run(launches.all(), HI).code == 0
        done = launches.run(two(launches, "workdir=/no/such"), HI)
        assert done.err.rstrip().endswith("failed (exit code 2); no rank was started")

        def tool(*words: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [sys.executable, "-m", "zlaunch", *words], env=launches.env,
                capture_output=True, text=True, timeout=BOUND, check=False,
            )  # fmt: skip

        runs = json.loads(tool("ps", "--json").stdout)
        refused = next(run["id"] for run in runs if run["exit_code"] == 2)
        assert len(runs) == 2
        assert refused not in tool("ps").stdout
        assert refused in tool("ps", "--all").stdout
        assert tool("logs", "show").stdout.splitlines() == ["h0:0 | hi", "h1:1 | hi"]
        shown = tool("logs", "show", refused)
        assert shown.stdout == ""
        assert "started no rank" in shown.stderr
        assert "/no/such" in shown.stderr


def test_without_a_look(lab2: Lab, tmp_path: Path) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(two(launches, "workdir=/no/such"), HI, options=("--no-preflight",))
    assert done.code == 125
    assert "rank 1 could not be started: h1: /no/such: No such file or directory" in done.err


@pytest.mark.parametrize("codes", ["gpu", "script,versoins"])
def test_a_code_that_there_is_not(lab2: Lab, tmp_path: Path, codes: str) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(launches.all(), HI, options=("--allow", codes))
    assert done.code == 2
    assert f"--allow {codes.rpartition(',')[2]}: there is no such check" in done.err


def test_the_record_says_why(lab2: Lab, tmp_path: Path) -> None:
    with many(lab2, tmp_path, "paramiko") as launches:
        launches.run(two(launches, "workdir=/no/such"), HI)
    (record,) = (tmp_path / "runs" / "runs").glob("*/run.json")
    told = json.loads(record.read_text())
    assert told["exit_code"] == 2


def test_what_others_print_is_no_answer(lab2: Lab, tmp_path: Path) -> None:
    """A sitecustomize, or a wrapper, may speak before Python's answer and after it."""
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit\nprint('{\"python\": 5}')\natexit.register(print, 'bye')\n"
    )
    wrapped = wrapper(tmp_path, "python", PYTHONPATH=str(tmp_path))
    with many(lab2, tmp_path, "paramiko") as launches:
        (tmp_path / "of_my_own.py").touch()
        done = launches.run(two(launches, f"python={wrapped}"), "import of_my_own\nprint('hi')\n")
    assert done.code == 0, done.err


def test_a_script_that_is_no_file(lab2: Lab, tmp_path: Path) -> None:
    """Reading a FIFO would wait for whoever writes into it."""
    (tmp_path / "other").mkdir()
    os.mkfifo(tmp_path / "other" / "job.py")
    with many(lab2, tmp_path, "paramiko") as launches:
        begun = time.monotonic()
        unfit(
            launches.run(two(launches, f"workdir={tmp_path}/other"), HI),
            "h1: script job.py is missing",
        )
        assert time.monotonic() - begun < 10


def test_a_variable_that_is_too_large_is_named(lab2: Lab, tmp_path: Path) -> None:
    (tmp_path / "env").write_text(f"HUGE={'x' * 200_000}\n")
    with many(lab2, tmp_path, "paramiko") as launches:
        done = launches.run(two(launches), HI, options=("--env-file", "env"))
    assert done.code == 125
    assert "could not be started: h0: " in done.err or "could not be started: h1: " in done.err
    assert "the largest variable is HUGE with 200000 characters" in done.err
