"""Causes in what real programs printed.

The recordings were made by running each program: those of GPUs (gpu_*, h200_*, nccl_*,
ops_syntax and the ones without a prefix) on H200s with torch 2.11, the others on the CPU with
torch 2.13, DeepSpeed 0.19.8, transformers 5.24, accelerate 1.15, typer 0.28, wandb; the Hub's
answers came from a server that gives its status codes and headers. Only paths were changed.
"""

from __future__ import annotations

import pytest
from logs import RECORDINGS, of_recording, reading, recorded

FAILED = [
    ("auto", "auto-left", (1, 0)),
    ("badbatch", "batch-sizes", (1, 0)),
    ("badkey", "ds-config-refused", (0, 1)),
    ("minscale", "loss-scale-minimum", (1, 0)),
    ("nccltimeout", "collective-timeout", (1,)),
    ("oom", "cuda-out-of-memory", (1,)),
    ("ordinal", "invalid-device-ordinal", (1,)),
    ("peerdies", "exception", (1,)),
    ("accelerate_file", "file-not-found", (0,)),
    ("accelerate_no_rank", "no-rank-variables", (0,)),
    ("address_in_use", "address-in-use", (0,)),
    ("argparse", "script-arguments", (0,)),
    ("barrier_timeout", "barrier-timeout", (1,)),
    ("chained", "exception", (0,)),
    ("checkpoint_disk_full", "write-failed", (0,)),
    ("checkpoint_keys", "checkpoint-mismatch", (0,)),
    ("checkpoint_lfs", "checkpoint-broken", (0,)),
    ("checkpoint_sizes", "checkpoint-mismatch", (0,)),
    ("checkpoint_truncated", "checkpoint-broken", (0,)),
    ("click", "script-arguments", (0,)),
    ("data_worker_error", "exception", (0,)),
    ("data_worker_killed", "data-worker-killed", (0,)),
    ("ddp_unused", "unused-parameters", (0, 1)),
    ("debug_mismatch", "collective-mismatch", (1, 0)),
    ("deepspeed_argparse", "script-arguments", (0, 1)),
    ("deepspeed_kill", "killed", (0, 1)),
    ("deepspeed_peer", "exception", (1,)),
    ("devices_meta", "tensors-on-different-devices", (0,)),
    ("disk_full", "disk-full", (0,)),
    ("ds_checkpoint_world", "checkpoint-world-size", (0,)),
    ("ds_fp16_on_cpu", "precision-unsupported", (0, 1)),
    ("ds_lock", "extension-lock", (0,)),
    ("ds_no_batch", "batch-sizes", (0, 1)),
    ("ds_no_compiler", "operator-not-compiled", (0,)),
    ("ds_no_file", "ds-config-not-found", (0, 1)),
    ("ds_optimizer", "ds-config-refused", (1, 0)),
    ("ds_removed_key", "ds-config-refused", (0, 1)),
    ("ds_scheduler", "ds-config-refused", (0, 1)),
    ("ds_two_precisions", "ds-config-refused", (1, 0)),
    ("ds_wrong_types", "ds-config-refused", (0, 1)),
    ("dtype_conv", "dtype-mismatch", (0,)),
    ("dtype_linear", "dtype-mismatch", (0,)),
    ("exception_group", "exception", (0,)),
    ("exception_note", "exception", (0,)),
    ("file_not_found", "file-not-found", (0,)),
    ("gloo_mismatch", "collective-mismatch", (1,)),
    ("gloo_timeout", "collective-timeout", (1,)),
    ("h200_device_assert", "device-side-assert", (1,)),
    ("h200_dtypes", "dtype-mismatch", (1,)),
    ("h200_duplicate", "duplicate-gpu", (0, 1)),
    ("h200_mismatch", "collective-mismatch", (0, 1)),
    ("h200_no_gpu", "no-gpu", (0, 1)),
    ("h200_oom", "cuda-out-of-memory", (1,)),
    ("h200_ordinal", "invalid-device-ordinal", (0, 1)),
    ("h200_peer_killed", "killed", (1,)),
    ("h200_timeout", "collective-timeout", (1,)),
    ("h200_two_devices", "tensors-on-different-devices", (1,)),
    ("torchrun_device_assert", "device-side-assert", (1,)),
    ("gpu_assert", "device-side-assert", (0,)),
    ("gpu_devices", "tensors-on-different-devices", (0,)),
    ("gpu_duplicate", "duplicate-gpu", (0, 1)),
    ("gpu_half", "dtype-mismatch", (0,)),
    ("gpu_illegal", "gpu-fault", (0,)),
    ("gpu_limit", "cuda-out-of-memory", (0,)),
    ("gpu_no_image", "no-kernel-image", (0,)),
    ("gpu_none", "no-gpu", (0,)),
    ("gpu_shared", "cuda-out-of-memory", (0,)),
    ("heap", "memory-corrupted", (0,)),
    ("hf_config_mismatch", "ds-config-mismatch", (0, 1)),
    ("host_memory_python", "host-out-of-memory", (0,)),
    ("host_memory_torch", "host-out-of-memory", (0,)),
    ("hub_gated", "hub-gated", (0,)),
    ("hub_missing", "hub-not-found", (0,)),
    ("hub_missing_file", "hub-not-found", (0,)),
    ("hub_no_config", "model-unknown", (0,)),
    ("hub_no_weights", "model-files-missing", (0,)),
    ("hub_offline", "hub-offline", (0,)),
    ("hub_tokenizer", "tokenizer", (0,)),
    ("hub_unknown_model", "model-unknown", (0,)),
    ("hub_unreachable", "hub-offline", (0,)),
    ("import_failed", "import-failed", (0,)),
    ("indentation", "syntax-error", (0,)),
    ("index", "index-out-of-range", (0,)),
    ("json_broken", "json-broken", (0,)),
    ("master_blocked", "master-not-reached", (0,)),
    ("master_no_name", "master-not-reached", (0,)),
    ("master_refused", "master-not-reached", (0,)),
    ("module_missing", "module-missing", (0,)),
    ("module_not_found", "script-not-found", (0,)),
    ("mpi_missing", "module-missing", (0,)),
    ("nan_backward", "nan-in-backward", (0,)),
    ("nccl_different", "collective-mismatch", (0, 1)),
    ("nccl_exception", "exception", (1,)),
    ("nccl_exit7", "exit-code", (1,)),
    ("nccl_interface", "nccl-no-interface", (0,)),
    ("nccl_late", "collective-timeout", (1,)),
    ("no_rank_variable", "no-rank-variables", (0,)),
    ("ops_arch_list", "arch-list", (0,)),
    ("ops_compile", "operator-not-compiled", (0,)),
    ("ops_cuda_version", "cuda-version-mismatch", (0,)),
    ("ops_no_ninja", "no-ninja", (0,)),
    ("ops_no_toolkit", "no-cuda-toolkit", (0,)),
    ("ops_syntax", "operator-not-compiled", (0,)),
    ("package_flash", "package-missing", (0,)),
    ("package_tiktoken", "package-missing", (0,)),
    ("permission_denied", "permission-denied", (0,)),
    ("recursion", "recursion", (0,)),
    ("rendezvous_timeout", "rendezvous-timeout", (0,)),
    ("rich_traceback", "exception", (0,)),
    ("script_not_found", "script-not-found", (0,)),
    ("shapes", "shape-mismatch", (0,)),
    ("shm_full", "shared-memory-full", (0,)),
    ("store_timeout", "store-timeout", (1,)),
    ("syntax", "syntax-error", (0,)),
    ("too_many_files", "too-many-files", (0,)),
    ("torch_without_cuda", "no-cuda-in-torch", (0,)),
    ("torchrun_abort", "aborted", (0,)),
    ("torchrun_both", "exception", (0, 1)),
    ("torchrun_bus", "shared-memory-full", (1,)),
    ("torchrun_exit3", "exit-code", (1,)),
    ("torchrun_ill", "illegal-instruction", (0,)),
    ("torchrun_interrupt", "interrupted", (1,)),
    ("torchrun_kill", "killed", (1,)),
    ("torchrun_module", "module-missing", (0, 1)),
    ("torchrun_noscript", "script-not-found", (0, 1)),
    ("torchrun_peer", "exception", (1,)),
    ("torchrun_segv", "segmentation-fault", (1,)),
    ("torchrun_syntax", "syntax-error", (0, 1)),
    ("torchrun_tee", "exception", (1,)),
    ("typer", "script-arguments", (0,)),
    ("wandb_login", "tracker-login", (0,)),
    ("torchrun_rendezvous", "rendezvous-timeout", (0,)),
    ("torchrun_port_in_use", "address-in-use", (0,)),
    ("torchrun_master", "master-not-reached", (0,)),
    ("torchrun_usage", "script-arguments", (0,)),
    ("accelerate_peer", "exception", (1,)),
    ("zlaunch_absent", "collective-timeout", (1,)),
    ("zlaunch_kill", "killed", (1,)),
    ("zlaunch_peer", "exception", (1,)),
]
DID_NOT_FAIL = {
    "overflow_stage1": ["loss-scale"],
    "overflow_stage2": ["loss-scale"],
    "overflow_stage3": ["loss-scale"],
    "fp16_growth": ["loss-scale"],
    "ds_nan": ["loss-nan", "loss-scale"],
    "ds_no_checkpoint": ["checkpoint-not-loaded"],
    "thread_exception": [],
}


