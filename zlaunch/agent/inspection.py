"""What is to be known of a node before a run. Reads and asks only; changes nothing.

May take its time and may hang in a driver or a file system: see `aside`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from zlaunch.agent.commands import node_environment, with_interpreter
from zlaunch.spec.facts import Facts, Gpu, Question
from zlaunch.spec.worker import NodePlan
from zlaunch.system.script_digest import script_digest

_ANSWER = b"zlaunch answer "  # others may print before and after it
_SHM = "/dev/shm"  # noqa: S108 - the place itself is looked at

# Run by the workers' interpreter, where they will run. Finds packages without importing them:
# torch alone takes a second. What torch was built for is in a small file of its own.
_ASK_PYTHON = """
import importlib.util, json, os, sys
def version(name, place):
    try:
        for entry in os.listdir(os.path.dirname(place)):
            if entry.startswith(name + "-") and entry.endswith(".dist-info"):
                return entry[len(name) + 1 : -len(".dist-info")]
    except OSError:
        pass
    try:
        from importlib import metadata
        return metadata.version(name)
    except Exception:
        return "?"
names, module, script = json.loads(sys.argv[1])
sys.path[0] = script or os.getcwd()
answer = {"python": sys.version.split()[0], "executable": sys.executable, "packages": {}}
for name in names:
    try:
        spec = importlib.util.find_spec(name)
    except Exception:
        spec = None
    place = list(spec.submodule_search_locations or [])[:1] if spec else []
    answer["packages"][name] = version(name, place[0]) if place else None
    if name == "torch" and place:
        try:
            built = {}
            with open(os.path.join(place[0], "version.py")) as file:
                exec(file.read(), built)
            answer["packages"][name] = built["__version__"]
            answer["cuda"] = "rocm" if built.get("hip") else built.get("cuda") or ""
        except Exception:
            pass
if module:
    try:
        answer["module"] = importlib.util.find_spec(module.split(".")[0]) is not None
    except Exception:
        answer["module"] = False
print()
print("zlaunch answer " + json.dumps(answer))
"""


def inspect(plan: NodePlan, question: Question, within: float) -> Facts:
    """Look at this node as the first worker of `plan` will find it."""
    worker = plan.workers[0]
    shared = node_environment(plan)
    env = {**shared, **worker.env}
    argv = with_interpreter(plan, worker)
    cwd = worker.cwd or str(Path.cwd())
    directory = _directory_problem(cwd)
    program = "" if directory else _program_problem(argv[0], env, cwd)
    facts = Facts(
        directory=directory,
        program=program,
        shm=_free(_SHM),
        arch_list=env.get("TORCH_CUDA_ARCH_LIST", ""),
        visible=shared.get("CUDA_VISIBLE_DEVICES"),
    )
    if not directory and question.script:
        facts = replace(facts, script=script_digest(Path(cwd, question.script)))
    if question.python and not directory and not program:
        facts = _ask_python(facts, argv[0], env, cwd, question, within)
        facts = replace(facts, locks=_locks(env))
    return _ask_driver(facts, question, within) if question.gpus else facts


def _directory_problem(path: str) -> str:
    try:
        os.scandir(path).close()
    except PermissionError:  # it can be worked in without being listed
        return "" if os.access(path, os.X_OK) else "Permission denied"
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _program_problem(program: str, env: Mapping[str, str], cwd: str) -> str:
    path = str(Path(cwd, program)) if os.sep in program else program
    if shutil.which(path, path=env.get("PATH", os.defpath)):
        return ""
    return "Permission denied" if Path(path).is_file() else "No such file or directory"


def _free(path: str) -> int | None:
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


# The workers' interpreter


def _ask_python(
    facts: Facts, python: str, env: Mapping[str, str], cwd: str, question: Question, within: float
) -> Facts:
    asked = bool(question.packages or question.module)
    if not asked:
        return facts
    script = str(Path(cwd, question.script).parent) if question.script else ""
    names = json.dumps([list(question.packages), question.module, script])
    try:
        done = subprocess.run(
            [python, "-c", _ASK_PYTHON, names],
            env=dict(env), cwd=cwd, stdin=subprocess.DEVNULL, timeout=within, check=False,
            capture_output=True,
        )  # fmt: skip
        (line,) = [text for text in done.stdout.splitlines() if text.startswith(_ANSWER)][-1:]
        answer: dict[str, Any] = json.loads(line[len(_ANSWER) :])
    except subprocess.TimeoutExpired:
        return _troubled(facts, f"{python} did not answer within {within:g} s")
    except (OSError, subprocess.SubprocessError) as error:
        return _troubled(facts, f"{python} could not be started: {error}")
    except ValueError:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        last = f": {words[-1]}" if words else ""
        return _troubled(facts, f"{python} fails (exit code {done.returncode}){last}")
    return replace(facts, **answer)


def _troubled(facts: Facts, trouble: str) -> Facts:
    return replace(facts, trouble=(*facts.trouble, trouble))


def _locks(env: Mapping[str, str]) -> tuple[str, ...]:
    from zlaunch.system.extension_cache import stale_locks

    return stale_locks(env)


# The driver


def _ask_driver(facts: Facts, question: Question, within: float) -> Facts:
    from zlaunch.errors import BackendError
    from zlaunch.system.gpu_usage import look

    provide_nvml(question.nvml)
    try:
        found = look(timeout=within)
    except BackendError as error:
        return _troubled(facts, error.message)
    if question.links and found.gpus:
        facts = replace(facts, links=_links([gpu.index for gpu in found.gpus], within))
    if question.leases is not None and found.gpus:
        facts = replace(facts, taken=_taken(found.gpus, question.leases, within))
    return replace(facts, gpus=found.gpus, driver=found.driver, driver_cuda=found.cuda)


def _taken(gpus: tuple[Gpu, ...], folder: str, within: float) -> tuple[str, ...] | None:
    from zlaunch.spec.device import Device
    from zlaunch.system.gpu_free import taken_now

    devices = [Device(gpu.index, gpu.uuid, mig=gpu.mig) for gpu in gpus]
    taken = taken_now(devices, folder, timeout=within)
    return None if taken is None else tuple(sorted(taken))


def _links(indices: list[int], within: float) -> dict[str, Any] | None:
    from zlaunch.system.gpu_links import gpu_links

    links = gpu_links(indices, timeout=within)
    return None if links is None else links.to_json()


def provide_nvml(source: str) -> None:
    """Make pynvml importable from the launcher's copy: an agent sees no installed packages."""
    if source and "pynvml" not in sys.modules:
        module = ModuleType("pynvml")
        sys.modules["pynvml"] = module  # it looks itself up there
        exec(compile(source, "pynvml.py", "exec"), module.__dict__)  # noqa: S102
