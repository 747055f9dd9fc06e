"""What a script's source says about itself."""

from __future__ import annotations

import pytest

from zlaunch.spec.environment import Target
from zlaunch.spec.script import ScriptFacts, read_script

LOCAL_RANK: dict[str, str | None] = {
    "parser.add_argument('--local_rank', type=int)": "--local_rank",
    'p.add_argument("--local-rank", default=0)': "--local-rank",
    "p.add_argument('-r', '--local_rank')": "--local_rank",
    "def f():\n  class C:\n    x = add('--local_rank')": "--local_rank",
    "@click.option('--local_rank')\ndef main(): pass": "--local_rank",
    "p.add_argument('--local_ranks')": None,
    "p.add_argument('--rank')": None,
    "# p.add_argument('--local_rank')": None,
    "'''--local_rank'''": None,
    "x = '--local_rank'": None,
    "os.environ['LOCAL_RANK']": None,
    "": None,
}


@pytest.mark.parametrize(("source", "option"), LOCAL_RANK.items())
def test_local_rank_option(source: str, option: str | None) -> None:
    assert read_script(source.encode(), "t.py").local_rank_option == option


TARGETS: dict[str, Target] = {
    "from transformers import Trainer, TrainingArguments": "hf",
    "from transformers import Seq2SeqTrainer": "hf",
    "import transformers\ntransformers.Trainer(model)": "hf",
    "from transformers.trainer import Trainer": "hf",
    "from trl import SFTTrainer": "hf",
    "import trl\nt = trl.DPOTrainer()": "hf",
    "def main():\n  from transformers import Trainer": "hf",
    "from transformers import AutoModel, TrainingArguments": "plain",
    "import transformers\ntransformers.AutoModel": "plain",
    "from lightning import Trainer": "plain",
    "from .transformers import Trainer": "plain",
    "from accelerate import Accelerator": "accelerate",
    "import accelerate\na = accelerate.Accelerator()": "accelerate",
    "from accelerate import Accelerator\nfrom transformers import AutoModel": "accelerate",
    "from accelerate import Accelerator\nfrom transformers import Trainer": "hf",
    "from accelerate.utils import set_seed": "plain",
    "import deepspeed\ndeepspeed.initialize(model=m)": "plain",
    "import deepspeed\nfrom accelerate import Accelerator\ndeepspeed.initialize(m)": "plain",
    "from deepspeed import initialize\nfrom accelerate import Accelerator": "plain",
    "import deepspeed\nfrom accelerate import Accelerator\nAccelerator()": "accelerate",
    "import torch": "plain",
    "text = 'from accelerate import Accelerator'": "plain",
    "": "plain",
}


@pytest.mark.parametrize(("source", "target"), TARGETS.items())
def test_target(source: str, target: Target) -> None:
    assert read_script(source.encode(), "t.py").target == target


@pytest.mark.parametrize(
    ("source", "reads"),
    [
        ("open(os.environ['ZLAUNCH_DS_CONFIG'])", True),
        ("x = 'DS_CONFIG'", False),
        ("", False),
    ],
)
def test_whether_it_reads_the_ds_config(source: str, reads: bool) -> None:
    assert read_script(source.encode(), "t.py").reads_ds_config == reads


def test_the_source_is_read_as_the_interpreter_reads_it() -> None:
    latin = "# -*- coding: latin-1 -*-\nx = 'é'\nadd('--local_rank')".encode("latin-1")
    nothing = frozenset[str]()
    assert read_script(latin, "t.py") == ScriptFacts("plain", "--local_rank", imports=nothing)
    with_mark = b"\xef\xbb\xbffrom accelerate import Accelerator\r\n"
    assert read_script(with_mark, "t.py").target == "accelerate"


def test_imports_by_their_top_names_wherever_they_are() -> None:
    source = b"import os.path, torch.nn as nn\nfrom . import near\ndef f():\n from a.b import c\n"
    assert read_script(source, "t.py").imports == {"os", "torch", "a"}


@pytest.mark.parametrize("source", [b"def f(:", b"x = 'open", b"\xff = 1", b"print 'old'"])
def test_what_python_cannot_read_is_a_syntax_error(source: bytes) -> None:
    with pytest.raises(SyntaxError):
        read_script(source, "t.py")


def test_a_syntax_error_names_the_script_and_the_line() -> None:
    with pytest.raises(SyntaxError) as caught:
        read_script(b"x = 1\ndef f(:\n", "dir/t.py")
    assert (caught.value.filename, caught.value.lineno) == ("dir/t.py", 2)


def test_nul_bytes_are_a_syntax_error() -> None:
    with pytest.raises(SyntaxError):
        read_script(b"x = 1\x00", "t.py")
