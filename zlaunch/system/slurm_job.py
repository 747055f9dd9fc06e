"""What Slurm's controller says of a job."""

from __future__ import annotations

import re
import subprocess

from zlaunch.errors import BackendError, InputError
from zlaunch.spec.allocation import expand_nodelist

_GRES = re.compile(r"^\s*Nodes=(\S+) .*\bGRES=(\S*)", re.MULTILINE)
_GPU = re.compile(r"gpu:((?:[^:,()]+:)?[0-9]+)(?:\([^)]*\))?(?:,|$)")


def granted_gpus(job: str, timeout: float) -> dict[str, str]:
    """Return the GPUs that the job has on each node as --gpus wants them: `2`, `a100:4`.

    Nodes without any are left out. `timeout` in seconds. Raises BackendError.
    """
    try:
        done = subprocess.run(
            ["scontrol", "show", "job", "-d", job],
            capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL,
            timeout=timeout, check=False,
        )  # fmt: skip
    except OSError as error:
        raise BackendError(f"scontrol could not be started: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise BackendError(
            f"Slurm's controller did not answer within {timeout:g} s",
            hint="--connect-timeout SECONDS waits longer",
        ) from error
    if done.returncode:
        raise BackendError(f"Slurm does not tell of job {job}: {done.stderr.strip()}")
    return read_gpus(done.stdout)


def read_gpus(text: str) -> dict[str, str]:
    """Read them from what `scontrol show job -d` prints."""
    found: dict[str, str] = {}
    for nodes, gres in _GRES.findall(text):
        gpus = ",".join(_GPU.findall(gres))
        if not gpus:
            continue
        try:
            found.update(dict.fromkeys(expand_nodelist(nodes), gpus))
        except InputError:
            continue
    return found
