"""The keys that DeepSpeed reads from a ds_config, as a table.

Written from the sources and pydantic models of DeepSpeed 0.19.8 (`runtime/config.py` and the
models it builds). It is here, not imported, so that a config can be checked without DeepSpeed.
`keypath` looks things up in it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

Leaf: TypeAlias = Literal["int", "float", "bool", "str", "list", "int|str", "list|str", "any"]
Tree: TypeAlias = "dict[str, Leaf | Tree]"


def words(text: str) -> frozenset[str]:
    """The names that a text lists."""
    return frozenset(text.split())


def _leaves(**names: str) -> Tree:
    """Leaves by kind: `int_="a b"` are two keys that hold integers."""
    kinds: dict[str, Leaf] = {
        "int_": "int",
        "float_": "float",
        "bool_": "bool",
        "str_": "str",
        "list_": "list",
        "int_or_str": "int|str",
        "list_or_str": "list|str",
    }
    return {name: kinds[kind] for kind, line in names.items() for name in line.split()}


# A section with the key "*" is open: DeepSpeed hands on what it finds there, so any key may
# stand in it. The named keys of an open section are those whose kind is known.
OPEN: Tree = {"*": "any"}

_OFFLOAD_PARAM = _leaves(
    str_="device nvme_path",
    int_="buffer_count buffer_size max_in_cpu",
    bool_="pin_memory",
)

_OFFLOAD_OPTIMIZER = _leaves(
    str_="device nvme_path",
    int_="buffer_count",
    bool_="pin_memory pipeline_read pipeline_write fast_init super_offload",
    float_="ratio cpuadam_cores_perc",
)

_ZENFLOW = _leaves(
    float_="topk_ratio auto_ratio pt_reserved_cores_perc",
    str_="select_strategy",
    int_or_str="select_interval update_interval",
    bool_="overlap_step offload",
    int_="full_warm_up_rounds steps_per_epoch",
)

# The cpu_offload keys and gather_fp16 are old names that DeepSpeed still takes, with a warning.
_ZERO: Tree = {
    **_leaves(
        int_="""
            stage reduce_bucket_size allgather_bucket_size sub_group_size
            stage3_prefetch_bucket_size stage3_param_persistence_threshold
            stage3_model_persistence_threshold stage3_max_live_parameters
            stage3_max_reuse_distance stage3_module_granularity_threshold
            zero_hpz_partition_size
        """,
        bool_="""
            contiguous_gradients reduce_scatter use_multi_rank_bucket_allreduce
            allgather_partitions overlap_comm compute_grad_norm load_from_fp32_weights
            elastic_checkpoint stage3_gather_16bit_weights_on_model_save
            stage3_use_all_reduce_for_fetch_params stage3_allgather_sequential
            ignore_unused_parameters legacy_stage1 round_robin_gradients parameter_alignment
            zero_quantized_weights zero_quantized_nontrainable_weights
            zero_quantized_gradients memory_efficient_linear pipeline_loading_checkpoint
            override_module_apply log_trace_cache_warnings enable_sanity_checks
            save_muon_momentum_buffer_in_memory
            cpu_offload cpu_offload_param cpu_offload_use_pin_memory
            stage3_gather_fp16_weights_on_model_save
        """,
    ),
    "offload_param": _OFFLOAD_PARAM,
    "offload_optimizer": _OFFLOAD_OPTIMIZER,
    "zenflow": _ZENFLOW,
    "leaf_module": _leaves(list_="classes names name_suffixes"),
}

_OPTIMIZER_PARAMS: Tree = {
    **_leaves(
        float_="lr eps weight_decay",
        list_="betas",
        bool_="bias_correction torch_adam adam_w_mode fp32_optimizer_states",
    ),
    **OPEN,
}

_SCHEDULER_PARAMS: Tree = {
    **_leaves(
        float_="""
            warmup_min_lr warmup_max_lr warmup_min_ratio cos_min_ratio
            cycle_min_lr cycle_max_lr cycle_first_step_size cycle_second_step_size decay_lr_rate
            cycle_min_mom cycle_max_mom decay_mom_rate
            lr_range_test_min_lr lr_range_test_step_rate
        """,
        int_="""
            warmup_num_steps total_num_steps last_batch_iteration cycle_first_stair_count
            cycle_second_stair_count decay_step_size lr_range_test_step_size
        """,
        bool_="cycle_momentum lr_range_test_staircase",
        str_="warmup_type",
    ),
    **OPEN,
}

_PRECISION: Tree = {
    "fp16": _leaves(
        bool_="enabled auto_cast consecutive_hysteresis fp16_master_weights_and_grads",
        float_="loss_scale",
        int_="initial_scale_power loss_scale_window hysteresis min_loss_scale",
    ),
    "bf16": _leaves(
        bool_="""
            enabled immediate_grad_update check_grad_overflow
            bf16_master_weights_and_grads bf16_optimizer_states
        """
    ),
    "torch_autocast": _leaves(bool_="enabled", str_="dtype", list_="lower_precision_safe_modules"),
    "data_types": _leaves(
        str_="grad_accum_dtype param_dtype buffer_dtype", list_or_str="keep_in_fp32_modules"
    ),
}

_COMPILE = _leaves(
    bool_="""
        deepcompile autoep_non_moe free_activation offload_activation
        offload_activation_pin_memory offload_opt_states double_buffer symmetric_memory
        debug_log offload_parameters sync_before_reduce sync_after_reduce
        sync_before_allgather sync_after_allgather keep_int_input_tensors
        keep_all_input_tensors
    """,
    int_="free_activation_threshold",
    list_="passes",
)

_MONITORS: Tree = {
    "tensorboard": _leaves(bool_="enabled", str_="output_path job_name"),
    "csv_monitor": _leaves(bool_="enabled", str_="output_path job_name"),
    "wandb": _leaves(bool_="enabled", str_="group team project"),
    "comet": _leaves(
        bool_="enabled online",
        int_="samples_log_interval",
        str_="project workspace api_key experiment_name experiment_key mode",
    ),
}

_PROFILERS: Tree = {
    "flops_profiler": _leaves(
        bool_="enabled detailed",
        float_="recompute_fwd_factor",
        int_="profile_step module_depth top_modules",
        str_="output_file",
    ),
    "comms_logger": _leaves(bool_="enabled prof_all verbose debug", list_="prof_ops"),
    "timers": {"throughput": _leaves(bool_="enabled synchronized")},
    "autotuning": {
        **_leaves(
            bool_="enabled fast overwrite",
            str_="results_dir exps_dir metric metric_path tuner_type model_info_path",
            int_="""
                start_profile_step end_profile_step tuner_early_stopping tuner_num_trials mp_size
                max_train_batch_size min_train_batch_size max_train_micro_batch_size_per_gpu
                min_train_micro_batch_size_per_gpu num_tuning_micro_batch_sizes
            """,
        ),
        "arg_mappings": OPEN,
        "model_info": _leaves(bool_="profile", int_="num_params hidden_size num_layers"),
    },
}

_PARALLEL: Tree = {
    "tensor_parallel": {
        **_leaves(
            int_="autotp_size",
            bool_="tp_overlap_comm vocab_parallel_lm_head keep_module_on_host",
            str_="vocab_parallel_ce_backend preset_model dtype",
        ),
        "tp": _leaves(int_="tp_size tp_grain_size"),
        "partition_config": OPEN,
    },
    "expert_parallel": {**_leaves(bool_="enabled", int_="autoep_size"), **OPEN},
    "pipeline": {
        **_leaves(
            int_or_str="stages",
            str_="partition",
            bool_="seed_layers pipe_partitioned grad_partitioned",
            int_="activation_checkpoint_interval",
        ),
        **OPEN,
    },
    **_leaves(
        int_="sequence_parallel_size data_parallel_size",
        bool_="use_data_before_expert_parallelism",
    ),
}

_CHECKPOINT: Tree = {
    **_leaves(
        str_="tag_validation",
        bool_="load_universal use_node_local_storage checkpoint_serialization",
    ),
    "parallel_write": _leaves(bool_="pipeline_stage"),
    "writer": _leaves(
        str_="type data_parallel",
        bool_="decoupled io_buffer_double show_statistics",
        int_="io_buffer_size io_multiplier",
    ),
}

_DATA_EFFICIENCY: Tree = {
    **_leaves(bool_="enabled", int_="seed"),
    "data_sampling": {
        **_leaves(bool_="enabled pin_memory", int_="num_epochs num_workers"),
        "curriculum_learning": OPEN,
        "dynamic_batching": OPEN,
    },
    "data_routing": {**_leaves(bool_="enabled"), "random_ltd": OPEN},
}

KEYS: Tree = {
    **_leaves(
        int_="""
            train_batch_size train_micro_batch_size_per_gpu gradient_accumulation_steps
            steps_per_print vocabulary_size
        """,
        float_="gradient_clipping gradient_predivide_factor",
        str_="""
            log_level communication_data_type seq_parallel_communication_data_type
            gradient_allreduce_op
        """,
        bool_="""
            managed_gradient_accumulation wall_clock_breakdown memory_breakdown dump_state
            zero_allow_untested_optimizer zero_force_ds_cpu_optimizer prescale_gradients
            disable_allgather disable_python_gc dataloader_drop_last
        """,
    ),
    **_PRECISION,
    "zero_optimization": _ZERO,
    "optimizer": {"params": _OPTIMIZER_PARAMS, **_leaves(str_="type", bool_="legacy_fusion")},
    "scheduler": {"params": _SCHEDULER_PARAMS, **_leaves(str_="type")},
    "aio": _leaves(
        int_="block_size queue_depth intra_op_parallelism",
        bool_="single_submit overlap_events use_gds",
    ),
    "activation_checkpointing": _leaves(
        bool_="""
            partition_activations cpu_checkpointing contiguous_memory_optimization
            synchronize_checkpoint_boundary profile
        """,
        int_="number_checkpoints",
    ),
    "checkpoint": _CHECKPOINT,
    "compile": _COMPILE,
    **_MONITORS,
    **_PROFILERS,
    **_PARALLEL,
    "hybrid_engine": _leaves(
        bool_="enabled release_inference_cache pin_parameters enable_cuda_graph",
        int_="max_out_tokens inference_tp_size tp_gather_partition_size",
    ),
    "data_efficiency": _DATA_EFFICIENCY,
    "weight_quantization": {
        **_leaves(bool_="enabled"),
        "quantized_initialization": OPEN,
        "post_init_quant": OPEN,
    },
    "datastates_ckpt": OPEN,
}

# Keys that older versions had and 0.19.8 refuses; named so that an error can say so.
REMOVED: frozenset[str] = frozenset(
    {
        "amp",
        "compression_training",
        "curriculum_learning",
        "eigenvalue",
        "elasticity",
        "graph_harvesting",
        "nebula",
        "progressive_layer_drop",
        "quantize_training",
        "sparse_attention",
        "sparse_gradients",
        "zero_optimization.mics_hierarchical_params_gather",
        "zero_optimization.mics_shard_size",
        "zero_optimization.zeropp_loco_param",
    }
)
