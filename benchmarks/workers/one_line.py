"""Says that this rank runs."""

import os
import sys

# In one write: where ranks share the screen, print would do it in pieces.
sys.stdout.write(f"first line of rank {os.environ.get('RANK', '0')}\n")
sys.stdout.flush()
