"""Which DeepSpeed has which key: what came, what went, what changed its name.

Read from the sources of 0.14.0, 0.15.4, 0.16.9, 0.17.6, 0.18.0, 0.19.3, 0.19.6, 0.19.7 and 0.19.8.
"Came with" is the first of these that has a key, so it may have come a little earlier.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Version: TypeAlias = "tuple[int, int, int]"

READ: tuple[Version, ...] = (
    *((0, 14, 0), (0, 15, 4), (0, 16, 9), (0, 17, 6), (0, 18, 0)),
    *((0, 19, 3), (0, 19, 6), (0, 19, 7), (0, 19, 8)),
)
NEWEST_READ = READ[-1]

# From this one on, a line at the level INFO is not printed unless the config asks for it.
QUIET_SINCE: Version = (0, 17, 6)
LOG_LEVEL_SINCE: Version = (0, 19, 3)
# Until then fp16 and bf16 were read without a model: "auto" there was a text, and true.
HALF_MODELS_SINCE: Version = (0, 17, 6)
WARMUP_CHECKED_SINCE: Version = (0, 19, 3)
CLIPPING_IS_ONE_SINCE: Version = (0, 19, 3)
PINNED_SINCE: Version = (0, 19, 6)
STEPS_NOT_PRINTED_SINCE: Version = (0, 15, 2)

_SINCE: dict[Version, str] = {
    (0, 15, 4): "zero_optimization.stage3_use_all_reduce_for_fetch_params aio.use_gds comet timers",
    (0, 16, 9): """
        seq_parallel_communication_data_type aio.intra_op_parallelism compile tensor_parallel
        zero_optimization.log_trace_cache_warnings zero_optimization.zeropp_loco_param
        zero_optimization.stage3_module_granularity_threshold
    """,
    (0, 17, 6): """
        torch_autocast zero_optimization.enable_sanity_checks zero_optimization.zenflow
        sequence_parallel_size checkpoint.writer checkpoint.checkpoint_serialization
        bf16.check_grad_overflow compile.keep_int_input_tensors compile.keep_all_input_tensors
    """,
    (0, 18, 0): """
        zero_optimization.leaf_module compile.free_activation_threshold
        zero_optimization.offload_optimizer.super_offload
        zero_optimization.offload_optimizer.cpuadam_cores_perc
    """,
    (0, 19, 3): """
        log_level expert_parallel datastates_ckpt data_types.param_dtype data_types.buffer_dtype
        bf16.bf16_master_weights_and_grads bf16.bf16_optimizer_states compile.passes
        tensor_parallel.partition_config tensor_parallel.preset_model
        zero_optimization.stage3_allgather_sequential
        zero_optimization.save_muon_momentum_buffer_in_memory
    """,
    (0, 19, 6): """
        managed_gradient_accumulation gradient_allreduce_op compile.offload_activation_pin_memory
        hybrid_engine.enable_cuda_graph
    """,
    (0, 19, 7): "zero_optimization.compute_grad_norm zero_optimization.parameter_alignment",
    (0, 19, 8): """
        data_types.keep_in_fp32_modules compile.autoep_non_moe disable_python_gc
        tensor_parallel.vocab_parallel_lm_head tensor_parallel.vocab_parallel_ce_backend
    """,
}

# What the version refuses, and older ones had.
_GONE: dict[Version, str] = {
    (0, 19, 7): """
        nebula compression_training quantize_training sparse_attention
        zero_optimization.mics_shard_size zero_optimization.mics_hierarchical_params_gather
    """,
    (0, 19, 8): """
        amp sparse_gradients eigenvalue elasticity graph_harvesting curriculum_learning
        progressive_layer_drop zero_optimization.zeropp_loco_param
    """,
    # Renamed: the old name is not refused at the top of a config, but does nothing there.
    (0, 16, 9): "aio.thread_count seq_parallel_comm_data_type",
}

# Old names that no DeepSpeed of ours reads any more, or that have a better one now.
RENAMED: dict[str, str] = {
    "aio.thread_count": "aio.intra_op_parallelism",
    "seq_parallel_comm_data_type": "seq_parallel_communication_data_type",
    "fp32_allreduce": "communication_data_type",
    "bf16.check_overflow": "bf16.check_grad_overflow",
    "gradient_accumulation_dtype": "data_types.grad_accum_dtype",
    "max_grad_norm": "gradient_clipping",
    "activation_checkpointing.partitioned_activations": (
        "activation_checkpointing.partition_activations"
    ),
}

# Those that a DeepSpeed once read; published examples still have them.
ONCE_RIGHT = frozenset({"aio.thread_count", "seq_parallel_comm_data_type", "fp32_allreduce"})

INSTEAD: dict[str, str] = {
    "amp": "use fp16, bf16 or torch_autocast",
    "elasticity": "write the three batch numbers themselves",
    "curriculum_learning": "use data_efficiency.data_sampling.curriculum_learning",
    "zero_optimization.zeropp_loco_param": "zero_quantized_gradients works without it",
}


def parse_version(text: str) -> Version | None:
    """The numbers of `0.19.8` or `0.17.6+local`; None where there are none."""
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def spelled(version: Version) -> str:
    """A version as DeepSpeed writes it."""
    return ".".join(map(str, version))


def since(path: tuple[str, ...]) -> Version | None:
    """The first version read that has the key, where it was not there from the beginning."""
    return _CAME.get(".".join(path))


def gone_with(path: tuple[str, ...]) -> Version | None:
    """The version that took the key out."""
    return _WENT.get(".".join(path))


def gone_by(path: tuple[str, ...], version: Version) -> bool:
    """Whether the version has taken the key out."""
    went = gone_with(path)
    return went is not None and went <= version


def once_known(version: Version) -> tuple[tuple[str, ...], ...]:
    """The keys that this version still has and later ones took out."""
    there = ((tuple(key.split(".")), went) for key, went in _WENT.items())
    return tuple(
        path for path, went in there if version < went and (since(path) or version) <= version
    )


_CAME = {key: version for version, keys in _SINCE.items() for key in keys.split()}
_WENT = {key: version for version, keys in _GONE.items() for key in keys.split()}
