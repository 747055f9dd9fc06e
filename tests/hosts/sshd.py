"""The sshd of one host: its files, its listener, and what may go wrong with them."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from namespaces import BOUND, PATH, program

PRIVSEP = Path("/run/sshd")  # compiled in; on most machines the service's start makes it


def make_key(path: Path) -> Path:
    """A new ed25519 key without a passphrase, in place of one that is there."""
    path.unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(command, check=True, timeout=BOUND, stdin=subprocess.DEVNULL)
    return path


def public(key: Path) -> str:
    """Its public half as known_hosts and authorized_keys want it: type and base64."""
    return " ".join(key.with_suffix(".pub").read_text(encoding="ascii").split()[:2])


class Sshd:
    """Listens inside a host while started; sessions it gave out outlive a restart."""

    def __init__(
        self, entering: Sequence[str], folder: Path, address: str, port: int, client_key: str
    ) -> None:
        self.address = address
        self.port = port
        self.log = folder / "sshd.log"
        self.pid: int | None = None
        self.options: tuple[str, ...] = ()
        self._entering = entering
        self._config = folder / "sshd_config"
        self._authorized = folder / "authorized_keys"
        self._client_key = client_key
        self._first_key = self._key = make_key(folder / "host_key")
        self._other_key = folder / "other_host_key"
        self._process: subprocess.Popen[bytes] | None = None
        self.accept_key()

    @property
    def host_key(self) -> str:
        """The public key it starts with, and returns to."""
        return public(self._first_key)

    def start(self) -> None:
        PRIVSEP.mkdir(mode=0o755, exist_ok=True)
        self._config.write_text(self._text(), encoding="utf-8")
        command = [program("sshd") or "sshd", "-D", "-e", "-f", str(self._config)]
        if self._accepts(command, "PerSourcePenalties=no"):  # OpenSSH 9.8: it shuts out who errs
            command += ["-o", "PerSourcePenalties=no"]
        # The kernel ends it with the thread that started it, so that a killed test run leaves
        # no sshd behind; hence to be started from the main thread.
        dying = ["setpriv", "--pdeathsig", "KILL"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._entering, *dying, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={"PATH": PATH},
                start_new_session=True,
            )
        self.pid = self._process.pid
        self.wait_ready()

    def wait_ready(self) -> None:
        """Until it greets who connects."""
        assert self._process is not None
        deadline = time.monotonic() + BOUND
        while True:
            try:
                with socket.create_connection((self.address, self.port), timeout=0.5) as link:
                    if link.recv(256).startswith(b"SSH-"):
                        return
                trouble = "no greeting"
            except OSError as error:
                trouble = str(error)
            try:
                code = self._process.wait(timeout=0.02)
                raise RuntimeError(f"sshd ended with {code}: {self.log.read_text()}")
            except subprocess.TimeoutExpired:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError(f"sshd of {self.address}: {trouble}: {self.log.read_text()}")

    def stop(self) -> None:
        """The listener alone; who is logged in stays."""
        if self._process is None:
            return
        self._process.terminate()
        self._process.send_signal(signal.SIGCONT)  # it may be hanging
        try:
            self._process.wait(timeout=BOUND / 3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(timeout=BOUND)
        self._process = self.pid = None

    def restart(self) -> None:
        self.stop()
        self.start()

    def change_host_key(self) -> None:
        self._key = make_key(self._other_key)
        self.restart()

    def configure(self, *options: str) -> None:
        """Further lines for sshd_config, such as `SetEnv A=1`; none takes them out again."""
        self.options = options
        self.restart()

    def refuse_key(self) -> None:
        self._authorized.write_text("", encoding="ascii")

    def accept_key(self) -> None:
        self._authorized.write_text(f"{self._client_key}\n", encoding="ascii")

    def mend(self) -> None:
        """Back to how it was at first, whatever was done to it."""
        self.accept_key()
        gone = self._process is None or self._process.poll() is not None
        if gone or self._key != self._first_key or self.options:
            self._key = self._first_key
            self.options = ()
            self.restart()

    def _text(self) -> str:
        # Without AcceptEnv it takes no variable from a client, unlike Debian's own config.
        lines = (
            *self.options,  # first: sshd takes the first value of a keyword
            f"Port {self.port}",
            f"HostKey {self._key}",
            f"AuthorizedKeysFile {self._authorized}",
            "PermitRootLogin prohibit-password",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "UsePAM no",
            "StrictModes no",
            "PidFile none",
            "UseDNS no",
            "PrintMotd no",
            "LogLevel VERBOSE",
            "MaxStartups 500",
            "MaxSessions 500",
            "Subsystem sftp internal-sftp",
        )
        return "".join(f"{line}\n" for line in lines)

    @staticmethod
    def _accepts(command: list[str], option: str) -> bool:
        check = [*command, "-t", "-o", option]
        return not subprocess.run(check, capture_output=True, timeout=BOUND, check=False).returncode
