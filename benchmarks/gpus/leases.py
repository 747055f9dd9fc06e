"""Proves on a machine with one or two GPUs what leases, --idle and --wait do there.

    python benchmarks/gpus/leases.py [GPUS]

Needs torch with CUDA, and GPUs that nobody uses; two of them, if not told otherwise. Prints a
line a check, and ends with 1 where one fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ZLAUNCH = (sys.executable, "-m", "zlaunch")
SAY = "import os; print('on', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n"
HOLD = f"{SAY}import sys, time; time.sleep(float(sys.argv[1]))\n"
# A process that is none of zlaunch's: a GiB of memory, or products without end.
STRANGER = """
import sys, time, torch
kept = torch.zeros(2**28, device="cuda") if sys.argv[1] == "memory" else None
a = torch.rand(4096, 4096, device="cuda")
torch.cuda.synchronize()
print("up", flush=True)
while sys.argv[1] == "work":
    a = (a @ a).clamp(0, 1)
    torch.cuda.synchronize()
time.sleep(600)
"""
LONG = 120.0  # seconds


class Checks:
    """Runs in a folder of their own, and what came of them."""

    def __init__(self, folder: Path, gpus: int) -> None:
        self.folder = folder
        self.gpus = gpus
        self.env = {
            **os.environ,
            "ZLAUNCH_HOME": str(folder / "home"),
            "ZLAUNCH_LEASE_DIR": str(folder / "leases"),
        }
        self.failed = 0
        for name, text in (("say.py", SAY), ("hold.py", HOLD), ("stranger.py", STRANGER)):
            (folder / name).write_text(text)

    def start(self, *args: str) -> subprocess.Popen[str]:
        """Start `zlaunch run`."""
        return subprocess.Popen(
            [*ZLAUNCH, "run", *args], cwd=self.folder, env=self.env, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *args: str) -> tuple[int, str, str]:
        """Run it to its end: exit code, stdout, stderr."""
        begun = time.monotonic()
        process = self.start(*args)
        out, err = process.communicate(timeout=LONG)
        print(f"  {time.monotonic() - begun:6.2f} s  zlaunch run {' '.join(args)}")
        return process.returncode, out, err

    def stranger(self, gpu: int, how: str) -> subprocess.Popen[str]:
        """Use a GPU, by its `memory` or by `work`."""
        env = {**os.environ, "CUDA_VISIBLE_DEVICES": str(gpu)}
        process = subprocess.Popen(
            [sys.executable, str(self.folder / "stranger.py"), how], env=env, text=True,
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(2)  # utilisation is that of the last second
        return process

    def expect(self, what: str, good: bool, seen: object) -> None:
        """Say whether it is as it should be."""
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {what}" + ("" if good else f": {seen}"))


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def check_strangers(checks: Checks) -> None:
    """Processes that take no leases."""
    for how in ("memory", "work"):
        stranger = checks.stranger(0, how)
        try:
            if checks.gpus > 1:
                seen = checks.run("--idle", "--num-gpus", "1", "say.py")
                checks.expect(f"--idle passes over a stranger's {how}", "on 1" in seen[1], seen)
            seen = checks.run("--idle", "--gpus", "0", "say.py")
            good = seen[0] == 2 and "GPU 0 is" in seen[2]
            checks.expect(f"--idle --gpus 0 is refused: {seen[2].splitlines()[1:2]}", good, seen)
            waits = checks.start("--idle", "--gpus", "0", "--wait", "say.py")
            time.sleep(4)
            checks.expect("--wait waits for it", waits.poll() is None, waits.poll())
        finally:
            end(stranger)
        begun = time.monotonic()
        out, err = waits.communicate(timeout=LONG)
        waited = time.monotonic() - begun
        checks.expect(f"and begins {waited:.1f} s after its end", "on 0" in out, err)


def check_leases(checks: Checks) -> None:
    """Launches of zlaunch."""
    holder = checks.start("--num-gpus", "1", "hold.py", "20")
    assert holder.stdout is not None
    holder.stdout.readline()
    seen = checks.run("--num-gpus", "1", "say.py")
    checks.expect(
        "a GPU that is held is refused", seen[0] == 2 and "GPU 0 is held" in seen[2], seen
    )
    print("       " + "\n       ".join(seen[2].splitlines()))
    if checks.gpus > 1:
        seen = checks.run("--idle", "--num-gpus", "1", "say.py")
        checks.expect("--idle takes the other", "on 1" in seen[1], seen)
    seen = checks.run("--share-gpus", "--num-gpus", "1", "say.py")
    checks.expect("--share-gpus uses it all the same", "on 0" in seen[1], seen)
    launches = [
        checks.start("--idle", "--num-gpus", "1", "--wait", "hold.py", "0.5") for _ in range(6)
    ]
    for launch in launches:
        out, err = launch.communicate(timeout=LONG)
        checks.expect(f"one of six ran {out.strip()}", launch.returncode == 0, err)
    end(holder)


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else 2)
        seen = checks.run("--idle", "--num-gpus", str(checks.gpus), "say.py")
        every = ",".join(map(str, range(checks.gpus)))
        checks.expect("--idle takes all of an idle machine", f"on {every}" in seen[1], seen)
        check_strangers(checks)
        check_leases(checks)
    print(f"{checks.failed} failed")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
