"""`zlaunch config check`, and lint before a run, as a user meets them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zlaunch.system.cpu_features import fp16_on_cpus

ROOT = Path(__file__).parents[2]
BROKEN = """\
{
  "train_batch_size": 33,
  "zero_optimization": {
    "stage": 2,
    "overlap_com": true
  }
}
"""


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """DeepSpeed is asked for its keys once."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def zlaunch(tmp_path, cache):
    """Runs zlaunch in a directory of its own; returns exit code, stdout, stderr."""

    def run(*args, text=None, command=(sys.executable, "-m", "zlaunch")):
        env = {key: value for key, value in os.environ.items() if not key.startswith("ZLAUNCH")}
        env |= {
            "PYTHONPATH": str(ROOT),
            "XDG_CACHE_HOME": str(cache),
            "ZLAUNCH_HOME": str(tmp_path / "home"),
        }
        done = subprocess.run(
            [*command, *args], cwd=tmp_path, env=env, input=text, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return run


def test_every_finding_has_its_place_and_the_way_out(zlaunch, tmp_path):
    (tmp_path / "ds.json").write_text(BROKEN)
    code, out, err = zlaunch("config", "check", "ds.json", "--world-size", "2")
    assert (code, err) == (2, "")
    assert "ds.json:2:23: error: global batch 33 does not divide" in out
    assert "hint: valid are global batch 32 or 34" in out
    assert "ds.json:5:5: error:" in out
    assert '        "overlap_com": true\n        ^\n' in out
    assert "did you mean zero_optimization.overlap_comm?" in out
    assert "2 errors (checked against " in out


def test_as_data(zlaunch):
    code, out, _ = zlaunch("config", "check", "-", "--world-size", "2", "--json", text=BROKEN)
    found = json.loads(out)
    assert (code, found["ok"], found["world_size"]) == (2, False, 2)
    assert [(f["code"], f["path"], f["line"]) for f in found["findings"]] == [
        ("batch", "train_batch_size", 2),
        ("unknown-key", "zero_optimization.overlap_com", 5),
    ]
    assert found["deepspeed"].keys() == {"version", "exact", "path", "why"}


UNREADABLE = {
    "nowhere.json": "was not found",
    ".": "Is a directory",
    "binary": "is not UTF-8 text",
    "empty.json": "is empty",
    "cut": "base64 that is cut off",
}


@pytest.fixture
def unreadable(tmp_path):
    (tmp_path / "binary").write_bytes(b"\x80\xff")
    (tmp_path / "empty.json").write_text(" \n")
    (tmp_path / "cut").write_text("eyJ0cmFpbl9iYXRjaF9zaXplIjogOH0")
    (tmp_path / "ds.json").write_text('{"train_batch_size": 8}')


@pytest.mark.parametrize("name", UNREADABLE)
def test_json_is_printed_whatever_stands_against_a_check(zlaunch, unreadable, name):
    code, out, err = zlaunch("config", "check", name, "--json")
    found = json.loads(out)
    assert (code, err, found["ok"], found["file"]) == (2, "", False, name)
    (finding,) = found["findings"]
    assert (finding["code"], finding["level"]) == ("unreadable", "error")
    assert UNREADABLE[name] in finding["text"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--python", "/nope"), "--python /nope was not found"),
        (("--python", "/etc/passwd"), "is not executable"),
        (("--python", "/bin/true"), "is no Python"),
        (("--script", "nope.py"), "script nope.py was not found"),
        (("--script", "x.py", "--target", "hf"), "--script and --target"),
        (("--world-size", "0"), "at least one rank"),
        (("--hostfile", "nope"), "--hostfile nope was not found"),
    ],
)
def test_options_that_cannot_be_used(zlaunch, unreadable, options, said):
    code, out, err = zlaunch("config", "check", "ds.json", *options)
    assert (code, out) == (2, "")
    assert said in err
    code, out, _ = zlaunch("config", "check", "ds.json", *options, "--json")
    assert code == 2
    assert said in json.loads(out)["findings"][0]["text"]


def test_a_python_without_deepspeed_is_said(zlaunch, unreadable, tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    code, out, _ = zlaunch("config", "check", "ds.json", "--python", str(python))
    assert code == 0
    assert f"smaller table of DeepSpeed 0.19.8, since {python} has no DeepSpeed" in out
    _, out, _ = zlaunch("config", "check", "ds.json", "--python", str(python), "--json")
    assert json.loads(out)["deepspeed"]["why"] == f"{python} has no DeepSpeed"


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("from transformers import Trainer\n", "hf"),
        ("import accelerate\naccelerate.Accelerator()\n", "accelerate"),
        ("import deepspeed\n", "plain"),
    ],
)
def test_a_script_says_who_reads_the_config(zlaunch, unreadable, tmp_path, source, target):
    (tmp_path / "train.py").write_text(source)
    _, out, _ = zlaunch("config", "check", "ds.json", "--script", "train.py", "--json")
    assert json.loads(out)["target"] == target


