"""What the workers' interpreter is asked to run: DeepSpeed's models, exported as plain data.

A text, since it runs where zlaunch need not be installed: with pydantic 1 (DeepSpeed before 0.15)
and 2. Its answer is the line that begins with SCHEMA; `PYTHON` before that says that it ran.
"""

from __future__ import annotations

PROGRAM = r"""
import enum, inspect, json, os, pathlib, sys, typing
sys.path[:] = [p for p in sys.path if p != ""]
print("\nPYTHON")
try:
    import deepspeed
    import torch
    from deepspeed.runtime import config as ds
    from deepspeed.runtime import lr_schedules
except ImportError as error:
    print("\nSCHEMA " + json.dumps({"missing": str(error)}))
    sys.exit()
def plain(value):
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    return None if value is None else str(value)
def is_model(kind):
    return inspect.isclass(kind) and (hasattr(kind, "model_fields") or hasattr(kind, "__fields__"))
def describe(kind, out):
    origin = typing.get_origin(kind)
    if kind is type(None):
        out["null"] = True
    elif origin is typing.Union or type(kind).__name__ == "UnionType":
        for one in typing.get_args(kind):
            describe(one, out)
    elif origin is typing.Literal:
        out["choices"] = plain(typing.get_args(kind))
        out["kinds"].append("str")
    elif is_model(kind):
        out["kinds"].append("section")
        out["fields"] = fields(kind)
    elif inspect.isclass(kind) and issubclass(kind, enum.Enum):
        values = []
        for one in kind:
            if plain(one) not in values:
                values.append(plain(one))
        out["choices"] = values
        out["kinds"].append("int" if isinstance(values[0], int) else "str")
    elif kind in (bool, int, float, str):
        out["kinds"].append(kind.__name__)
    elif inspect.isclass(kind) and issubclass(kind, pathlib.PurePath):
        out["kinds"].append("str")
    elif (origin or kind) in (list, tuple):
        out["kinds"].append("list")
    elif (origin or kind) is dict:
        out["kinds"].append("dict")
    else:
        out["kinds"].append("any")
LIMITS = ("gt", "ge", "lt", "le")
def fields(model):
    found = {}
    two = getattr(model, "model_fields", None)
    for name, one in (two or model.__fields__).items():
        info = one if two else one.field_info
        out = {"kinds": []}
        describe(one.annotation if two else one.outer_type_, out)
        if not two and one.allow_none:
            out["null"] = True
        extra = (info.json_schema_extra if two else info.extra) or {}
        limits = {k: float(v) for k in LIMITS for o in ([info, *info.metadata] if two else [info])
                  for v in [getattr(o, k, None)] if v is not None}
        if limits:
            out["limits"] = limits
        if extra.get("deprecated"):
            out["deprecated"] = True
            out["new"] = extra.get("new_param", "")
        default = one.default
        if type(default).__name__ not in ("PydanticUndefinedType", "UndefinedType"):
            out["default"] = {} if is_model(type(default)) else plain(default)
            if default is None:
                out["null"] = out.get("null", False) or not two
        key = one.alias or name
        if key != name:
            out["also"] = name
        found[key] = out
    return found
SECTIONS = {
    "zero_optimization": "deepspeed.runtime.zero.config:DeepSpeedZeroConfig",
    "fp16": "deepspeed.runtime.precision_config:DeepSpeedFP16Config",
    "bf16": "deepspeed.runtime.precision_config:DeepSpeedBF16Config",
    "bfloat16": "deepspeed.runtime.precision_config:DeepSpeedBF16Config",
    "compile": "deepspeed.compile.config:CompileConfig",
    "tensor_parallel": "deepspeed.runtime.tensor_parallel.config:TPTrainingConfig",
    "comms_logger": "deepspeed.comm.config:CommsLoggerConfig",
    "tensorboard": "deepspeed.monitor.config:TensorBoardConfig",
    "wandb": "deepspeed.monitor.config:WandbConfig",
    "csv_monitor": "deepspeed.monitor.config:CSVConfig",
    "comet": "deepspeed.monitor.config:CometConfig",
    "hybrid_engine": "deepspeed.runtime.config:HybridEngineConfig",
    "timers.throughput": "deepspeed.utils.config:DeepSpeedThroughputTimerConfig",
}
sections = {}
for name, place in SECTIONS.items():
    module, _, cls = place.partition(":")
    try:
        model = getattr(__import__(module, fromlist=[cls]), cls)
        sections[name] = {"kinds": ["section"], "fields": fields(model)}
    except (ImportError, AttributeError):
        pass
def classes(module, base):
    return sorted(n for n, o in vars(module).items() if inspect.isclass(o) and issubclass(o, base)
                  and o is not base)
optimizers = sorted({*ds.DEEPSPEED_OPTIMIZERS, *classes(torch.optim, torch.optim.Optimizer)})
schedulers = sorted({*lr_schedules.VALID_LR_SCHEDULES,
    *classes(torch.optim.lr_scheduler, torch.optim.lr_scheduler.LRScheduler)})
def parameters(cls):
    found = inspect.signature(cls.__init__).parameters.values()
    named = [one.name for one in found if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    return None if any(one.kind is one.VAR_KEYWORD for one in found) else named[2:]
torch_params = {name: parameters(getattr(torch.optim, name)) for name in optimizers
    if not name.islower()}
torch_schedulers = {}
for name in set(schedulers) - {*lr_schedules.VALID_LR_SCHEDULES}:
    cls = getattr(torch.optim.lr_scheduler, name)
    known = parameters(cls)
    if known is not None:
        found = inspect.signature(cls.__init__).parameters
        torch_schedulers[name] = [known, [k for k in known if found[k].default is found[k].empty]]
print("\nSCHEMA " + json.dumps({"version": deepspeed.__version__.strip(), "sections": sections,
    "parameters": torch_params, "scheduler_parameters": torch_schedulers,
    "optimizers": optimizers, "schedulers": schedulers,
    "origin": os.path.dirname(deepspeed.__file__)}))
"""