@pytest.mark.parametrize(("name", "code", "ranks"), FAILED, ids=[name for name, *_ in FAILED])
def test_the_cause_and_the_rank(name: str, code: str, ranks: tuple[int, ...]) -> None:
    diagnosis = of_recording(name)
    assert [cause.code for cause in diagnosis.causes] == [code]
    assert diagnosis.culprits == ranks
    assert not set(diagnosis.victims) & set(ranks)
    cause = diagnosis.causes[0]
    assert cause.ranks == tuple(sorted(ranks))
    assert "{" not in "".join((cause.title, *cause.details)).replace("torch.Size", "")
    assert all(mend.strip() for mend in cause.mends)


@pytest.mark.parametrize(("name", "codes"), DID_NOT_FAIL.items())
def test_a_run_that_did_not_fail_is_told_so(name: str, codes: list[str]) -> None:
    diagnosis = of_recording(name)
    assert (diagnosis.causes, diagnosis.culprits) == ((), ())
    assert [cause.code for cause in diagnosis.noticed] == codes


def test_no_recording_is_left_out() -> None:
    names = {path.stem.removeprefix("cause_") for path in RECORDINGS.glob("*.log")}
    names -= {path.stem for path in RECORDINGS.glob("metrics_*.log")}  # of `test_metric_words.py`
    assert names == {name for name, *_ in FAILED} | set(DID_NOT_FAIL)


