"""What ranks must not share, though it was there when they were forked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from forking import TELL, WARM, how, library
from journeys import Journey

INTEL = Path(sys.prefix, "lib", "libiomp5.so")


def cold_because(journey: Journey, why: str, *options: str) -> None:
    done, ranks = how(journey, *options)
    assert [rank.split(b"\n")[-1] for rank in ranks] == [b"cold", b"cold"]
    assert f"cold start: {why}" in done.err
    assert done.code == 0


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "import tempfile\nd = tempfile.TemporaryDirectory()",  # the first to end removes it
            "an import makes a temporary file",
        ),
        ("import multiprocessing\nlock = multiprocessing.Lock()", "an import shares memory: "),
        ("import mmap\nm = mmap.mmap(-1, 100)", "an import shares memory: "),
        (
            "import faulthandler\nfaulthandler.dump_traceback_later(60)",
            "an import starts a thread of its own",
        ),
        ("import random\nrandom.seed(1)", "an import seeds random numbers"),
        ("import random\nname = random.random()", "an import seeds random numbers"),
    ],
)
def test_in_doubt_ranks_start_cold(journey: Journey, text: str, why: str) -> None:
    library(journey, text)
    journey.script(TELL)
    cold_because(journey, why, "--preload", "lib")


@pytest.mark.parametrize("text", ["numpy.random.seed(1)", "numpy.random.rand()"])
def test_random_numbers_of_numpy(journey: Journey, text: str) -> None:
    pytest.importorskip("numpy")
    library(journey, f"import numpy\n{text}")
    journey.script(TELL)
    cold_because(journey, "an import seeds random numbers", "--preload", "lib")


def test_random_numbers_of_torch(journey: Journey) -> None:
    pytest.importorskip("torch")
    library(journey, "import torch\ntorch.manual_seed(1)")
    journey.script(TELL)
    cold_because(journey, "an import seeds random numbers", "--preload", "lib")


def test_threads_that_know_of_forks(journey: Journey) -> None:
    """OpenBLAS starts its own when numpy is imported, and ends them for a fork."""
    pytest.importorskip("numpy")
    journey.env["OMP_NUM_THREADS"] = "4"
    journey.script(f"import numpy\n{TELL}print(numpy.linalg.inv(numpy.eye(500)).sum())")
    done, ranks = how(journey)
    assert ranks == [b"warm\n500.0"] * 2
    assert "cold start" not in done.err


def test_a_module_of_the_users_that_a_package_finds(journey: Journey) -> None:
    """It has the name of one that the package imports."""
    installed = journey.folder / "lib" / "site-packages"
    installed.mkdir(parents=True)
    (installed / "evaluate.py").write_text("import helper\n")
    (installed / "helper.py").write_text("WHOSE = 'theirs'\n")
    journey.env["PYTHONPATH"] = str(installed)
    journey.script("import evaluate\nprint(evaluate.helper.WHOSE)\n" + TELL)
    assert how(journey)[1] == [b"theirs\nwarm"] * 2
    journey.script("import os\nWHOSE = dict(os.environ).get('RANK')\n", "helper.py")
    cold_because(journey, "an import finds the user's own helper")
    assert [journey.log(rank) for rank in (0, 1)] == [b"0\ncold\n", b"1\ncold\n"]


def test_what_was_installed_into_a_folder_is_not_the_users(journey: Journey) -> None:
    """By `pip install --target`, as people do who have no rights, or too small a home."""
    library(journey, "import os\nimport helper\nPID = os.getpid()\n", "evaluate")
    library(journey, "x = 1\n", "helper")
    journey.script("import evaluate\nimport os\nprint(evaluate.PID != os.getpid())\n")
    done, ranks = how(journey)
    assert ranks == [b"False"] * 2
    (journey.folder / "path" / "helper-1.0.dist-info").mkdir()
    done, ranks = how(journey)
    assert ranks == [b"True"] * 2, done.err
    assert "cold start" not in done.err


def test_a_directory_beside_the_script_that_is_no_package(journey: Journey) -> None:
    """Data in `datasets/`, runs in `wandb/`: Python passes over them for what is installed."""
    (journey.folder / "numpy").mkdir()
    (journey.folder / "numpy" / "data.txt").touch()
    journey.script("import numpy\n" + TELL + "print(numpy.eye(1)[0][0])\n")
    done, ranks = how(journey)
    assert ranks == [b"warm\n1.0"] * 2, done.err
    (journey.folder / "evaluate").mkdir()
    (journey.folder / "evaluate" / "mine.py").write_text("import os\nprint(os.environ['RANK'])\n")
    journey.script("import numpy\nimport evaluate.mine\n" + TELL)
    done, ranks = how(journey)
    assert [rank.split(b"\n")[0] for rank in ranks] == [b"0", b"1"]


def second(journey: Journey) -> list[bytes]:
    """What the ranks of the second attempt have said."""
    return [(journey.latest / "logs" / f"rank-{rank}.1.log").read_bytes() for rank in (0, 1)]


def test_a_script_that_is_edited_between_attempts(journey: Journey) -> None:
    journey.script("import numpy, os\nprint(os.environ.get('MARK'))\n" + TELL, "next.py")
    text = "import os\nos.environ['MARK'] = '1'\n" + (journey.folder / "next.py").read_text()
    journey.script(
        f"import numpy\n{TELL}import os, sys, time\n"
        "if os.environ['RANK'] == '1':\n    time.sleep(60)\n"
        f"open('job.py', 'w').write({text!r})\n"
        "sys.exit(3)"
    )
    options = ("--max-restarts", "1", "--healthy-after", "0")
    done, _ = how(journey, *options)
    assert done.code == 0
    assert second(journey) == [b"1\ncold\n"] * 2
    assert "cold start: job.py is not as it was read" in done.err


def test_a_package_that_is_edited_between_attempts(journey: Journey) -> None:
    text = "import os\nos.environ['MARK'] = '1'\n"
    edit = f"open('pack/__init__.py', 'w').write({text!r})"
    journey.program("", "pack/__init__.py")
    journey.program(
        f"import numpy\n{TELL}import os, sys, time\nprint(os.environ.get('MARK'))\n"
        "if 'MARK' in os.environ:\n    sys.exit()\n"
        f"if os.environ['RANK'] == '1':\n    time.sleep(60)\n{edit}\nsys.exit(3)",
        "pack/part.py",
    )
    options = ("--max-restarts", "1", "--healthy-after", "0")
    done = journey.zlaunch("run", *WARM, *options, "-m", "pack.part")
    assert done.code == 0
    assert second(journey) == [b"cold\n1\n"] * 2
    assert "cold start: pack/__init__.py is not as it was read" in done.err


def test_no_way_to_write_the_arguments(journey: Journey, tmp_path: Path) -> None:
    """Some sandboxes do not let a process write its own memory."""
    library(
        journey,
        "import os\nreal = os.open\ndef refusing(path, *rest):\n"
        "    if path == '/proc/self/mem':\n        raise PermissionError(path)\n"
        "    return real(path, *rest)\nos.open = refusing\n",
    )
    journey.script(
        f"{TELL}import argparse\np = argparse.ArgumentParser()\n"
        "p.add_argument('--local_rank')\nprint(p.parse_args().local_rank)\n"
    )
    done, ranks = how(journey, "--preload", "lib")
    assert (done.code, ranks) == (0, [b"warm\n0", b"warm\n1"])


def test_a_generator_with_a_seed_of_its_own_kind(journey: Journey) -> None:
    library(
        journey,
        "import random\nclass Own(random.Random):\n    def seed(self, name, version=2):\n"
        "        super().seed(None)\nown = Own('x')\n",
    )
    journey.script(f"{TELL}import lib\nprint(lib.own.random())")
    done, ranks = how(journey, "--preload", "lib")
    assert done.code == 0
    assert ranks[0] != ranks[1]


@pytest.mark.skipif(not INTEL.exists(), reason="without intel-openmp")
def test_forks_of_ranks_with_openmp_of_intel(journey: Journey) -> None:
    """A data loader forks as this does."""
    pytest.importorskip("torch")
    journey.env["LD_PRELOAD"] = str(INTEL)
    journey.script(
        f"import torch\n{TELL}import os\ntorch.ones(1 << 20).exp().sum()\nif os.fork() == 0:\n"
        "    torch.ones(1 << 20).exp().sum()\n    os._exit(0)\nprint(os.wait()[1])"
    )
    done, ranks = how(journey)
    assert (done.code, ranks) == (0, [b"warm\n0"] * 2)


@pytest.mark.parametrize("warnings", ["default", "error"])
def test_warnings_of_a_fork(journey: Journey, warnings: str) -> None:
    """Since 3.12 Python warns of one where threads are, as jemalloc's, which is called so here."""
    library(
        journey,
        "import faulthandler, os, sys\n"
        "faulthandler.dump_traceback_later(999, file=sys.__stderr__)\n"
        "for task in os.listdir('/proc/self/task'):\n"
        "    if int(task) != os.getpid():\n"
        "        with open(f'/proc/self/task/{task}/comm', 'w') as file:\n"
        "            file.write('jemalloc_bg_thd')\n",
    )
    journey.env["PYTHONWARNINGS"] = warnings
    # Python would wait for a thread that is not there.
    journey.script(f"{TELL}import os, warnings\nprint(warnings.filters[0][0])\nos._exit(0)\n")
    done, ranks = how(journey, "--preload", "lib")
    assert (done.code, ranks) == (0, [b"warm\n" + warnings.encode()] * 2)
