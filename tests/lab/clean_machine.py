"""The machine of a new user: a lab host on which nothing of slurmfab is installed, and where labs can run.

It is a plain Debian without git, make and Python, or a look-alike of Ubuntu, whose user has sudo. Beside it are the
sources, to be cloned, and how this machine reaches Python's package index: proxy, certificates, pip's settings. Labs in
it have a volume for their disks, as docs/lab.md asks for containers, and its own cgroups, bridges and names, so that
they meet no lab of this machine.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from guide import Step
from guide_player import LAPTOP, ROOT, Player
from lab_user import Person, running_lab
from stock import place
from suites import LIKE

from slurmfab.lab import Lab, LabSpec, base
from slurmfab.lab.layout import CACHE, LABS
from slurmfab.lab.spec import CONTROLLER

VOLUMES = (str(LABS.parent), str(CACHE))
"""Directories that the machine has on a file system of this machine, because its own is an overlay."""

REPOSITORY = "/srv/slurmfab"
"""What stands for “<this repository>” of the pages."""

WAYS_OUT = re.compile(r"(https?|no)_proxy|pip_(?!find_links).*|ssl_cert_.*|requests_ca_bundle", re.IGNORECASE)
"""Environment variables by which pip finds its way out of this machine."""

ANSWERS = 'APT::Get::Assume-Yes "true";\n'
"""The user answers apt's questions with yes."""

END = "-- the command has ended: "


class Shell:
    """A login shell on the machine, which keeps its directory and its variables, as in one terminal."""

    def __init__(self, made: Lab) -> None:
        """Log in to the machine that a lab's controller is."""
        ssh = ["ssh", "-F", str(made.directory / "ssh_config"), CONTROLLER, "bash", "-l"]
        self.process = subprocess.Popen(
            ssh, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def run(self, command: str, patience: float = 900) -> subprocess.CompletedProcess[str]:
        """Run a command; both outputs come in one text. One that has not ended in time is killed with the shell."""
        limit = threading.Timer(patience, self.process.kill)
        limit.start()
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f'{{ {command}\n}} </dev/null 2>&1\necho "{END}$?"\n')
        self.process.stdin.flush()
        lines, code = [], -9
        for line in self.process.stdout:
            before, mark, after = line.rpartition(END)
            lines.append(before if mark else line)
            if mark:
                code = int(after)
                break
        limit.cancel()
        return subprocess.CompletedProcess(command, code, "".join(lines))

    def close(self) -> None:
        """Log out."""
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()


@dataclass
class CleanMachine:
    """The machine, and the shell that its user has open."""

    made: Lab
    shell: Shell
    said: list[str] = field(default_factory=list)  # what was typed and printed, for the reader of a failed test

    @property
    def root(self) -> Path:
        """Its root directory, as seen from here."""
        return self.made.directory / "hosts" / CONTROLLER / "root"

    def new_shell(self) -> None:
        """Close the shell, and open another one."""
        self.shell.close()
        self.shell = Shell(self.made)

    def types(self, command: str, remark: str = "", *, patience: float = 900) -> str:
        """Run a command of a page, which has to succeed; with sudo if the remark behind it says "as root".

        Returns:
            What it printed.
        """
        command = command.replace("<this repository>", REPOSITORY)
        if LIKE and "as root" in remark:
            command = f"sudo sh -c {shlex.quote(command)}"
        done = self.shell.run(command, patience)
        self.said += [f"$ {command}", done.stdout]
        assert done.returncode == 0, "\n".join([*self.said, f"[exit code {done.returncode}]"])
        return done.stdout


@contextmanager
def clean_machine(suite: str, directory: Path, *, cached: str = "") -> Iterator[CleanMachine]:
    """A machine with a new installation, which is removed at the end of the context.

    Args:
        suite: its Debian release.
        directory: place for the lab's files.
        cached: suite of labs whose base tree it has already, to save two minutes; empty for none.
    """
    bare = () if LIKE else (CONTROLLER,)
    spec = LabSpec(name=f"clean{place()}", suite=suite, nodes=1, down=("n1",), shared=VOLUMES, no_python=bare)
    with running_lab(spec, directory) as hosts:
        machine = CleanMachine(hosts.lab, Shell(hosts.lab))
        _settle(machine)
        if cached:
            tree = base.ensure(cached, print)
            # No hard links: they change the times of files that the hosts of other tests have from this tree.
            subprocess.run(["cp", "-a", tree, hosts.lab.directory / f"shared{CACHE}"], check=True)
        try:
            yield machine
        finally:
            machine.shell.close()


def _settle(machine: CleanMachine) -> None:
    """Give the machine its name, its way out, and the sources that its user clones."""
    etc = machine.root / "etc"
    if not LIKE:
        (etc / "hostname").write_text(f"{LAPTOP}\n")
        (etc / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {LAPTOP}\n")
        machine.types(f"hostname {LAPTOP}")
        machine.said.clear()
    (etc / "apt/apt.conf.d/90answers").write_text(ANSWERS)
    for name in filter(os.path.exists, ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")):
        shutil.copy(name, machine.root / name[1:])
    variables = "".join(f"{name}={value}\n" for name, value in os.environ.items() if WAYS_OUT.fullmatch(name))
    with (etc / "environment").open("a") as file:
        file.write(variables)
    _put_sources(machine.root / REPOSITORY[1:])
    if LIKE:  # git clones no repository of somebody else
        machine.types(f"sudo chown --recursive ubuntu: {REPOSITORY}")
    machine.new_shell()


def _put_sources(repository: Path) -> None:
    """Make a repository with this working tree, uncommitted changes included."""
    git = ["git", "-C", str(ROOT)]
    listed = subprocess.check_output([*git, "ls-files", "-co", "--exclude-standard"], text=True).splitlines()
    for name in (one for one in listed if os.path.lexists(ROOT / one)):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, repository / name, follow_symlinks=False)
    who = ["-c", "user.name=slurmfab", "-c", "user.email=slurmfab@localhost"]
    for words in (["init", "-q"], ["add", "--all"], [*who, "commit", "-q", "-m", "The tree that is tested"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)


@dataclass(frozen=True)
class Newcomer(Player):
    """A player on a clean machine, who types into a shell there, and reaches the lab's hosts as the page says."""

    machine: CleanMachine = field(kw_only=True)

    @staticmethod
    def on(machine: CleanMachine, directory: str) -> Newcomer:
        """The root user of a machine.

        Args:
            machine: the machine.
            directory: where the shell is.
        """
        home = machine.root / "root"
        return Newcomer("", Person(home, machine.root / directory[1:]), "/root", machine=machine)

    @property
    def words(self) -> dict[str, str]:
        """None: everything has the name that the page gives it."""
        return {}

    def run(self, step: Step) -> subprocess.CompletedProcess[str]:
        """Run a command, on a host as in the shell that ssh opens there."""
        if not step.host:
            return self.machine.shell.run(step.command)
        login = f"-i {step.user} {step.user}@{step.host}" if step.user != "root" else step.host
        there = shlex.quote(f"bash -lc {shlex.quote(step.command)}")
        return self.machine.shell.run(f"ssh -F tour.ssh {login} {there}")
