"""Causes: checkpoints that do not fit, and operators that cannot be compiled."""

from __future__ import annotations

import re

from zlaunch.insight.cause_table import Case, Kind, Row, Told, at_most


def _checkpoint_world(case: Case) -> Told:
    saved, now = case.group("saved"), case.group("now")
    return Told(
        f"the ZeRO checkpoint was written by {saved} ranks and is loaded by {now}",
        (),
        (
            f"resume with {saved} ranks",
            (
                "or --set checkpoint.load_universal=true, after ds_to_universal.py of DeepSpeed "
                "has "
                "converted it"
            ),
            "or load the weights alone: zero_to_fp32.py, load_module_only=True",
        ),
    )


def _state_dict(case: Case) -> Told:
    text = case.found.string
    missing = _quoted(text, "Missing key(s)")
    unexpected = _quoted(text, "Unexpected key(s)")
    sizes = re.findall(r"size mismatch for ([\w.]+): copying a param with shape "
                       r"(?:torch\.Size\()?(\[[\d, ]*\])\)? from checkpoint, the shape in current "
                       r"model is (?:torch\.Size\()?(\[[\d, ]*\])", text)  # fmt: skip
    details = []
    if missing:
        details.append(f"missing in the checkpoint: {at_most(missing, 3)}")
    if unexpected:
        details.append(f"only in the checkpoint: {at_most(unexpected, 3)}")
    details += [f"{name}: {saved} in the checkpoint, {here} in the model"
                for name, saved, here in sizes[:3]]  # fmt: skip
    mends = ["build the model from the config that the checkpoint was written with"]
    if any(key.startswith("module.") for key in (*missing, *unexpected)):
        mends.insert(0, 'take the "module." of DDP off the keys: key.removeprefix("module.")')
    kind = "sizes" if sizes and not (missing or unexpected) else "names"
    return Told(f"the checkpoint does not fit the model: {kind} of {case.group('model')} differ",
                tuple(details), tuple(mends))  # fmt: skip


def _quoted(text: str, title: str) -> list[str]:
    found = re.search(re.escape(title) + r" in state_dict: ([^\n]*)", text)
    return re.findall(r'"([^"]+)"', found[1]) if found else []


def _op_failed(case: Case) -> Told:
    name = case.group("name")
    return Told(
        f"the operator {name} could not be compiled" if name else "an operator was not compiled",
        ("what the compiler said stands above the traceback",),
        (
            (
                "a C++ compiler that this torch takes, and for CUDA operators an nvcc of torch's "
                "own CUDA version: `ds_report`"
            ),
            "a broken half of an earlier build: remove ~/.cache/torch_extensions",
            "or do without: --set optimizer.params.torch_adam=true",
        ),
    )


ROWS = (
    Row(
        "checkpoint-world-size",
        r"DP world size of (?P<saved>\d+) but the current world size is (?P<now>\d+)",
        tell=_checkpoint_world,
    ),
    Row(
        "checkpoint-mismatch",
        r"Error\(s\) in loading state_dict for (?P<model>\w+)",
        tell=_state_dict,
    ),
    Row(
        "checkpoint-broken",
        r"PytorchStreamReader failed|failed finding central directory|unexpected EOF, "
        r"expected|"
        r"invalid load key|Ran out of input|"
        r"Weights only load failed.{0,1200}Unsupported operand 118|"
        r"SafetensorError|HeaderTooLarge",
        "a checkpoint cannot be read: it is not whole, or something else",
        (
            (
                "write or download it again; a file of some hundred bytes is a pointer of Git LFS "
                "(`git lfs pull`)"
            ),
        ),
    ),
    Row(
        "checkpoint-unsafe",
        r"Weights only load failed",
        "torch.load refuses a checkpoint that holds more than tensors",
        ("torch.load(..., weights_only=False), if its source is trusted",),
    ),
    Row(
        "cuda-version-mismatch",
        r"Installed CUDA version (?P<installed>\S+) does not match the version torch was compiled "
        r"with (?P<torch>[\d.]+\d)|detected CUDA version \((?P<other>\S+)\) mismatches the version "
        r"that was used to compile",
        "operators cannot be compiled: nvcc is of CUDA {installed}{other}, torch of {torch}",
        (
            "an nvcc of torch's CUDA version, and CUDA_HOME pointing to it",
            "DS_SKIP_CUDA_CHECK=1 where only the minor version differs",
            "or no compiled operator: --set optimizer.params.torch_adam=true",
        ),
    ),
    Row(
        "no-cuda-toolkit",
        r"CUDA_HOME (?:does not exist|environment variable is not set)|MissingCUDAException|"
        r"nvcc.{0,40}(?:not found|No such file)|No such file or directory: '[^']*nvcc'",
        "operators cannot be compiled: there is no CUDA toolkit (nvcc)",
        (
            "install the toolkit of torch's CUDA version, and set CUDA_HOME",
            "or do without: --set optimizer.params.torch_adam=true",
        ),
    ),
    Row(
        "no-ninja",
        r"Ninja is required to load C\+\+ extensions",
        "operators cannot be compiled: ninja is missing",
        ("pip install ninja, and its directory in PATH",),
    ),
    Row(
        "arch-list",
        r"invalid literal for int\(\) with base 10: '\d*[a-z]+'|Unknown CUDA arch",
        "DeepSpeed cannot read TORCH_CUDA_ARCH_LIST",
        ("plain numbers, such as TORCH_CUDA_ARCH_LIST=9.0, not 9.0a",),
        where=r"op_builder|cpp_extension",
    ),
    Row(
        "extension-lock",
        r"^(?:KeyboardInterrupt|SystemExit|SignalException)",
        "it waited for the lock of an operator that another process builds, or left half built",
        (
            (
                "a build takes a minute; a lock that a killed one left is waited for for ever: "
                "find ~/.cache/torch_extensions -name lock -delete"
            ),
        ),
        kind=Kind.STOPPED,
        where="file_baton",
    ),
    Row(
        "operator-not-compiled",
        r"Error building extension '(?P<name>\w+)'|Unable to JIT load the (?P<op>\w+) op|"
        r"Command '\[?'?[^\n]*(?:ninja|c\+\+|g\+\+|nvcc)[^\n]*' returned non-zero|"
        r"object has no attribute 'ds_opt_adam'",
        tell=_op_failed,
    ),
    Row(
        "operator-not-compiled",
        r"^(?:CalledProcessError|FileNotFoundError|RuntimeError|OSError): ",
        tell=_op_failed,
        where=r"torch/utils/cpp_extension|op_builder",
    ),
)
