"""Slurm's variables on the way to a rank: what shapes a step of ours, and what is of no use there.

Pure. What a rank reads instead is in `slurm_task`.
"""

from __future__ import annotations

from collections.abc import Mapping

from zlaunch.spec.environment import OWNED

# What options of sbatch and salloc leave behind, by which srun would take them to be its own:
# the step would get fewer cores, GPUs or memory than the node's share of the job, or another shape.
_INPUT = (
    *("NTASKS", "NPROCS", "NTASKS_PER_NODE", "NTASKS_PER_CORE", "NTASKS_PER_GPU"),
    *("NTASKS_PER_SOCKET", "NTASKS_PER_TRES", "TASKS_PER_NODE", "NNODES", "JOB_NUM_NODES"),
    *("CPUS_PER_TASK", "CPUS_PER_GPU", "GPUS", "GPUS_PER_NODE", "GPUS_PER_TASK"),
    *("GPUS_PER_SOCKET", "GPU_BIND", "GPU_FREQ", "GRES", "STEP_GRES", "TRES_PER_TASK", "TRES_BIND"),
    *("MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE", "MEM_BIND", "CPU_BIND", "CORE_SPEC"),
    *("THREAD_SPEC", "THREADS", "HINT", "DISTRIBUTION", "ARBITRARY_NODELIST", "HOSTFILE"),
    *("EXACT", "EXCLUSIVE", "OVERLAP", "WHOLE", "OVERCOMMIT", "SPREAD_JOB", "USE_MIN_NODES"),
    *("CONSTRAINT", "NETWORK", "RESV_PORTS", "TIMELIMIT", "WAIT", "KILL_BAD_EXIT", "NO_KILL"),
    *("LABELIO", "UNBUFFEREDIO", "STDINMODE", "STDOUTMODE", "STDERRMODE", "OPEN_MODE"),
    *("EXPORT_ENV", "MULTI_PROG", "PROLOG", "EPILOG", "TASK_PROLOG", "TASK_EPILOG", "MPI_TYPE"),
    *("WORKING_DIR", "REMOTE_CWD", "PROFILE", "DEBUG", "SRUN_MULTI", "JOB_NAME", "IMMEDIATE"),
    *("SEND_LIBS", "BCAST", "BCAST_EXCLUDE", "COMPRESS", "CPU_FREQ_REQ", "DEPENDENCY", "SIGNAL"),
)
GPU_OPTIONS = (
    *("SLURM_GPUS", "SLURM_GPUS_PER_NODE", "SLURM_GPUS_PER_TASK", "SLURM_GPUS_PER_SOCKET"),
    "SLURM_JOB_GPUS",
)
"""Where one of them is set, the job has GPUs."""

# Of these the ranks get the job's own again; the others are the launcher's step's, or say of tasks.
_GIVEN_BACK = (
    *("CPUS_PER_TASK", "CPUS_PER_GPU", "GPUS", "GPUS_PER_NODE", "GPUS_PER_TASK", "JOB_NAME"),
    *("MEM_PER_CPU", "MEM_PER_GPU", "MEM_PER_NODE", "JOB_NUM_NODES", "HINT", "CONSTRAINT"),
)
# What Slurm says of the agent's own step and task.
_OF_TASK = (
    *("SLURM_STEP_ID", "SLURM_STEPID", "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_LAUNCHER_PORT"),
    *("SLURM_GTIDS", "SLURM_TASK_PID", "SLURM_SRUN_COMM_HOST", "SLURM_SRUN_COMM_PORT"),
    *("SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_VERBOSE"),
    *("SLURM_DISTRIBUTION", "SLURM_MPI_TYPE", "SLURM_UMASK"),
)
# A session of SSH that led to the launcher's machine says nothing of the others.
_OF_SSH = ("SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY")
_TASK_PREFIXES = ("PMI_", "PMI2_", "PMIX_", "SLURM_STEP_", "SLURM_CPU_BIND", "SLURM_PMI")


def for_srun(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an srun that takes a node's whole share of the job."""
    shaping = {f"{prefix}_{name}" for prefix in ("SLURM", "SRUN") for name in _INPUT}
    dropped = {*shaping, *_OF_TASK, *_OF_SSH, *OWNED}
    return {
        name: value
        for name, value in env.items()
        if name not in dropped and not name.startswith(_TASK_PREFIXES)
    }


def of_job(env: Mapping[str, str]) -> dict[str, str]:
    """Return what ranks are to find again of what `for_srun` left out."""
    names = [f"SLURM_{name}" for name in _GIVEN_BACK]
    return {name: env[name] for name in names if name in env}


def names_of_task() -> tuple[str, ...]:
    """The variables of the agent's step that no rank should see."""
    return _OF_TASK
