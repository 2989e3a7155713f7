"""The person who follows a guide on lab hosts, command by command, and the labs that guides need.

`SLURMFAB_REGENERATE=1 pytest tests/lab/test_guides.py -k NAME` writes the outputs of this run into the guide. An output
that is not what it shows is written in full: look at what changed, and shorten with `…`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import guide
import pytest
from guide import Guide, Step, Switched, Written
from hand_made import KINDS, Kind
from lab_user import Person, installed, running_lab
from stock import place

from slurmfab import lab
from slurmfab.base.errors import InputError
from slurmfab.base.hostlist import expand
from slurmfab.lab import Lab, LabSpec

ROOT = Path(__file__).parents[2]
REGENERATE = bool(os.environ.get("SLURMFAB_REGENERATE"))
PEERS = Path.home() / f".cache/slurmfab-benchmarks/peers-{sys.version_info.major}.{sys.version_info.minor}/bin"
"""Where the benchmarks install Ansible."""

SUBSTITUTES = {"ansible-playbook": "fab deploy"}
"""What is run, without a look at its output, where a program of the guides is not installed."""

LAPTOP = "laptop"
"""The admin's machine in the guides."""

NETWORK = "10.0.0."
"""The beginning of the lab's addresses in the guides."""

QUERIES = ("sinfo", "squeue", "sacct", "scontrol show", "sstatus", "cat")
"""Commands whose answer may need some time: they are asked again until it is the one that the guide shows."""

PATIENCE = 3.0 if REGENERATE else 60.0
"""Seconds until a query's answer must be that of the guide."""


