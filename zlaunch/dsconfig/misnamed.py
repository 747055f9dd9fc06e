"""What people and other programs call the keys, optimizers and schedulers of a ds_config."""

from __future__ import annotations

_OFFLOADS = "zero_optimization.offload_optimizer or zero_optimization.offload_param"

MEANT: dict[str, str] = {
    "zero": "zero_optimization",
    "zero.stage": "zero_optimization.stage",
    "zero_stage": "zero_optimization.stage",
    "learning_rate": "optimizer.params.lr",
    "batch_size": "train_batch_size",
    "micro_batch_size": "train_micro_batch_size_per_gpu",
    "per_device_train_batch_size": "train_micro_batch_size_per_gpu",
    "accumulate_grad_batches": "gradient_accumulation_steps",
    "grad_accum_steps": "gradient_accumulation_steps",
    "grad_clip": "gradient_clipping",
    "clip_grad": "gradient_clipping",
    "clip_grad_norm": "gradient_clipping",
    "mixed_precision": "fp16.enabled or bf16.enabled",
    "precision": "fp16.enabled or bf16.enabled",
    "float16": "fp16.enabled",
    "half": "fp16.enabled",
    "lr_scheduler": "scheduler",
    "wandb.entity": "wandb.team",
    "wandb.name": "wandb.group",
    "offload": _OFFLOADS,
    "zero_optimization.offload": _OFFLOADS,
    "zero_optimization.offload_params": "zero_optimization.offload_param",
    "offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "offload_param_device": "zero_optimization.offload_param.device",
    "offload_optimizer_nvme_path": "zero_optimization.offload_optimizer.nvme_path",
    "offload_param_nvme_path": "zero_optimization.offload_param.nvme_path",
    "zero_optimization.offload_optimizer_device": "zero_optimization.offload_optimizer.device",
    "zero_optimization.offload_param_device": "zero_optimization.offload_param.device",
    "zero3_save_16bit_model": "zero_optimization.stage3_gather_16bit_weights_on_model_save",
    "optimizer.name": "optimizer.type",
    "scheduler.name": "scheduler.type",
}
# Parameters of optimizers, as torch's others, Keras and the Trainer call them.
PARAMS: dict[str, str] = {
    "learning_rate": "lr",
    "max_lr": "lr",
    "base_lr": "lr",
    "epsilon": "eps",
    "adam_epsilon": "eps",
    "wd": "weight_decay",
    "decay": "weight_decay",
    "l2": "weight_decay",
    **dict.fromkeys(("beta", "beta1", "beta2", "beta_1", "beta_2"), "betas"),
    **dict.fromkeys(("adam_beta1", "adam_beta2"), "betas"),
}
# In small letters. DeepSpeed itself chooses between the fused form and that for the CPU.
_ADAMW = "fusedadam fusedadamw cpuadam deepspeedcpuadam adamw_torch adamw_torch_fused adamw_hf"
TYPES: dict[str, dict[str, str]] = {
    "optimizer": {**dict.fromkeys(_ADAMW.split(), "AdamW"), "fusedlamb": "Lamb"},
    "scheduler": {
        "cosine": "WarmupCosineLR",
        "linear": "WarmupDecayLR",
        "constant": "WarmupLR",
        "constant_with_warmup": "WarmupLR",
        "cosine_with_warmup": "WarmupCosineLR",
    },
}
# Values as torch and others spell them.
VALUES: dict[str, str] = {
    **dict.fromkeys(("float16", "half", "torch.float16"), "fp16"),
    **dict.fromkeys(("bfloat16", "torch.bfloat16"), "bf16"),
    **dict.fromkeys(("float32", "float", "torch.float32"), "fp32"),
    **dict.fromkeys(("ssd", "disk", "NVME", "NVMe"), "nvme"),
    **dict.fromkeys(("gpu", "cuda"), "none"),
    **dict.fromkeys(("warn", "WARN"), "warning"),
}
# The 1-bit optimizers, which DeepSpeed once had.
ONE_BIT = frozenset({"onebitadam", "onebitlamb", "zerooneadam", "1bitadam", "1-bit-adam"})
