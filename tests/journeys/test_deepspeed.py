"""The main job with the real DeepSpeed, on two CPU ranks: slow, and what all else is for."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from journeys import Done, Journey

EXAMPLES = Path(__file__).parents[2] / "examples"
MISSING = [name for name in ("torch", "deepspeed") if importlib.util.find_spec(name) is None]

pytestmark = [
    pytest.mark.deepspeed,
    pytest.mark.timeout(400),  # DeepSpeed compiles an operator when it first runs
    pytest.mark.skipif(bool(MISSING), reason=f"without {', '.join(MISSING)}"),
]
SMALL = ["--steps", "10", "--layers", "1", "--width", "32", "--block", "32", "--log-every", "1"]
FAST = [
    "--set=optimizer.params.lr=1e-2",
    "--set=scheduler.params.warmup_max_lr=1e-2",
    "--set=scheduler.params.warmup_num_steps=2",
    "--accumulate=1",
]


def losses(text: str) -> list[float]:
    """The loss lines of rank 0, which have to carry its tag."""
    return [float(loss) for loss in re.findall(r"^0 \| step .*\bloss ([0-9.]+)", text, re.M)]


def trained(done: Done) -> None:
    assert done.code == 0, done.text[-4000:]
    seen = losses(done.out)
    assert len(seen) >= 3, done.out[-2000:]
    assert seen[-1] < seen[0] - 0.05
    assert all(re.match(r"[01] \| ", line) for line in done.out.splitlines())
    assert "finished: 2 ranks" in done.err


def aborted_at_exit(done: Done) -> bool:
    """torch 2.13 now and then aborts an interpreter that is ending, on a busy machine.

    Training is over by then; the launcher reports the signal, as it has to.
    """
    return done.code == 134 and "terminate called without an active exception" in done.text


def train(journey: Journey, *args: str) -> Done:
    """Train, and once more where the end was torch's."""
    command = ("run", "--cpu", "2", *args)
    done = journey.zlaunch(*command, seconds=300)
    return journey.zlaunch(*command, seconds=300) if aborted_at_exit(done) else done


def test_zero2_trains_on_two_ranks(journey: Journey) -> None:
    script = str(EXAMPLES / "train_gpt.py")
    done = train(journey, *FAST, script, *SMALL)
    trained(done)
    assert "rank 0 of 2" in done.out
    assert "1 | rank 1 of 2" in done.out
    assert "zero2 bf16: batch 8 = 4 x 1 accumulated x 2 ranks" in done.err
    assert "ZeRO" in journey.log(0).decode() or "zero" in journey.log(0).decode()


def test_two_runs_at_once_both_train(journey: Journey) -> None:
    script = str(EXAMPLES / "train_gpt.py")
    lives = [journey.start("run", "--cpu", "2", *FAST, script, *SMALL) for _ in range(2)]
    for done in [live.end(300) for live in lives]:
        trained(train(journey, *FAST, script, *SMALL) if aborted_at_exit(done) else done)
    assert len(journey.runs) >= 2


def test_deepspeeds_own_launcher_line(journey: Journey) -> None:
    """`deepspeed SCRIPT --ds-config FILE`, with the user's own file and one word changed."""
    journey.script("""{
      "train_batch_size": 4, "zero_optimization": {"stage": 1}, "bf16": {"enabled": true},
      "optimizer": {"type": "AdamW", "params": {"lr": 1e-2}}
    }""", "mine.json")  # fmt: skip
    script = str(EXAMPLES / "train_gpt.py")
    line = ["--ds-config", "mine.json", script, "--ds-config", "{ds_config}", *SMALL]
    done = train(journey, *line)
    trained(done)


def test_a_rank_that_fails_in_training_ends_the_other(journey: Journey) -> None:
    """Rank 0 waits in a collective for rank 1, which is gone: minutes with other launchers."""
    script = journey.script("""
import deepspeed, os, torch
from deepspeed import comm
deepspeed.init_distributed()
comm.barrier()
if comm.get_rank() == 1:
    raise RuntimeError("the data of rank 1 is broken")
comm.all_reduce(torch.ones(3))
comm.barrier()
""")
    done = journey.zlaunch("run", "--cpu", "2", script, seconds=120)
    assert done.code == 1
    assert "the data of rank 1 is broken" in done.text
    journey.assert_gone()


def test_the_trainer_enters_deepspeed_unchanged(journey: Journey) -> None:
    pytest.importorskip("transformers")
    script = str(EXAMPLES / "hf_trainer.py")
    line = ["--steps", "3", "--batch", "2", "--accumulate", "1", "--block", "32"]
    done = train(journey, "--recipe", "zero2", script, *line)
    assert done.code == 0, done.text[-4000:]
    assert "0 | trained in DeepSpeedEngine" in done.out
    plain = train(journey, script, *line)
    assert plain.code == 0, plain.text[-4000:]
    assert "DeepSpeedEngine" not in plain.out  # nothing asked for it
    assert "--recipe zero2" in plain.err


def test_accelerate_trains_on_the_cpu(journey: Journey) -> None:
    pytest.importorskip("accelerate")
    script = str(EXAMPLES / "accelerate_gpt.py")
    line = ["--steps", "8", "--batch", "2", "--block", "32", "--log-every", "2"]
    done = train(journey, "--recipe", "zero2", script, *line)
    assert done.code == 0, done.text[-4000:]
    assert "on 2 workers" in done.out
    assert losses(done.out)[-1] < losses(done.out)[0]
    assert "GPU" in done.err  # says why this is not ZeRO
