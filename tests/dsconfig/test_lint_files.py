"""Broken configs with the one finding that each has, and good ones that have none.

What plain DeepSpeed makes of them is asked of the real one, of all files in one process.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from zlaunch.dsconfig.finding import Around, Disk
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.lint_auto import waits_for_a_reader
from zlaunch.dsconfig.reader import read_document
from zlaunch.dsconfig.schema import own_schema
from zlaunch.dsconfig.versions import parse_version
from zlaunch.system.cpu_features import fp16_on_cpus

HERE = Path(__file__).parent
# name: code, path, line and level of the one finding, and the circumstances. The proof:
# `refused` where DeepSpeedConfig raises an error by itself, `fails` where deepspeed.initialize or
# a step does, `late` where the failure comes behind the part of the reader that runs here.
# `asked`: found only where the workers' torch was asked for its parameters.
BROKEN = json.loads((HERE / "broken.json").read_text("utf-8"))
GOOD = sorted(path.name for path in (HERE / "good").iterdir())
PROOF = {"refused", "fails", "late", "asked"}
DISKS = {
    "missing": {"/disk/missing": Disk(exists=False)},
    "read-only": {"/disk/read-only": Disk(exists=True, directory=True)},
    "small": {"/disk/small": Disk(exists=True, directory=True, writable=True, free=2**20)},
}


def around(schema, *, world=2, target="plain", version=None, disk=None, **known):
    if version is not None:
        schema = own_schema(parse_version(version))
    disks = DISKS[disk] if disk else {}
    return Around(schema, target=target, world_size=world, disks=disks, **known)


def found(path: Path, circumstances: Around):
    return lint(read_document(path.read_text("utf-8")), circumstances)


def judged(name, schema):
    """The findings as bad as the one expected, or worse."""
    known = {key: value for key, value in BROKEN[name].items() if key not in PROOF}
    code, path, line, level = (known.pop(key) for key in ("code", "path", "line", "level"))
    levels = {"error": {"error"}, "warning": {"error", "warning"}}.get(level)
    findings = found(HERE / "broken" / f"{name}.json", around(schema, **known))
    got = [
        (f.code, f.path, f.place.line if f.place else None, f.level)
        for f in findings
        if levels is None or f.level in {"error", "warning"}
    ]
    return got, (code, path, line, level)


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_config_has_its_one_finding(name, installed):
    got, expected = judged(name, installed)
    assert got == [expected]


@pytest.mark.parametrize("name", [name for name in BROKEN if not BROKEN[name].get("asked")])
def test_the_own_table_finds_it_as_well(name):
    got, expected = judged(name, own_schema())
    assert got == [expected]


def test_every_broken_file_is_in_the_table():
    assert {path.stem for path in (HERE / "broken").iterdir()} == {*BROKEN}
    assert len(BROKEN) >= 60
    assert len(GOOD) >= 30


def reader_of(name: str) -> str:
    text = (HERE / "good" / name).read_text("utf-8")
    if name.startswith("accelerate"):
        return "accelerate"
    return "hf" if waits_for_a_reader(read_document(text).value) else "plain"


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("exact", [True, False], ids=["installed", "own table"])
def test_a_good_config_has_no_finding_above_a_note(name, exact, installed):
    schema = installed if exact else own_schema()
    circumstances = around(schema, world=8, target=reader_of(name), bf16=True)
    findings = found(HERE / "good" / name, circumstances)
    assert [f for f in findings if f.level != "note"] == []
    assert {f.code for f in findings} - OLD_NAMES <= {
        "must-equal",
        "silent-overflow",
        "comment",
        "unknown-key",
        *HJSON,
    }


OLD_NAMES = {"renamed-key", "deprecated-key", "useless-key"}
HJSON = {"unquoted-key", "unquoted-text", "trailing-comma", "missing-comma", "single-quotes"}
HJSON |= {"accumulation-missing", "many-lines"}

READER = """
import json, sys
from deepspeed.runtime import config as module
module.dist.get_rank = lambda: 0
answers = {}
for path, world in json.load(sys.stdin):
    module.dist.get_world_size = lambda: world
    try:
        module.DeepSpeedConfig(path)
        answers[path] = None
    except BaseException as error:
        answers[path] = f"{type(error).__name__}: {error}"
print("ANSWERS " + json.dumps(answers))
"""


def answers_of(program, asked, env):
    """What the program says of each file, in a process of its own: None, or its error."""
    with tempfile.TemporaryDirectory() as folder:  # some of what it reads writes files
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            input=json.dumps(asked),
            capture_output=True,
            text=True,
            env={**os.environ, "DS_ACCELERATOR": "cpu", "CUDA_VISIBLE_DEVICES": "", **env},
            check=False,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("ANSWERS ")]
    assert lines, done.stderr
    return {Path(path).name: said for path, said in json.loads(lines[0][8:]).items()}


@pytest.fixture
def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@pytest.fixture(scope="module")
def answers():
    """What DeepSpeedConfig says of each file for plain DeepSpeed: None, or its error."""
    pytest.importorskip("deepspeed")
    asked = [
        [str(HERE / "broken" / f"{name}.json"), known.get("world", 2) or 1]
        for name, known in BROKEN.items()
    ]
    asked += [[str(HERE / "good" / name), 8] for name in GOOD]
    return answers_of(READER, asked, {})


@pytest.mark.deepspeed
def test_deepspeed_refuses_what_the_table_says(answers):
    for name, known in BROKEN.items():
        if known.get("refused"):
            assert answers[f"{name}.json"] is not None, name


@pytest.mark.deepspeed
def test_deepspeed_takes_every_good_config_for_it(answers):
    for name in GOOD:
        if reader_of(name) == "plain":
            assert answers[name] is None, (name, answers[name])


TRAINER = """
import json, sys
import hjson, torch, deepspeed
deepspeed.init_distributed("gloo")
BATCH = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
answers = {}
for path in json.load(sys.stdin):
    config = json.loads(json.dumps(hjson.load(open(path))))
    config = {key: value for key, value in config.items() if key not in BATCH}
    config["train_micro_batch_size_per_gpu"] = 2
    optimizer = config.setdefault("optimizer", {"type": "AdamW", "params": {"lr": 0.001}})
    if optimizer.get("type") in ("Adam", "AdamW"):
        optimizer.setdefault("params", {})["torch_adam"] = True  # needs no compiler
    try:
        model = torch.nn.Linear(4, 4)
        engine, *_ = deepspeed.initialize(
            model=model, model_parameters=model.parameters(), config=config)
        for _ in range(2):
            inputs = torch.randn(2, 4).to(next(model.parameters()).dtype)
            engine.backward(engine(inputs).float().pow(2).mean())
            engine.step()
        answers[path] = None
    except BaseException as error:
        answers[path] = f"{type(error).__name__}: {error}"
