"""The real readers take what is rendered for them: DeepSpeed, transformers, Accelerate.

Each runs once, in a process of its own: they change global state and are slow to import.
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys

import pytest

from zlaunch.dsconfig.document import Document
from zlaunch.dsconfig.finding import Around
from zlaunch.dsconfig.keys import KEYS
from zlaunch.dsconfig.lint import lint
from zlaunch.dsconfig.overrides import parse_override
from zlaunch.dsconfig.recipes import load_recipe
from zlaunch.dsconfig.render import render
from zlaunch.dsconfig.schema import own_schema
from zlaunch.errors import BatchError

pytestmark = pytest.mark.deepspeed

RECIPES = ("zero1", "zero2", "zero3", "zero2-offload", "zero3-offload", "zero3-nvme")
WORLDS = (1, 2, 8, 13)
PRECISIONS = ("fp16", "bf16", "fp32")


def run(code, data):
    """The JSON that `code` leaves in `result`, in a fresh process without accelerators."""
    pytest.importorskip("deepspeed")
    head = "import json, sys\ndata = json.load(sys.stdin)\nresult = []\n"
    tail = "\nprint('RESULT', json.dumps(result))\n"
    env = {key: value for key, value in os.environ.items() if not key.startswith("ACCELERATE_")} | {
        "DS_ACCELERATOR": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", head + code + tail],
        input=json.dumps(data),
        capture_output=True,
        text=True,
        timeout=100,
        env=env,
        check=False,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert done.returncode == 0, done.stderr
    return json.loads(lines[-1].removeprefix("RESULT "))


def rendered(sources, name, precision, target, world):
    recipe = load_recipe(name, sources)
    return render(
        recipe.config,
        precisions=recipe.precisions,
        precision=precision,
        target=target,
        world_size=world,
    ).config


DEEPSPEED = """
from deepspeed.runtime import config as module
from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
from deepspeed.runtime.zero.offload_config import (
    DeepSpeedZeroOffloadOptimizerConfig, DeepSpeedZeroOffloadParamConfig)
from deepspeed.compile.config import CompileConfig

module.dist.get_rank = lambda: 0
for config, world in data["configs"]:
    module.dist.get_world_size = lambda: world
    try:
        read = module.DeepSpeedConfig(config)
    except Exception as error:
        result.append(f"{type(error).__name__}: {error}")
        continue
    result.append([read.train_batch_size, read.train_micro_batch_size_per_gpu,
                   read.gradient_accumulation_steps, int(read.zero_config.stage),
                   read.float16_config.enabled, read.bfloat16_config.enabled])
models = {
    "zero_optimization": DeepSpeedZeroConfig, "fp16": DeepSpeedFP16Config,
    "bf16": DeepSpeedBF16Config, "compile": CompileConfig,
    "zero_optimization.offload_param": DeepSpeedZeroOffloadParamConfig,
    "zero_optimization.offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
}
result = {"read": result, "fields": {
    name: sorted(field.alias or key for key, field in model.model_fields.items())
    for name, model in models.items()}}
