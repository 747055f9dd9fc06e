"""The same cluster with slurmdbd and a database behind it, so that sacct answers."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import cluster as plain
from cluster import BOUND, PATH, Cluster, free_ports

_PROGRAMS = ("slurmdbd", "sacct", "mariadbd", "mariadb-install-db", "my_print_defaults")
_CGROUPS = Path("/sys/fs/cgroup/memory")
_DATABASE = (
    "--no-defaults", "--user=root", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0",
    "--innodb-log-file-size=8M", "--innodb-buffer-pool-size=32M", "--innodb-doublewrite=0",
)  # fmt: skip


def missing() -> str | None:
    """Why there can be no such cluster here, or None."""
    reason = plain.missing()
    lacking = [name for name in _PROGRAMS if shutil.which(name, path=PATH) is None]
    if reason or not lacking:
        return reason
    return f"needs slurmdbd, mariadb-server-core and mariadb-client-core (no {', '.join(lacking)})"


def memory_can_be_limited() -> bool:
    """Whether task/cgroup can make its groups here."""
    return os.access(_CGROUPS / "cgroup.procs", os.W_OK)


class AccountedCluster(Cluster):
    """Nodes whose jobs are recorded, and whose steps are ended where they take too much memory."""

    def _settings(self) -> list[str]:
        return [
            "AccountingStorageType=accounting_storage/slurmdbd",
            "AccountingStorageHost=127.0.0.1",
            f"AccountingStoragePort={self._dbd_port}",
            f"AccountingStoragePass={self.folder}/munge/socket",
            "SelectTypeParameters=CR_CPU_Memory",
            "DefMemPerNode=600",
            f"TaskPlugin={'task/cgroup' if memory_can_be_limited() else 'task/none'}",
            "JobAcctGatherType=jobacct_gather/linux",
            "KillWait=2",
            # Groups of jobs are named by node and job; another such cluster may be on this machine.
            f"FirstJobId={self._first_job}",
            "PreemptType=preempt/partition_prio",
            "PreemptMode=CANCEL",
            f"PartitionName=first Nodes={','.join(self.nodes)} PriorityTier=9",
        ]

    def _write_files(self) -> None:
        self._first_job = 1000 + secrets.randbelow(1_000_000)
        self._dbd_port, self._database_port = free_ports(2)
        super()._write_files()
        cgroups = "CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nConstrainRAMSpace=yes\n"
        (self.folder / "cgroup.conf").write_text(cgroups)
        self._password = secrets.token_hex(16)
        conf = [
            "AuthType=auth/munge",
            f"AuthInfo=socket={self.folder}/munge/socket",
            f"DbdHost={socket.gethostname()}",
            "DbdAddr=127.0.0.1",
            f"DbdPort={self._dbd_port}",
            "SlurmUser=root",
            f"LogFile={self.folder}/log/slurmdbd.log",
            f"PidFile={self.folder}/slurmdbd.pid",
            "StorageType=accounting_storage/mysql",
            "StorageHost=127.0.0.1",
            f"StoragePort={self._database_port}",
            "StorageUser=slurm",
            f"StoragePass={self._password}",
            "StorageLoc=slurm",
        ]
        path = self.folder / "slurmdbd.conf"
        path.write_text("\n".join(conf) + "\n")
        path.chmod(0o600)

    def _stop_all(self) -> None:
        """Slurm leaves the groups of jobs that it had to kill."""
        super()._stop_all()
        mine = range(self._first_job, self._first_job + 1000)
        jobs = [p for p in _CGROUPS.glob("slurm_n*/uid_*/job_*") if int(p.name[4:]) in mine]
        groups = [Path(group) for job in jobs for group, *_ in os.walk(job, topdown=False)]
        above = [parent for job in jobs for parent in (job.parent, job.parent.parent)]
        for group in (*groups, *above):
            with suppress(OSError):  # another cluster may still use it
                group.rmdir()

    def _start_accounting(self) -> None:
        data, sql = self.folder / "database", self.folder / "database.sql"
        subprocess.run(
            ["mariadb-install-db", *_DATABASE, f"--datadir={data}", "--skip-test-db",
             "--auth-root-authentication-method=socket", "--skip-name-resolve"],
            env={"PATH": PATH, "HOME": "/root"}, check=True, capture_output=True, timeout=BOUND,
        )  # fmt: skip
        sql.touch(mode=0o600)
        sql.write_text(
            f"CREATE USER slurm@'127.0.0.1' IDENTIFIED BY '{self._password}';\n"
            "GRANT ALL ON slurm.* TO slurm@'127.0.0.1';\n"
        )
        self._start(
            "mariadbd", "mariadbd", *_DATABASE, f"--datadir={data}", f"--init-file={sql}",
            f"--socket={self.folder}/database.socket", f"--port={self._database_port}",
            "--bind-address=127.0.0.1", f"--pid-file={self.folder}/mariadbd.pid",
            "--skip-name-resolve",
        )  # fmt: skip
        self._await_port("mariadbd", self._database_port)
        self._start("slurmdbd", "slurmdbd", "-D")
        self._await_port("slurmdbd", self._dbd_port)

    def _await_port(self, name: str, port: int) -> None:
        end = time.monotonic() + BOUND
        while True:
            self._check(name)
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)
            else:
                return
