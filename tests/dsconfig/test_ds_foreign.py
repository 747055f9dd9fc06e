"""Configs of others are recognised and become the ds_config that they mean."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zlaunch.dsconfig.foreign import import_config
from zlaunch.errors import ConfigError

CONFIG = {"train_batch_size": 32, "zero_optimization": {"stage": 2}, "gradient_clipping": 1.0}
JSON = json.dumps(CONFIG)
YAML = """\
# as some keep it
train_batch_size: 32
zero_optimization:
  stage: 2
gradient_clipping: 1e0
"""
HEAD = "compute_environment: LOCAL_MACHINE\ndistributed_type: DEEPSPEED\n"
TAIL = "machine_rank: 0\nmixed_precision: {}\nnum_machines: {}\nnum_processes: {}\n"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (JSON, "JSON"),
        (f"\ufeff{JSON}", "JSON"),
        ("{train_batch_size: 32, zero_optimization: {stage: 2}, gradient_clipping: 1.0}", "JSON"),
        (base64.urlsafe_b64encode(JSON.encode()).decode(), "base64"),
        (base64.b64encode(JSON.encode()).decode() + "\n", "base64"),
        (YAML, "YAML"),
        (f"---\n{YAML}", "YAML"),
        (
            '"train_batch_size": 32\n"zero_optimization": {stage: 2}\ngradient_clipping: 1.0\n',
            "YAML",
        ),
    ],
)
def test_recognised(text: str, kind: str) -> None:
    found = import_config(text, "x")
    assert (found.kind, found.config) == (kind, CONFIG)


def test_numbers_of_yaml_are_what_they_look_like() -> None:
    text = "a: 1e-5\nb: 5e8\nc: -2.5E+3\nd: 12\ne: '1e-5'\nf: 1_000\ng: .5e1\nh: auto\ni: true\n"
    config = import_config(text, "x").config
    expected: dict[str, Any] = {"a": 1e-5, "b": 5e8, "c": -2500.0, "d": 12, "e": "1e-5", "f": 1000}
    assert config == {**expected, "g": 5.0, "h": "auto", "i": True}


@pytest.mark.parametrize(
    ("text", "where", "word"),
    [
        ("a: 1\nb: [1, 2\n", "x:3:1", "expected"),
        ("a: 1\nb: 2\na: 3\n", "x:3:1", 'the key "a" stands twice'),
        ("a:\n  b: 1\n  b: 2\n", "x:3:3", 'the key "b" stands twice'),
        ("a: !!python/object:os.system x\n", "x:1:4", "could not determine a constructor"),
        ("1: a\n", "x:1:1", "no text"),
        ("a: 1\n  b: 2\n", "x:2:4", "mapping values are not allowed"),
        ("", "x", "empty"),
        (f"{HEAD.replace('DEEPSPEED', 'FSDP')}", "x", "trains by FSDP, not by DeepSpeed"),
        (f"{HEAD}deepspeed_config: zero2\n", "x", "no mapping"),
    ],
)
def test_what_cannot_be_read(text: str, where: str, word: str) -> None:
    with pytest.raises(ConfigError) as caught:
        import_config(text, "x")
    assert caught.value.where == where
    assert word in caught.value.message


FIELDS = {
    "zero2": "deepspeed_config:\n  zero_stage: 2\n  gradient_accumulation_steps: 4\n",
    "defaults": "deepspeed_config: {}\n",
    "zero3, offload": (
        "deepspeed_config:\n  zero_stage: 3\n  gradient_accumulation_steps: 1\n"
        "  gradient_clipping: 0.5\n  offload_optimizer_device: cpu\n  offload_param_device: nvme\n"
        "  offload_param_nvme_path: /local_nvme\n  zero3_init_flag: true\n"
        "  zero3_save_16bit_model: true\n"
    ),
}

# Accelerate's own reading of the same file: its launcher's environment, its plugin.
ASK = """
import argparse, json, os, sys
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DeepSpeedPlugin
config = load_config_from_file(sys.argv[1])
for key, value in (config.deepspeed_config or {}).items():
    names = {
        "zero_stage": "ACCELERATE_DEEPSPEED_ZERO_STAGE",
        "gradient_accumulation_steps": "ACCELERATE_GRADIENT_ACCUMULATION_STEPS",
        "gradient_clipping": "ACCELERATE_GRADIENT_CLIPPING",
        "offload_optimizer_device": "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_DEVICE",
        "offload_param_device": "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_DEVICE",
        "offload_optimizer_nvme_path": "ACCELERATE_DEEPSPEED_OFFLOAD_OPTIMIZER_NVME_PATH",
        "offload_param_nvme_path": "ACCELERATE_DEEPSPEED_OFFLOAD_PARAM_NVME_PATH",
        "zero3_save_16bit_model": "ACCELERATE_DEEPSPEED_ZERO3_SAVE_16BIT_MODEL",
    }
    if key in names:
        os.environ[names[key]] = str(value)
