"""What `make demo` runs: the main job on whatever this machine has.

Prints the command and becomes it, so what follows on the screen is zlaunch's own.
"""

import os
import shlex
import sys
from pathlib import Path

from zlaunch.system.gpus import discover

HERE = Path(__file__).parent
LEARNING_RATE = "1e-3"  # the recipe's 5e-5 suits large models; this one has 0.9 M parameters


def main() -> None:
    where = ["--num-gpus", str(min(2, len(gpus)))] if (gpus := discover()) else ["--cpu", "2"]
    command = [
        "zlaunch",
        "run",
        *where,
        "--recipe=zero2",
        f"--set=optimizer.params.lr={LEARNING_RATE}",
        f"--set=scheduler.params.warmup_max_lr={LEARNING_RATE}",
        "--set=scheduler.params.warmup_num_steps=20",
        os.path.relpath(HERE / "train_gpt.py"),
        *sys.argv[1:],
    ]
    print(f"$ {shlex.join(command)}", flush=True)
    os.execv(sys.executable, [sys.executable, "-m", *command])


main()
