"""Rank 1 dies with exit code 3 once rank 0 sleeps, and writes down when."""

import os
import random
import sys
import time
from pathlib import Path

import marks

directory = sys.argv[1]
marks.up(directory)
if marks.RANK == 0:
    time.sleep(600)
while not Path(directory, "up-0").exists():
    time.sleep(0.01)
# Launchers that look at their ranks now and then are met at any point of their rest.
time.sleep(1 + random.random())
marks.mark(directory, "died", repr(time.time()))
os._exit(3)
