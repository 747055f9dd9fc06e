"""What a worker is given: arguments and environment byte for byte, ranks, threads, a port."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from journeys import PROBE, ZLAUNCH, Journey

NASTY = (
    "",
    "a b",
    "  two  blanks ",
    "I'm",
    '72" tall',
    '{"lr": 1e-4}',
    '{"k":1}',
    "$HOME",
    "$(id)",
    "`id`",
    "*",
    "~",
    "~root",
    "a;b",
    "a|b&c>d<e",
    "back\\slash",
    "trailing\\",
    "new\nline",
    "tab\tand\rreturn",
    "größe",
    "数据",
    "\U0001f525",
    "-",
    "--",
    "-x",
    "--x=",
    "=",
    "%s",
    "{}",
    "{ds_confi}",
    "64(x2)",
    "!history",
    "#comment",
    "\x1b[31mred",
    "\x7f",
    "\udcff\udcfe",
    "caf\udce9",
)
ANY = st.one_of(
    st.sampled_from(NASTY),
    st.binary(max_size=12).map(lambda raw: os.fsdecode(raw.replace(b"\0", b"")),
    ),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
)  # fmt: skip
FEW = settings(
    max_examples=5,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


def test_arguments_arrive_byte_for_byte(journey: Journey) -> None:
    script = journey.script(PROBE)
    done = journey.zlaunch("run", "-q", "--cpu", "2", script, *NASTY)
    assert done.code == 0
    assert [report["argv"] for report in journey.reports()] == [[script, *NASTY]] * 2


@settings(FEW, max_examples=25)
@given(args=st.lists(ANY, max_size=15))
def test_any_arguments_stand_in_the_plan(
    tmp_path_factory: pytest.TempPathFactory, args: list[str]
) -> None:
    journey = Journey(tmp_path_factory.mktemp("plan"))
    script = journey.script("")
    done = journey.zlaunch("run", "--cpu", "1", "--dry-run", "--json", script, *args)
    assert done.code == 0, done.err
    plan = json.loads(done.stdout)
    assert plan["workers"][0]["argv"] == [sys.executable, script, *args]
    assert not journey.home.exists()  # a dry run leaves nothing


@FEW
@given(args=st.lists(ANY, max_size=15), values=st.lists(ANY, max_size=15))
def test_any_arguments_and_values_arrive(
    tmp_path_factory: pytest.TempPathFactory, args: list[str], values: list[str]
) -> None:
    journey = Journey(tmp_path_factory.mktemp("run"))
    script = journey.script(PROBE)
    env = {f"VALUE_{i}": value for i, value in enumerate(values)}
    done = journey.zlaunch("run", "-q", "--cpu", "1", script, *args, env=env)
    assert done.code == 0, done.err
    [report] = journey.reports()
    assert report["argv"] == [script, *args]
    assert {name: report["env"][name] for name in env} == env


def test_environment_values_arrive_byte_for_byte(journey: Journey) -> None:
    env = {f"VALUE_{i}": value for i, value in enumerate(NASTY)}
    env |= {"PYTHONPATH": "/x:/y", "BASH_FUNC_ls%%": "() {  echo no;\n}", "W\udce9RT": "1"}
    done = journey.zlaunch("run", "-q", "--cpu", "2", journey.script(PROBE), env=env)
    assert done.code == 0, done.err
    for report in journey.reports():
        assert {name: report["env"].get(name) for name in env} == env


def test_a_worker_knows_its_place(journey: Journey) -> None:
    done = journey.zlaunch("run", "--cpu", "3", journey.script(PROBE))
    assert done.code == 0
    reports = journey.reports()
    for rank, report in enumerate(reports):
        env = report["env"]
        assert (env["RANK"], env["LOCAL_RANK"], env["WORLD_SIZE"]) == (str(rank), str(rank), "3")
        assert (env["LOCAL_WORLD_SIZE"], env["NODE_RANK"], env["GROUP_RANK"]) == ("3", "0", "0")
        assert (env["MASTER_ADDR"], env["PYTHONUNBUFFERED"]) == ("127.0.0.1", "1")
        assert (env["CUDA_VISIBLE_DEVICES"], env["DS_ACCELERATOR"]) == ("", "cpu")
        assert env["ZLAUNCH_RUN_ID"] == env["TORCHELASTIC_RUN_ID"] == journey.latest.name
        assert env["ZLAUNCH_RUN_DIR"] == str(journey.latest)
        assert report["pgid"] == report["sid"] == report["pid"]
        assert report["stdin"] == ""
        assert report["cwd"] == report["path0"] == str(journey.folder)
        assert report["python"] == sys.executable
        assert report["terminals"] == [False] * 3
    assert len({report["env"]["MASTER_PORT"] for report in reports}) == 1
    assert len({report["ppid"] for report in reports}) == 1  # one agent


def test_what_an_outer_launcher_set_is_replaced(journey: Journey) -> None:
    outer = {
        "RANK": "7",
        "WORLD_SIZE": "64",
        "LOCAL_RANK": "7",
        "ROLE_NAME": "outer",
        "MASTER_ADDR": "far",
        "MASTER_PORT": "1",
        "ZLAUNCH_DS_CONFIG": "/gone",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    script = journey.script(PROBE)
    done = journey.zlaunch("run", "-v", "--cpu", "1", "--recipe", "ddp", script, env=outer)
    [report] = journey.reports()
    env = report["env"]
    assert (env["RANK"], env["WORLD_SIZE"], env["MASTER_ADDR"]) == ("0", "1", "127.0.0.1")
    assert not {"ROLE_NAME", "ZLAUNCH_DS_CONFIG"} & env.keys()
    assert env["TORCHELASTIC_USE_AGENT_STORE"] == "False"
    assert "MASTER_PORT" in done.err  # -v tells which


@pytest.mark.parametrize(("cores", "ranks", "threads"), [(1, 2, "1"), (1, 1, "1"), (2, 1, "2")])
def test_threads_are_the_usable_cores_shared(
    journey: Journey, cores: int, ranks: int, threads: str
) -> None:
    usable = sorted(os.sched_getaffinity(0))
    if len(usable) < cores:
        pytest.skip("too few cores")
    taskset = ("taskset", "-c", ",".join(map(str, usable[:cores])), *ZLAUNCH)
    script = journey.script(PROBE)
    journey.zlaunch("run", "-q", "--cpu", str(ranks), script, command=taskset)
    assert [r["env"]["OMP_NUM_THREADS"] for r in journey.reports()] == [threads] * ranks


def test_the_users_own_thread_count_stays(journey: Journey) -> None:
    env = {"OMP_NUM_THREADS": "7"}
    journey.zlaunch("run", "-q", "--cpu", "2", journey.script(PROBE), env=env)
    assert [r["env"]["OMP_NUM_THREADS"] for r in journey.reports()] == ["7"] * 2


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("asked", ["given", "0"])
def test_the_port_is_a_real_one_and_the_same_everywhere(journey: Journey, asked: str) -> None:
    port = str(_free_port()) if asked == "given" else "0"
    done = journey.zlaunch("run", "--cpu", "2", "--master-port", port, journey.script(PROBE))
    assert done.code == 0, done.err
    [seen] = {report["env"]["MASTER_PORT"] for report in journey.reports()}
    assert int(seen) >= 1024
    assert asked != "given" or seen == port


def test_a_busy_port_is_refused_with_its_holder(journey: Journey) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = str(holder.getsockname()[1])
        script = journey.script("open('started', 'w')")
        done = journey.zlaunch("run", "--cpu", "1", "--master-port", port, script)
    assert done.code == 2
    assert port in done.err
    assert f"pid {os.getpid()}" in done.err
    assert "--master-port" in done.err
    assert not (journey.folder / "started").exists()


def test_rank_0_can_listen_on_its_port(journey: Journey) -> None:
    """With SO_REUSEADDR, as torch's store and most servers do."""
    script = journey.script("""
import os, socket
server = socket.create_server(("", int(os.environ["MASTER_PORT"])))
client = socket.create_connection((os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])))
print("met")
""")
    done = journey.zlaunch("run", "--cpu", "1", script)
    assert (done.code, done.out) == (0, "0 | met\n")


