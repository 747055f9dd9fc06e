"""Logs of other launchers: whose line is whose, and how ranks ended."""

from __future__ import annotations

import pytest
from logs import LOST_PEER, of_recording, raised, reading, recorded

from zlaunch.insight.diagnosis import diagnose

OWN = raised("ValueError: row 17 is empty").splitlines()
STEPS = [f"step {n} loss 3.{n}" for n in range(20)]


def tagged(form: str, lines: dict[int, list[str]]) -> str:
    """The ranks' lines in turn, each with a tag."""
    longest = max(map(len, lines.values()))
    return "\n".join(
        form.format(rank=rank, host=f"node-{rank // 2}") + own[n]
        for n in range(longest)
        for rank, own in lines.items()
        if n < len(own)
    )


FORMS = [
    "{host}:{rank} | ",
    "{rank} | ",
    "[default{rank}]:",
    "[trainer{rank}]:",
    "{rank}: ",
    " {rank}: ",
    "2026-11-30T01:50:53.2100Z {rank}: ",
    "[rank{rank}]: ",
    "{host}: [rank{rank}]: ",
    "{host}: [default{rank}]:",
]


@pytest.mark.parametrize("form", FORMS)
def test_whose_line_it_is(form: str) -> None:
    read = reading(tagged(form, {0: STEPS + STEPS, 1: STEPS + STEPS, 2: STEPS + OWN, 3: STEPS}))
    assert set(read.evidence.words) == {0, 1, 2, 3}
    found = diagnose(read.evidence)
    assert found.culprits == (2,)
    assert found.causes[0].title == "ValueError: row 17 is empty"
    if "{host}" in form:
        assert read.evidence.hosts[2] == "node-1"


@pytest.mark.parametrize("form", FORMS)
def test_the_number_is_that_of_the_file(form: str) -> None:
    text = tagged(form, {0: STEPS + STEPS, 1: STEPS + OWN})
    read = reading(text)
    (line,) = diagnose(read.evidence).causes[0].evidence
    assert text.split("\n")[read.numbers[1][line.number] - 1].endswith(
        "ValueError: row 17 is empty"
    )


def test_colours_are_no_hindrance() -> None:
    text = tagged("\x1b[36m{rank} |\x1b[0m ", {0: STEPS, 1: STEPS + OWN})
    assert diagnose(reading(text).evidence).culprits == (1,)


def test_srun_says_how_tasks_ended() -> None:
    text = tagged("{rank}: ", dict.fromkeys(range(4), STEPS)) + (
        "\nslurmstepd: error: Detected 1 oom_kill event in StepId=42.0. Some of the step tasks "
        "have been OOM Killed.\n"
        "srun: error: node-2: task 2: Out Of Memory\n"
        "srun: error: node-1: tasks 0-1: Terminated\n"
        "srun: error: node-2: task 3: Exited with exit code 1\n"
    )
    read = reading(text)
    assert {rank: (e.code, e.signal) for rank, e in read.evidence.ends.items()} == {
        0: (None, 15), 1: (None, 15), 2: (None, 9), 3: (1, None),
    }  # fmt: skip
    found = diagnose(read.evidence)
    assert found.causes[0].code == "host-out-of-memory"
    assert found.culprits[0] == 2
    assert read.evidence.hosts[2] == "node-2"


def test_accelerate_starts_one_process_itself() -> None:
    text = "\n".join(STEPS) + (
        "\nTraceback (most recent call last):\n"
        '  File "/opt/venv/bin/accelerate", line 8, in <module>\n'
        "    sys.exit(main())\n"
        '  File "/opt/venv/lib/python3.12/site-packages/accelerate/commands/launch.py", line 1, '
        "in simple_launcher\n"
        "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)\n"
        "subprocess.CalledProcessError: Command '['/opt/venv/bin/python', 'train.py']' died with "
        "<Signals.SIGKILL: 9>.\n"
    )
    assert [cause.code for cause in diagnose(reading(text).evidence).causes] == ["killed"]


def test_a_shell_says_what_killed_it() -> None:
    text = "\n".join(STEPS) + "\n/var/spool/job/script: line 28:  8156 Killed      python main.py\n"
    assert [cause.code for cause in diagnose(reading(text).evidence).causes] == ["killed"]


@pytest.mark.parametrize(
    ("word", "code"),
    [("Killed", "killed"), ("Segmentation fault (core dumped)", "segmentation-fault")],
)
def test_a_shells_word_at_the_end(word: str, code: str) -> None:
    text = "\n".join([*STEPS, word])
    assert [cause.code for cause in diagnose(reading(text).evidence).causes] == [code]
    assert diagnose(reading("\n".join([word, *STEPS])).evidence).causes == ()


def test_a_signal_that_one_rank_must_have_had() -> None:
    """deepspeed names no rank; the one that lost its peer was not killed."""
    text = recorded("deepspeed_kill") + "\n" + "\n".join(
        f"[rank0]: {line}" for line in LOST_PEER.splitlines()
    )  # fmt: skip
    read = reading(text)
    found = diagnose(read.evidence)
    assert not read.guessed
    assert (found.culprits, found.victims) == ((1,), {0: "connection closed by peer"})


def test_the_launchers_own_traceback_is_no_cause() -> None:
    for name in ("torchrun_kill", "torchrun_exit3", "deepspeed_kill", "accelerate_file"):
        titles = " ".join(cause.title for cause in of_recording(name).causes)
        assert "ChildFailedError" not in titles
        assert "CalledProcessError" not in titles


def test_what_is_held_is_bounded() -> None:
    lines = "\n".join(f"[default{n % 3}]:step {n} nan Error: x" for n in range(60_000))
    read = reading(lines + "\n" + "\n".join(f"[default1]:{line}" for line in OWN))
    assert all(len(words) <= 6000 for words in read.evidence.words.values())
    assert diagnose(read.evidence).culprits == (1,)


@pytest.mark.parametrize("text", ["", "\n", "\n\n\n", "x", "\x00\x01", "[rank", "| | |", ": : :"])
def test_nothing_much_is_no_failure(text: str) -> None:
    assert diagnose(reading(text).evidence).causes == ()
