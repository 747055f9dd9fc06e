"""States as they are predicted, against the tensors that the real DeepSpeed keeps on two ranks."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest
from journeys import Journey

from zlaunch.memory.settings import Settings, is_half, read_settings
from zlaunch.memory.shape import ModelShape
from zlaunch.memory.states import constant_states
from zlaunch.memory.terms import total

MISSING = [name for name in ("torch", "deepspeed") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.deepspeed,
    pytest.mark.timeout(400),
    pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}"),
]
WIDTH, LAYERS, BUCKET = 256, 8, 100_000
SHAPE = ModelShape(
    name="linear layers",
    source="",
    kind="decoder",
    tensors=((WIDTH * WIDTH, LAYERS), (WIDTH, LAYERS)),
    layers=LAYERS,
    hidden=WIDTH,
    heads=1,
    kv_heads=1,
    head_dim=WIDTH,
    intermediate=WIDTH,
    vocab=1,
)
# Adds up the storages of all tensors that are alive once two steps are done.
SCRIPT = f"""
import gc, json, os, sys, torch, deepspeed
config = json.load(open(sys.argv[1]))
half = config["bf16"]["enabled"]
layers = [torch.nn.Linear({WIDTH}, {WIDTH}) for _ in range({LAYERS})]
model = torch.nn.Sequential(*layers)
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
del model, layers
x = torch.randn(2, {WIDTH}, dtype=torch.bfloat16 if half else torch.float32)
for _ in range(2):
    loss = engine(x).float().pow(2).mean()
    engine.backward(loss)
    engine.step()
    del loss
gc.collect()
storages = {{}}
for tensor in (o for o in gc.get_objects() if issubclass(type(o), torch.Tensor)):
    if tensor.device.type == "cpu":
        storage = tensor.untyped_storage()
        storages[storage._cdata] = storage.nbytes()
if os.environ["RANK"] == "0":
    print("held", sum(storages.values()), flush=True)
"""


@pytest.mark.parametrize(
    ("stage", "half", "grad_accum"),
    [
        (1, True, None),
        (2, False, None),
        (3, False, None),
        (3, True, "fp32"),
    ],
)
def test_what_deepspeed_keeps_between_steps(
    journey: Journey, stage: int, half: bool, grad_accum: str | None
) -> None:
    config = {
        "train_micro_batch_size_per_gpu": 2,
        "bf16": {"enabled": half},
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4, "torch_adam": True}},
        "zero_optimization": {
            "stage": stage,
            "reduce_bucket_size": BUCKET,
            "stage3_param_persistence_threshold": 0,
            "stage3_prefetch_bucket_size": 1000,
        },
        **({"data_types": {"grad_accum_dtype": grad_accum}} if grad_accum else {}),
    }
    (journey.folder / "c.json").write_text(json.dumps(config))
    script = journey.script(SCRIPT)
    done = journey.zlaunch("run", "-q", "--cpu", "2", "-r", "ddp", script, "c.json", seconds=300)
    found = re.search(r"held (\d+)", done.out)
    assert found is not None, done.text[-3000:]
    settings: Settings = read_settings(config, half=is_half(config))
    states = total(constant_states(SHAPE, settings, ranks=2))
    bucket = settings.element * BUCKET if stage == 3 else 0
    assert int(found[1]) == pytest.approx(states + bucket, abs=8 * 1024)