def test_two_runs_at_once_meet_at_two_ports(journey: Journey) -> None:
    script = journey.script("""
import os, pathlib, time
pathlib.Path(os.environ["ZLAUNCH_RUN_ID"]).touch()
while len([p for p in pathlib.Path().iterdir() if p.name.startswith("20")]) < 2:
    time.sleep(0.01)
print("port", os.environ["MASTER_PORT"])
""")
    lives = [journey.start("run", "--cpu", "1", script) for _ in range(2)]
    ends = [live.end() for live in lives]
    assert [end.code for end in ends] == [0, 0]
    assert len({end.out for end in ends}) == 2


def test_the_run_directory_is_private_and_its_config_readable(journey: Journey) -> None:
    script = journey.script("""
import json, os
print(json.dumps(json.load(open(os.environ["ZLAUNCH_DS_CONFIG"]))))
""")
    done = journey.zlaunch("run", "-q", "--cpu", "2", script)
    assert done.code == 0
    config = json.loads(journey.log())
    assert config["train_batch_size"] == 4 * 4 * 2
    assert config["zero_optimization"]["stage"] == 2
    assert config["bf16"]["enabled"]
    for path in (journey.home, journey.latest, *journey.latest.rglob("*")):
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path


def test_a_home_that_is_there_keeps_its_mode(journey: Journey) -> None:
    journey.home.mkdir()
    journey.home.chmod(0o1777)  # a folder of several people, /tmp even
    assert journey.zlaunch("run", "-q", "--cpu", "1", journey.script("")).code == 0
    assert stat.S_IMODE(journey.latest.stat().st_mode) == 0o700
    assert stat.S_IMODE(journey.home.stat().st_mode) == 0o1777


