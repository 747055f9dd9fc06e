"""What of a script's imports can be done before it runs."""

from __future__ import annotations

import ast

import pytest

from zlaunch.spec.preload import asked_for, first_imports, leaves_alone


def texts(source: str) -> list[str]:
    return [text for _, text in first_imports(ast.parse(source))]


def test_imports_in_their_order_with_their_lines() -> None:
    source = "'text'\n\nimport os, torch as t\nfrom torch import (\n    nn,\n)\nimport deepspeed\n"
    assert first_imports(ast.parse(source)) == (
        (3, "import os"),
        (3, "import torch as t"),
        (4, "from torch import nn"),
        (7, "import deepspeed"),
    )


@pytest.mark.parametrize(
    "before",
    [
        "from __future__ import annotations",
        "import argparse, math\nfrom pathlib import Path",
        "import yaml\nfrom tqdm import tqdm",
        "N = 3\nNAMES = ['a', N]\nx: int = 1\ny: int",
        "import logging\nlogger = logging.getLogger(__name__)",
        "def f(a, b=1, *, c=None):\n    import local\n    return a",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import local",
        "async def f(): pass",
        "pass",
        "'text'",
    ],
)
def test_what_changes_nothing(before: str) -> None:
    assert texts(f"{before}\nimport torch\n")[-1] == "import torch"


@pytest.mark.parametrize(
    "before",
    [
        "import os\nos.environ['OMP_NUM_THREADS'] = '1'",
        "import os\nos.environ.setdefault('A', '1')",
        "import os\nos.putenv('A', '1')",
        "import sys\nsys.path.insert(0, 'x')",
        "import sys\nsys.path += ['x']",
        "import warnings\nwarnings.filterwarnings('ignore')",
        "import multiprocessing as mp\nmp.set_start_method('spawn')",
        "import json\njson.loads = None",
        "import ctypes",
        "import faulthandler",
        "import local",
        "from local import *",
        "from . import local",
        "import wandb",
        "import trl",
        "import lightning as L",
        "from pytorch_lightning import Trainer",
        "from torchmetrics import Accuracy",
        "import unsloth",
        "print('x')",
        "x = f()",
        "x = [f() for _ in y]",
        "x = y.z",
        "x = f'{y}'",
        "x[0] = 1",
        "del x",
        "x: int = f()",
        "def f(a=g()): pass",
        "@g\ndef f(): pass",
        "class A: pass",
        "if x:\n    import torch",
        "try:\n    import torch\nexcept ImportError:\n    pass",
        "with x: pass",
        "for x in y: pass",
        "if __name__ == '__main__':\n    pass",
        "assert x",
        "global x",
    ],
)
def test_what_may_change_something(before: str) -> None:
    assert texts(f"{before}\nimport torch\n") == []
    assert texts(f"import numpy\n{before}\nimport torch\n") == ["import numpy"]


def test_light_ones_alone_are_worth_nothing() -> None:
    assert texts("import os\nimport yaml\n") == []
    assert texts("import torch\nimport os\n") == ["import torch"]


def test_what_a_user_asks_for() -> None:
    assert asked_for("torch, a.b") == ((0, "import torch"), (0, "import a.b"))


@pytest.mark.parametrize("names", ["", "a,,b", "a b", "a;b", "import os", "-x", "a.", "1a"])
def test_what_is_no_name(names: str) -> None:
    parts = [name.strip() for name in names.split(",")]
    with pytest.raises(ValueError, match=r".*") as refused:
        asked_for(names)
    assert str(refused.value) in parts


@pytest.mark.parametrize(
    ("source", "alone"),
    [
        ("", True),
        ("'text'\nimport os\n__version__ = '1'\n__all__ = ['a']", True),
        ("from .model import Model", False),
        ("import torch", False),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '1'", False),
        ("import faulthandler", False),
    ],
)
def test_what_a_package_does_to_its_modules(source: str, *, alone: bool) -> None:
    assert leaves_alone(ast.parse(source)) is alone
