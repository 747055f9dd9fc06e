"""Says that this rank runs, once it has what a DeepSpeed script imports."""

import os
import sys

import deepspeed
import torch

assert torch
assert deepspeed
sys.stdout.write(f"first line of rank {os.environ.get('RANK', '0')}\n")
sys.stdout.flush()
