"""Users of slurmfab with their own home and working directories, and states of hosts for comparison."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import forked
from lab_cluster import PROGRAM, DeployedLab, succeeded
from suites import LIKE, NEWEST, PACKAGES

from slurmfab import lab
from slurmfab.cluster.slurm.platform import PLATFORMS, Platform
from slurmfab.lab import Lab, LabSpec
from slurmfab.lab.spec import CONTROLLER, PACKAGED, SERIES
from slurmfab.lab.ubuntu_like import LIKES, USER

PLATFORM = next(one for one in PLATFORMS.values() if one.word == PACKAGES)
"""What Slurm is packaged as on hosts that no test says it of."""

SLURM_KEY = f'slurm: {{packages: {PACKAGES}, version: "{SERIES.get(NEWEST)}.*"}}\n'
"""The line of a cluster file that asks for these packages."""

SNAPSHOT = (
    "find /etc /usr/bin /usr/sbin /var/lib/dpkg /var/lib/slurm/home /home /root -xdev"
    " -printf '%p\\t%T@ %C@ %m %U %G %s\\n' 2>/dev/null || :"
)
"""Shell command: names, times, modes, owners and sizes of all files that a deployment can change."""

HOLD_LOCK = (
    "import fcntl, os, time; lock = open('/var/lib/dpkg/lock-frontend', 'w'); fcntl.lockf(lock, fcntl.LOCK_EX);"
    " open('/tmp/held', 'w').close()\n"
    "while not os.path.exists('/tmp/release'): time.sleep(0.05)"
)
"""Python program that holds dpkg's lock, with lockf(3) as dpkg does, until /tmp/release exists."""


@dataclass(frozen=True)
class Person:
    """A user of slurmfab, who does not inherit the SSH agent or ssh_config of the user who runs the tests.

    Args:
        home: the user's home directory.
        directory: the working directory.
        variables: additional environment variables.
        program: the command that starts slurmfab.
    """

    home: Path
    directory: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = tuple(PROGRAM)

    @staticmethod
    def at(place: Path) -> Person:
        """A new user with an empty home and an empty working directory below `place`."""
        home, directory = place / "home", place / "work"
        for folder in (home / ".ssh", directory):
            folder.mkdir(parents=True, mode=0o700)
        return Person(home, directory)

    @property
    def cluster_file(self) -> Path:
        """Path at which slurmfab looks for the cluster file, and to which first contact writes it."""
        return self.directory / "configs" / "cluster.yaml"

    @property
    def environment(self) -> dict[str, str]:
        """Environment of the programs that the user runs."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("SLURMFAB", "SSH_", "PYTHONPATH"))
        }
        return {**kept, "HOME": str(self.home), **self.variables}

    def slurmfab(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run slurmfab and wait until it ends."""
        if self.program == tuple(PROGRAM):
            return forked.run(words, stdin=stdin, cwd=self.directory, env=self.environment, timeout=400)
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
        """Start slurmfab without input, and with standard output and standard error in one pipe.

        SIGINT interrupts it even if the tests run with SIGINT ignored, for example in the background of a shell.
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

    def at_a_terminal(self, typed: str, *words: str) -> tuple[int, str]:
        """Run slurmfab on a terminal at which something has been typed.

        Returns:
            The exit code, and all that is shown.
        """
        terminal, its_end = os.openpty()
        os.write(terminal, typed.encode())
        argv, place = [*self.program, *words], self.directory
        code = subprocess.call(
            argv, stdin=its_end, stdout=its_end, stderr=its_end, cwd=place, env=self.environment, timeout=400
        )
        os.close(its_end)
        shown = b""
        # Reading fails when all has been read that was shown before the other end was closed.
        with suppress(OSError):
            while part := os.read(terminal, 65536):
                shown += part
        os.close(terminal)
        return code, shown.decode()

    def writes(self, text: str) -> None:
        """Write the cluster file, which asks for the packages that the tests are run with unless it says which.

        On look-alikes of Ubuntu nobody logs in as root.
        """
        self.cluster_file.parent.mkdir(exist_ok=True)
        text = text.replace("ssh: {user: root, ", f"ssh: {{user: {USER}, become: sudo, ") if LIKE else text
        asks = "" if PACKAGES == "debian" or re.search("^slurm:", text, re.MULTILINE) else SLURM_KEY
        self.cluster_file.write_text(f"{text}{asks}")

    def has_seen(self, made: Lab, *hosts: str) -> None:
        """Write a known_hosts file with the keys of these hosts only."""
        lines = [
            f"{made.host(name).address} {kind} {key}\n"
            for name in hosts
            for kind, key in made.host(name).host_keys.items()
        ]
        (self.home / ".ssh" / "known_hosts").write_text("".join(lines))


def said_when(process: subprocess.Popen[str], patience: float = 300) -> list[tuple[float, str]]:
    """Read a program's output until it ends; kills the program after `patience` seconds.

    Returns:
        The lines, each with the seconds from this call until it came.
    """
    begun = time.monotonic()
    limit = threading.Timer(patience, process.kill)
    limit.start()
    assert process.stdout
    lines = [(time.monotonic() - begun, line) for line in process.stdout]
    process.wait()
    limit.cancel()
    return lines


@contextmanager
def held_up(hosts: DeployedLab, *names: str) -> Iterator[None]:
    """Remove a package of Slurm from hosts and lock dpkg, so that deployments wait there until the context ends."""
    for name in names:
        client = platform_of(hosts.lab.spec).client
        hosts.on(name, f"rm -f /tmp/held /tmp/release; dpkg --force-depends --purge {client}")
        hosts.on(name, f'systemd-run --quiet python3 -c "{HOLD_LOCK}"')
        hosts.until(name, "ls /tmp/held", "/tmp/held")
    try:
        yield
    finally:
        for name in names:
            hosts.on(name, "touch /tmp/release")


def wait_for_dpkg(hosts: DeployedLab, *names: str) -> None:
    """Wait until apt-get runs on these hosts, which shows that a deployment is waiting for dpkg's lock."""
    for name in names:
        hosts.until(name, "pgrep -xc apt-get", "1")


