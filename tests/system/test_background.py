"""A process that stays behind, and hears of one that has left."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

# The one that left sends Ctrl-C to the one that waits, as a terminal would, and says that it runs
# once that has come back. Blocked until it is waited for, it is not too early.
STOPPED = """
import os, signal, sys
from pathlib import Path
from zlaunch.system.background import Away, leave
path = Path(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
side = leave(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), path)
if isinstance(side, Away):
    os.kill(os.getppid(), signal.SIGINT)
    signal.sigwait([signal.SIGINT])
    side.running("mine")
    os._exit(130)
print(side.wait())
"""


def test_one_that_was_stopped_does_not_run_on(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", STOPPED, str(tmp_path / "console")]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("130\n", "")
