"""Which operators are built beforehand: held to what the real DeepSpeed loads."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zlaunch.dsconfig.operators import BUILDERS, operators_of

MISSING = [name for name in ("torch", "deepspeed") if importlib.util.find_spec(name) is None]
CPU = {"device": "cpu"}


def optimizer(kind: str, **params: Any) -> dict[str, Any]:
    return {"optimizer": {"type": kind, "params": params}}


def zero(stage: int, **keys: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **keys}, "bf16": {"enabled": True}}


# What each rank loads beside deepspeed_shm_comm, on CPUs.
CONFIGS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "Adam": (optimizer("Adam"), ("fused_adam",)),
    "any case": ({**optimizer("ADAMW"), **zero(2)}, ("fused_adam",)),
    "torch's": (optimizer("AdamW", torch_adam=True), ()),
    "offloaded": ({**optimizer("AdamW"), **zero(2, offload_optimizer=CPU)}, ("cpu_adam",)),
    "old name": ({**optimizer("AdamW"), **zero(2, cpu_offload=True)}, ("cpu_adam",)),
    "to nowhere": (
        {**optimizer("AdamW"), **zero(2, offload_optimizer={"device": "none"})},
        ("fused_adam",),
    ),
    "torch's, offloaded": (
        {
            **optimizer("AdamW", torch_adam=True),
            **zero(2, offload_optimizer=CPU),
            "zero_force_ds_cpu_optimizer": False,
        },
        (),
    ),
    "Adagrad": (optimizer("Adagrad"), ()),
    "Adagrad offloaded": (
        {**optimizer("Adagrad"), **zero(2, offload_optimizer=CPU)},
        ("cpu_adagrad",),
    ),
    "Lion": (optimizer("Lion"), ()),  # not on CPUs, which DeepSpeed says
    "Lion offloaded": ({**optimizer("Lion"), **zero(1, offload_optimizer=CPU)}, ("cpu_lion",)),
    "Lamb": (optimizer("Lamb"), ()),
    "SGD": (optimizer("SGD", lr=0.1), ()),
    "Muon": ({**optimizer("Muon", lr=0.1), **zero(2)}, ("fused_adam",)),
    "none": ({}, ()),
    "parameters on NVMe": (
        {**optimizer("AdamW"), **zero(3, offload_param={"device": "nvme", "nvme_path": "NVME"})},
        ("fused_adam", "async_io"),
    ),
    "states on NVMe": (
        {**optimizer("Adam"), **zero(3, offload_optimizer={"device": "nvme", "nvme_path": "NVME"})},
        ("cpu_adam", "async_io"),
    ),
}

# Trains with each config in turn, with builders that say their names instead of building.
RECORD = """
import json, sys
from deepspeed.ops.op_builder.builder import OpBuilder
class Anything:
    __file__ = ""  # nothing to load
    def __getattr__(self, name):
        return lambda *args, **more: Anything()
seen = []
def jit_load(self, verbose=True):
    seen.append(self.name)
    return Anything()
OpBuilder.jit_load = jit_load
import deepspeed, torch
deepspeed.init_distributed()
told = {"init_distributed": list(seen)}
for name, config in json.load(sys.stdin).items():
    seen.clear()
    # one matrix and one vector, which Muon gives to Adam
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    try:
        deepspeed.initialize(model=model, model_parameters=model.parameters(),
                             config={"train_batch_size": 1, **config})
    except Exception as error:
        print(name, repr(error), file=sys.stderr)  # of what Anything returns
    told[name] = [one for one in dict.fromkeys(seen) if one != "pin_memory"]
print("told " + json.dumps(told))
"""


@pytest.mark.deepspeed
@pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}")
def test_deepspeed_loads_what_the_table_says(tmp_path: Path) -> None:
    configs = {name: config for name, (config, _) in CONFIGS.items()}
    text = json.dumps(configs).replace("NVME", str(tmp_path))
    env = {
        **os.environ,
        "DS_ACCELERATOR": "cpu",
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", RECORD], input=text, env=env, cwd=tmp_path, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    (line,) = [one for one in done.stdout.splitlines() if one.startswith("told ")] or [""]
    assert line, done.stderr[-3000:]
    told = json.loads(line[5:])
    assert told.pop("init_distributed") == ["deepspeed_shm_comm"]
    expected = {name: sorted(loaded) for name, (_, loaded) in CONFIGS.items()}
    assert {name: sorted(loaded) for name, loaded in told.items()} == expected, done.stderr[-3000:]


@pytest.mark.parametrize("name", CONFIGS)
def test_on_cpus(name: str) -> None:
    config, loaded = CONFIGS[name]
    assert operators_of(config, "cpu") == ("deepspeed_shm_comm", *loaded)
    assert operators_of(config, "cpu", "accelerate") == ()  # which trains as DDP there


@pytest.mark.parametrize(
    ("config", "loaded"),
    [
        (CONFIGS["Adam"][0], ("fused_adam",)),
        (CONFIGS["Lion"][0], ("fused_lion",)),
        (CONFIGS["Lamb"][0], ("fused_lamb",)),
        (CONFIGS["Lion offloaded"][0], ("cpu_lion",)),
        (zero(3, zero_quantized_weights=True), ("quantizer",)),
        (zero(2, zero_quantized_weights=True), ()),
        ({**zero(3, offload_param={"device": "nvme"}), "aio": {"use_gds": True}}, ("gds",)),
        (None, ()),
        ({"optimizer": "AdamW", "zero_optimization": "auto"}, ()),  # what lint refuses
    ],
)
def test_on_gpus(config: dict[str, Any] | None, loaded: tuple[str, ...]) -> None:
    assert operators_of(config, "cuda") == loaded


def test_a_config_that_is_not_known() -> None:
    assert operators_of(None, "cpu") == ("deepspeed_shm_comm",)


def test_accelerate_makes_the_optimizer_deepspeeds_where_it_is_offloaded() -> None:
    offloaded = zero(2, offload_optimizer=CPU)
    for target in ("hf", "accelerate"):
        assert operators_of(offloaded, "cuda", target) == ("cpu_adam",)
        assert operators_of(zero(2), "cuda", target) == ()
        forced = {**offloaded, "zero_force_ds_cpu_optimizer": False}
        assert operators_of(forced, "cuda", target) == ()
    assert operators_of(offloaded, "cuda", "plain") == ()


@pytest.mark.skipif("deepspeed" in MISSING, reason="without deepspeed")
def test_builders_are_deepspeeds_own() -> None:
    """Read, not imported, which would take seconds."""
    spec = importlib.util.find_spec("deepspeed")
    assert spec and spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0], "ops", "op_builder")
    sources = [path.read_text() for path in (*folder.glob("*.py"), *folder.glob("cpu/*.py"))]
    for name, builder in BUILDERS.items():
        of_it = [text for text in sources if f"class {builder}(" in text]
        assert any(f'NAME = "{name}"' in text for text in of_it), name
