"""zlaunch plan, run as users run it."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
import time
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
    assert "optimizer moments 52.2 GiB" in why and "2 such GPUs" in why
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
        (("--params", "7b", "--gpu-memory", "80"), ("80 bytes", "did you mean 80GiB")),
        (("--params", "7b", "--host-memory", "512"), ("--host-memory", "did you mean 512GiB")),
        (("--params", "7b", "--nvme", "2"), ("--nvme", "did you mean 2GiB")),
        (("--params", "9e17"), ("--params '9e17'", "10^14")),
        (("--params", "7"), ("did you mean 7b",)),
        (("--params", "7b", "--micro-batch", "0", "-r", "ddp"), ("micro batch",)),
        (("--params", "7b", "--accumulate", "0"), ("accumulation",)),
        (("--params", "7b", "--ds-config", "list.json"), ("list.json",)),
        (("--params", "7b", "--ds-config", "typo.json"), ("typo.json:1", "stag")),
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
        (("--model", "."), ("no config.json",)),
        (("--model", "list.json"), ("list.json", "one object")),
        (("--model", "nothing.json"), ("nothing.json", "empty")),
        (("--model", "deep.json"), ("deep.json", "nested")),
        (("--model", "binary.json"), ("binary.json", "UTF-8")),
        (("--model", "nan.json"), ("nan.json:1", "hidden_size", "NaN")),
        (("--model", "huge.json"), ("huge.json:1", "num_hidden_layers", "10,000")),
        (("--model", "many.json"), ("many.json", "more than any")),
        (("--model", "cut.safetensors"), ("cut.safetensors", "half-finished")),
        (("--model", "1e18.safetensors"), ("1e18.safetensors", "header")),
        (("--model", "shards"), ("index.json", "[1]")),
        (("--model", "shards/lost.index.json"), ("lost.index.json", "b.safetensors is missing")),
        (("--model", "model-00001-of-00003.safetensors"), ("one of 3 files", "--model .")),
        (("--model", "x\n" * 3), ("was not found",)),
        (("--model", "y" * 5000), ("cannot be read", "too long")),
        (("--model", "packed.safetensors"), ("packed as I32", "config.json")),
        (("--model", "empty"), ("no config.json",)),
    ],
)
def test_bad_input(journey: Journey, args: tuple[str, ...], words: tuple[str, ...]) -> None:
    model_folder(journey)
    (journey.folder / "empty").mkdir()
    odd_files(journey.folder)
    (journey.folder / "broken.json").write_text("{,}")
    number = '{\n "model_type": "llama",\n "hidden_size": 4096.5}'
    (journey.folder / "number.json").write_text(number)
    (journey.folder / "other.json").write_text('{"hidden_size": 8, "learning_rate": 1}')
    (journey.folder / "short.safetensors").write_bytes(b"abc")
    (journey.folder / "long.safetensors").write_bytes(b"\xff" * 64)
    cards = () if "--gpus" in args or "--gpu-memory" in args else CARDS
    said = refused(journey, "plan", *args, *cards)
    assert all(word in said for word in words), said


def test_errors_are_the_same_with_json(journey: Journey) -> None:
    """Nothing on stdout, as of the other commands."""
    odd_files(journey.folder)
    for args in (("--model", "nan.json"), ("--params", "9e17"), ("--model", "none")):
        said = refused(journey, "plan", *args, *CARDS)
        assert refused(journey, "plan", *args, *CARDS, "--json") == said


def odd_files(folder: Path) -> None:
    """Files that are no model, each in its own way."""
    llama = {"model_type": "llama", "vocab_size": 1000, "hidden_size": 64}
    texts = {
        "list.json": "[1]",
        "nothing.json": "",
        "deep.json": "[" * 200_000,
        "nan.json": '{"model_type": "llama", "hidden_size": NaN}',
        "huge.json": json.dumps({**llama, "num_hidden_layers": 10**9}),
        "many.json": json.dumps({**llama, "hidden_size": 10**8, "intermediate_size": 10**8}),
        "typo.json": '{"zero_optimization": {"stag": 2}, "train_batch_size": 8}',
        "shards/model.safetensors.index.json": '{"weight_map": {"a": [1]}}',
        "shards/lost.index.json": '{"weight_map": {"a": "b.safetensors"}}',
    }
    (folder / "shards").mkdir()
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "binary.json").write_bytes(bytes(range(256)))
    packed = json.dumps({"x": {"dtype": "I32", "shape": [8, 8]}}).encode()
    sizes = {"cut": 40, "1e18": 10**18, "packed": len(packed)}
    for name, size in sizes.items():
        body = packed if name == "packed" else b'{"a": {"dtype": "F32", "shape": [8], "da'
        (folder / f"{name}.safetensors").write_bytes(struct.pack("<Q", size) + body)
    (folder / "model-00001-of-00003.safetensors").write_bytes(b"")


def test_a_folder_that_lacks_some_of_its_files_says_so(journey: Journey) -> None:
    """Parameters come from the config then, and are not taken from what is there."""
    folder = journey.folder / model_folder(journey)
    (folder / "model.safetensors").rename(folder / "model-00001-of-00002.safetensors")
    plan = planned(journey, "--model", "model", *CARDS)
    assert plan["model"]["parameters"] == 6_738_415_616
    assert any("1 of its 2 files are missing" in note for note in plan["notes"])
    names = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": names}))
    plan = planned(journey, "--model", "model", *CARDS)
    assert any("model-00002-of-00002.safetensors" in note for note in plan["notes"])


def test_the_command_has_all_that_was_asked_for(journey: Journey) -> None:
    bucket = "zero_optimization.reduce_bucket_size=1e8"
    args = ("--params", "1b", *CARDS, "-r", "zero2", "--accumulate", "4", "--set", bucket)
    command = planned(journey, *args)["command"]
    assert "--accumulate 4" in command and f"--set {bucket}" in command
    config = "{zero_optimization: {stage: 2}, train_micro_batch_size_per_gpu: 3}"
    (journey.folder / "my ds.hjson").write_text(config)
    own = ("--params", "1b", *CARDS, "--ds-config", "my ds.hjson")
    plan = planned(journey, *own)
    assert "--ds-config 'my ds.hjson'" in plan["command"] and "--recipe" not in plan["command"]
    assert plan["work"]["micro_batch"] == 3
    more = planned(journey, *own, "--micro-batch", "4")
    assert any("says a micro batch of 3, not 4" in note for note in more["notes"])


@pytest.mark.parametrize(
    "args",
    [
        ("--params", "9.9e13"),
        ("--params", "1e12", "--set", "zero_optimization.sub_group_size=1"),
        ("--params", "1t", "--micro-batch", "1000000000"),
        ("--params", "1t", "--seq", "10000000", "--nodes", "4096"),
        ("--model", "wide.json"),
    ],
)
def test_large_numbers_take_no_time(journey: Journey, args: tuple[str, ...]) -> None:
    """What is counted must not be walked through."""
    wide = {"model_type": "qwen3_moe", "num_hidden_layers": 10_000, "vocab_size": 10**9}
    (journey.folder / "wide.json").write_text(json.dumps({**wide, "num_experts": 100}))
    began = time.monotonic()
    done = journey.zlaunch("plan", *args, *CARDS)
    assert done.code == 1 and "no recipe fits" in done.out
    assert time.monotonic() - began < 30


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


NUMBERS = re.compile(r"-?\d[\d.,]*")


def shown(journey: Journey, columns: int, *args: str) -> list[str]:
    live, end = journey.on_terminal("plan", *args, columns=columns)
    done: Done = live.end()
    os.close(end)
    assert done.code in (0, 1), done.text
    return re.sub(r"\x1b\[[0-9;]*m", "", done.out).replace("\r", "").splitlines()


@pytest.mark.parametrize("columns", [200, 80, 60, 40, 25])
@pytest.mark.parametrize("size", ["7b", "90t"])
def test_no_number_is_cut_on_a_narrow_terminal(journey: Journey, columns: int, size: str) -> None:
    args = ("--params", size, *CARDS)
    lines = shown(journey, columns, *args)
    # Nothing is longer than the screen, but a word that no line can hold.
    for line in lines:
        assert len(line) <= columns or len(line.split()) == 1 or "--set" in line, line
    wide = journey.zlaunch("plan", *args).out
    narrow = "\n".join(lines)
    assert set(NUMBERS.findall(wide)) - set(NUMBERS.findall(narrow)) == set()
    for name in ("zero1", "zero2-offload", "zero3-nvme", "ddp"):
        assert name in narrow


def test_a_command_on_a_narrow_terminal_is_one_that_a_shell_reads(journey: Journey) -> None:
    lines = shown(journey, 40, "--params", "7b", *CARDS)
    at = next(n for n, line in enumerate(lines) if line.startswith("  zlaunch run"))
    assert all(line.endswith(" \\") for line in lines[at:-1])
    words = " ".join(line.rstrip("\\").strip() for line in lines[at:])
    assert words == planned(journey, "--params", "7b", *CARDS)["command"]


def test_what_run_would_refuse_is_not_recommended(journey: Journey) -> None:
    sgd = ("--set", "optimizer.type=SGD")
    said = refused(journey, "plan", "--params", "7b", *CARDS, *sgd)
    assert "not been tested" in said and "SGD" in said
    train = journey.script("import deepspeed", "train.py")
    run = journey.zlaunch("run", "--cpu", "8", *sgd, "--recipe", "zero1", "--dry-run", train)
    assert run.code == 2 and "not been tested" in run.err

    keys = ("device=nvme", "nvme_path=/tmp")
    sets = [
        word for key in keys for word in ("--set", f"zero_optimization.offload_optimizer.{key}")
    ]
    plan = planned(journey, "--params", "7b", *CARDS, *sets)
    assert {*recipes(plan)} == {"zero3", "zero3-offload", "zero3-nvme", "ddp"}
    assert sum("left out: recipe zero" in note for note in plan["notes"]) == 3


def test_a_file_of_accelerate_config_is_no_ds_config(journey: Journey) -> None:
    config = journey.folder / "acc.yaml"
    config.write_text("distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n")
    said = refused(journey, "plan", "--params", "7b", *CARDS, "--ds-config", str(config))
    assert "Accelerate's configuration" in said and "zlaunch config import" in said
