"""What the keys of logging, profiling, parallelism and checkpoints do: text, cost, stages."""

from __future__ import annotations

from zlaunch.dsconfig.explain_zero import Said

_WAITS = "waits for the device at every step: for measuring, not for training"


def _plain(text: str) -> dict[str, Said]:
    """Lines of `key: text`, of keys with no cost worth a word."""
    pairs = (line.strip().split(": ", 1) for line in text.strip().split("\n"))
    return {key: (said, "", "") for key, said in pairs}


REST: dict[str, Said] = {
    "steps_per_print": (
        "steps between two lines on step, learning rate and speed",
        "without it DeepSpeed prints none since 0.15.2",
        "",
    ),
    "log_level": (
        "what DeepSpeed prints: debug, info, warning, error, critical",
        "overflow and step lines need info since 0.17.6",
        "",
    ),
    "wall_clock_breakdown": ("times forward, backward and step", _WAITS, ""),
    "memory_breakdown": ("prints the GPU's memory after each part of a step", _WAITS, ""),
    "disable_python_gc": ("collects Python's garbage between steps only", "steadier steps", ""),
    "comms_logger": ("logs every collective, with size and time", _WAITS, ""),
    "flops_profiler": ("counts the operations of a step", "that one step is slow", ""),
    "timers.throughput.synchronized": ("exact times for throughput", _WAITS, ""),
    "aio.block_size": ("bytes of one read or write on NVMe", "larger suits most disks", ""),
    "aio.queue_depth": ("reads and writes that are under way at once", "more: faster", ""),
    "aio.intra_op_parallelism": ("threads that share one read or write", "CPU cores", ""),
    "aio.use_gds": ("moves data between NVMe and GPU past the host", "needs GPUDirect", ""),
    "compile": ("torch.compile with DeepSpeed's own passes", "a long first step", ""),
    "compile.offload_opt_states": ("moves optimizer states out during the passes", "slower", ""),
    "checkpoint.use_node_local_storage": (
        "each host writes its own files",
        "for disks that hosts do not share",
        "",
    ),
    "checkpoint.load_universal": ("loads a universal checkpoint: other ranks or stage", "", ""),
    "tensor_parallel": ("splits single layers over ranks", "traffic in every layer", "0 1 2 3"),
    "tensor_parallel.autotp_size": ("ranks that share a layer; 0 is off", "", ""),
    "hybrid_engine": ("generates text with the model that is trained, for RLHF", "memory", ""),
    "autotuning": (
        "tries configs in short runs before training, under `deepspeed --autotuning`",
        "many starts",
        "",
    ),
    "expert_parallel": ("spreads experts over ranks", "traffic at every such layer", ""),
    **_plain("""
        dump_state: prints the engine's state at the start
        comms_logger.enabled: switches it on
        comms_logger.prof_all: logs all kinds of collectives
        comms_logger.prof_ops: logs these only
        comms_logger.verbose: a line for each
        comms_logger.debug: names the caller too
        flops_profiler.enabled: switches it on
        flops_profiler.detailed: lists all modules
        flops_profiler.recompute_fwd_factor: extra forward work of activation checkpointing
        flops_profiler.profile_step: the step that is counted
        flops_profiler.module_depth: how deep modules are listed; -1 is to the end
        flops_profiler.top_modules: modules shown for each depth
        flops_profiler.output_file: a file for the report
        timers: how DeepSpeed times steps
        timers.throughput: times samples a second
        timers.throughput.enabled: switches it on
        tensorboard: metrics for TensorBoard
        tensorboard.enabled: switches it on
        tensorboard.output_path: directory for the logs
        tensorboard.job_name: directory of this run in it
        csv_monitor: metrics as CSV files
        csv_monitor.enabled: switches it on
        csv_monitor.output_path: directory for the files
        csv_monitor.job_name: directory of this run in it
        wandb: metrics for Weights & Biases
        wandb.enabled: switches it on
        wandb.group: groups runs
        wandb.team: the team
        wandb.project: the project
        comet: metrics for Comet
        comet.enabled: switches it on
        comet.online: false keeps them on this machine
        comet.samples_log_interval: samples between two logs
        comet.project: the project
        comet.workspace: the workspace
        comet.api_key: the key; better set as COMET_API_KEY, since configs are kept
        comet.experiment_name: a name for the run
        comet.experiment_key: goes on with that run
        comet.mode: get, create or get_or_create
        aio: how files on NVMe are read and written, for offload to nvme
        aio.single_submit: hands requests over one by one
        aio.overlap_events: hands over and collects at the same time
        checkpoint: how checkpoints are written
        checkpoint.tag_validation: what happens where ranks name different tags: Ignore, Warn, Fail
        checkpoint.checkpoint_serialization: the new file format of torch
        checkpoint.parallel_write: who writes
        checkpoint.parallel_write.pipeline_stage: each pipeline stage writes its layers
        checkpoint.writer: a faster writer
        checkpoint.writer.type: PYTHON or FAST
        checkpoint.writer.data_parallel: splits the file over ranks: REPLICA, SOCKET, MACHINE
        checkpoint.writer.decoupled: writes beside training
        checkpoint.writer.io_buffer_double: two buffers
        checkpoint.writer.show_statistics: prints speeds
        checkpoint.writer.io_buffer_size: bytes of a buffer
        checkpoint.writer.io_multiplier: writers on a rank
        compile.deepcompile: switches it on
        compile.passes: which passes run: z1, z3, autosp, autotp
        compile.autoep_non_moe: compiles around expert layers
        compile.free_activation: frees large activations early
        compile.free_activation_threshold: bytes from which one counts as large
        compile.offload_activation: moves activations to the host
        compile.offload_activation_pin_memory: page-locked memory for them
        compile.double_buffer: two buffers for gradients
        compile.symmetric_memory: symmetric memory for gathers
        compile.debug_log: writes the graphs out
        compile.offload_parameters: moves parameters to the host
        compile.sync_before_reduce: waits there, for debugging
        compile.sync_after_reduce: waits there, for debugging
        compile.sync_before_allgather: waits there, for debugging
        compile.sync_after_allgather: waits there, for debugging
        compile.keep_int_input_tensors: keeps whole numbers of inputs
        compile.keep_all_input_tensors: keeps all inputs
        tensor_parallel.tp_overlap_comm: sends while computing
        tensor_parallel.vocab_parallel_lm_head: splits the vocabulary
        tensor_parallel.keep_module_on_host: keeps the whole model on the host while splitting
        tensor_parallel.vocab_parallel_ce_backend: torch or liger
        tensor_parallel.preset_model: how layers of this model are split
        tensor_parallel.dtype: type of the model
        tensor_parallel.tp: sizes
        tensor_parallel.tp.tp_size: ranks that share a layer
        tensor_parallel.tp.tp_grain_size: layers are cut at multiples of it
        tensor_parallel.partition_config: rules of one's own
        expert_parallel.enabled: switches it on
        expert_parallel.autoep_size: ranks that share the experts
        pipeline: pipeline parallelism, for a PipelineModule
        pipeline.stages: parts of the pipeline
        pipeline.partition: how layers are dealt out
        pipeline.seed_layers: a seed for each layer
        pipeline.pipe_partitioned: splits activations that are sent
        pipeline.grad_partitioned: splits gradients that are sent
        pipeline.activation_checkpoint_interval: layers between kept activations; 0 keeps all
        hybrid_engine.enabled: switches it on
        hybrid_engine.release_inference_cache: frees the cache after generating
        hybrid_engine.pin_parameters: page-locked parameters
        hybrid_engine.enable_cuda_graph: uses CUDA graphs
        hybrid_engine.max_out_tokens: longest text
        hybrid_engine.inference_tp_size: ranks that share a layer while generating
        hybrid_engine.tp_gather_partition_size: layers gathered at once
        data_efficiency: curricula and token dropping
        data_efficiency.enabled: switches it on
        data_efficiency.seed: for the order of the data
        data_efficiency.data_sampling: which samples come when
        data_efficiency.data_sampling.enabled: switches it on
        data_efficiency.data_sampling.pin_memory: page-locked batches
        data_efficiency.data_sampling.num_epochs: epochs at most
        data_efficiency.data_sampling.num_workers: workers of the loader
        data_efficiency.data_sampling.curriculum_learning: easy samples first
        data_efficiency.data_sampling.dynamic_batching: batches of equal tokens
        data_efficiency.data_routing: which tokens go through which layer
        data_efficiency.data_routing.enabled: switches it on
        data_efficiency.data_routing.random_ltd: drops tokens in the middle layers
        autotuning.enabled: switches it on; a run then ends after end_profile_step
        autotuning.fast: tries micro batches and stages only
        autotuning.results_dir: directory for the results
        autotuning.exps_dir: directory for the short runs
        autotuning.overwrite: writes over what is there
        autotuning.metric: what is best: latency, throughput or flops
        autotuning.metric_path: a file for what was measured
        autotuning.start_profile_step: the step from which it measures
        autotuning.end_profile_step: the step behind which the short run ends
        autotuning.tuner_type: gridsearch, random or model_based
        autotuning.tuner_early_stopping: runs without a better one before it stops
        autotuning.tuner_num_trials: runs at most
        autotuning.arg_mappings: which argument of the script each key has
        autotuning.model_info: sizes of the model, so that they need not be measured
        autotuning.model_info.profile: measures them all the same
        autotuning.model_info.num_params: parameters
        autotuning.model_info.hidden_size: width
        autotuning.model_info.num_layers: layers
        autotuning.model_info_path: a file for the sizes of the model
        autotuning.mp_size: ranks that share the model
        autotuning.max_train_batch_size: largest global batch
        autotuning.min_train_batch_size: smallest global batch
        autotuning.max_train_micro_batch_size_per_gpu: largest micro batch
        autotuning.min_train_micro_batch_size_per_gpu: smallest micro batch
        autotuning.num_tuning_micro_batch_sizes: how many micro batches it tries
        weight_quantization: quantized weights, for inference
        weight_quantization.enabled: switches it on
        weight_quantization.quantized_initialization: while the model is made
        weight_quantization.post_init_quant: once it is made
        datastates_ckpt: the checkpoint engine DataStates
    """),
}
