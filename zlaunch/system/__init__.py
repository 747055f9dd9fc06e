"""Touches this machine: processes, signals, selectors, terminal, run directory, GPUs."""
