"""Causes: the GPU, its driver, and tensors that do not go together."""

from __future__ import annotations

from zlaunch.insight.cause_table import Case, Row, Told

_ASSERT = (
    (
        "an index is out of range, as a rule: a token id beyond the vocabulary, a label beyond "
        "num_labels, a position beyond the longest sequence"
    ),
    "CUDA_LAUNCH_BLOCKING=1 before the command: the traceback then shows the right line",
    "or run the batch on the CPU (--cpu 1), which names the index",
)


def _ordinal(_: Case) -> Told:
    return Told(
        "invalid device ordinal: the script chose a GPU that this rank does not see",
        ("the device is chosen by LOCAL_RANK among CUDA_VISIBLE_DEVICES",),
        (
            'torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))',
            "not more ranks on a host than it has GPUs: --num-gpus",
        ),
    )


ROWS = (
    Row(
        "invalid-device-ordinal", r"invalid device ordinal|cudaErrorInvalidDevice\b", tell=_ordinal
    ),
    Row(
        "device-side-assert",
        r"device-side assert triggered|CUDA error: .{0,40}cudaErrorAssert",
        "a kernel on the GPU failed an assertion: an index out of range, as a rule",
        _ASSERT,
    ),
    Row(
        "no-kernel-image",
        r"no kernel image is available for execution on the device|"
        r"not compatible with the current PyTorch installation",
        "this build of torch (or of an extension) has no code for this GPU",
        (
            "a torch built for this GPU: pytorch.org names the wheel for its CUDA version",
            "an extension: build it anew with TORCH_CUDA_ARCH_LIST of this GPU (9.0 for an H100)",
        ),
    ),
    Row(
        "driver-too-old",
        r"NVIDIA driver on your system is too old(?: \(found version (?P<version>\d+)\))?|"
        r"CUDA driver version is insufficient for CUDA runtime version",
        "the NVIDIA driver is too old for this build of torch",
        ("a newer driver on that host, or a torch built for an older CUDA (pytorch.org)",),
    ),
    Row(
        "no-cuda-in-torch",
        r"Torch not compiled with CUDA enabled|no attribute '_cuda_\w+'|"
        r"not linked with support for cuda",
        "torch was built without CUDA",
        ("install a torch with CUDA (pytorch.org), or train on the CPU: --cpu N",),
    ),
    Row(
        "no-gpu",
        r"No CUDA GPUs are available|Found no NVIDIA driver on your system|"
        r"no CUDA-capable device is detected|Unexpected error from cudaGetDeviceCount|"
        r"CUDA unknown error",
        "no GPU is visible to this rank",
        (
            (
                "`nvidia-smi` on that host; CUDA_VISIBLE_DEVICES must not be empty; a container "
                "needs "
                "--gpus all"
            ),
            "`zlaunch doctor` looks at all hosts",
        ),
    ),
    Row(
        "cuda-in-forked-process",
        r"Cannot re-initialize CUDA in forked subprocess",
        "CUDA was used before a process was forked",
        ("start with multiprocessing_context='spawn' in the DataLoader, or touch the GPU later",),
    ),
    Row(
        "gpu-fault",
        r"CUDA error: (?P<what>an illegal memory access|unspecified launch failure|"
        r"uncorrectable (?:ECC|NVLink) error|misaligned address|the launch timed out|"
        r"hardware stack error|device busy|all CUDA-capable devices are busy)",
        "CUDA error: {what}",
        (
            (
                "CUDA_LAUNCH_BLOCKING=1 shows the call; an ECC or NVLink error is the hardware's: "
                "`nvidia-smi -q`, `dmesg | grep -i xid`"
            ),
        ),
    ),
    Row(
        "cublas-failed",
        r"(?P<what>(?:CUBLAS|CUDNN)_STATUS_\w+)",
        "a call of cuBLAS or cuDNN failed: {what}",
        (
            (
                "most often memory is short, or an index before it was out of range: "
                "CUDA_LAUNCH_BLOCKING=1 tells"
            ),
        ),
    ),
    Row(
        "tensors-on-different-devices",
        r"Expected all tensors to be on the same device, but (?P<what>[^\n(]*)|"
        r"Tensor on device (?P<one>\S+) is not on the expected device (?P<other>[^\s!]+)|"
        r"Input type \([\w.]*cuda[\w.]*\) and weight type \([\w.]*Tensor\) should be the same",
        "tensors are on different devices: {what}{one} {other}",
        ("move the batch to where the model is: batch.to(model_engine.device)",),
    ),
    Row(
        "dtype-mismatch",
        r"(?P<what>mat1 and mat2 (?:must|to) have the same dtype[^\n]*|"
        r"expected mat1 and mat2 to have the same dtype[^\n]*|"
        r"expected (?:scalar type|m1 and m2)[^\n]*but (?:found|got)[^\n]*|"
        r"Input type \([^)]*\) and (?:bias|weight) type \([^)]*\) should be the same|"
        r"\"\w+\" not implemented for '(?:Half|BFloat16)')",
        "tensors of different types: {what}",
        (
            (
                "inputs in the precision of the model: batch.to(next(model.parameters()).dtype), "
                "or torch.autocast"
            ),
            "--precision and the dtype that the script loads the model with have to agree",
        ),
    ),
    Row(
        "shape-mismatch",
        r"(?P<what>mat1 and mat2 shapes cannot be multiplied[^\n]*|size of tensor a [^\n]* must "
        r"match[^\n]*|Sizes of tensors must match[^\n]*|shape '[^\n]*' is invalid for input[^\n]*|"
        r"stack expects each tensor to be equal size[^\n]*)",
        "tensors whose shapes do not go together: {what}",
    ),
    Row(
        "index-out-of-range",
        r"^IndexError: (?P<what>index out of range in self|index \d+ is out of bounds for dimension"
        r"[^\n]*|Target \d+ is out of bounds[^\n]*)",
        "an index is out of range: {what}",
        (
            (
                "in an embedding: a token id beyond the vocabulary, or a position beyond the "
                "longest sequence (model.resize_token_embeddings, max_length)"
            ),
        ),
    ),
)