SAID = [
    ("oom", "40.00 GiB asked for, 19.29 GiB of 139.80 GiB free on GPU 1"),
    ("gpu_limit", "8.00 GiB asked for, 13.98 GiB allowed to this process"),
    ("gpu_shared", "other processes hold about 120.5 GiB of this GPU"),
    ("gpu_assert", "`srcIndex < srcSelectDimSize` failed"),
    ("gpu_duplicate", "ranks 0 and 1 are both on CUDA device"),
    ("nccltimeout", "rank 1 never came to collective 2 (ALLREDUCE), in which rank 0 waited 20 s"),
    ("nccl_late", "rank 1 never came to collective 2 (ALLREDUCE), in which rank 0 waited 15 s"),
    ("nccl_different", "rank 1 passed collective 2 while rank 0 waited in it (ALLREDUCE)"),
    ("gloo_timeout", "rank 1 did not come while rank 0 waited for 8 s at /srv/job/dist.py:18"),
    ("barrier_timeout", "rank 1 did not come while rank 0 waited for 5 s"),
    ("zlaunch_absent", "rank 1 said last: ready 1"),
    ("rendezvous_timeout", "after 7 s only 1 of 3 ranks had joined"),
    ("master_blocked", "rank 0 could not be reached at 192.0.2.1, port 29871"),
    ("master_no_name", "the name node-17 cannot be looked up: Name or service not known"),
    ("address_in_use", "port 29888 is in use"),
    ("badbatch", "train_batch_size 33 is not 4 x 1 x 2"),
    ("badbatch", "--set train_batch_size=8"),
    ("badkey", "no key overlap_com"),
    ("badkey", "did you mean overlap_comm?"),
    ("ds_wrong_types", "reduce_bucket_size: Input should be a valid integer"),
    ("ds_optimizer", "AdamWW is not a supported DeepSpeed Optimizer"),
    ("ds_checkpoint_world", "written by 2 ranks and is loaded by 1"),
    ("ds_no_file", "there is no ds_config ds_confg.json"),
    ("hf_config_mismatch", "ds_config train_micro_batch_size_per_gpu=3, but "),
    ("checkpoint_sizes", "weight: [5, 4] in the checkpoint, [4, 4] in the model"),
    ("checkpoint_keys", 'take the "module." of DDP off the keys'),
    ("ddp_unused", "indices 2 3"),
    ("module_missing", "the module flash_attn is missing"),
    ("package_tiktoken", "pip install tiktoken"),
    ("mpi_missing", "no launcher had set RANK and WORLD_SIZE"),
    ("ops_compile", "fatal error: nothing.h: No such file or directory"),
    ("ops_cuda_version", "nvcc is of CUDA 13.0, torch of 12.1"),
    ("argparse", "one.py refuses its arguments: unrecognized arguments: --bogus"),
    ("torchrun_usage", "torchrun refuses its arguments"),
    ("typer", "No such option: --bogus"),
    ("script_not_found", "/srv/job/trian.py: No such file or directory"),
    ("module_not_found", "there is no module trainr.main to run"),
    ("syntax", "SyntaxError: invalid syntax\nat /srv/job/syntax.py:2"),
    ("file_not_found", "there is no file data/train.jsonl"),
    ("permission_denied", "permission denied: /root/x"),
    ("torchrun_segv", "called from /srv/job/dist.py:40, in main"),
    ("data_worker_error", "KeyError: 'text' (in a worker process)"),
    ("data_worker_error", "at /srv/job/one.py:81, in __getitem__"),
    ("peerdies", "at /srv/job/train.py:41"),
    ("chained", "after KeyError: 'lr'"),
    ("rich_traceback", "KeyError: 'learning_rate'"),
    ("rich_traceback", "at /srv/job/ops.py:36"),
    ("exception_group", "ValueError: a"),
    ("nan_backward", "nan in SqrtBackward0"),
    ("hub_unknown_model", "newllama9"),
    ("no_rank_variable", "RANK is not set"),
    ("minscale", "--precision bf16"),
    ("torchrun_exit3", "exit code 3"),
]