def test_thousands_of_digits_are_no_fault_of_ours(zlaunch):
    text = f'{{"train_batch_size": {"7" * 5000}}}'
    code, out, err = zlaunch("config", "check", "-", text=text)
    assert (code, err) == (2, "")
    assert "stdin:1:22: error: a number of 5000 digits" in out


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [
        ('{"train_batch_size": 8}', (), 0),
        ('{"train_batch_size": 8, "mine": 1}', (), 0),
        ('{"train_batch_size": 8, "mine": 1}', ("--strict",), 2),
        ('{"train_batch_size": 8}', ("--world-size", "3"), 2),
        (
            '{"train_batch_size": 8, "fp16": {"enabled": true}}',
            ("--device", "cpu"),
            2 if fp16_on_cpus() is False else 0,
        ),
        ('{"train_batch_size": 8, "bf16": {"enabled": true}}', ("--no-bf16",), 2),
        ('{"train_batch_size": 8, "bf16": {"enabled": true}}', ("--bf16",), 0),
        ('{"train_batch_size": "auto"}', (), 2),  # the Trainer wants zero_optimization
        ('{"train_batch_size": "auto", "zero_optimization": {"stage": 1}}', (), 0),
        ('{"train_batch_size": "auto"}', ("--target", "plain"), 2),
        ('{"train_batch_size": 8,}', ("--target", "plain"), 0),
        ('{"train_batch_size": 8, "zero_optimization": {},}', ("--target", "hf"), 2),
        ("", (), 2),
        ("{", (), 2),
    ],
)
def test_exit_codes(zlaunch, text, options, code):
    assert zlaunch("config", "check", "-", *options, text=text)[0] == code


def test_the_slots_of_a_hostfile_are_the_ranks(zlaunch, tmp_path):
    (tmp_path / "hosts").write_text("a slots=3\nb slots=4\n")
    text = '{"train_batch_size": 16}'
    code, out, _ = zlaunch("config", "check", "-", "--hostfile", "hosts", text=text)
    assert code == 2
    assert "does not divide by accumulation 1 x 7 ranks" in out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("nowhere.json",), "was not found"),
        ((".",), "cannot be read"),
        (("-", "--world-size", "0"), "at least one rank"),
        (("-", "--world-size", "2", "--hostfile", "x"), "both say the ranks"),
    ],
)
def test_what_cannot_be_checked(zlaunch, args, said):
    code, out, err = zlaunch("config", "check", *args, text="{}")
    assert (code, out) == (2, "")
    assert err.startswith("zlaunch: error: ")
    assert said in err


def test_a_second_check_of_a_hundred_lines_is_quick(zlaunch, tmp_path):
    pytest.importorskip("deepspeed")
    config = {
        "train_batch_size": 8,
        "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 5e8},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "betas": [0.9, 0.95]}},
        "flops_profiler": {"enabled": False, "profile_step": 5, "module_depth": -1},
        "aio": {"block_size": 1048576, "queue_depth": 8},
    }
    layers = [f"model.layers.{number}.mlp" for number in range(80)]
    config["zero_optimization"]["leaf_module"] = {"names": layers}
    text = json.dumps(config, indent=2)
    assert text.count("\n") > 99
    (tmp_path / "ds.json").write_text(text)
    empty = ("env", f"XDG_CACHE_HOME={tmp_path}/cache", sys.executable, "-m", "zlaunch")
    times = []
    for _ in range(4):
        start = time.monotonic()
        assert zlaunch("config", "check", "ds.json", command=empty)[0] == 0
        times.append(time.monotonic() - start)
    first, *later = times  # with and without DeepSpeed's import: 4 s and 0.16 s on a quiet machine
    assert min(later) < first / 3


PLAIN = "print('no DeepSpeed')\n"


@pytest.fixture
def script(tmp_path):
    (tmp_path / "train.py").write_text(PLAIN)
    return "train.py"


def test_a_run_lists_all_that_is_wrong_and_starts_nothing(zlaunch, script, tmp_path):
    (tmp_path / "ds.json").write_text(BROKEN)
    empty = ("env", f"XDG_CACHE_HOME={tmp_path}/cache", sys.executable, "-m", "zlaunch")
    args = ("run", "--cpu", "2", "--ds-config", "ds.json", script)
    code, out, err = zlaunch(*args, command=empty)
    assert (code, out) == (2, "")
    assert "ds.json cannot be used as it is: 2 errors" in err
    assert "ds.json:2:23: error: global batch 33" in err
    assert "ds.json:5:5: error:" in err
    assert not (tmp_path / "home" / "runs").exists()
    assert not (tmp_path / "cache").exists()


