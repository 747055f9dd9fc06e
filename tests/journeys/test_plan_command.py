"""zlaunch plan, run as users run it."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from journeys import Done, Journey, without_nvml
from test_bad_input import refused

CARDS = ("--gpus", "8", "--gpu-memory", "80GiB")
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "vocab_size": 32000,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "rms_norm_eps": 1e-5,
}


def planned(journey: Journey, *args: str, code: int = 0) -> dict:
    done = journey.zlaunch("plan", *args, "--json")
    assert done.code == code, done.text
    assert done.err == ""
    return json.loads(done.out)


def recipes(plan: dict) -> dict[str, dict]:
    return {recipe["recipe"]: recipe for recipe in plan["recipes"]}


def test_7b_on_one_gpu(journey: Journey) -> None:
    done = journey.zlaunch("plan", "--params", "7b", "--gpus", "1", "--gpu-memory", "80GiB")
    assert done.code == 0
    why = next(line for line in done.out.splitlines() if "does not fit: zero3:" in line)
    assert "optimizer moments 52.2 GiB" in why and "2 GPUs" in why
    assert "recommended: zero2-offload" in done.out
    for word in ("parameters", "fp32 weights", "GPU left", "NVMe needed", "not included"):
        assert word in done.out


def test_7b_on_8_gpus_as_data(journey: Journey) -> None:
    plan = planned(journey, "--params", "7b", *CARDS)
    found = recipes(plan)
    assert plan["recommended"] == "zero1"
    assert {name for name, recipe in found.items() if not recipe["fits"]} == {"ddp"}
    assert plan["model"]["parameters"] == 7_000_000_000 and plan["model"]["exact"] is False
    for recipe in found.values():
        gpu = recipe["gpu"]
        assert gpu["needed_bytes"] == sum(term["bytes"] for term in gpu["terms"])
        assert gpu["needed_bytes"] + gpu["margin_bytes"] == 80 * 2**30
        assert max(phase["bytes"] for phase in gpu["phases"]) == gpu["peak_allocated_bytes"]
    assert found["zero3-nvme"]["nvme"]["needed_bytes"] >= 16 * 7_000_000_000


def test_nothing_fits(journey: Journey) -> None:
    args = ("--params", "70b", "--gpus", "1", "--gpu-memory", "24g", "--host-memory", "32GiB")
    plan = planned(journey, *args, code=1)
    assert plan["recommended"] is None and plan["command"] is None
    assert all(recipe["reasons"] for recipe in plan["recipes"])
    done = journey.zlaunch("plan", *args)
    assert done.code == 1 and "no recipe fits" in done.out


def model_folder(journey: Journey, *, weights: bool = True) -> str:
    folder = journey.folder / "model"
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))
    if weights:
        tensors = {
            "model.embed_tokens.weight": {"dtype": "BF16", "shape": [32000, 4096]},
            "model.layers.0.mlp.gate_proj.weight": {"dtype": "BF16", "shape": [11008, 4096]},
        }
        header = json.dumps(tensors).encode()
        (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    return "model"


def test_a_config_and_a_folder_with_weights(journey: Journey) -> None:
    name = model_folder(journey)
    config = planned(journey, "--model", f"{name}/config.json", *CARDS)["model"]
    assert config["parameters"] == 6_738_415_616 and config["exact"]  # Llama 2 7B
    folder = planned(journey, "--model", name, *CARDS)
    assert folder["model"]["parameters"] == 32000 * 4096 + 11008 * 4096
    assert "6,738,415,616" in folder["notes"][0]
    alone = planned(journey, "--model", f"{name}/model.safetensors", *CARDS)["model"]
    assert alone["parameters"] == 32000 * 4096 + 11008 * 4096


def test_what_is_asked_for_is_what_is_planned(journey: Journey) -> None:
    name = model_folder(journey, weights=False)
    some = ("--recipe", "zero2", "-r", "zero3", "--seq", "512", "--micro-batch", "8")
    more = ("--checkpointing", "--precision", "fp32", "--attention", "eager", "--nodes", "2")
    plan = planned(journey, "--model", name, *CARDS, *some, *more)
    assert list(recipes(plan)) == ["zero2", "zero3"]
    work = {"micro_batch": 8, "sequence": 512, "checkpointing": True, "attention": "eager"}
    assert plan["work"] == work and plan["precision"] == "fp32" and plan["nodes"] == 2
    assert "--num-nodes 2" in plan["command"] and "--micro-batch 8" in plan["command"]


def test_the_users_own_recipe_config_and_settings(journey: Journey) -> None:
    (journey.folder / "mine.toml").write_text('description = "x"\nextends = "zero3"\n')
    config = {"bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
    (journey.folder / "ds.json").write_text(json.dumps(config))
    bucket = ("--set", "zero_optimization.reduce_bucket_size=1e9")
    args = ("--params", "7b", *CARDS, "-r", "mine.toml", "--ds-config", "ds.json")
    small, large = (recipes(planned(journey, *args, *more)) for more in ((), bucket))
    assert list(small) == ["mine.toml", "ds.json"]
    for name in small:
        assert large[name]["gpu"]["needed_bytes"] > small[name]["gpu"]["needed_bytes"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ((), ("no model", "--params 7b")),
        (("--params", "7b", "--model", "x"), ("both given",)),
        (("--params", "seven"), ("--params 'seven'", "7b")),
        (("--params", "7b", "--gpus", "0"), ("--gpus",)),
        (("--params", "7b", "--gpu-memory", "80 gigs"), ("--gpu-memory", "80GiB")),
        (("--params", "7b", "--host-memory", "-1g"), ("--host-memory",)),
        (("--params", "7b", "--recipe", "zero9"), ("zero9", "did you mean")),
        (("--params", "7b", "--set", "zero_optimization.stag=2"), ("stag", "did you mean")),
        (("--params", "7b", "--ds-config", "none.json"), ("none.json",)),
        (("--model", "modell"), ("modell was not found", "similar: model")),
        (("--model", "meta-llama/Llama-2-7b"), ("was not found", "nothing is downloaded")),
        (("--model", "broken.json"), ("broken.json:1:2",)),
        (("--model", "number.json"), ("number.json:3", "hidden_size", "4096.5")),
        (("--model", "other.json"), ("other.json", "vocab_size")),
        (("--model", "short.safetensors"), ("short.safetensors", "no safetensors file")),
        (("--model", "long.safetensors"), ("long.safetensors", "no safetensors file")),
        (("--model", "/dev/zero"), ("/dev/zero", "neither a file nor a folder")),
        (("--model", "empty"), ("no config.json",)),
    ],
)
def test_bad_input(journey: Journey, args: tuple[str, ...], words: tuple[str, ...]) -> None:
    model_folder(journey)
    (journey.folder / "empty").mkdir()
    (journey.folder / "broken.json").write_text("{,}")
    number = '{\n "model_type": "llama",\n "hidden_size": 4096.5}'
    (journey.folder / "number.json").write_text(number)
    (journey.folder / "other.json").write_text('{"hidden_size": 8, "learning_rate": 1}')
    (journey.folder / "short.safetensors").write_bytes(b"abc")
    (journey.folder / "long.safetensors").write_bytes(b"\xff" * 64)
    cards = () if "--gpus" in args or "--gpu-memory" in args else CARDS
    said = refused(journey, "plan", *args, *cards)
    assert all(word in said for word in words), said


@without_nvml
def test_without_a_gpu_its_memory_has_to_be_said(journey: Journey) -> None:
    said = refused(journey, "plan", "--params", "7b")
    assert "--gpu-memory 80GiB" in said


@without_nvml
def test_the_gpus_of_this_machine(journey: Journey) -> None:
    """nvidia-smi tells where NVML is not there; the smallest visible card decides."""
    script = """#!/bin/sh
