"""`zlaunch config` and `zlaunch recipes`, as typed."""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

TOOL = (sys.executable, "-m", "zlaunch")
TARGETS = ("plain", "hf", "accelerate")


class Shell:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.env = {**os.environ, "ZLAUNCH_HOME": str(folder / "home")}

    def __call__(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*TOOL, *args], cwd=self.folder, env=self.env, input=stdin,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    def json(self, *args: str, stdin: str = "") -> Any:
        done = self(*args, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_recipes_are_listed(shell: Shell) -> None:
    rows = shell.json("recipes", "list", "--json")
    assert [row["name"] for row in rows] == [
        *("ddp", "zero1", "zero2", "zero2-offload", "zero3", "zero3-nvme", "zero3-offload")
    ]
    assert (
        rows[-1] | {"optimizer": "host memory", "parameters": "host memory", "stage": 3} == rows[-1]
    )
    plain = shell("recipes", "list").stdout.splitlines()
    assert plain[0].split() == ["NAME", "STAGE", "OPTIMIZER", "PARAMETERS", "FOR"]
    assert len(plain) == 8


@pytest.mark.parametrize("target", TARGETS)
def test_render_is_stable_and_whole(shell: Shell, target: str) -> None:
    args = ("config", "render", "zero3", "--world-size", "8", "--target", target)
    first, again = shell(*args), shell(*args)
    assert first.returncode == 0, first.stderr
    assert first.stdout == again.stdout
    config = json.loads(first.stdout)
    assert list(config)[:3] == [
        *("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    ]
    assert ".0," not in first.stdout.replace('"gradient_clipping": 1.0,', "")
    assert config["zero_optimization"]["stage"] == 3


def test_render_with_options_to_a_file(shell: Shell) -> None:
    options = ("--precision", "fp16", "--set", "zero_optimization.reduce_bucket_size=5e7")
    batch = ("--micro-batch", "2", "--global-batch", "32", "--world-size", "4")
    done = shell("config", "render", "zero2", *options, *batch, "-o", "ds.json")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    config = json.loads((shell.folder / "ds.json").read_text())
    assert config["gradient_accumulation_steps"] == 4
    assert config["zero_optimization"]["reduce_bucket_size"] == 50_000_000
    assert config["fp16"]["enabled"] is True
    again = shell("config", "render", "-o", "ds.json")
    assert again.returncode == 2
    assert "ds.json is there already" in again.stderr
    assert json.loads((shell.folder / "ds.json").read_text()) == config
    assert shell("config", "render", "-o", "ds.json", "--force").returncode == 0
    assert [path.name for path in shell.folder.iterdir()] == ["ds.json"]


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("render", "zero4"), "did you mean"),
        (("render", "ddp"), "trains without DeepSpeed"),
        (("render", "--set", "optimizer.params.lr"), "--set"),
        (("render", "--global-batch", "7", "--world-size", "2"), "7"),
        (("render", "-o", "no/such/ds.json"), "no/such/ds.json cannot be written"),
        (("render", "--world-size", "0"), "--world-size"),
        (("show", "nothing"), "nothing is no file, no recipe and no run"),
        (("show", "nothing.json"), "was not found"),
        (("show", "."), "Is a directory"),
        (("diff", "zero2", "ddp"), "trains without DeepSpeed"),
        (("init",), "--yes takes the defaults"),
    ],
)
def test_wrong_input(shell: Shell, args: tuple[str, ...], word: str) -> None:
    done = shell("config", *args)
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr
    assert "Traceback" not in done.stderr


def test_show_reads_what_deepspeed_reads(shell: Shell) -> None:
    (shell.folder / "ds.hjson").write_text(
        "{ # mine\n  train_batch_size: 32,\n  zero_optimization: {reduce_bucket_size: 5e8,},\n}"
    )
    expected = {"train_batch_size": 32, "zero_optimization": {"reduce_bucket_size": 500_000_000}}
    assert shell.json("config", "show", "ds.hjson") == expected
    assert shell.json("config", "show", "-", stdin=json.dumps(expected)) == expected
    assert shell.json("config", "show", "zero1")["zero_optimization"]["stage"] == 1


def test_show_and_diff_know_runs(shell: Shell) -> None:
    (shell.folder / "job.py").write_text("import os\nos.environ['ZLAUNCH_DS_CONFIG']\n")
    run = (
        "run",
        "--cpu",
        "1",
        "--name",
        "mine",
        "--recipe",
        "zero1",
        "--set",
        "gradient_clipping=0.5",
    )
    assert shell(*run, "job.py").returncode == 0
    assert shell.json("config", "show", "mine")["gradient_clipping"] == 0.5
    done = shell("config", "diff", "zero1", "mine")
    assert (done.returncode, done.stdout) == (1, "  gradient_clipping: 1.0 -> 0.5\n")


