"""Defaults, limits and old names of ds_config keys, as DeepSpeed 0.19.8 has them.

For the keys that it reads without a model, and for all of them where it is not installed. A
test holds this to the models of the installed version.
"""

from __future__ import annotations

from typing import Any

from zlaunch.dsconfig.keys import words
from zlaunch.dsconfig.versions import (
    CLIPPING_IS_ONE_SINCE,
    PINNED_SINCE,
    STEPS_NOT_PRINTED_SINCE,
    Version,
)

NOT_KNOWN: Any = object()

# Switches are off unless they stand here.
_ON = words(
    """
    bf16.check_grad_overflow
    zero_optimization.contiguous_gradients zero_optimization.reduce_scatter
    zero_optimization.use_multi_rank_bucket_allreduce zero_optimization.allgather_partitions
    zero_optimization.compute_grad_norm zero_optimization.load_from_fp32_weights
    zero_optimization.ignore_unused_parameters zero_optimization.memory_efficient_linear
    zero_optimization.override_module_apply
    compile.offload_activation_pin_memory compile.double_buffer compile.keep_int_input_tensors
    comms_logger.prof_all timers.throughput.enabled timers.throughput.synchronized
    hybrid_engine.pin_parameters aio.overlap_events zero_force_ds_cpu_optimizer
    managed_gradient_accumulation flops_profiler.detailed checkpoint.checkpoint_serialization
    checkpoint.writer.io_buffer_double pipeline.pipe_partitioned pipeline.grad_partitioned
    optimizer.params.bias_correction optimizer.params.adam_w_mode
    optimizer.params.fp32_optimizer_states scheduler.params.cycle_momentum
    autotuning.fast autotuning.overwrite weight_quantization.enabled
    """
)
_NO_DEFAULT = words(
    """
    zero_optimization.overlap_comm zero_optimization.cpu_offload
    zero_optimization.cpu_offload_param zero_optimization.cpu_offload_use_pin_memory
    comet.online tensor_parallel.vocab_parallel_lm_head
    """
)
_NONE = words(
    """
    train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps
    log_level communication_data_type vocabulary_size data_types.grad_accum_dtype
    data_types.param_dtype data_types.buffer_dtype activation_checkpointing.number_checkpoints
    flops_profiler.output_file optimizer.type scheduler.type wandb.group wandb.team
    zero_optimization.offload_param.nvme_path zero_optimization.offload_optimizer.nvme_path
    compile.passes tensor_parallel.preset_model torch_autocast.dtype
    scheduler.params.cycle_second_step_size scheduler.params.cycle_second_stair_count
    autotuning.metric_path autotuning.model_info_path autotuning.max_train_batch_size
    autotuning.model_info.num_params autotuning.model_info.hidden_size
    autotuning.model_info.num_layers
    """
)
_VALUES: dict[str, Any] = {
    "gradient_clipping": 1.0,
    "gradient_predivide_factor": 1.0,
    "gradient_allreduce_op": "mean",
    "seq_parallel_communication_data_type": "fp32",
    "data_types.keep_in_fp32_modules": "auto",
    "fp16.loss_scale": 0,
    "fp16.initial_scale_power": 16,
    "fp16.loss_scale_window": 1000,
    "fp16.hysteresis": 2,
    "fp16.min_loss_scale": 1,
    "zero_optimization.stage": 0,
    "zero_optimization.reduce_bucket_size": 500_000_000,
    "zero_optimization.allgather_bucket_size": 500_000_000,
    "zero_optimization.sub_group_size": 1_000_000_000,
    "zero_optimization.stage3_prefetch_bucket_size": 50_000_000,
    "zero_optimization.stage3_param_persistence_threshold": 100_000,
    "zero_optimization.stage3_model_persistence_threshold": 2**63 - 1,
    "zero_optimization.stage3_max_live_parameters": 1_000_000_000,
    "zero_optimization.stage3_max_reuse_distance": 1_000_000_000,
    "zero_optimization.stage3_module_granularity_threshold": 0,
    "zero_optimization.zero_hpz_partition_size": 1,
    "zero_optimization.offload_param.device": "none",
    "zero_optimization.offload_param.buffer_count": 5,
    "zero_optimization.offload_param.buffer_size": 100_000_000,
    "zero_optimization.offload_param.max_in_cpu": 1_000_000_000,
    "zero_optimization.offload_optimizer.device": "none",
    "zero_optimization.offload_optimizer.buffer_count": 4,
    "zero_optimization.offload_optimizer.ratio": 1.0,
    "zero_optimization.offload_optimizer.cpuadam_cores_perc": 0.8,
    "zero_optimization.zenflow.topk_ratio": 0.1,
    "zero_optimization.zenflow.auto_ratio": 0.99,
    "zero_optimization.zenflow.pt_reserved_cores_perc": 0.5,
    "zero_optimization.zenflow.select_strategy": "auto",
    "zero_optimization.zenflow.select_interval": "auto",
    "zero_optimization.zenflow.update_interval": "auto",
    "zero_optimization.zenflow.full_warm_up_rounds": 0,
    "optimizer.params.lr": 0.001,
    "optimizer.params.betas": [0.9, 0.999],
    "optimizer.params.eps": 1e-8,
    "optimizer.params.weight_decay": 0.0,
    "scheduler.params.warmup_min_lr": 0.0,
    "scheduler.params.warmup_max_lr": 0.001,
    "scheduler.params.warmup_num_steps": 1000,
    "scheduler.params.warmup_type": "log",
    "scheduler.params.warmup_min_ratio": 0.0,
    "scheduler.params.cos_min_ratio": 0.0001,
    "scheduler.params.last_batch_iteration": -1,
    "scheduler.params.cycle_first_step_size": 2000.0,
    "scheduler.params.cycle_first_stair_count": 0,
    "scheduler.params.decay_step_size": 0,
    "scheduler.params.decay_lr_rate": 0.0,
    "scheduler.params.cycle_min_mom": 0.8,
    "scheduler.params.cycle_max_mom": 0.9,
    "scheduler.params.decay_mom_rate": 0.0,
    "scheduler.params.lr_range_test_min_lr": 0.001,
    "scheduler.params.lr_range_test_step_size": 2000,
    "scheduler.params.lr_range_test_step_rate": 1.0,
    "autotuning.results_dir": "autotuning_results",
    "autotuning.exps_dir": "autotuning_exps",
    "autotuning.metric": "throughput",
    "autotuning.tuner_type": "gridsearch",
    "autotuning.start_profile_step": 3,
    "autotuning.end_profile_step": 5,
    "autotuning.tuner_early_stopping": 5,
    "autotuning.tuner_num_trials": 50,
    "autotuning.mp_size": 1,
    "autotuning.min_train_batch_size": 1,
    "autotuning.max_train_micro_batch_size_per_gpu": 1024,
    "autotuning.min_train_micro_batch_size_per_gpu": 1,
    "autotuning.num_tuning_micro_batch_sizes": 3,
    "aio.block_size": 1_048_576,
    "aio.queue_depth": 8,
    "aio.intra_op_parallelism": 1,
    "checkpoint.tag_validation": "Warn",
    "flops_profiler.recompute_fwd_factor": 0.0,
    "flops_profiler.profile_step": 1,
    "flops_profiler.module_depth": -1,
    "flops_profiler.top_modules": 1,
    "compile.free_activation_threshold": 10_485_760,
    "tensorboard.output_path": "",
    "tensorboard.job_name": "DeepSpeedJobName",
    "csv_monitor.output_path": "",
    "csv_monitor.job_name": "DeepSpeedJobName",
    "wandb.project": "deepspeed",
    "comet.samples_log_interval": 100,
    "tensor_parallel.autotp_size": 0,
    "tensor_parallel.tp.tp_size": 1,
    "tensor_parallel.tp.tp_grain_size": 1,
    "tensor_parallel.vocab_parallel_ce_backend": "torch",
    "hybrid_engine.max_out_tokens": 512,
    "hybrid_engine.inference_tp_size": 1,
    "hybrid_engine.tp_gather_partition_size": 8,
    "pipeline.stages": "auto",
    "pipeline.partition": "best",
    "pipeline.activation_checkpoint_interval": 0,
}

