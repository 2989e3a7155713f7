"""Somebody who uses slurmfab from a directory and a home of their own, and the hosts as they look from outside."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from lab_cluster import PROGRAM, DeployedLab

from slurmfab import lab
from slurmfab.lab import Lab, LabSpec

SNAPSHOT = (
    "find /etc /usr/bin /usr/sbin /var/lib/dpkg /var/lib/slurm/home /home /root -xdev"
    " -printf '%p %T@ %C@ %m %U %G %s\\n' 2>/dev/null | sort | sha256sum"
)
"""Tells two states of a host apart: names, times, modes, owners and sizes of all that a deployment could touch."""

HOLD_LOCK = (
    "import fcntl, os, time; lock = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(lock, fcntl.LOCK_EX);"
    " open('/tmp/held', 'w').close()\n"
    "while not os.path.exists('/tmp/release'): time.sleep(0.05)"
)
"""Holds dpkg's lock until somebody says to release it; lockf(3) is what dpkg uses."""


@dataclass(frozen=True)
class Person:
    """A user of slurmfab, who has no agent and no ssh_config but their own.

    Args:
        home: their home directory.
        directory: where they are.
        variables: environment variables beyond the usual ones.
        program: how they start slurmfab.
    """

    home: Path
    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = tuple(PROGRAM)

    @staticmethod
    def at(place: Path) -> Person:
        """A new user with an empty home and an empty directory."""
        home, directory = place / "home", place / "work"
        for folder in (home / ".ssh", directory):
            folder.mkdir(parents=True, mode=0o700)
        return Person(home, directory)

    @property
    def cluster_file(self) -> Path:
        """Where slurmfab looks for the cluster file, and where first contact writes it."""
        return self.directory / "configs" / "cluster.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """The environment of their programs."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURMFAB", "SSH_", "PYTHONPATH"))
        }
        return {**kept, "HOME": str(self.home), **self.variables}

    def slurmfab(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run slurmfab to its end."""
        return subprocess.run(
            [*self.program, *words],
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.directory,
            env=self.environment,
            timeout=400,
            check=False,
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start slurmfab with both outputs in one, and nothing to read.

        It can be interrupted even where the tests themselves cannot, as in the background of a shell.
        """
        return subprocess.Popen(
            ["env", "--default-signal=INT", *self.program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.directory,
            env=self.environment,
        )

    def writes(self, text: str) -> None:
        """Write the cluster file."""
        self.cluster_file.parent.mkdir(exist_ok=True)
        self.cluster_file.write_text(text)

    def has_seen(self, made: Lab, *hosts: str) -> None:
        """Have these hosts' keys in one's known_hosts, and nobody else's."""
        lines = [
            f"{made.host(name).address} {kind} {key}\n"
            for name in hosts
            for kind, key in made.host(name).host_keys.items()
        ]
        (self.home / ".ssh" / "known_hosts").write_text("".join(lines))


@contextmanager
def held_up(hosts: DeployedLab, *names: str) -> Iterator[None]:
    """Hosts that lack a package, and on which its installation waits until this context ends, for dpkg is locked."""
    for name in names:
        hosts.on(name, "rm -f /tmp/held /tmp/release; dpkg --force-depends --purge slurm-client")
        hosts.on(name, f'systemd-run --quiet python3 -c "{HOLD_LOCK}"')
        hosts.until(name, "ls /tmp/held", "/tmp/held")
    try:
        yield
    finally:
        for name in names:
            hosts.on(name, "touch /tmp/release")


def wait_for_dpkg(hosts: DeployedLab, *names: str) -> None:
    """Wait until the deployment has come to hosts that are held up."""
    for name in names:
        hosts.until(name, "pgrep -xc apt-get", "1")


@contextmanager
def running_lab(spec: LabSpec, directory: Path) -> Iterator[DeployedLab]:
    """A lab that nobody has deployed to yet, taken down in the end."""
    lab.down(spec.name)
    try:
        made = lab.up(spec, directory)
        yield DeployedLab(made, made.cluster_file)
    finally:
        lab.down(spec.name)


def snapshots(hosts: DeployedLab, *names: str) -> dict[str, str]:
    """The present state of hosts; two are equal when nothing was changed in between."""
    return {name: hosts.on(name, SNAPSHOT) for name in names}


def words_of(done: subprocess.CompletedProcess[str]) -> str:
    """All that a program said, which never is a traceback."""
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    return said