case "$1" in -L) exit 0 ;; esac
echo "0, GPU-00000000-0000-0000-0000-000000000000, Card, 81559, 9.0"
echo "1, GPU-11111111-1111-1111-1111-111111111111, Card, 24576, 7.5"
"""
    journey.program(script, "bin/nvidia-smi")
    path = f"{journey.folder / 'bin'}:{os.environ['PATH']}"
    env = {"PATH": path}
    done = journey.zlaunch("plan", "--params", "1b", "--json", env=env)
    plan = json.loads(done.out)
    assert plan["gpus"] == 2 and plan["limits"]["gpu_bytes"] == 24576 * 2**20
    assert plan["precision"] == "fp16"
    assert plan["limits"]["host_bytes"] > 2**28
    done = journey.zlaunch(
        "plan", "--params", "1b", "--json", env={**env, "CUDA_VISIBLE_DEVICES": "0"}
    )
    plan = json.loads(done.out)
    assert plan["gpus"] == 1 and plan["limits"]["gpu_bytes"] == 81559 * 2**20
    assert plan["precision"] == "bf16"


def test_nothing_heavy_is_loaded(journey: Journey) -> None:
    code = (
        "import sys\nfrom zlaunch.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    )
    args = ["plan", "--params", "7b", *CARDS, "--json"]
    root = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", code, *args], cwd=root, capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split())
    assert {"torch", "deepspeed", "transformers", "rich", "pydantic"} & loaded == set()


def test_a_table_on_a_narrow_terminal(journey: Journey) -> None:
    live, end = journey.on_terminal("plan", "--params", "7b", *CARDS, columns=60)
    done: Done = live.end()
    os.close(end)
    assert done.code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", done.out)
    table = [line for line in plain.splitlines() if line.startswith(("│", "┃"))]
    assert max(len(line) for line in table) <= 60
    for name in ("zero1", "zero2-offload", "zero3-nvme", "ddp"):
        assert any(name in line for line in table)