CHOICES: dict[str, tuple[Any, ...]] = {
    "zero_optimization.stage": (0, 1, 2, 3),
    "zero_optimization.offload_param.device": ("none", "cpu", "nvme"),
    "zero_optimization.offload_optimizer.device": ("none", "cpu", "nvme"),
    "tensor_parallel.vocab_parallel_ce_backend": ("torch", "liger"),
}
DEPRECATED: dict[str, str] = {
    "zero_optimization.cpu_offload": "offload_optimizer",
    "zero_optimization.cpu_offload_param": "offload_param",
    "zero_optimization.cpu_offload_use_pin_memory": "offload_param or offload_optimizer",
    "zero_optimization.stage3_gather_fp16_weights_on_model_save": (
        "stage3_gather_16bit_weights_on_model_save"
    ),
}
_SHARES = {"ge": 0.0, "le": 1.0}
_LIMITS: dict[str, dict[str, float]] = {
    "zero_optimization.reduce_bucket_size": {"gt": 0.0},
    "zero_optimization.offload_optimizer.ratio": _SHARES,
    "zero_optimization.offload_optimizer.cpuadam_cores_perc": _SHARES,
    "zero_optimization.zenflow.topk_ratio": {"gt": 0.0, "lt": 1.0},
    "zero_optimization.zenflow.auto_ratio": _SHARES,
    "zero_optimization.zenflow.pt_reserved_cores_perc": _SHARES,
    "hybrid_engine.max_out_tokens": {"gt": 0.0},
}
_NEGATIVE = words(
    """
    zero_optimization.stage zero_optimization.stage3_module_granularity_threshold
    zero_optimization.zenflow.full_warm_up_rounds zero_optimization.zenflow.steps_per_epoch
    zero_optimization.zenflow.select_interval zero_optimization.zenflow.update_interval
    """
)


def default_of(key: str, kind: str, version: Version) -> Any:
    """The default of a key; `NOT_KNOWN` where there is none to tell."""
    if key == "gradient_clipping" and version < CLIPPING_IS_ONE_SINCE:
        return 0.0
    if key == "steps_per_print":
        return 10 if version < STEPS_NOT_PRINTED_SINCE else None
    if key.startswith("zero_optimization.offload_") and key.endswith(".pin_memory"):
        return version >= PINNED_SINCE
    if key in _NONE:
        return None
    if kind == "bool" and key not in _NO_DEFAULT:
        return key in _ON
    return _VALUES.get(key, NOT_KNOWN)


def limits_of(key: str, kind: str) -> dict[str, float]:
    """What a number has to be above or below."""
    counts = kind == "int" and key.startswith("zero_optimization.") and key not in _NEGATIVE
    return _LIMITS.get(key, {"ge": 0.0} if counts else {})