def test_diff(shell: Shell) -> None:
    (shell.folder / "a.json").write_text('{"a": 1, "b": {"c": [1, 2]}, "d": null}')
    (shell.folder / "b.json").write_text('{"a": 1.0, "b": {"c": [1, 3], "e": true}}')
    done = shell("config", "diff", "a.json", "b.json")
    assert done.returncode == 1
    assert done.stdout == "  b.c: [1, 2] -> [1, 3]\n+ b.e: true\n- d: null\n"
    told = json.loads(shell("config", "diff", "a.json", "b.json", "--json").stdout)
    assert told[1:] == [{"path": "b.e", "after": True}, {"path": "d", "before": None}]
    same = shell("config", "diff", "a.json", "a.json")
    assert (same.returncode, same.stdout) == (0, "")


ACCELERATE = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
mixed_precision: bf16
num_machines: 1
num_processes: 4
deepspeed_config:
  zero3_init_flag: false
"""


def test_import_from_accelerate(shell: Shell) -> None:
    text = f"{ACCELERATE}  zero_stage: 3\n  offload_optimizer_device: cpu\n"
    (shell.folder / "accelerate.yaml").write_text(text)
    done = shell("config", "import", "accelerate.yaml", "-o", "ds.json")
    assert done.returncode == 0, done.stderr
    assert "this is a file of accelerate config" in done.stderr
    assert "4 processes on one machine: zlaunch run --num-gpus 4" in done.stderr
    config = json.loads((shell.folder / "ds.json").read_text())
    assert config["zero_optimization"]["offload_optimizer"] == {"device": "cpu"}
    assert config["bf16"] == {"enabled": True}


def test_import_follows_the_file_that_accelerate_names(shell: Shell) -> None:
    (shell.folder / "conf").mkdir()
    named = {"zero_optimization": {"stage": 1}, "train_micro_batch_size_per_gpu": "auto"}
    (shell.folder / "conf" / "ds.json").write_text(json.dumps(named))
    text = f"{ACCELERATE}  deepspeed_config_file: ds.json\n".replace("mixed_precision: bf16\n", "")
    (shell.folder / "conf" / "a.yaml").write_text(text)
    config = shell.json("config", "import", "conf/a.yaml")
    assert config == {**named, "gradient_accumulation_steps": 1}  # as Accelerate completes it
    done = shell("config", "import", "conf/a.yaml")
    assert "Accelerate looks from where it is started" not in done.stderr  # a note
    (shell.folder / "conf" / "ds.json").unlink()
    done = shell("config", "import", "conf/a.yaml")
    assert done.returncode == 2
    assert "conf/a.yaml:7:26: error: ds.json was not found" in done.stderr


def test_init_without_questions(shell: Shell) -> None:
    answers = ("--world-size", "4", "--recipe", "zero3", "--micro-batch", "2", "--lr", "3e-4")
    done = shell("config", "init", "--yes", *answers)
    assert done.returncode == 0, done.stderr
    assert "zlaunch run --ds-config ds_config.json train.py" in done.stderr
    config = json.loads((shell.folder / "ds_config.json").read_text())
    assert config["train_batch_size"] == 8
    assert config["optimizer"]["params"]["lr"] == 3e-4
    assert shell("config", "init", "--yes").returncode == 2  # it is there already


def test_init_asks_on_a_terminal(shell: Shell) -> None:
    """A wrong answer is asked again; Enter takes what stands in brackets."""
    keeper, terminal = pty.openpty()
    with subprocess.Popen(
        [*TOOL, "config", "init"], cwd=shell.folder, env=shell.env,
        stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
    ) as process:  # fmt: skip
        os.close(terminal)
        said = ""
        for answer in ("", "2", "zero4", "zero3", "bf16", "4", "16", "", ""):
            end, before = time.monotonic() + 30, len(said)
            while not said[before:].rstrip().endswith("]:"):
                assert select.select([keeper], [], [], end - time.monotonic())[0], said
                said += os.read(keeper, 4096).decode()
            os.write(keeper, f"{answer}\n".encode())
        assert process.wait(30) == 0, said
    os.close(keeper)
    assert "one of zero1, zero2" in said
    config = json.loads((shell.folder / "ds_config.json").read_text())
    assert config["zero_optimization"]["stage"] == 3
    assert (config["train_batch_size"], config["gradient_accumulation_steps"]) == (16, 2)


def test_what_is_no_plain_file_is_left_as_it_is(shell: Shell) -> None:
    os.mkfifo(shell.folder / "fifo")
    for name in ("fifo", ".", ""):
        done = shell("config", "render", "-o", name, "--force")
        assert done.returncode == 2, name
        assert "no file that can be written" in done.stderr
    (shell.folder / "real.json").write_text("{}")
    (shell.folder / "link.json").symlink_to("real.json")
    assert shell("config", "render", "-o", "link.json", "--force").returncode == 0
    assert (shell.folder / "link.json").is_symlink()
    assert json.loads((shell.folder / "real.json").read_text())["train_batch_size"] > 0
    (shell.folder / "dangling.json").symlink_to("nowhere.json")
    assert shell("config", "render", "-o", "dangling.json").returncode == 2


def test_yaml_that_json_does_not_have(shell: Shell) -> None:
    text = "train_batch_size: 8\nx-day: 2020-01-01\ngradient_clipping: 5e-1\n"
    done = shell("config", "import", "-", stdin=text)
    assert json.loads(done.stdout) == {
        "train_batch_size": 8,
        "x-day": "2020-01-01",
        "gradient_clipping": 0.5,
    }
    assert "stdin:3:20: warning: 5e-1 is a text to YAML 1.1" in done.stderr
    done = shell("config", "import", "-", stdin="a: !!binary aGk=\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert "stdin:1:4" in done.stderr


@pytest.mark.parametrize("command", ["check -", "show -", "import -", "init"])
def test_a_closed_stdin(shell: Shell, command: str) -> None:
    line = f"{sys.executable} -m zlaunch config {command} <&-"
    done = subprocess.run(
        line, shell=True, cwd=shell.folder, env=shell.env, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


# Accelerate's files


def test_check_takes_accelerate_s_file_for_what_it_is(shell: Shell) -> None:
    (shell.folder / "a.yaml").write_text(f"{ACCELERATE}  zero_stge: 3\n")
    done = shell("config", "check", "a.yaml")
    assert done.returncode == 2
    assert "a.yaml:8:3: error: Accelerate knows no field zero_stge" in done.stdout
    assert "hint: did you mean zero_stage?" in done.stdout
    assert "for accelerate and 4 ranks" in done.stdout
    told = json.loads(shell("config", "check", "a.yaml", "--json").stdout)
    assert (told["target"], told["world_size"], told["ok"]) == ("accelerate", 4, False)
    other = shell("config", "check", "a.yaml", "--world-size", "8", "--target", "plain").stdout
    assert "a.yaml:5:16: warning: num_processes is 4, and this is looked at for 8 ranks" in other
    assert "for plain and 8 ranks" in other


def test_findings_stand_in_the_file_that_they_are_in(shell: Shell) -> None:
    (shell.folder / "a.yaml").write_text(f"{ACCELERATE}  deepspeed_config_file: ds.json\n")
    text = '{\n  "train_micro_batch_size_per_gpu": "auto",\n  "zero_optimization": {"stge": 2}\n}\n'
    (shell.folder / "ds.json").write_text(text)
    done = shell("config", "check", "a.yaml")
    assert "a.yaml:3:1: error: Accelerate refuses mixed_precision beside" in done.stdout
    assert "ds.json:3:25: error: DeepSpeed" in done.stdout
    told = json.loads(shell("config", "check", "a.yaml", "--json").stdout)["findings"]
    assert [(one.get("file"), one["code"], one["line"]) for one in told] == [
        (None, "beside-config-file", 3), ("ds.json", "unknown-key", 3)
    ]  # fmt: skip
    done = shell("config", "import", "a.yaml", "-o", "out.json")
    assert done.returncode == 2
    assert "beside-config-file" in done.stderr
    assert not (shell.folder / "out.json").exists()


def test_a_run_takes_no_yaml_for_hjson(shell: Shell) -> None:
    """DeepSpeed would read `stage: 2` below a key as the text "stage: 2"."""
    (shell.folder / "a.yaml").write_text(f"{ACCELERATE}  zero_stage: 3\n")
    (shell.folder / "b.yaml").write_text("train_batch_size: 8\ngradient_clipping: 1.0\n")
    (shell.folder / "job.py").write_text("")
    for name, what in (("a.yaml", "Accelerate's configuration"), ("b.yaml", "YAML")):
        done = shell("run", "--cpu", "1", "--ds-config", name, "--dry-run", "job.py")
        assert done.returncode == 2
        assert f"--ds-config {name} is {what}, not a ds_config" in done.stderr
        assert f"hint: zlaunch config import {name} -o ds_config.json" in done.stderr


@pytest.mark.parametrize("command", ["check", "import", "show"])
def test_yaml_that_cannot_be_read_is_said_with_its_line(shell: Shell, command: str) -> None:
    (shell.folder / "ds.yaml").write_text("train_batch_size: 8\n\tsteps_per_print: 1\n")
    done = shell("config", command, "ds.yaml")
    assert done.returncode == 2
    assert "ds.yaml:2:1" in done.stdout + done.stderr
    assert "indented with spaces" in done.stdout + done.stderr


# What is rendered is linted


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("render", "--set", "optimizer.params.lr=-1"), "lr is -1"),
        (("render", "--set", "optimizer.params.weight_decay=-0.1"), "weight_decay is -0.1"),
        (("render", "--set", "zero_optimization.offload_optimizer.device=nvme"), "nvme"),
        (("render", "--set", "optimizer.params.betas=[nan,1]"), "betas"),
        (("init", "--yes", "--lr", "-1"), "--lr -1.0: a number from 0 on"),
        (("init", "--yes", "--lr", "nan"), "--lr nan: a number from 0 on"),
        (("init", "--yes", "--lr", "inf"), "--lr inf: a number from 0 on"),
        (("init", "--yes", "--micro-batch", "0"), "--micro-batch 0: at least one sample"),
        (("init", "--yes", "--target", "hf", "--lr", "1"), "the script decides on it"),
        (("init", "--yes", "-r", "ddp"), "hint: another recipe: zero1, zero2"),
        (("init", "--target", "hf"), "there is no terminal to ask on: how many ranks"),
    ],
)
def test_nothing_is_written_that_would_not_train(
    shell: Shell, args: tuple[str, ...], word: str
) -> None:
    done = shell("config", *args, "-o", "ds.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert args[0] == "render" or "--set" not in done.stderr
    assert list(shell.folder.iterdir()) == []


def test_a_disk_that_is_not_here_is_said(shell: Shell) -> None:
    path = shell.folder / "no" / "disk"
    sets = [f"zero_optimization.offload_{part}.nvme_path={path}" for part in ("optimizer", "param")]
    options = [word for one in sets for word in ("--set", one)]
    done = shell("config", "render", "zero3-nvme", *options, "-o", "ds.json")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count(f"on this machine {path} is not there") == 1
    (shell.folder / "here").write_text("localhost slots=1\n")
    (shell.folder / "there").write_text("localhost slots=1\nnode1.invalid slots=1\n")
    batch = ("--set", "train_batch_size=null")
    shell("config", "render", "zero3-nvme", *options, *batch, "-o", "ds.json", "--force")
    here = shell("config", "check", "ds.json", "--hostfile", "here")
    assert f"{path} is not there" in here.stdout
    assert "not looked at" not in here.stderr
    there = shell("config", "check", "ds.json", "--hostfile", "there")
    assert f"{path} is not there" in there.stdout
    assert f"{path} for offload to NVMe: not looked at on node1.invalid" in there.stderr
    assert "of this machine, not the hosts' own" in there.stdout


def test_init_leaves_at_ctrl_c_and_ctrl_d(shell: Shell) -> None:
    for key in (b"\x03", b"\x04"):
        keeper, terminal = pty.openpty()
        code = "import fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
        code += "sys.argv[1:] = ['config', 'init']; import zlaunch.cli.main as m; m.main()"
        with subprocess.Popen(
            [sys.executable, "-c", code], cwd=shell.folder, env=shell.env,
            stdin=terminal, stdout=terminal, stderr=terminal, start_new_session=True,
        ) as process:  # fmt: skip
            os.close(terminal)
            said = ""
            while "]:" not in said:
                assert select.select([keeper], [], [], 30)[0], said
                said += os.read(keeper, 4096).decode()
            os.write(keeper, b"\x1b[A\n")  # an arrow key is no answer
            while said.count("]:") < 2:
                assert select.select([keeper], [], [], 30)[0], said
                said += os.read(keeper, 4096).decode()
            os.write(keeper, key)
            assert process.wait(30) == 130
            while select.select([keeper], [], [], 1)[0]:
                try:
                    said += os.read(keeper, 4096).decode()
                except OSError:  # EIO: that was all
                    break
        os.close(keeper)
        assert "keys that are no letters" in said
        assert "interrupted" in said
        assert "Traceback" not in said
        assert list(shell.folder.iterdir()) == []