plugin = DeepSpeedPlugin()
plugin.set_mixed_precision(config.mixed_precision)
print(json.dumps({k: v for k, v in plugin.deepspeed_config.items() if k != "steps_per_print"}))
"""


def without_nothing(config: dict[str, Any]) -> dict[str, Any]:
    """Without what says no more than its absence."""
    zero = dict(config["zero_optimization"])
    for part in ("offload_optimizer", "offload_param"):
        section = {k: v for k, v in zero.pop(part, {}).items() if v is not None}
        if section.get("device", "none") != "none":
            zero[part] = section
    if not zero.get("stage3_gather_16bit_weights_on_model_save"):
        zero.pop("stage3_gather_16bit_weights_on_model_save", None)
    rest = {
        key: {k: v for k, v in value.items() if k != "auto_cast"}
        for key, value in config.items()
        if key in ("fp16", "bf16") and value["enabled"]
    }
    plain = {k: v for k, v in config.items() if k not in ("fp16", "bf16", "zero_optimization")}
    return {**plain, "zero_optimization": zero, **rest}


@pytest.mark.parametrize("precision", ["no", "fp16", "bf16"])
@pytest.mark.parametrize("fields", FIELDS.values(), ids=FIELDS)
def test_accelerate_s_file_means_what_accelerate_makes_of_it(
    tmp_path: Path, fields: str, precision: str
) -> None:
    quoted = f"'{precision}'" if precision == "no" else precision  # else YAML's false
    text = HEAD + fields + TAIL.format(quoted, 1, 8)
    (tmp_path / "accelerate.yaml").write_text(text)
    env = {**os.environ, "DS_ACCELERATOR": "cpu", "ACCELERATE_USE_DEEPSPEED": "true"}
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(tmp_path / "accelerate.yaml")],
        env=env, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = import_config(text, "accelerate.yaml")
    assert ours.kind == "Accelerate"
    assert without_nothing(ours.config) == without_nothing(theirs)


def test_what_has_no_place_in_a_ds_config_is_told() -> None:
    fields = "deepspeed_config:\n  deepspeed_hostfile: /job/hosts\n  zero3_init_flag: true\n"
    notes = import_config(HEAD + fields + TAIL.format("bf16", 2, 16), "x").notes
    assert notes == (
        "num_processes 16 on 2: --nproc 8",
        "deepspeed_hostfile: zlaunch multinode --hostfile /job/hosts",
        "zero3_init_flag: the script calls deepspeed.zero.Init, or its reader does",
    )


def test_a_config_file_that_it_names() -> None:
    fields = "deepspeed_config:\n  deepspeed_config_file: ds.json\n  zero3_init_flag: false\n"
    found = import_config(HEAD + fields + TAIL.format("bf16", 1, 4), "x")
    assert (found.config_file, found.config) == ("ds.json", {"bf16": {"enabled": True}})
