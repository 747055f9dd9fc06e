"""What the Hugging Face Trainer prints: a dict each `logging_steps`, of numbers or of texts.

{'loss': 2.3, 'grad_norm': 1.9, 'learning_rate': 4e-05, 'epoch': 0.5}           up to 4
{'loss': '2.3', 'grad_norm': '1.9', 'learning_rate': '4e-05', 'epoch': '0.5'}   5
{'eval_loss': 1.6, 'eval_runtime': 0.1, 'epoch': 0.5}
{'train_runtime': 5.2, 'train_samples_per_second': 15.4, 'train_loss': 2.1, 'epoch': 2.0}
"""

from __future__ import annotations

from zlaunch.insight.metrics_plain import dict_items
from zlaunch.insight.metrics_told import COUNT, Told, Value, compiled

_FIELDS = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "lr",
    "epoch": "epoch",
    "eval_loss": "eval_loss",
    "train_samples_per_second": "samples_per_second",
    "train_tokens_per_second": "tokens_per_second",
}
_OWN = frozenset(("loss", "eval_loss", "train_runtime"))
_TOTAL = rf"Total optimization steps = ((?:{COUNT})(?:,[0-9]{{3}}){{0,4}})"


def read_dict(text: str) -> Told | None:
    """Read a dict of the Trainer's: it has the epoch, which a script's own has seldom.

    The mean loss that is told at the end, `train_loss`, is that of no step and is left out.
    """
    if "'epoch':" not in text:
        return None
    items = dict_items(text)
    if items is None or "epoch" not in items or "step" in items or not _OWN & items.keys():
        return None
    fields: dict[str, Value] = {
        field: items[name] for name, field in _FIELDS.items() if name in items
    }
    return Told("trainer", fields)


def read_total(text: str) -> int | None:
    """The number of steps, as the Trainer and Accelerate's examples announce it."""
    found = compiled(_TOTAL).search(text)
    return int(found[1].replace(",", "")) if found else None
