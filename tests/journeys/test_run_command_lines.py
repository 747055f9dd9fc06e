"""Command lines: scripts, modules, programs, both spellings, and what belongs to whom."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from journeys import PROBE, Journey, without_nvml

READS_LOCAL_RANK = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=-1)
print("got", parser.parse_args().local_rank)
"""


@pytest.fixture
def two_gpus(journey: Journey) -> None:
    query = "\\n".join(f"{i}, GPU-{i:04}, Fake, 80000, 9.0" for i in range(2))
    shim = f'#!/bin/sh\n[ "$1" = -L ] && exit 1\nprintf "{query}\\n"\n'
    path = journey.program(shim, "bin/nvidia-smi")
    journey.env["PATH"] = f"{path.parent}:{journey.env['PATH']}"


def test_the_console_script_is_the_same_command(journey: Journey) -> None:
    program = shutil.which("zlaunch", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("only in a checkout")
    script = journey.script("print('fine')")
    done = journey.zlaunch("run", "--cpu", "1", script, command=(program,))
    assert (done.code, done.out) == (0, "0 | fine\n")
    assert done.err.count("\n") <= 3  # a plain run says little


def test_a_module(journey: Journey) -> None:
    journey.program("", "pkg/__init__.py")
    journey.program(PROBE, "pkg/__main__.py")
    journey.program(PROBE, "pkg/train.py")
    for option in ("-m", "--module"):
        for module, file in (("pkg", "pkg/__main__.py"), ("pkg.train", "pkg/train.py")):
            done = journey.zlaunch("run", "-q", "--cpu", "1", option, module, "-m", "x")
            assert done.code == 0, done.err
            [report] = journey.reports()
            assert report["argv"] == [str(journey.folder / file), "-m", "x"]
            assert report["path0"] == str(journey.folder)


def test_a_script_in_another_folder(journey: Journey) -> None:
    journey.program(PROBE, "sub/probe.py")
    assert journey.zlaunch("run", "-q", "--cpu", "1", "sub/probe.py").code == 0
    [report] = journey.reports()
    assert report["argv"] == ["sub/probe.py"]
    assert report["path0"] == str(journey.folder / "sub")
    assert report["cwd"] == str(journey.folder)


def test_a_folder_with_a_main(journey: Journey) -> None:
    journey.program(PROBE, "app/__main__.py")
    assert journey.zlaunch("run", "-q", "--cpu", "1", "app").code == 0
    assert journey.reports()[0]["argv"] == ["app"]


def test_a_shell_script_and_a_binary(journey: Journey) -> None:
    journey.program('#!/bin/sh\nprintf "%s|" "$RANK" "$@"; echo\n', "each rank.sh")
    for spelling in ("--no-python", "--no_python"):
        done = journey.zlaunch("run", "-q", "--cpu", "2", spelling, "./each rank.sh", "a b", "")
        assert done.code == 0
        assert sorted(done.out.splitlines()) == ["0 | 0|a b||", "1 | 1|a b||"]
    done = journey.zlaunch("run", "-q", "--cpu", "1", "--no-python", "echo", "-n", "$HOME", "--cpu")
    assert (done.code, done.out) == (0, "0 | $HOME --cpu\n")


def test_another_interpreter(journey: Journey) -> None:
    other = journey.program(f'#!/bin/sh\nexec "{sys.executable}" -X utf8 "$@"\n', "bin/other")
    done = journey.zlaunch("run", "-q", "--cpu", "1", "--python", str(other), journey.script(PROBE))
    assert done.code == 0, done.err


def test_the_separator(journey: Journey) -> None:
    script = journey.script(PROBE)
    for before, after in (
        (["--", script, "a"], [script, "a"]),
        ([script, "--", "a", "--"], [script, "--", "a", "--"]),
        (["--", script, "--", "a"], [script, "--", "a"]),
    ):
        assert journey.zlaunch("run", "-q", "--cpu", "1", *before).code == 0
        assert journey.reports()[0]["argv"] == after


def test_nothing_after_the_script_is_interpreted(journey: Journey) -> None:
    script = journey.script(PROBE)
    args = [
        "--help",
        "-h",
        "--num-gpus",
        "9",
        "--cpu=7",
        "--dry-run",
        "-m",
        "--version",
        "--no-such",
    ]
    done = journey.zlaunch("run", "-q", "--cpu", "1", script, *args)
    assert done.code == 0, done.err
    [report] = journey.reports()
    assert report["argv"] == [script, *args]
    assert report["env"]["WORLD_SIZE"] == "1"


@pytest.mark.parametrize("option", ["--num-g", "--num_g", "--dry", "--mod", "--master-por", "--gp"])
def test_no_abbreviations(journey: Journey, option: str) -> None:
    script = journey.script("open('started', 'w')")
    done = journey.zlaunch("run", "--cpu", "1", option, "1", script)
    assert done.code == 2
    assert option.replace("_", "-") in done.err.replace("_", "-")
    assert "No such option" in done.err
    assert not (journey.folder / "started").exists()


@without_nvml
@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("line", "argv", "visible"),
    [
        ("--num_gpus=2 job.py --deepspeed --lr 1", ["--deepspeed", "--lr", "1"], "0,1"),
        ("--num_gpus 1 job.py --deepspeed_config x.json", ["--deepspeed_config", "x.json"], "0"),
        ("--include localhost:1 job.py", [], "1"),
        ("--include=localhost:0,1 --master_port=0 job.py", [], "0,1"),
        ("--exclude localhost:0 job.py", [], "1"),
        ("-i localhost:0 job.py -i x", ["-i", "x"], "0"),
        ("-e localhost:0 job.py", [], "1"),
        ("--no_local_rank job.py a", ["a"], "0,1"),
        ("--master_addr 127.0.0.1 --master_port 0 job.py", [], "0,1"),
        ("--module job x", ["x"], "0,1"),
        ("job.py", [], "0,1"),
    ],
)
def test_deepspeeds_command_lines(
    journey: Journey, line: str, argv: list[str], visible: str
) -> None:
    journey.script(PROBE)
    done = journey.zlaunch("run", "-q", *line.split(" "))
    assert done.code == 0, done.err
    reports = journey.reports()
    assert len(reports) == len(visible.split(","))
    for report in reports:
        assert report["argv"][1:] == argv
        assert report["env"]["CUDA_VISIBLE_DEVICES"] == visible
        assert "DS_ACCELERATOR" not in report["env"]


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ([], "--local_rank"),
        (["--local-rank-arg", "auto"], "--local_rank"),
        (["--local_rank_arg=always"], "--local_rank"),
        (["--local-rank-arg", "never"], ""),
        (["--no_local_rank"], ""),
    ],
)
def test_local_rank_for_a_script_that_reads_it(
    journey: Journey, options: list[str], ends: str
) -> None:
    script = journey.script(READS_LOCAL_RANK)
    done = journey.zlaunch("run", "-q", "--cpu", "2", *options, script)
    assert done.code == 0, done.err
    got = ["0", "1"] if ends else ["-1", "-1"]
    assert sorted(done.out.splitlines()) == [f"{rank} | got {got[rank]}" for rank in (0, 1)]


