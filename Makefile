# The two commands: `make demo` and `make test`. Both set up what they need, here, in .venv.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One thread per rank and a fixed home keep the demo comparable from run to run.
DEMO_STEPS ?= 100

.PHONY: demo test check lint types layers bench soak clean

demo: $(VENV)/.ready  ## train a small GPT with ZeRO-2 on whatever this machine has
	$(BIN)/python examples/demo.py --steps $(DEMO_STEPS)

test: $(VENV)/.ready  ## all tests; the real DeepSpeed among them
	$(BIN)/python -m pytest

check: lint types layers test  ## everything that has to be green

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

layers: $(VENV)/.ready
	$(BIN)/python -m pytest -q tests/test_floors.py

bench: $(VENV)/.ready  ## against torchrun and deepspeed, as ratios
	$(BIN)/python benchmarks/run.py

soak: $(VENV)/.ready  ## every fault on every way, 20 times; as root, an hour or two
	$(BIN)/python tests/hosts/soak.py --runs 20

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[train,dev]'
	$(BIN)/python -m compileall -q zlaunch
	touch $@

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache
