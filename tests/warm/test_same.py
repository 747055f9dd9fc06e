"""A rank that was started warm sees what one sees that was started cold."""

from __future__ import annotations

import py_compile
import re
import zipapp
from itertools import zip_longest

import pytest
from journeys import Done, Journey, Live
from same_scripts import ENDINGS, PRELOADED, PROCESSES, SEEN, TORCH

ARGS = ("--cpu", "2", "--grace", "5")
COLD = ("--start", "cold")
WARM = ("--start", "warm", "--preload", PRELOADED)
# What differs from run to run.
_CHANGING = re.compile(rb"\b\d{8}-\d{6}-[0-9a-f]{8}\b|0x[0-9a-f]{6,}|zlaunch-handler-[0-9a-f]+")
# Python's own tracker warns at times, under load, of semaphores that are gone: cold as well.
_TRACKER = re.compile(rb"^.*resource_tracker.*\n(  warnings\.warn.*\n)?", re.MULTILINE)


def ended(journey: Journey, live: Live) -> tuple[Done, list[bytes]]:
    done = live.end()
    assert "cold start" not in done.err
    run = done.err.partition("zlaunch: run ")[2].partition(":")[0]
    logs = (journey.home / "runs" / run / "logs").glob("rank-*.log")
    texts = (_TRACKER.sub(b"", log.read_bytes()) for log in sorted(logs))
    return done, [_CHANGING.sub(b"~", text) for text in texts]


def run(journey: Journey, *command: str) -> tuple[Done, list[bytes]]:
    return ended(journey, journey.start("run", *ARGS, *command))


def both(journey: Journey, *command: str, warm: tuple[str, ...] = WARM) -> list[bytes]:
    """Run it cold and warm, see that all is the same, and return what the ranks wrote."""
    one, other = (journey.start("run", *ARGS, *how, *command) for how in (COLD, warm))
    (cold, written), (done, now) = ended(journey, one), ended(journey, other)
    assert len(now) == len(written) == 2
    for mine, its in zip(now, written, strict=True):
        pairs = zip_longest(mine.splitlines(), its.splitlines())
        assert [pair for pair in pairs if pair[0] != pair[1]] == [], its.decode(errors="replace")
    assert now == written
    assert done.code == cold.code
    return written


def importing(text: str) -> str:
    """What is preloaded is imported, so that it is there in both."""
    future = "from __future__ import annotations\n"
    before = future if text.startswith(future) else ""
    return f"{before}import {PRELOADED}\n{text.removeprefix(before)}\n"


def test_what_a_script_sees(journey: Journey) -> None:
    sections = [f"print('--', {name!r})\n{text}" for name, text in SEEN.items()]
    journey.script(importing("\n".join(sections)), "my script.py")
    written = both(journey, "my script.py", "--x", "a b", "", PRELOADED)
    assert all(f"-- {name}\n".encode() in written[0] for name in SEEN)


@pytest.mark.parametrize("name", ENDINGS)
def test_how_a_script_ends(journey: Journey, name: str) -> None:
    journey.script(importing(ENDINGS[name]))
    both(journey, "job.py", "a")


@pytest.mark.parametrize("method", PROCESSES)
def test_processes_of_its_own(journey: Journey, method: str) -> None:
    journey.script(PROCESSES[method])
    written = both(journey, "job.py", method)
    assert b"in a process\n" in written[0]


@pytest.mark.parametrize("name", ["pack", "pack.part", "module"])
def test_modules(journey: Journey, name: str) -> None:
    text = (
        "import sys, pickle\nclass A: pass\nprint(sys.argv, sys.path[0], sys.orig_argv[1:])\n"
        "print(__name__, __spec__, __package__, __file__, sorted(globals()))\n"
        "print(pickle.dumps(A), sorted(sys.modules))\n"
        "print(open('/proc/self/cmdline').read())\n1 / 0\n"
    )
    (journey.folder / "pack").mkdir()
    for file in ("pack/__init__.py", "pack/__main__.py", "pack/part.py", "module.py"):
        (journey.folder / file).write_text(importing(text) if "init" not in file else "x = 1\n")
    assert b"ZeroDivisionError" in both(journey, "-m", name, "--y", "1")[0]


def test_arguments_that_differ_from_rank_to_rank(journey: Journey) -> None:
    journey.script(
        importing(
            "import argparse, os, sys\nprint(open('/proc/self/cmdline').read().split('\\0'))\n"
            "print(sys.argv, sys.orig_argv, os.environ['LOCAL_RANK'])\n"
            "p = argparse.ArgumentParser()\np.add_argument('--local_rank')\n"
            "print(p.parse_known_args())"
        )
    )
    written = both(journey, "job.py", "last")
    assert b"--local_rank=0" in written[0]
    assert b"--local_rank=1" in written[1]


def test_odd_arguments_names_and_values(journey: Journey) -> None:
    name = "job $(x) 'ü'\n.py"
    journey.script(
        importing(
            "import os, sys\nprint(ascii([sys.argv, __file__, os.environ['ODD'], sys.orig_argv]))\n"
            "print(open('/proc/self/cmdline', 'rb').read())"
        ),
        name,
    )
    journey.env["ODD"] = "\udcff\n\"'$HOME `x` \\ é"
    written = both(journey, name, "a b", "", "$HOME", "a\nb", "\udcff", "ä€", "--x=1", "\\")
    assert b"udcff" in written[0]


def test_a_link_a_folder_and_a_relative_path(journey: Journey) -> None:
    text = importing("import sys\nprint(sys.argv, sys.path[0], __file__)")
    journey.program(text, "below/job.py")
    (journey.folder / "link.py").symlink_to("below/job.py")
    for path in ("link.py", "./below/job.py", "../work/below/job.py"):
        both(journey, path)


def test_syntax_that_only_the_compiler_refuses(journey: Journey) -> None:
    journey.script(importing("def f():\n    nonlocal x\n"))
    assert b"SyntaxError" in both(journey, "job.py")[0]


def test_archives_and_bytecode(journey: Journey) -> None:
    """Python runs them; there is no source in which imports could be read."""
    journey.program("import sys\nprint(sys.argv, 'fine')", "pack/__main__.py")
    pack = journey.folder / "pack"
    zipapp.create_archive(pack, journey.folder / "a.pyz")
    zipapp.create_archive(pack, journey.folder / "b.pyz", interpreter="/usr/bin/env python3")
    py_compile.compile(str(pack / "__main__.py"), str(journey.folder / "c.pyc"))
    for name in ("pack", "a.pyz", "b.pyz", "c.pyc"):
        assert b"fine" in both(journey, name, warm=("--start", "auto"))[0]


def test_ranks_draw_other_random_numbers(journey: Journey) -> None:
    text = importing(
        "import secrets, tempfile, uuid\nimport numpy as np, torch\n"
        "print(random.random(), random.Random().random(), np.random.rand(), uuid.uuid4(),\n"
        "    secrets.token_hex(), multiprocessing.current_process().authkey.hex(),\n"
        "    np.random.default_rng().random(), torch.rand(1), torch.initial_seed(),\n"
        "    tempfile.mktemp(), sep='\\n')"
    )
    journey.script(text)
    _, written = run(journey, "--start", "warm", "--preload", f"{PRELOADED},torch", "job.py")
    one, other = (rank.splitlines() for rank in written)
    assert len(one) == len(other) == 10
    assert not set(one) & set(other)


@pytest.mark.parametrize("preload", ["random,own", "own"])
def test_a_generator_that_an_import_made(journey: Journey, preload: str) -> None:
    """`datasets` names files after one; the same in all ranks, they would be one file."""
    (journey.folder / "lib").mkdir()
    (journey.folder / "lib" / "own.py").write_text(
        "import random\nfresh = random.Random()\nfixed = random.Random(3)\n"
    )
    journey.script("import own\nprint(own.fresh.random())\nprint(own.fixed.random())")
    journey.env["PYTHONPATH"] = str(journey.folder / "lib")
    _, written = run(journey, "--start", "warm", "--preload", preload, "job.py")
    one, other = (rank.splitlines() for rank in written)
    assert one[0] != other[0]
    assert one[1] == other[1]


def test_what_an_import_prints_is_printed_by_each_rank(journey: Journey) -> None:
    (journey.folder / "lib").mkdir()
    (journey.folder / "lib" / "loud.py").write_text(
        "import sys, warnings\nprint('loaded')\nprint('error', file=sys.stderr)\n"
        "warnings.warn('old', DeprecationWarning, stacklevel=2)\n"
    )
    journey.script("import loud\nprint('after')")
    journey.env["PYTHONPATH"] = str(journey.folder / "lib")
    written = both(journey, "job.py", warm=("--start", "warm", "--preload", "loud"))
    assert written[0].startswith(b"loaded\nerror\n")
    assert written[0].endswith(b"after\n")


@pytest.mark.parametrize("name", TORCH)
def test_torch(journey: Journey, name: str) -> None:
    journey.script(TORCH[name])
    journey.env["DS_ACCELERATOR"] = "cpu"
    written = both(journey, "job.py", warm=("--start", "warm"))
    assert b"fine" in written[0]
