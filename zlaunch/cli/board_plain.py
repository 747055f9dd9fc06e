"""A snapshot of a run (`insight/board.py`) as plain lines: for files, pipes and `--once`. Pure."""

from __future__ import annotations

from zlaunch.cli.board_text import standing
from zlaunch.cli.board_values import Rank, Snapshot, age, cores, gib, mark, number, scale, state
from zlaunch.cli.visible import visible
from zlaunch.launcher.report import duration


def plain_lines(snapshot: Snapshot) -> list[str]:
    """How the run stands, then a line a rank."""
    name = f" ({visible(snapshot['name'])})" if snapshot.get("name") else ""
    parts = [f"run {snapshot.get('run', '')}{name} {standing(snapshot)[0]}", progress(snapshot)]
    return ["; ".join(filter(None, parts)), *map(_rank, snapshot["ranks"])]


def progress(snapshot: Snapshot) -> str:
    """`step 120 of 1000 (12%), 3:20 min left, loss 2.31`; empty where nothing is known."""
    told, parts = snapshot.get("progress"), []
    if told:
        share = f" ({told['step'] / told['total']:.0%})" if told["total"] else ""
        parts.append(f"step {told['step']} of {told['total']}{share}")
        if "left" in told:
            parts.append(f"{duration(told['left'])} left")
    first = next((rank for rank in snapshot["ranks"] if "loss" in rank), None)
    if first is not None and not told and "step" in first:
        parts.append(f"step {first['step']}")
    if first is not None:
        parts.append(f"loss {number(first['loss'])}")
    return ", ".join(parts)


def _rank(rank: Rank) -> str:
    where = ", ".join(str(rank[name]) for name in ("host", "device") if name in rank)
    memory = gib(rank.get("gpu_memory"))
    if memory and "gpu_memory_total" in rank:
        memory += f" of {gib(rank['gpu_memory_total'])}"
    told = (
        ("step {}", number(rank.get("step"), 12)),
        ("loss {}", number(rank.get("loss"))),
        ("lr {}", number(rank.get("lr"), 3)),
        ("grad norm {}", number(rank.get("grad_norm"), 3)),
        ("loss scale {}", scale(rank.get("loss_scale"))),
        ("{} skipped", number(rank.get("skipped"), 12)),
        ("{} samples/s", number(rank.get("samples_per_second"))),
        ("{} tokens/s", number(rank.get("tokens_per_second"), 6)),
        ("GPU {} GiB", memory),
        ("GPU {} % busy", number(rank.get("gpu_utilization"), 3)),
        ("CPU {} cores", cores(rank.get("cpu"))),
        ("RSS {} GiB", gib(rank.get("rss"))),
        ("last line {} ago", age(rank.get("silent"))),
        ("{}", mark(rank)),
    )
    facts = ", ".join(form.format(text) for form, text in told if text)
    head = f"rank {rank['rank']}" + (f" ({visible(where)})" if where else "")
    return f"{head} {state(rank)}" + (f": {facts}" if facts else "")