print("ANSWERS " + json.dumps(answers))
"""


@pytest.mark.deepspeed
@pytest.mark.timeout(900)  # compiles what no other test needs
def test_deepspeed_fails_to_train_with_what_the_table_says(free_port):
    """On one CPU; what needs GPUs or many ranks to fail is not in it."""
    pytest.importorskip("deepspeed")
    names = [name for name, known in BROKEN.items() if known.get("fails")]
    good = ["ds-cifar.json", "ds-smallest.json", "ds-one-cycle.json"]
    good += ["ds-rates-per-group.json", "ds-torch-cosine.json"]
    asked = [str(HERE / "broken" / f"{name}.json") for name in names]
    asked += [str(HERE / "good" / name) for name in good]
    asked.append(str(HERE / "broken/fp16-on-cpus.json"))
    world = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
    said = answers_of(TRAINER, asked, {**world, "MASTER_PORT": str(free_port)})
    assert [name for name in names if said[f"{name}.json"] is None] == []
    assert (said["fp16-on-cpus.json"] is None) is (fp16_on_cpus() is True)
    assert {name: said[name] for name in good} == dict.fromkeys(good)


OTHERS = """
import json, sys, warnings
warnings.simplefilter("ignore")
from types import SimpleNamespace
from accelerate.utils import DeepSpeedPlugin
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

args = SimpleNamespace(
    world_size=8, per_device_train_batch_size=8, gradient_accumulation_steps=2, max_grad_norm=1.0,
    learning_rate=1e-4, adam_beta1=0.9, adam_beta2=0.99, adam_epsilon=1e-8, weight_decay=0.1,
    save_on_each_node=False, fp16=False, fp16_full_eval=False, bf16=True, bf16_full_eval=False,
    get_warmup_steps=lambda steps: 10)
model = SimpleNamespace(config=SimpleNamespace(hidden_size=64))
# What Accelerator._prepare_deepspeed fills for a script with DummyOptim and DummyScheduler.
fills = {
    "train_micro_batch_size_per_gpu": 8, "train_batch_size": 64, "gradient_accumulation_steps": 2,
    "gradient_clipping": 1.0, "zero_optimization.stage3_gather_16bit_weights_on_model_save": False,
    "zero_optimization.reduce_bucket_size": 4096, "optimizer.params.lr": 1e-4,
    "zero_optimization.stage3_prefetch_bucket_size": 3686, "optimizer.params.weight_decay": 0.1,
    "zero_optimization.stage3_param_persistence_threshold": 640,
    "scheduler.params.warmup_min_lr": 0, "scheduler.params.warmup_max_lr": 1e-4,
    "scheduler.params.warmup_num_steps": 10, "scheduler.params.total_num_steps": 100}
answers = {}
for path, target in json.load(sys.stdin):
    try:
        if target == "hf":
            read = HfTrainerDeepSpeedConfig(path)
            read.trainer_config_process(args)
            read.trainer_config_finalize(args, model=model, num_training_steps=100)
            plugin = DeepSpeedPlugin(hf_ds_config=read.config)
        else:
            plugin = DeepSpeedPlugin(hf_ds_config=path)
        fp16 = plugin.deepspeed_config.get("fp16", {}).get("enabled") is True
        plugin.set_mixed_precision("fp16" if fp16 else "bf16")
        plugin.deepspeed_config_process(must_match=False, **fills)
        answers[path] = None
    except BaseException as error:
        answers[path] = f"{type(error).__name__}: {error}"
print("ANSWERS " + json.dumps(answers))
"""


@pytest.mark.deepspeed
def test_the_trainer_and_accelerate_refuse_and_take_the_same():
    pytest.importorskip("accelerate")
    pytest.importorskip("transformers")
    broken = {
        f"{name}.json": known["target"]
        for name, known in BROKEN.items()
        if known.get("target", "plain") != "plain"
        and known["level"] == "error"
        and not known.get("late")
    }
    good = {name: reader_of(name) for name in GOOD if reader_of(name) != "plain"}
    asked = [[str(HERE / "broken" / name), target] for name, target in broken.items()]
    asked += [[str(HERE / "good" / name), target] for name, target in good.items()]
    env = {key: "" for key in os.environ if key.startswith("ACCELERATE_")}
    said = answers_of(OTHERS, asked, env)
    assert len(broken) > 5
    assert [name for name in broken if said[name] is None] == []
    assert {name: said[name] for name in good} == dict.fromkeys(good)