"""


def batch_cases():
    """Every subset of some numbers, on two ranks: what DeepSpeed makes of it is the standard."""
    for train, micro, steps in itertools.product(
        (None, 1, 30, 32, 33), (None, 8, 16, 18), (None, 1, 2, 4)
    ):
        numbers = {
            "train_batch_size": train,
            "train_micro_batch_size_per_gpu": micro,
            "gradient_accumulation_steps": steps,
        }
        yield {key: value for key, value in numbers.items() if value is not None}


def solved(numbers):
    try:
        batch = render(
            numbers,
            precisions={},
            precision=None,
            target="plain",
            world_size=2,
            from_file=True,
        ).batch
    except BatchError:
        return None
    return [batch.train, batch.micro, batch.accumulation]


def test_deepspeed_reads_every_plain_recipe_and_solves_batches_the_same_way(sources):
    cases = list(itertools.product(RECIPES, PRECISIONS, WORLDS))
    configs = [[rendered(sources, *case[:2], "plain", case[2]), case[2]] for case in cases]
    numbers = list(batch_cases())
    answer = run(DEEPSPEED, {"configs": configs + [[case, 2] for case in numbers]})

    for (name, precision, world), read in zip(cases, answer["read"], strict=False):
        half = [precision == "fp16", precision == "bf16"]
        assert read == [16 * world, 4, 4, int(name[4]), *half], (name, precision, world)

    for case, read in zip(numbers, answer["read"][len(cases) :], strict=True):
        expected = None if isinstance(read, str) else read[:3]
        assert solved(case) == expected, (case, read)

    for path, fields in answer["fields"].items():
        section = KEYS
        for part in path.split("."):
            section = section[part]
        assert sorted(section) == fields, path


SETS = (
    (),
    ("zero_optimization.stage=1",),
    ("zero_optimization.stage=3", "zero_optimization.stage3_max_live_parameters=1e8"),
    ("optimizer.type=Lion", "optimizer.params.lr=1e-4", "optimizer.params.eps=null"),
    ("scheduler=null", "gradient_accumulation_steps=1"),
    ("gradient_clipping=0.5", "steps_per_print=10"),
    ("zero_optimization.reduce_bucket_size=5e7", "zero_optimization.overlap_comm=false"),
    ("zero_optimization.offload_optimizer.device=cpu",),
    ("zero_optimization.offload_optimizer=null",),
    ("activation_checkpointing.partition_activations=true", "wall_clock_breakdown=true"),
)


def test_what_users_set_first_is_read_by_deepspeed_where_lint_finds_nothing(sources):
    cases = []
    for name, sets, precision in itertools.product(RECIPES, SETS, PRECISIONS):
        recipe = load_recipe(name, sources)
        config = render(
            recipe.config,
            precisions=recipe.precisions,
            precision=precision,
            target="plain",
            world_size=2,
            overrides=[parse_override(text) for text in sets],
        ).config
        found = lint(Document(config), Around(own_schema(), "plain", 2, bf16=True, cpu=False))
        errors = [finding.text for finding in found if finding.level == "error"]
        cases.append((name, sets, precision, config, errors))
    answer = run(DEEPSPEED, {"configs": [[config, 2] for *_, config, _ in cases]})
    clean = [case for case in cases if not case[-1]]
    assert len(clean) > 0.8 * len(cases), [case[:3] for case in cases if case[-1]]
    for (*what, _, errors), read in zip(cases, answer["read"], strict=True):
        assert errors or not isinstance(read, str), (what, read)


TRAINER = """
import warnings; warnings.simplefilter("ignore")
from types import SimpleNamespace
from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig
from accelerate.utils import DeepSpeedPlugin

args = SimpleNamespace(
    world_size=2, per_device_train_batch_size=3, gradient_accumulation_steps=5, max_grad_norm=0.7,
    learning_rate=1e-4, adam_beta1=0.8, adam_beta2=0.9, adam_epsilon=1e-6, weight_decay=0.1,
    save_on_each_node=False, fp16=False, fp16_full_eval=False, bf16=True, bf16_full_eval=False,
    get_warmup_steps=lambda steps: 10)
for config in data["hf"]:
    read = HfTrainerDeepSpeedConfig(config)
    read.trainer_config_process(args)
    read.trainer_config_finalize(args, model=None, num_training_steps=100)
    DeepSpeedPlugin(hf_ds_config=read.config)
    result.append(read.config)
for config, precision in data["accelerate"]:
    plugin = DeepSpeedPlugin(hf_ds_config=config)
    plugin.set_mixed_precision({"fp32": "no"}.get(precision, precision))
    # what Accelerator._prepare_deepspeed does with a script's own loaders and optimizer
    plugin.fill_match("gradient_accumulation_steps", must_match=False,
                      gradient_accumulation_steps=5)
    plugin.deepspeed_config_process(must_match=False, **{
        "gradient_clipping": 1.0, "train_micro_batch_size_per_gpu": 3, "train_batch_size": 30,
        "zero_optimization.stage3_gather_16bit_weights_on_model_save": False})
    plugin.deepspeed_config["steps_per_print"] = 0
    result.append(plugin.deepspeed_config)
"""


def autos(config):
    return [
        key
        for key, value in config.items()
        if value == "auto" or (isinstance(value, dict) and autos(value))
    ]


def test_the_trainer_and_accelerate_fill_every_auto(sources):
    cases = list(itertools.product(RECIPES, PRECISIONS))
    read = run(
        TRAINER,
        {
            "hf": [rendered(sources, name, None, "hf", 2) for name in RECIPES],
            "accelerate": [[rendered(sources, *case, "accelerate", 2), case[1]] for case in cases],
        },
    )
    for config in read:
        assert autos(config) == []
        assert config["train_batch_size"] == 30
        assert config["train_micro_batch_size_per_gpu"] == 3
        assert config["gradient_accumulation_steps"] == 5
    for config in read[: len(RECIPES)]:
        assert config["optimizer"]["params"] == {
            "lr": 1e-4,
            "betas": [0.8, 0.9],
            "eps": 1e-6,
            "weight_decay": 0.1,
        }
        assert (config["fp16"]["enabled"], config["bf16"]["enabled"]) == (False, True)
        assert config["gradient_clipping"] == 0.7
    for (_, precision), config in zip(cases, read[len(RECIPES) :], strict=True):
        enabled = {key: config[key]["enabled"] for key in ("fp16", "bf16")}
        assert enabled == {key: key == precision for key in ("fp16", "bf16")}
