"""The optimizers and schedulers that a ds_config can name, and what they take.

From DeepSpeed 0.19.8 and torch 2.13. The names are used where DeepSpeed has not been asked for
its own (`schema.Schema.optimizers`).
"""

from __future__ import annotations

from zlaunch.dsconfig.keys import words

# DeepSpeed's own names, taken in any case; other names are classes of torch.optim.
OWN_OPTIMIZERS = words(
    """
    adagrad adam adamw lamb lion muadam muadamw musgd muon
    """
)
TORCH_OPTIMIZERS = words(
    """
    ASGD Adadelta Adafactor Adagrad Adam AdamW Adamax LBFGS Muon NAdam RAdam RMSprop Rprop SGD
    SparseAdam
    """
)
SCHEDULERS = words(
    """
    LRRangeTest OneCycle WarmupLR WarmupDecayLR WarmupCosineLR ChainedScheduler ConstantLR
    CosineAnnealingLR CosineAnnealingWarmRestarts CyclicLR ExponentialLR LambdaLR LinearLR
    MultiStepLR MultiplicativeLR OneCycleLR PolynomialLR ReduceLROnPlateau SequentialLR StepLR
    """
)
# Schedulers of torch that are made with more than numbers and words.
OF_PYTHON = {
    "LambdaLR": "functions",
    "MultiplicativeLR": "functions",
    "ChainedScheduler": "other schedulers",
    "SequentialLR": "other schedulers",
}
# ZeRO takes these; any other only with zero_allow_untested_optimizer.
TESTED_WITH_ZERO = frozenset({"adagrad", "adam", "adamw", "lion", "muon"})
_ADAM = words(
    """
    lr betas eps weight_decay amsgrad adam_w_mode torch_adam fp32_optimizer_states
    """
)
# DeepSpeed's own Adam, fused or for the CPU, and torch's, which `torch_adam` chooses.
OWN_ADAM = _ADAM | {"bias_correction", "set_grad_none"}
TORCH_ADAM = _ADAM | {"foreach", "fused", "capturable", "differentiable", "maximize"}
OPTIMIZER_PARAMS: dict[str, frozenset[str]] = {
    "adam": OWN_ADAM,
    "adamw": OWN_ADAM,
    "lion": frozenset(["lr", "betas", "weight_decay", "set_grad_none", "fp32_optimizer_states"]),
}
# Parameters of DeepSpeed's schedulers, with those that have no default.
_WARMUP = "warmup_min_lr warmup_max_lr warmup_num_steps warmup_type last_batch_iteration"
_COSINE = """
    total_num_steps warmup_min_ratio warmup_num_steps cos_min_ratio warmup_type
    last_batch_iteration
"""
_ONE_CYCLE = """
    cycle_min_lr cycle_max_lr decay_lr_rate cycle_first_step_size cycle_second_step_size
    cycle_first_stair_count cycle_second_stair_count decay_step_size cycle_momentum
    cycle_min_mom cycle_max_mom decay_mom_rate last_batch_iteration
"""
_RANGE_TEST = """
    lr_range_test_min_lr lr_range_test_step_size lr_range_test_step_rate
    lr_range_test_staircase last_batch_iteration
"""
SCHEDULER_PARAMS = {
    "WarmupLR": (_WARMUP, ""),
    "WarmupDecayLR": (f"{_WARMUP} total_num_steps", "total_num_steps"),
    "WarmupCosineLR": (_COSINE, "total_num_steps"),
    "OneCycle": (_ONE_CYCLE, "cycle_min_lr cycle_max_lr"),
    "LRRangeTest": (_RANGE_TEST, ""),
}