def test_local_rank_in_the_scripts_own_spelling(journey: Journey) -> None:
    script = journey.script(READS_LOCAL_RANK.replace("--local_rank", "--local-rank"))
    assert journey.zlaunch("run", "-q", "--cpu", "1", script).out == "0 | got 0\n"


def test_local_rank_for_a_script_that_does_not(journey: Journey) -> None:
    script = journey.script(PROBE)  # it mentions LOCAL_RANK nowhere as an option
    for options, argv in (([], ["x"]), (["--local-rank-arg=always"], ["--local_rank=0", "x"])):
        journey.zlaunch("run", "-q", "--cpu", "1", *options, script, "x")
        assert journey.reports()[0]["argv"] == [script, *argv]


def test_the_config_in_the_arguments(journey: Journey) -> None:
    script = journey.script(PROBE)
    args = ["--config={ds_config}", "{ds_config}", "{other}"]
    assert journey.zlaunch("run", "--cpu", "1", "--ds-arg", "--ds", script, *args).code == 0
    [report] = journey.reports()
    path = report["env"]["ZLAUNCH_DS_CONFIG"]
    assert path == str(journey.latest / "ds_config.json")
    assert report["argv"] == [script, f"--config={path}", path, "{other}", "--ds", path]


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("from accelerate import Accelerator", "accelerate"),
        ("from transformers import Trainer, AutoModel", "hf"),
        ("from trl import SFTTrainer", "hf"),
        ("from transformers import AutoModel", "plain"),
        ("import deepspeed, accelerate; deepspeed.initialize, accelerate.Accelerator", "plain"),
    ],
)
def test_what_accelerate_and_the_trainer_look_for(journey: Journey, line: str, target: str) -> None:
    script = journey.script(f"if 0:\n    {line}\n{PROBE}")
    done = journey.zlaunch("run", "--cpu", "1", "--recipe", "zero2", "--no-build-ops", script)
    assert done.code == 0, done.err
    [report] = journey.reports()
    env = report["env"]
    config = env["ZLAUNCH_DS_CONFIG"]
    seen = {name: value for name, value in env.items() if name.startswith("ACCELERATE_")}
    if target == "hf":
        assert seen == {
            "ACCELERATE_USE_DEEPSPEED": "true",
            "ACCELERATE_DEEPSPEED_CONFIG_FILE": config,
        }
        assert json.loads(Path(config).read_text())["train_batch_size"] == "auto"
    elif target == "accelerate":  # which does not enter DeepSpeed without a GPU
        assert seen == {"ACCELERATE_USE_CPU": "true", "ACCELERATE_MIXED_PRECISION": "bf16"}
        assert "GPU" in done.err
    else:
        assert seen == {}