@dataclass(frozen=True)
class Player:
    """A person who follows a guide, command by command.

    Args:
        name: the lab's name.
        person: the admin, whose working directory begins empty.
        home: the admin's home in the guide.
        shown_name: the lab's name in the guide; empty if the guide does not mention it.
        suite: the Debian release of a lab that the guide starts itself.
        outputs: what the commands have printed.
    """

    name: str
    person: Person
    home: str = "/home/ann"
    shown_name: str = ""
    suite: str = ""
    outputs: dict[Step, str] = field(default_factory=dict)

    @property
    def made(self) -> Lab:
        """The lab, which a guide may start and remove itself."""
        return lab.load(self.name)

    @property
    def words(self) -> dict[str, str]:
        """Words of the guide to what is meant here."""
        try:
            network = self.made.hosts[0].address.rpartition(".")[0] + "."
        except InputError:
            network = NETWORK
        own = {self.shown_name: self.name} if self.shown_name else {}
        return {NETWORK: network, **own}

    def here(self, text: str) -> str:
        """A text of the guide in the words of this lab."""
        for shown, meant in self.words.items():
            text = text.replace(shown, meant)
        return text.replace("lab-up ", f"lab-up --suite {self.suite} ") if self.suite else text

    def run(self, step: Step) -> subprocess.CompletedProcess[str]:
        """Run a command where its prompt says; both outputs come in one text, as on a terminal."""
        script = SUBSTITUTES[step.program] if self.lacks(step) else self.here(step.command)
        if step.host:
            login = shlex.join(["runuser", "-l", step.user, "-c", script])
            return lab.run(self.made, step.host, ["sh", "-c", f"{login} 2>&1"])
        return subprocess.run(
            ["bash", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=self.person.directory,
            env=self.person.environment,
            timeout=400,
            check=False,
        )

    def lacks(self, step: Step) -> bool:
        """Whether the program of a command is one that this machine need not have, and does not have."""
        return step.program in SUBSTITUTES and not shutil.which(step.program, path=self.person.variables["PATH"])

    def output(self, done: subprocess.CompletedProcess[str]) -> str:
        """A command's output in the words of the guides: their addresses, their admin, their directory."""
        text = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        for shown, meant in self.words.items():
            text = text.replace(meant, shown)
        text = text.replace(str(self.person.directory), f"{self.home}/cluster")
        return text.replace(str(self.person.home), self.home).replace(f"@{os.uname().nodename}", f"@{LAPTOP}")

    def follow(self, whole: Guide) -> dict[Step, str]:
        """Follow a guide to its end, or to the first command that fails.

        Returns:
            The commands that do not do what the guide shows, with their outputs.
        """
        wrong: dict[Step, str] = {}
        for piece in whole.pieces:
            if isinstance(piece, Written):
                self.write(piece)
            elif isinstance(piece, Switched):
                self.switch(piece)
            else:
                done = self.play(piece)
                shown, succeeded = self.output(done), guide.succeeded(piece, done)
                if not succeeded:
                    shown += f"\n[exit code {done.returncode}]"
                self.outputs[piece] = shown
                if not succeeded or not (self.lacks(piece) or guide.agree(piece.output, shown)):
                    wrong[piece] = shown
                if not succeeded:
                    break
        return wrong

    def play(self, step: Step) -> subprocess.CompletedProcess[str]:
        """Run a command; a query again until its answer is the one that the guide shows, or patience ends."""
        deadline = time.monotonic() + PATIENCE
        while True:
            done = self.run(step)
            if not step.command.startswith(QUERIES) or guide.agree(step.output, self.output(done)):
                return done
            if time.monotonic() > deadline:
                return done
            time.sleep(0.3)

    def write(self, written: Written) -> None:
        """Write a file that the guide shows, with the lab's addresses."""
        file = self.person.directory / written.path
        file.parent.mkdir(parents=True, exist_ok=True)
        text = self.here(written.text)
        file.write_text(text if written.whole else guide.with_keys(file.read_text(), text))

    def switch(self, switched: Switched) -> None:
        """Switch hosts on or off."""
        for verb, host in switched.hosts.items():
            {"start": lab.start_host, "stop": lab.kill_host}[verb](self.made, host)


@contextmanager
def player_of(wanted: Guide, directory: Path) -> Iterator[Player]:
    """A person with the hosts that a guide needs, which are removed at the end of the context."""
    if "up" in wanted.lab:
        with started_by_guide(wanted.lab["up"], wanted.lab["suite"], directory) as player:
            yield player
        return
    spec = specification(wanted)
    with running_lab(spec, directory) as hosts:
        if kind := made_by_hand(wanted):
            kind.make(hosts, spec.suite)
        yield Player(spec.name, admin_of(hosts.lab, directory))


@contextmanager
def started_by_guide(shown_name: str, suite: str, directory: Path) -> Iterator[Player]:
    """A person who starts the lab by a command of the guide, as root.

    Args:
        shown_name: the lab's name in the guide; here it has another one of that length.
        suite: the Debian release of its hosts.
        directory: place for the person's files.
    """
    name = f"t{shown_name[1:-1]}{place()}"
    lab.down(name)
    try:
        yield Player(name, with_programs(Person.at(directory), "root"), "/root", shown_name, suite)
    finally:
        lab.down(name)


def specification(wanted: Guide) -> LabSpec:
    """The lab that a guide needs; its hosts have Slurm's packages on their disks already, unless it says otherwise."""
    given = {name: value for name, value in wanted.lab.items() if name != "hand_made"}
    arguments = {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}
    if kind := made_by_hand(wanted):
        arguments.update(nodes=kind.nodes, gpus=kind.gpus, installed=kind.packages)
    others = arguments.pop("installed", {})
    gpus = (entry.partition(":") for entry in arguments.get("gpus", ()))
    arguments["gpus"] = tuple(f"{host}:{rest}" for hosts, _, rest in gpus for host in expand(hosts))
    spec = LabSpec(name=f"guide{place()}", **arguments)
    return spec if others is False else installed(spec, **{host: tuple(names) for host, names in others.items()})


def made_by_hand(wanted: Guide) -> Kind | None:
    """The kind of cluster that the hosts of a guide are before it begins; None where they have none."""
    return KINDS[wanted.lab["hand_made"]] if "hand_made" in wanted.lab else None


def admin_of(made: Lab, place: Path) -> Person:
    """The admin of the guides, whose SSH reaches the lab's hosts by name and knows their keys."""
    ann = Person.at(place)
    config, known = [], []
    for host in made.hosts:
        config.append(f"Host {host.name}\n  HostName {host.address}\n")
        known += [f"{host.name},{host.address} {kind} {key}\n" for kind, key in host.host_keys.items()]
    (ann.home / ".ssh" / "config").write_text("".join(config))
    (ann.home / ".ssh" / "known_hosts").write_text("".join(known))
    shutil.copy(made.ssh_key, ann.home / ".ssh" / "id_ed25519")
    return with_programs(ann, "ann")


def with_programs(person: Person, name: str) -> Person:
    """The same person with slurmfab and the peers in the search path.

    Args:
        person: somebody with a home and a working directory.
        name: the login name.
    """
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{PEERS}"
    variables = {"PATH": programs, "PYTHONPATH": str(ROOT), "LOGNAME": name, "USER": name}
    return Person(person.home, person.directory, variables)


def play(player: Player, path: Path) -> None:
    """Follow a guide; the test fails if a command does not do what it shows."""
    text = path.read_text()
    wrong = player.follow(guide.read(text))
    if REGENERATE:
        outputs = {step: guide.refreshed(step.output, shown) for step, shown in player.outputs.items()}
        path.write_text(guide.with_outputs(text, outputs))
    if wrong:
        pytest.fail(f"{path.name}:\n\n" + "\n\n".join(map(complaint, wrong.items())), pytrace=False)


def complaint(found: tuple[Step, str]) -> str:
    """A command that does not do what its guide shows, for the person who mends the guide."""
    step, shown = found
    missing = guide.not_there(step.output, shown) or ["(its lines are there, but not in this order or not alone)"]
    return "\n".join([shown, "", f"^ {step.line}", "The guide shows what did not come:", *missing])