def test_a_secret_is_written_nowhere(journey: Journey) -> None:
    secret = "s3cr3t-value-of-mine"
    script = journey.script("import os; assert os.environ['WANDB_API_KEY']; print('fine')")
    env = {"WANDB_API_KEY": secret}
    live = journey.start("run", "-v", "--cpu", "1", script, "--wandb-key", secret, env=env)
    done = live.end()
    dry = journey.zlaunch("run", "--cpu", "1", "--dry-run", script, secret, env=env)
    raw = journey.zlaunch("run", "--cpu", "1", "--dry-run", "--json", script, secret, env=env)
    assert (done.code, dry.code, raw.code) == (0, 0, 0)
    assert secret not in done.text + dry.text + raw.text + journey.zlaunch("ps", "--json").text
    for path in journey.home.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


def test_the_folder_of_the_run_is_left_as_it_was(journey: Journey) -> None:
    script = journey.script("print('fine')")
    for _ in range(2):
        assert journey.zlaunch("run", "-q", "--cpu", "1", script).code == 0
    assert [path.name for path in journey.folder.iterdir()] == [script]


def test_workers_have_the_default_signals(journey: Journey) -> None:
    """Python ignores SIGPIPE for itself; a shell's pipeline in a worker relies on it."""
    script = journey.script("#!/bin/sh\ngrep -E 'SigIgn|SigBlk' /proc/self/status\n", "show.sh")
    (journey.folder / script).chmod(0o755)
    done = journey.zlaunch("run", "--cpu", "1", "--no-python", "./show.sh")
    masks = [int(mask, 16) for mask in re.findall(r":\s+([0-9a-f]+)", done.out)]
    pipe = 1 << (signal.SIGPIPE - 1)
    assert len(masks) == 2
    assert not any(mask & pipe for mask in masks)


def test_no_descriptor_of_ours_reaches_a_worker(journey: Journey) -> None:
    """Save the file of the handler for stacks, which is out of the way."""
    script = journey.script("import os; print(sorted(os.listdir('/proc/self/fd'), key=int))")
    with_stacks = journey.zlaunch("run", "--cpu", "1", script)
    done = journey.zlaunch("run", "--cpu", "2", "--no-stacks", script)
    plain = subprocess.run(
        [sys.executable, str(journey.folder / script)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sorted(done.out.splitlines()) == [f"{rank} | {plain.stdout.strip()}" for rank in (0, 1)]
    assert with_stacks.out.strip() == f"0 | {plain.stdout.strip()[:-1]}, '250']"
