"""The lines of Megatron-LM, Megatron-DeepSpeed and GPT-NeoX.

iteration      100/    1000 | consumed samples: 6400 | elapsed time per iteration (ms): 212.3 |
  learning rate: 1.500E-04 | lm loss: 2.312345E+00 | loss scale: 65536.0 | grad norm: 1.234 |
  number of skipped iterations:   0 | number of nan iterations:   0 |
"""

from __future__ import annotations

from zlaunch.insight.metrics_told import COUNT, REAL, Told, Value, compiled

_AT = rf"iteration\s{{1,16}}({COUNT})/\s{{0,16}}({COUNT})\s\|"
_ITEM = rf"([A-Za-z][A-Za-z _()/-]{{1,60}}):\s{{0,16}}({REAL})(?=\s|$)"
_FIELDS = {
    "learning rate": "lr",
    "lm loss": "loss",
    "lm_loss": "loss",
    "loss": "loss",
    "loss scale": "loss_scale",
    "grad norm": "grad_norm",
    "samples/sec": "samples_per_second",
    "samples per second": "samples_per_second",
    "tokens per second": "tokens_per_second",
}
_SKIPPED = "number of skipped iterations"
_TOOK = "elapsed time per iteration (ms)"


def read_iteration(text: str) -> tuple[Told, int] | None:
    """Read a line; return what it tells, and how many steps were skipped since the line before."""
    at = compiled(_AT).search(text)
    if at is None:
        return None
    items = dict(compiled(_ITEM).findall(text))
    fields: dict[str, Value] = {"step": int(at[1]), "total": int(at[2])}
    for name, field in _FIELDS.items():
        if name in items:
            fields[field] = float(items[name])
    if _TOOK in items:
        fields["step_seconds"] = float(items[_TOOK]) / 1000
    skipped = items.get(_SKIPPED, "0")
    return Told("print", fields), int(skipped) if skipped.isdigit() else 0
