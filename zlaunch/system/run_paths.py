"""Where the files of a run are. This module alone knows their names.

$ZLAUNCH_HOME, else $XDG_STATE_HOME/zlaunch, else ~/.local/state/zlaunch   (mode 0700)
latest -> runs/<run id>
runs/<run id>/
run.json          the RunRecord; written beside and renamed
lock              held by the launcher while it lives; the kernel lets it go
events.jsonl      what happened, one object a line
metrics.jsonl     what ranks told of their training and what they used (`run/metrics.py`)
ds_config.json
logs/rank-<N>.log exactly the bytes that rank N wrote; rank-<N>.<A>.log in attempt A from 1 on
logs/rank-<N>.log.old/<offset>  with --log-max what came before, each file by its first byte
arrivals          when which bytes of which rank came (`arrivals.py`)
errors/           TORCHELASTIC_ERROR_FILE of each rank
flight/           dumps of PyTorch's flight recorder
control.sock      where the launcher can be spoken to (`control_socket.py`)
console.log       what a launcher without a terminal (--detach) says and shows
console.log.old/  with --log-max what came before, as for the logs
waiting           why the run waits for GPUs, while it does
report.html       what `zlaunch report` tells of it
batch.sh          of a run that was submitted to Slurm; and more that `submission.py` knows
stacks-<N>.txt    where all ranks were (`run_stacks.py`)
job-end.json      how Slurm ended the job of a lost run (`job_ends.py`)
"""

from __future__ import annotations

from pathlib import Path


class RunPaths:
    """What is in the directory of one run, by name."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def id(self) -> str:
        """The run id."""
        return self.path.name

    @property
    def ds_config(self) -> Path:
        """The ds_config.json that the workers read."""
        return self.path / "ds_config.json"

    @property
    def logs(self) -> Path:
        """The directory of the ranks' logs."""
        return self.path / "logs"

    @property
    def record_path(self) -> Path:
        """The run.json."""
        return self.path / "run.json"

    @property
    def metrics(self) -> Path:
        """What ranks told of their training, and what they used."""
        return self.path / "metrics.jsonl"

    @property
    def lock_path(self) -> Path:
        """What the launcher has locked while it lives."""
        return self.path / "lock"

    @property
    def console(self) -> Path:
        """What a launcher that has left its terminal would have shown there."""
        return self.path / "console.log"

    @property
    def older_console(self) -> Path:
        """The directory of what came before that, where logs have a size (`console_log.py`)."""
        return self.path / "console.log.old"

    @property
    def has_console(self) -> bool:
        """Whether there is one; between two files of it there is the older one alone."""
        return self.console.exists() or self.older_console.is_dir()

    @property
    def waiting(self) -> Path:
        """What says why the run waits for GPUs, while it does."""
        return self.path / "waiting"

    @property
    def report(self) -> Path:
        """The page that `zlaunch report` writes."""
        return self.path / "report.html"

    def log(self, rank: int, attempt: int = 0) -> Path:
        """The file with everything that `rank` wrote in an attempt."""
        return self.logs / (f"rank-{rank}.{attempt}.log" if attempt else f"rank-{rank}.log")

    def older_logs(self, rank: int, attempt: int = 0) -> Path:
        """The directory of what came before that file, where logs have a size (`rank_log.py`)."""
        return self.logs / f"{self.log(rank, attempt).name}.old"

    @property
    def events(self) -> Path:
        """What happened, one object a line."""
        return self.path / "events.jsonl"

    @property
    def arrivals(self) -> Path:
        """The file that says when which bytes of which rank came."""
        return self.path / "arrivals"

    def error_file(self, rank: int, attempt: int = 0) -> Path:
        """The TORCHELASTIC_ERROR_FILE of `rank` in an attempt."""
        from zlaunch.spec.environment import error_file_name  # and with it all of a plan

        return self.path / "errors" / error_file_name(rank, attempt)

    def last_attempt(self, rank: int) -> int:
        """The number of the latest attempt of which there is a log."""
        attempt = 0
        while self.log(rank, attempt + 1).exists():
            attempt += 1
        return attempt

    @property
    def early_console(self) -> Path:
        """Where console.log is until there is a run directory: beside it."""
        return self.path.with_name(f".console-{self.id}")