def test_a_run_mends_what_only_looks_like_text(zlaunch, script, tmp_path):
    text = """{
      // five hundred million
      "train_batch_size": "8",
      "optimizer": {"type": "AdamW", "params": {"lr": "1e-5"}},
      "zero_optimization": {"stage": 2, "reduce_bucket_size": "5e8"},
    }"""
    (tmp_path / "ds.json").write_text(text)
    args = ("run", "--cpu", "2", "--dry-run", "--json", "--ds-config", "ds.json", script)
    code, out, err = zlaunch(*args)
    assert code == 0, err
    config = json.loads(out)["ds_config"]
    assert config["train_batch_size"] == 8
    assert config["optimizer"]["params"]["lr"] == 1e-5
    assert config["zero_optimization"]["reduce_bucket_size"] == 500_000_000


def test_options_are_laid_in_before_lint(zlaunch, script, tmp_path):
    (tmp_path / "ds.json").write_text(BROKEN.replace("overlap_com", "overlap_comm"))
    args = ("run", "--cpu", "2", "--dry-run", "--ds-config", "ds.json", script)
    assert zlaunch(*args)[0] == 2
    assert zlaunch(*args[:4], "--set", "train_batch_size=32", *args[4:])[0] == 0
    code, _, err = zlaunch(*args[:4], "--set", "zero_optimization.stage=7", *args[4:])
    assert code == 2
    assert "ds.json:3:3: error: zero_optimization.stage is 7; it can be 0, 1, 2, 3" in err


def test_a_recipe_is_linted_with_what_was_set(zlaunch, script):
    args = ("--cpu", "2", "--dry-run", "--precision", "bf16")
    code, _, err = zlaunch(
        "run", *args, "--set", "zero_optimization.offload_optimizer.device=nvme", script
    )
    assert code == 2
    assert "recipe zero2 cannot be used as it is" in err
    assert "offload_optimizer to nvme works with ZeRO stage 3 only" in err


LOADED = """
import sys
from zlaunch.cli.main import main
try:
    main(sys.argv[1:])
finally:
    print("loaded:", *sys.modules, file=sys.stderr)
"""


def test_a_script_without_deepspeed_does_not_pay(zlaunch, script):
    command = (sys.executable, "-c", LOADED)
    code, _, err = zlaunch("run", "--cpu", "2", "--dry-run", script, command=command)
    assert code == 0
    loaded = set(err.rpartition("loaded:")[2].split())
    assert "zlaunch.dsconfig.render" in loaded
    assert {"zlaunch.dsconfig.lint", "zlaunch.system.ds_schema"} & loaded == set()


def test_a_key_is_explained(zlaunch, tmp_path):
    code, out, _ = zlaunch("config", "explain", "stage")
    assert code == 0
    assert "zero_optimization.stage: what is split" in out
    assert "takes 0, 1, 2, 3; default 0" in out
    (tmp_path / "ds.json").write_text('{"fp16": {"loss_scale": 128}}')
    code, out, _ = zlaunch("config", "explain", "ds.json", "--json")
    assert [(one["path"], one.get("written")) for one in json.loads(out)] == [
        ("fp16", None),
        ("fp16.loss_scale", 128),
    ]
    code, out, _ = zlaunch("config", "explain")
    assert code == 0
    assert "train_batch_size: " in out


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("stagge", "did you mean zero_optimization.stage"),
        ("", "the name of a key is empty"),
        (".", "the name of a key is empty"),
        ("a..b", "nothing between two of its dots"),
        ("enabled", "name the section too: zlaunch config explain fp16.enabled"),
        ("learning_rate", "did you mean optimizer.params.lr?"),
        ("nowhere.json", "was not found"),
    ],
)
def test_what_cannot_be_explained(zlaunch, asked, said):
    code, out, err = zlaunch("config", "explain", asked)
    assert (code, out) == (2, "")
    assert said in err


def test_a_config_from_stdin_is_explained(zlaunch):
    code, out, _ = zlaunch("config", "explain", "-", text='{"zero_optimization": {"stage": 2}}')
    assert (code, "zero_optimization.stage = 2: " in out) == (0, True)
    code, out, err = zlaunch("config", "explain", "-", text="[]")
    assert (code, out) == (2, "")
    assert "stdin is no ds_config" in err


def test_configs_in_other_forms_are_explained(zlaunch, tmp_path):
    (tmp_path / "ds.yaml").write_text("fp16:\n  loss_scale: 128\n")
    code, out, _ = zlaunch("config", "explain", "ds.yaml", "--json")
    assert code == 0
    assert [one["path"] for one in json.loads(out)] == ["fp16", "fp16.loss_scale"]
