"""A rank with children of several kinds, which ends when it is told to.

family.py DIRECTORY [stubborn]: one child in its group, one in a session of its own, one
re-parented. Their pids are in the file up-RANK behind its own and its parent's; the rank ends
with the code in the file go-RANK or go. A stubborn one ignores TERM, and its children do.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import marks

directory = sys.argv[1]
if sys.argv[2:] == ["stubborn"]:
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(signum, signal.SIG_IGN)
null = subprocess.DEVNULL
sleep, shut = ["/bin/sleep", "600"], {"stdin": null, "stdout": null, "stderr": null}
pids = [
    os.getpid(),
    os.getppid(),
    subprocess.Popen(sleep, **shut).pid,
    subprocess.Popen(sleep, **shut, start_new_session=True).pid,
]
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(writing, str(subprocess.Popen(sleep, **shut).pid).encode())
    os._exit(0)
os.wait()
pids.append(int(os.read(reading, 20)))
marks.mark(directory, "up", " ".join(map(str, pids)))
ends = (Path(directory, f"go-{marks.RANK}"), Path(directory, "go"))
while not any(end.exists() for end in ends):
    time.sleep(0.02)
os._exit(int(next(end for end in ends if end.exists()).read_text()))
