"""Stacks as faulthandler and py-spy write them, hangs, flight recorders, and the line they make."""

from __future__ import annotations

import re

import pytest

from zlaunch.insight.flight import describe_flight
from zlaunch.insight.hang import Seen, progressed
from zlaunch.insight.roll_call import Answer, call_roll
from zlaunch.insight.stacks import Thread, main_thread, moved, parse_stacks, place
from zlaunch.run.messages import Usage

TORCH = "/opt/venv/lib/python3.11/site-packages/torch"
REDUCE = f"""\
  File "{TORCH}/distributed/distributed_c10d.py", line 2806 in all_reduce
  File "{TORCH}/distributed/c10d_logger.py", line 81 in wrapper
"""


def stack(*frames: tuple[str, int, str], head: str = "Current thread 0x00007f01") -> str:
    lines = [f'  File "{file}", line {line} in {function}' for file, line, function in frames]
    return "\n".join([f"{head} (most recent call first):", *lines]) + "\n"


TRAIN = ("/home/u/train.py", 88, "step")
MAIN = ("/home/u/train.py", 120, "<module>")
BATCH = ("/home/u/data.py", 17, "load_batch")


def where(text: str, main: str = "") -> str:
    return str(place(parse_stacks(text, main)))


def reduce_at(line: int) -> str:
    head, *_ = stack().splitlines()
    return f'{head}\n{REDUCE}  File "/home/u/train.py", line {line} in step\n'


def test_threads_and_the_main_one() -> None:
    text = (
        stack(("/lib/python3.11/threading.py", 320, "wait"), head="Thread 0x00007fb2")
        + "\n"
        + stack(BATCH, MAIN, head="Thread 0x00007f01")
    )
    threads = parse_stacks(text, "7f01")
    assert [(t.ident, t.main, len(t.frames)) for t in threads] == [
        ("7fb2", False, 1),
        ("7f01", True, 2),
    ]
    assert where(text, "7f01") == "in load_batch at data.py:17"
    assert where(text) == "in load_batch at data.py:17"  # the last one, where none is marked


def test_the_main_thread_alone_behind_a_hundred_others() -> None:
    cut = "".join(stack(BATCH, head=f"Thread 0x{n:04x}") + "\n" for n in range(1, 101)) + "...\n"
    alone = "Stack (most recent call first):\n" + stack(TRAIN, MAIN).partition("\n")[2]
    assert where(cut + alone, "7f01") == "in step at train.py:88"


def test_newer_pythons_name_threads() -> None:
    text = stack(BATCH, head="Thread 0x00007fb2 [pin_memory]") + "\n" + stack(TRAIN, MAIN)
    assert len(parse_stacks(text)) == 2


PY_SPY = """\
Process 812: python train.py
Python v3.11.7 (/usr/bin/python3.11)

Thread 812 (idle): "MainThread"
    wait (threading.py:320)
    all_reduce (/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2806)
    step (/home/u/train (1).py:88)
    <module> (/home/u/train (1).py:120)
Thread 815 (active): "Thread-1"
    run (/home/u/data.py:3)
"""


