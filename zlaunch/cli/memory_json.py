"""A memory plan as data. All sizes are in bytes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from zlaunch.cli.memory_words import NOT_INCLUDED, command, notes
from zlaunch.memory.advice import Advice, Verdict
from zlaunch.memory.terms import Term, total

if TYPE_CHECKING:
    from zlaunch.cli.plan import Question


def plan_json(asked: Question, advice: Advice) -> str:
    """One object: the model, what it is planned for, each recipe, the one to take."""
    best = advice.best
    return json.dumps(
        {
            "model": _model(asked),
            "gpus": asked.cluster.gpus,
            "nodes": asked.cluster.nodes,
            "precision": asked.precision,
            "work": asdict(asked.work),
            "limits": {f"{name}_bytes": size for name, size in asdict(asked.limits).items()},
            "recipes": [_recipe(verdict) for verdict in advice.verdicts],
            "recommended": advice.recommended,
            "command": None if best is None else " ".join(command(asked, best)),
            "notes": notes(asked, advice),
            "not_included": list(NOT_INCLUDED),
        },
        indent=2,
    )


def _model(asked: Question) -> dict[str, Any]:
    shape = asked.shape
    fields = ("name", "source", "kind", "parameters", "exact", "layers", "hidden", "heads")
    more = ("kv_heads", "head_dim", "intermediate", "vocab", "tied", "largest_tensor")
    found = {name: getattr(shape, name) for name in (*fields, *more)}
    return {**found, "experts": None if shape.experts is None else asdict(shape.experts)}


def _recipe(verdict: Verdict) -> dict[str, Any]:
    found = verdict.estimate
    return {
        "recipe": verdict.recipe,
        "fits": verdict.fits,
        "gpu": {
            "needed_bytes": found.gpu,
            "margin_bytes": verdict.margin,
            "peak_phase": found.peak.name,
            "peak_allocated_bytes": found.peak.size,
            "terms": _terms(found.gpu_terms),
            "phases": [
                {"phase": phase.name, "bytes": phase.size, "terms": _terms(phase.terms)}
                for phase in found.phases
            ],
        },
        "host": {"needed_bytes": total(found.host), "terms": _terms(found.host)},
        "nvme": {"needed_bytes": total(found.nvme), "terms": _terms(found.nvme)},
        "largest_micro_batch": verdict.largest_micro_batch,
        "reasons": list(verdict.reasons),
        "ways_out": list(verdict.ways_out),
    }


def _terms(terms: Iterable[Term]) -> list[dict[str, Any]]:
    return [{"group": t.group, "name": t.name, "bytes": t.size} for t in terms]
