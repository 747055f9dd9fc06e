"""Prints so many lines of 75 bytes, evenly within so many seconds; 0: as fast as it can."""

import sys
import time

import marks

count, seconds = int(sys.argv[1]), float(sys.argv[2])
write, begun = sys.stdout.write, time.monotonic()
for number in range(count):
    write(f"{marks.RANK:02d} {number:07d} ".ljust(74, "x") + "\n")
    if seconds and number % 25 == 0:
        time.sleep(max(0.0, begun + seconds * number / count - time.monotonic()))