def test_py_spy() -> None:
    main = main_thread(parse_stacks(PY_SPY))
    assert main is not None
    assert main.ident == "812"
    assert main.frames[2].file == "/home/u/train (1).py"
    assert where(PY_SPY.replace("wait (threading", "wait (/usr/lib/python3.11/threading")) == (
        "in all_reduce at train (1).py:88"
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (reduce_at(88), "in all_reduce at train.py:88"),
        (stack(MAIN), "at train.py:120"),
        (stack(BATCH, MAIN), "in load_batch at data.py:17"),
        # Through DeepSpeed and Accelerate the collective counts, not the way to it.
        (
            stack()
            + REDUCE
            + f'  File "{TORCH}/../deepspeed/comm/comm.py", line 9 in log_wrapper\n'
            + f'  File "{TORCH}/../deepspeed/runtime/engine.py", line 2000 in backward\n'
            + '  File "/home/u/train.py", line 90 in <module>\n',
            "in all_reduce at train.py:90",
        ),
        (
            stack(
                (f"{TORCH}/nn/modules/linear.py", 125, "forward"),
                (f"{TORCH}/nn/modules/module.py", 1751, "_call_impl"),
                (f"{TORCH}/nn/modules/module.py", 1740, "_wrapped_call_impl"),
                TRAIN,
            ),
            "in forward at train.py:88",
        ),
        (
            stack(
                ("/usr/lib/python3.11/selectors.py", 415, "select"),
                ("/usr/lib/python3.11/multiprocessing/connection.py", 947, "wait"),
                (f"{TORCH}/utils/data/dataloader.py", 1272, "_try_get_data"),
                (f"{TORCH}/utils/data/dataloader.py", 1480, "_next_data"),
                (f"{TORCH}/utils/data/dataloader.py", 733, "__next__"),
                TRAIN,
            ),
            "in __next__ at train.py:88",
        ),
        # All of it installed: not torch's frames, if there are others.
        (
            stack(
                (f"{TORCH}/distributed/distributed_c10d.py", 4800, "barrier"),
                ("/opt/venv/lib/python3.11/site-packages/trainer/loop.py", 40, "fit"),
                ("<frozen runpy>", 88, "_run_code"),
            ),
            "in barrier at loop.py:40",
        ),
        # A cut line, an unknown line number, a file name with quotes.
        (
            'Thread 0x7f (most recent call first):\n  File "a"b.py", line ??? in f\n  Fi',
            "in f at a",
        ),
        ("", "None"),
        ("nonsense\n\0\n", "None"),
        ("Thread 0x7f (most recent call first):\n  <no Python frame>\n", "None"),
    ],
)
def test_where(text: str, words: str) -> None:
    assert where(text).startswith(words)


def test_a_backward_pass_is_where_its_thread_is() -> None:
    """With GPUs autograd runs the hooks, and their collectives, in a thread of its own."""
    text = (
        stack(head="Thread 0x00000002")
        + REDUCE
        + "\n"
        + stack(
            (f"{TORCH}/autograd/graph.py", 829, "_engine_run_backward"),
            (f"{TORCH}/autograd/__init__.py", 359, "backward"),
            (f"{TORCH}/_tensor.py", 648, "backward"),
            TRAIN,
        )
    )
    assert where(text) == "in all_reduce at train.py:88"


# Progress


def dumps(*frames: tuple[str, int, str]) -> tuple[tuple[Thread, ...], ...]:
    return (parse_stacks(stack(*frames)),) if frames else ()


def test_a_loop_on_the_spot_does_not_move() -> None:
    here, there = parse_stacks(stack(BATCH, MAIN)), parse_stacks(stack(TRAIN, MAIN))
    on_the_spot = parse_stacks(stack((BATCH[0], 18, BATCH[2]), MAIN))
    further_out = parse_stacks(stack(BATCH, (MAIN[0], 121, MAIN[2])))
    assert not moved(here, on_the_spot)
    assert moved(here, there)
    assert moved(here, further_out)


@pytest.mark.parametrize(
    ("usage", "before", "after", "made"),
    [
        (Usage(cpu=0.1), (BATCH,), (TRAIN,), False),  # it looks up now and then
        (Usage(cpu=9.9), (BATCH,), (TRAIN,), True),
        (Usage(cpu=9.9), (BATCH,), (BATCH,), False),  # it spins
        (Usage(cpu=9.9, kernels=100, memory=0), (BATCH,), (BATCH,), False),  # as NCCL does
        (Usage(cpu=9.9, kernels=100, memory=30), (BATCH,), (BATCH,), True),
        (Usage(kernels=100, memory=30), (), (), True),
        (Usage(cpu=9.9), (), (), True),  # no Python: nobody can tell
        (Usage(cpu=9.9), (), (BATCH,), False),  # the next look will tell
        (Usage(cpu=80.0), (BATCH,), (BATCH,), True),
        (Usage(others=9.0), (BATCH,), (BATCH,), True),
        (Usage(others=0.5), (BATCH,), (BATCH,), False),
        (Usage(traffic=10 << 20), (BATCH,), (BATCH,), True),
        (Usage(traffic=10 << 10), (BATCH,), (BATCH,), False),
        (Usage(), (BATCH,), (BATCH,), False),
    ],
)
def test_progress_in_ten_seconds(
    usage: Usage,
    before: tuple[tuple[str, int, str], ...],
    after: tuple[tuple[str, int, str], ...],
    made: bool,
) -> None:
    first = Seen(100.0, dumps(*before), Usage())
    assert progressed(first, Seen(110.0, dumps(*after), usage)) is made