def reboot_with_a_broken_crun(hosts: DeployedLab, complaint: str) -> None:
    """Reboot n1 with a crun that an update has broken, which is named, and once more with the whole one."""
    reboot = ("reboot", "n1", "--reason", "new libraries", "--timeout", "3")
    broken = "#!/bin/sh\\necho libseccomp.so.2: no such library >&2; exit 1\\n"
    hosts.on("n1", f"cd /usr/bin; mv crun whole; printf '{broken}' >crun; chmod 755 crun")
    done = hosts.slurmfab(*reboot)
    assert (done.returncode, complaint in words_of(done)) == (1, True), words_of(done)
    hosts.on("n1", "cd /usr/bin; mv whole crun")
    succeeded(hosts.slurmfab(*reboot))


def of_kind(spec: LabSpec) -> LabSpec:
    """The same lab with the packages of Slurm, or as the look-alike, that the tests are run with."""
    if LIKE and not spec.like and spec.slurm_packages == PACKAGED:
        return replace(spec, suite=LIKES[LIKE].suite, like=LIKE, ssh_user=USER)
    if PACKAGES == "debian" or spec.slurm_packages != "debian":
        return spec
    return replace(spec, suite=NEWEST if spec.suite == "bookworm" else spec.suite, slurm_packages=PACKAGES)


def platform_of(spec: LabSpec) -> Platform:
    """What Slurm is packaged as on a lab's hosts."""
    return next(one for one in PLATFORMS.values() if one.word == spec.slurm_packages)


def installed(spec: LabSpec, **others: tuple[str, ...]) -> LabSpec:
    """The same lab with Slurm's packages on all hosts, so that deployments do not spend time on installing them.

    Args:
        spec: the lab.
        others: host name to further packages that it has.
    """
    spec = of_kind(spec)
    platform = platform_of(spec)
    names = {host: platform.packages("controller" if host == CONTROLLER else "compute") for host in spec.host_names}
    entries = (
        f"{host}:{','.join(dict.fromkeys((*packages, *others.get(host, ()))))}" for host, packages in names.items()
    )
    return replace(spec, packages=tuple(entries))


@contextmanager
def running_lab(spec: LabSpec, directory: Path) -> Iterator[DeployedLab]:
    """A lab that is removed at the end of the context."""
    lab.down(spec.name)
    try:
        made = lab.up(of_kind(spec), directory)
        yield DeployedLab(made, made.cluster_file)
    finally:
        lab.down(spec.name)


def new_key(directory: Path) -> Path:
    """Make a pair of SSH keys in a directory, and return the path of the private one."""
    key = directory / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ann", "-f", str(key)], check=True)
    return key


def log_in(
    hosts: DeployedLab, user: str, key: Path, host: str, command: str = "", *, typed: str = ""
) -> tuple[int, str]:
    """Log in to a host by SSH as a user of the cluster.

    Args:
        hosts: the lab.
        user: login name.
        key: the user's private key.
        host: the host's name.
        command: what to run there; empty for a shell.
        typed: what the user types; needs a terminal.

    Returns:
        The exit code, and all that was printed.
    """
    options = (
        "LogLevel=ERROR",
        "StrictHostKeyChecking=no",
        "UserKnownHostsFile=/dev/null",
        "BatchMode=yes",
        "IdentitiesOnly=yes",
    )
    words = [word for option in options for word in ("-o", option)]
    terminal = ["-tt"] if typed else []
    target = f"{user}@{hosts.lab.host(host).address}"
    argv = ["ssh", "-F", "none", *words, *terminal, "-i", str(key), target, *([command] if command else [])]
    done = subprocess.run(argv, input=typed, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def snapshots(hosts: DeployedLab, *names: str) -> dict[str, str]:
    """Times, modes, owners and sizes of hosts' files; where these are equal, nothing was changed in between."""
    files = (f"{name}:{line}" for name in names for line in hosts.on(name, SNAPSHOT).splitlines())
    return {path: told for path, _, told in (line.partition("\t") for line in files)}


def words_of(done: subprocess.CompletedProcess[str]) -> str:
    """Standard output and standard error of a program; fails the test if they contain a traceback."""
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    return said