@pytest.mark.parametrize(("name", "words"), SAID)
def test_the_numbers_and_the_way_out_are_told(name: str, words: str) -> None:
    cause = of_recording(name).causes[0]
    assert words in "\n".join((cause.title, *cause.details, *cause.mends))


@pytest.mark.parametrize("name", [name for name, *_ in FAILED])
def test_evidence_is_what_was_printed(name: str) -> None:
    read = reading(recorded(name))
    for cause in of_recording(name).causes:
        for line in cause.evidence:
            assert line.text in read.evidence.words[line.rank][line.number]


def test_victims_are_told_why() -> None:
    assert of_recording("torchrun_peer").victims == {0: "connection closed by peer"}
    assert of_recording("oom").victims == {0: "stopped by the launcher"}
    assert of_recording("zlaunch_kill").victims == {0: "stopped by zlaunch"}
    assert of_recording("nccltimeout").victims == {0: "waited for rank 1"}


def test_equal_tracebacks_are_one() -> None:
    assert [one.ranks for one in of_recording("badkey").tracebacks] == [(0, 1)]
    assert [one.ranks for one in of_recording("torchrun_both").tracebacks] == [(0, 1)]


def test_a_launcher_that_names_no_rank_is_no_witness() -> None:
    """deepspeed's "exits with return code" shows the command started last, whichever failed."""
    assert reading(recorded("deepspeed_kill")).guessed
    assert not reading(recorded("deepspeed_peer")).guessed
    assert not reading(recorded("torchrun_kill")).guessed
