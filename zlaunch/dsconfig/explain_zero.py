"""What the keys of ZeRO and offload do, in zlaunch's own words: text, cost, stages."""

from __future__ import annotations

from typing import TypeAlias

# What it does; what it costs or gains in memory or speed; the ZeRO stages it applies to.
Said: TypeAlias = "tuple[str, str, str]"

ZERO: dict[str, Said] = {
    "": (
        "how model states are split over the ranks",
        "each stage saves memory; stage 3 pays with communication in every layer",
        "",
    ),
    "stage": (
        "what is split: 0 nothing, 1 optimizer states, 2 also gradients, 3 also parameters",
        "bytes a parameter with Adam in half precision on N ranks: 16, 4+12/N, 2+14/N, 16/N",
        "",
    ),
    "reduce_bucket_size": (
        "elements of gradient that are reduced in one message",
        "a bucket takes 2 bytes an element, twice with overlap_comm; small ones are slow",
        "1 2 3",
    ),
    "allgather_bucket_size": (
        "elements of parameter that are gathered in one message after a step",
        "2 bytes an element while the step ends; small ones are slow",
        "1 2",
    ),
    "sub_group_size": (
        "elements that the optimizer updates at once",
        "a step needs memory for one group; matters for offload, where smaller saves memory",
        "3",
    ),
    "overlap_comm": (
        "reduces gradients while the backward pass goes on",
        "faster; a second bucket of memory. The default is true in stage 3, else false",
        "1 2 3",
    ),
    "contiguous_gradients": (
        "copies gradients into one buffer as they come",
        "one bucket of memory against fragmentation",
        "1 2 3",
    ),
    "reduce_scatter": (
        "sends each rank its own share of the gradients, not all of them",
        "half the traffic of an all-reduce",
        "1 2 3",
    ),
    "use_multi_rank_bucket_allreduce": (
        "puts the shares of several ranks into one message",
        "faster for small models on many GPUs",
        "1 2",
    ),
    "allgather_partitions": (
        "gathers updated parameters with all-gather, not with a row of broadcasts",
        "faster; false only for old networks",
        "1 2",
    ),
    "compute_grad_norm": (
        "computes the norm of all gradients at each step",
        "false saves a little time, and needs gradient_clipping 0",
        "1 2",
    ),
    "load_from_fp32_weights": (
        "takes fp32 weights from a checkpoint for the optimizer, not the half ones",
        "exact; false saves time while loading",
        "1 2 3",
    ),
    "elastic_checkpoint": (
        "the old form of checkpoints that fit another number of ranks",
        "universal checkpoints have replaced it",
        "1 2",
    ),
    "round_robin_gradients": (
        "has ranks copy different gradients to the CPU at the same time",
        "faster with offload_optimizer on many GPUs or with much accumulation",
        "1 2",
    ),
    "ignore_unused_parameters": (
        "goes on where a parameter got no gradient",
        "false stops with an error that names the parameter",
        "2",
    ),
    "legacy_stage1": ("the first version of stage 1", "refused since 0.5.9", "none"),
    "parameter_alignment": (
        "lets each parameter begin at a multiple of 16 bytes in the flat buffers",
        "a little memory",
        "1 2",
    ),
    "stage3_prefetch_bucket_size": (
        "elements of parameter that are fetched ahead of their use",
        "larger hides more waiting and takes 2 bytes an element",
        "3",
    ),
    "stage3_param_persistence_threshold": (
        "tensors with fewer elements are not split but stay on every rank",
        "larger: fewer small messages, more memory",
        "3",
    ),
    "stage3_model_persistence_threshold": (
        "elements that may stay unsplit in all, over all small tensors",
        "bounds the memory that the threshold for one tensor can take",
        "3",
    ),
    "stage3_max_live_parameters": (
        "elements of parameter that are on the GPU before some are let go",
        "2 bytes an element; smaller means fetching more often",
        "3",
    ),
    "stage3_max_reuse_distance": (
        "parameters that are needed again within so many elements are not let go",
        "larger: less fetching, more memory",
        "3",
    ),
    "stage3_gather_16bit_weights_on_model_save": (
        "gathers the whole model on rank 0 when save_16bit_model() is called",
        "time and the memory of the whole model at each save; without it that call fails",
        "3",
    ),
    "stage3_gather_fp16_weights_on_model_save": (
        "the old name of stage3_gather_16bit_weights_on_model_save",
        "the same",
        "3",
    ),
    "stage3_module_granularity_threshold": (
        "modules with fewer parameters for each layer are fetched as a whole",
        "less work on the host for models of many small layers; 0 is off",
        "3",
    ),
    "stage3_use_all_reduce_for_fetch_params": (
        "fetches parameters with all-reduce",
        "less copying on the host, more traffic",
        "3",
    ),
    "stage3_allgather_sequential": (
        "fetches parameters one by one, without buckets",
        "lowest peak memory, slower",
        "3",
    ),
    "zero_hpz_partition_size": (
        "ranks that hold a second copy of the parameters among them (ZeRO++)",
        "the backward pass fetches within one host; costs 2 bytes a parameter over those ranks",
        "3",
    ),
    "zero_quantized_weights": (
        "sends parameters in 8 bits (ZeRO++)",
        "half the traffic of fetching; a little accuracy",
        "3",
    ),
    "zero_quantized_nontrainable_weights": (
        "keeps frozen parameters in 8 bits, as for LoRA",
        "half the memory and traffic of the frozen part",
        "3",
    ),
    "zero_quantized_gradients": (
        "sends gradients in 4 bits (ZeRO++)",
        "a quarter of the traffic; a little accuracy",
        "3",
    ),
    "memory_efficient_linear": (
        "keeps less of each linear layer for the backward pass",
        "saves memory; false where a library wraps linear layers itself",
        "3",
    ),
    "pipeline_loading_checkpoint": (
        "loads parameter shares rank after rank",
        "less memory on the host while loading, slower",
        "3",
    ),
    "override_module_apply": (
        "lets module.apply() see whole parameters",
        "false for models that bring their own apply",
        "3",
    ),
    "log_trace_cache_warnings": (
        "warns when the order of layers changed, so that fetching ahead starts anew",
        "nothing",
        "3",
    ),
    "enable_sanity_checks": ("checks itself for mistakes", "slow; for debugging", "1 2 3"),
    "save_muon_momentum_buffer_in_memory": (
        "keeps Muon's momentum in memory while other states go to NVMe",
        "4 bytes a parameter over the ranks; faster steps",
        "3",
    ),
    "cpu_offload": ("the old name of offload_optimizer with device cpu", "the same", "1 2 3"),
    "cpu_offload_param": ("the old name of offload_param with device cpu", "the same", "3"),
    "cpu_offload_use_pin_memory": ("the old name of pin_memory", "has no effect any more", "none"),
    "offload_param": (
        "parameters live in host memory or on NVMe and come to the GPU when needed",
        "the GPU holds a few layers; every step moves the whole model over the bus",
        "3",
    ),
    "offload_param.device": (
        "where parameters live: none, cpu or nvme",
        "cpu: 2 bytes a parameter of host memory over the ranks; nvme: that on disk, and slower",
        "3",
    ),
    "offload_param.nvme_path": ("a directory on a local disk, on every host", "", "3"),
    "offload_param.buffer_count": (
        "buffers between disk and GPU",
        "each takes buffer_size x 2 bytes of host memory",
        "3",
    ),
    "offload_param.buffer_size": (
        "elements of one buffer; the largest parameter has to fit",
        "2 bytes an element, times buffer_count",
        "3",
    ),
    "offload_param.max_in_cpu": (
        "elements that stay in host memory when the rest is on NVMe",
        "2 bytes an element; larger is faster",
        "3",
    ),
    "offload_param.pin_memory": (
        "keeps the host's copies in page-locked memory",
        "copies overlap with computing; counts against `ulimit -l`",
        "3",
    ),
    "offload_optimizer": (
        "optimizer states and the step itself move to the CPU, or to NVMe",
        "saves 12 bytes a parameter over the ranks on the GPU; slower steps",
        "1 2 3",
    ),
    "offload_optimizer.device": (
        "where optimizer states live: none, cpu or nvme (stage 3 only)",
        "16 bytes a parameter of host memory or disk over the ranks of a host",
        "1 2 3",
    ),
    "offload_optimizer.nvme_path": ("a directory on a local disk, on every host", "", "3"),
    "offload_optimizer.buffer_count": (
        "buffers for states on their way; Adam has 4 tensors a parameter",
        "host memory of sub_group_size x 4 bytes each",
        "3",
    ),
    "offload_optimizer.pin_memory": (
        "keeps the host's copies in page-locked memory",
        "copies overlap with computing; counts against `ulimit -l`",
        "1 2 3",
    ),
    "offload_optimizer.pipeline_read": (
        "reads the next part from NVMe while this one is computed",
        "faster, twice the buffers",
        "3",
    ),
    "offload_optimizer.pipeline_write": (
        "writes the last part to NVMe while the next one is computed",
        "faster, twice the buffers",
        "3",
    ),
    "offload_optimizer.fast_init": ("initializes states on NVMe faster", "start-up only", "3"),
    "offload_optimizer.ratio": (
        "share of the parameters whose step is taken on the CPU",
        "below 1 the rest stays on the GPU: faster, more GPU memory",
        "3",
    ),
    "offload_optimizer.super_offload": (
        "overlaps the CPU's step with the backward pass",
        "faster on hosts with a fast link between CPU and GPU",
        "3",
    ),
    "offload_optimizer.cpuadam_cores_perc": (
        "share of the CPU cores that the step of super_offload takes",
        "",
        "3",
    ),
    "zenflow": (
        "updates the important gradients at once and the others later, on the CPU",
        "hides most of the cost of offload_optimizer; changes training a little",
        "1 2 3",
    ),
    "zenflow.topk_ratio": ("share of gradients that count as important", "", "1 2 3"),
    "zenflow.select_strategy": ("when they are chosen anew: auto, step or epoch", "", "1 2 3"),
    "zenflow.select_interval": ("steps or epochs between two choices", "", "1 2 3"),
    "zenflow.update_interval": ("steps between updates of the other gradients", "", "1 2 3"),
    "zenflow.overlap_step": ("takes the CPU's step beside the next passes", "faster", "1 2 3"),
    "zenflow.offload": ("keeps the states of the important part on the CPU too", "", "1 2 3"),
    "zenflow.auto_ratio": ("threshold of update_interval auto", "", "1 2 3"),
    "zenflow.full_warm_up_rounds": ("rounds at the start with full updates", "", "1 2 3"),
    "zenflow.pt_reserved_cores_perc": ("share of cores that stay with PyTorch", "", "1 2 3"),
    "zenflow.steps_per_epoch": ("set by DeepSpeed itself", "", "1 2 3"),
    "leaf_module": (
        "modules that are fetched as a whole, as mixtures of experts have to be",
        "the whole module is on the GPU at once",
        "3",
    ),
    "leaf_module.classes": ("their classes", "", "3"),
    "leaf_module.names": ("their names", "", "3"),
    "leaf_module.name_suffixes": ("ends of their names", "", "3"),
}