def test_one_of_many_looks_elsewhere_is_progress() -> None:
    first = Seen(1.0, dumps(BATCH), Usage())
    often = Seen(2.0, (*dumps(BATCH), *dumps(TRAIN), *dumps(BATCH)), Usage(cpu=1.0))
    assert progressed(first, often)


# The roll-call


def answers(count: int, odd: dict[int, Answer]) -> dict[int, Answer]:
    usual = Answer("gpu01", reduce_at(88))
    return {rank: odd.get(rank, usual) for rank in range(count)}


def test_the_odd_ones_out_come_first() -> None:
    roll = call_roll(answers(8, {3: Answer("gpu01", stack(BATCH, MAIN))}))
    assert roll.line == (
        "rank 3 in load_batch at data.py:17; ranks 0-2, 4-7 in all_reduce at train.py:88"
    )


def test_hosts_of_few_ranks_are_named() -> None:
    odd = {3: Answer("gpu02", why="stopped (SIGSTOP)")}
    assert call_roll(answers(4, odd)).line == (
        "rank 3 on gpu02 (stopped (SIGSTOP)); ranks 0-2 in all_reduce at train.py:88"
    )


def test_256_ranks_are_one_line() -> None:
    odd = {n: Answer("gpu01", stack((f"/home/u/f{n}.py", n, "f"), MAIN)) for n in range(1, 250, 2)}
    line = call_roll(answers(256, odd)).line
    assert "ranks at 120 other places" in line
    assert len(line) < 400
    every_second = {n: Answer("gpu01", stack(BATCH)) for n in range(0, 256, 2)}
    line = call_roll(answers(256, every_second)).line
    assert "and 120 others" in line
    assert len(line) < 250


def test_same_words_for_two_files_are_two_places() -> None:
    odd = {
        1: Answer("gpu01", stack(("/other/data.py", 17, "load_batch"))),
        0: Answer("gpu01", stack(BATCH)),
    }
    assert len(call_roll(answers(2, odd)).groups) == 2


def test_the_file_has_every_rank() -> None:
    odd = {1: Answer("gpu01", why="no answer from its node in time", silent_for=700.0)}
    text = call_roll(answers(3, odd)).text("run x: asked for")
    assert text.startswith("run x: asked for\nrank 1 ")
    assert len(re.findall("^=== rank ", text, re.M)) == 3
    assert "=== rank 1 on gpu01 (no answer from its node in time), wrote last 700 s ago" in text


# Flight recorders


def group(
    number: int, operation: str = "all_reduce", state: str = "started", **more: object
) -> dict:
    fields = {"group": "0", "words": "default_pg", "number": number, "operation": operation}
    return {**fields, "sizes": "[[3]]", "state": state, "completed": -1, **more}


def test_who_is_behind_is_named_first() -> None:
    told = {0: [group(42)], 1: [group(41, state="completed")], 2: [group(42)]}
    (line,) = describe_flight(told)
    assert line == (
        "default_pg: rank 1 past all_reduce number 41 of [[3]]; "
        "ranks 0, 2 in all_reduce number 42 of [[3]]"
    )


def test_different_collectives_of_one_number() -> None:
    told = {0: [group(7)], 1: [group(7, "broadcast", sizes="[]")]}
    (line,) = describe_flight(told)
    assert "rank 0 in all_reduce number 7" in line
    assert "rank 1 in broadcast number 7" in line


def test_all_in_the_same_collective_is_told_and_all_past_it_is_not() -> None:
    assert describe_flight({r: [group(7)] for r in range(4)}) == [
        "default_pg: ranks 0-3 in all_reduce number 7 of [[3]]"
    ]
    assert describe_flight({r: [group(7, completed=7)] for r in range(4)}) == []
    assert describe_flight({}) == []
