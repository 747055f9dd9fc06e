"""Says that this rank runs, once it has what every training script imports."""

import os
import sys

import torch

assert torch
sys.stdout.write(f"first line of rank {os.environ.get('RANK', '0')}\n")
sys.stdout.flush()