@without_nvml
@pytest.mark.usefixtures("two_gpus")
def test_accelerate_on_gpus(journey: Journey) -> None:
    script = journey.script(f"if 0:\n    from accelerate import Accelerator\n{PROBE}")
    assert journey.zlaunch("run", "-q", "--recipe", "zero3", "--no-build-ops", script).code == 0
    env = journey.reports()[1]["env"]
    assert env["ACCELERATE_USE_DEEPSPEED"] == "true"
    assert env["ACCELERATE_DEEPSPEED_CONFIG_FILE"] == str(journey.latest / "ds_config.json")
    assert "ACCELERATE_USE_CPU" not in env


def test_hidden_ranks_are_in_their_files(journey: Journey) -> None:
    script = journey.script("import os; print('rank', os.environ['RANK'])")
    for ranks, shown in (("0,-1", [0, 3]), ("1-2", [1, 2]), ("-1", [3]), ("all", [0, 1, 2, 3])):
        done = journey.zlaunch("run", "-q", "--cpu", "4", "--console-ranks", ranks, script)
        assert sorted(done.out.splitlines()) == [f"{rank} | rank {rank}" for rank in shown]
        assert [journey.log(rank) for rank in range(4)] == [b"rank %d\n" % r for r in range(4)]


def test_the_table_of_a_dry_run_and_its_command(journey: Journey) -> None:
    script = journey.script(PROBE)
    args = ["a b", '{"k":1}', "$HOME", "I'm"]
    done = journey.zlaunch("run", "--cpu", "2", "--dry-run", script, *args)
    assert done.code == 0
    assert "localhost" in done.out
    assert "train_batch_size" in done.out
    [line] = [line for line in done.out.splitlines() if line.startswith("rank 0 runs:")]
    pasted = subprocess.run(
        ["sh", "-c", line.partition(":")[2]],
        cwd=journey.folder, capture_output=True, text=True, check=True, stdin=subprocess.DEVNULL,
        env=os.environ | {"RANK": "0"},
    )  # fmt: skip
    assert json.loads(pasted.stdout)["argv"] == [script, *args]


def test_a_dry_run_for_a_reader_of_ascii(journey: Journey) -> None:
    script = journey.script("")
    env = {"PYTHONIOENCODING": "ascii"}
    done = journey.zlaunch("run", "--cpu", "1", "--dry-run", script, "größe", env=env)
    assert done.code == 0
    assert "Traceback" not in done.err
