"""What the keys of batches, precision, optimizer and scheduler do: text, cost, stages."""

from __future__ import annotations

from zlaunch.dsconfig.explain_zero import Said

_ALL = ""

TRAINING: dict[str, Said] = {
    "train_batch_size": (
        "samples of an optimizer step over all ranks: micro batch x accumulation x ranks",
        "no memory by itself",
        _ALL,
    ),
    "train_micro_batch_size_per_gpu": (
        "samples of one forward pass on one rank",
        "activations grow with it; larger keeps the GPU busier",
        _ALL,
    ),
    "gradient_accumulation_steps": (
        "passes before an optimizer step",
        "a larger global batch without more activations; a step takes so many times longer",
        _ALL,
    ),
    "managed_gradient_accumulation": (
        "DeepSpeed counts the passes; false leaves that to the script",
        "",
        "0 1 2",
    ),
    "gradient_clipping": (
        "scales gradients down to this norm; 0 is off",
        "one more reduction a step",
        _ALL,
    ),
    "prescale_gradients": (
        "divides gradients before they are added up, not afterwards",
        "against overflow on very many ranks",
        "0 1",
    ),
    "gradient_predivide_factor": ("how much of that is divided before", "", "0 1"),
    "gradient_allreduce_op": ("mean or sum of the ranks' gradients", "", "0 1 2"),
    "communication_data_type": (
        "type in which gradients are sent: fp16, bf16 or fp32; else that of the model",
        "fp32 doubles the traffic, and is exact",
        _ALL,
    ),
    "seq_parallel_communication_data_type": ("the same, for sequence parallelism", "", _ALL),
    "sequence_parallel_size": (
        "ranks that share one sequence (Ulysses)",
        "long sequences fit; the ranks with different samples become fewer",
        _ALL,
    ),
    "data_parallel_size": ("ranks that see different samples", "", _ALL),
    "use_data_before_expert_parallelism": ("order of the rank grid", "", _ALL),
    "disable_allgather": ("an old switch without effect on ZeRO", "", "0"),
    "dataloader_drop_last": ("leaves out a last batch that is not full", "", _ALL),
    "vocabulary_size": (
        "only used to warn where it is no multiple of 8",
        "a multiple of 8 is faster on tensor cores",
        _ALL,
    ),
    "zero_allow_untested_optimizer": (
        "lets ZeRO take an optimizer that DeepSpeed does not know",
        "",
        "1 2 3",
    ),
    "zero_force_ds_cpu_optimizer": (
        "refuses the script's own optimizer together with offload_optimizer",
        "false allows it; its step on the CPU is slow",
        "1 2 3",
    ),
    "fp16": ("training in fp16, with a loss scale", "half the memory of fp32 for the model", _ALL),
    "fp16.enabled": ("switches it on", "2 instead of 4 bytes a parameter and activation", _ALL),
    "fp16.auto_cast": ("casts the model's inputs to fp16", "", _ALL),
    "fp16.loss_scale": (
        "0 searches the scale while training; a number fixes it",
        "steps whose gradients overflow are skipped",
        _ALL,
    ),
    "fp16.initial_scale_power": (
        "the search begins at 2 to this power",
        "too high: the first steps are skipped, one for each halving",
        _ALL,
    ),
    "fp16.loss_scale_window": ("good steps before the scale is doubled", "", _ALL),
    "fp16.hysteresis": ("overflows that are forgiven before the scale is halved", "", _ALL),
    "fp16.consecutive_hysteresis": ("forgives anew after each good step", "", _ALL),
    "fp16.min_loss_scale": (
        "the scale does not fall below; there training stops, or learns nothing",
        "",
        _ALL,
    ),
    "fp16.fp16_master_weights_and_grads": (
        "keeps master weights and gradients in fp16",
        "saves 8 bytes a parameter over the ranks; less exact; needs offload_optimizer",
        "1 2 3",
    ),
    "bf16": (
        "training in bf16: the range of fp32, so no loss scale",
        "half the memory of fp32 for the model; needs an Ampere GPU or newer",
        _ALL,
    ),
    "bf16.enabled": ("switches it on", "2 instead of 4 bytes a parameter and activation", _ALL),
    "bf16.immediate_grad_update": (
        "adds gradients to the fp32 ones as they come",
        "less memory for gradients",
        "1",
    ),
    "bf16.check_grad_overflow": (
        "skips steps whose gradients are infinite or no numbers",
        "a look at all gradients a step",
        "1 2 3",
    ),
    "bf16.bf16_master_weights_and_grads": (
        "keeps master weights and gradients in bf16",
        "saves 4 to 8 bytes a parameter over the ranks; less exact",
        "1 2 3",
    ),
    "bf16.bf16_optimizer_states": (
        "keeps the optimizer's moments in bf16",
        "saves 4 bytes a parameter over the ranks; less exact",
        "1 2 3",
    ),
    "torch_autocast": ("torch.autocast, managed by DeepSpeed", "the model stays in fp32", _ALL),
    "torch_autocast.enabled": ("switches it on", "", _ALL),
    "torch_autocast.dtype": ("bfloat16 or float16", "", _ALL),
    "torch_autocast.lower_precision_safe_modules": ("modules kept in half", "", _ALL),
    "data_types": ("types of single tensors", "", _ALL),
    "data_types.grad_accum_dtype": (
        "type in which gradients are added up over passes",
        "fp32: 4 bytes a parameter over the ranks instead of 2; more exact",
        _ALL,
    ),
    "data_types.param_dtype": ("type of the parameters; has to be that of fp16 or bf16", "", _ALL),
    "data_types.buffer_dtype": ("type of the buffers", "", _ALL),
    "data_types.keep_in_fp32_modules": ("buffers that stay in fp32", "", _ALL),
    "optimizer": (
        "the optimizer that DeepSpeed makes; without it the script makes one",
        "Adam: 12 bytes a parameter with fp32 weights, split by ZeRO",
        _ALL,
    ),
    "optimizer.type": ("Adam, AdamW, Lion, Adagrad, Lamb, Muon, or a class of torch.optim", "", ""),
    "optimizer.legacy_fusion": ("the old fp16 optimizer", "", "0"),
    "optimizer.params": ("what the optimizer is made with", "", _ALL),
    "optimizer.params.lr": ("learning rate; a scheduler changes it", "", _ALL),
    "optimizer.params.betas": ("decay of the two moments of Adam", "", _ALL),
    "optimizer.params.eps": ("added to the denominator", "", _ALL),
    "optimizer.params.weight_decay": ("how much weights shrink a step", "", _ALL),
    "optimizer.params.bias_correction": ("Adam's correction of the first steps", "", _ALL),
    "optimizer.params.torch_adam": ("torch's Adam, not DeepSpeed's fused one", "slower", _ALL),
    "optimizer.params.adam_w_mode": ("decay apart from the gradient, as AdamW", "", _ALL),
    "optimizer.params.fp32_optimizer_states": (
        "moments in fp32 with offload_optimizer",
        "false saves 4 bytes a parameter of host memory",
        "1 2 3",
    ),
    "scheduler": ("the schedule of the learning rate, stepped by DeepSpeed", "", _ALL),
    "scheduler.type": (
        "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle, LRRangeTest, or one of torch",
        "",
        _ALL,
    ),
    "scheduler.params": ("what the scheduler is made with", "", _ALL),
    "scheduler.params.warmup_min_lr": ("learning rate of the first step", "", _ALL),
    "scheduler.params.warmup_max_lr": ("learning rate after the warm-up", "", _ALL),
    "scheduler.params.warmup_num_steps": ("steps of the warm-up; 1 for none", "", _ALL),
    "scheduler.params.warmup_type": ("log or linear", "", _ALL),
    "scheduler.params.warmup_min_ratio": ("WarmupCosineLR: share of lr at first", "", _ALL),
    "scheduler.params.cos_min_ratio": ("WarmupCosineLR: share of lr at the end", "", _ALL),
    "scheduler.params.total_num_steps": ("steps after which the rate has gone down", "", _ALL),
    "scheduler.params.last_batch_iteration": ("where to go on from; -1 is the start", "", _ALL),
    "activation_checkpointing": (
        "how deepspeed.checkpointing keeps activations, where the model calls it",
        "the forward pass runs again: about a third slower, activations of few layers only",
        _ALL,
    ),
    "activation_checkpointing.partition_activations": (
        "splits kept activations over model-parallel ranks",
        "less memory, one more gather a layer",
        _ALL,
    ),
    "activation_checkpointing.cpu_checkpointing": (
        "moves split activations to host memory",
        "less GPU memory, copies in every layer",
        _ALL,
    ),
    "activation_checkpointing.contiguous_memory_optimization": (
        "copies them into one buffer",
        "against fragmentation; needs number_checkpoints",
        _ALL,
    ),
    "activation_checkpointing.number_checkpoints": ("layers kept, for that buffer", "", _ALL),
    "activation_checkpointing.synchronize_checkpoint_boundary": (
        "waits for the GPU at each layer",
        "slow; for debugging",
        _ALL,
    ),
    "activation_checkpointing.profile": ("times each layer", "slow", _ALL),
}
