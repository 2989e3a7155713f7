"""The guides of docs/guides, played on lab hosts: what they print is what comes.

`SLURMFAB_REGENERATE=1 pytest tests/lab/test_guides.py -k NAME` writes the outputs that differ into the guide; look at
what changed, and shorten with `…`.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import guide
import pytest
from guide import Guide, Step, Switched, Written
from hand_made import KINDS, Kind
from lab_cluster import DeployedLab
from lab_user import Person, installed, running_lab
from stock import place

from slurmfab import lab
from slurmfab.hostlist import expand
from slurmfab.lab import LabSpec

pytestmark = pytest.mark.lab

ROOT = Path(__file__).parents[2]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
REGENERATE = bool(os.environ.get("SLURMFAB_REGENERATE"))
PEERS = Path.home() / f".cache/slurmfab-benchmarks/peers-{sys.version_info.major}.{sys.version_info.minor}/bin"
"""Where the benchmarks install Ansible."""

SUBSTITUTES = {"ansible-playbook": "fab deploy"}
"""What is run, without a look at its output, where a program of the guides is not installed."""

LAPTOP = "laptop"
"""The admin's machine in the guides; the admin is ann."""

QUERIES = ("sinfo", "squeue", "sacct", "scontrol show", "cat")
"""Commands whose answer may need some time: they are asked again until it is the one that the guide shows."""

PATIENCE = 3.0 if REGENERATE else 60.0
"""Seconds until a query's answer must be that of the guide."""


@dataclass(frozen=True)
class Player:
    """A person who follows a guide, command by command.

    Args:
        hosts: the lab.
        person: the admin, whose working directory begins empty.
        network: the beginning of the lab's addresses, as `10.83.7.`.
    """

    hosts: DeployedLab
    person: Person
    network: str

    def run(self, step: Step) -> subprocess.CompletedProcess[str]:
        """Run a command where its prompt says; both outputs come in one text, as on a terminal."""
        script = SUBSTITUTES[step.program] if self.lacks(step) else step.command.replace("10.0.0.", self.network)
        if step.host:
            login = shlex.join(["runuser", "-l", step.user, "-c", script])
            return lab.run(self.hosts.lab, step.host, ["sh", "-c", f"{login} 2>&1"])
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
        text = text.replace(self.network, "10.0.0.").replace(str(self.person.directory), "/home/ann/cluster")
        return text.replace(str(self.person.home), "/home/ann").replace(f"@{os.uname().nodename}", f"@{LAPTOP}")

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
        text = written.text.replace("10.0.0.", self.network)
        file.write_text(text if written.whole else guide.with_keys(file.read_text(), text))

    def switch(self, switched: Switched) -> None:
        """Switch hosts on or off."""
        for verb, host in switched.hosts.items():
            {"start": lab.start_host, "stop": lab.kill_host}[verb](self.hosts.lab, host)


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


def admin_of(hosts: DeployedLab, place: Path) -> Person:
    """The admin of the guides, whose SSH reaches the lab's hosts by name and knows their keys."""
    ann = Person.at(place)
    config, known = [], []
    for host in hosts.lab.hosts:
        config.append(f"Host {host.name}\n  HostName {host.address}\n")
        known += [f"{host.name},{host.address} {kind} {key}\n" for kind, key in host.host_keys.items()]
    (ann.home / ".ssh" / "config").write_text("".join(config))
    (ann.home / ".ssh" / "known_hosts").write_text("".join(known))
    shutil.copy(hosts.lab.ssh_key, ann.home / ".ssh" / "id_ed25519")
    programs = f"{Path(sys.executable).parent}:{os.environ['PATH']}:{PEERS}"
    variables = {"PATH": programs, "PYTHONPATH": str(ROOT), "LOGNAME": "ann", "USER": "ann"}
    return Person(ann.home, ann.directory, variables)


@pytest.fixture
def player(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Player]:
    """A person with the hosts that a guide needs."""
    wanted = guide.read(request.param.read_text())
    spec = specification(wanted)
    with running_lab(spec, tmp_path) as hosts:
        if kind := made_by_hand(wanted):
            kind.make(hosts, spec.suite)
        network = hosts.lab.hosts[0].address.rpartition(".")[0] + "."
        yield Player(hosts, admin_of(hosts, tmp_path), network)


def named(path: Path) -> str:
    """The test's name for a guide; by the suite in it, the guides are distributed over processes."""
    return f"{path.stem}-{guide.read(path.read_text()).lab['suite']}"


@pytest.mark.parametrize(
    ("path", "player"), [pytest.param(path, path, id=named(path)) for path in GUIDES], indirect=["player"]
)
def test_a_guide_when_followed_then_every_command_prints_what_it_shows(path: Path, player: Player) -> None:
    text = path.read_text()
    wrong = player.follow(guide.read(text))
    if REGENERATE:
        path.write_text(guide.with_outputs(text, wrong))
    if wrong:
        pytest.fail(f"{path.name}:\n\n" + "\n\n".join(map(complaint, wrong.items())), pytrace=False)


def complaint(found: tuple[Step, str]) -> str:
    """A command that does not do what its guide shows, for the person who mends the guide."""
    step, shown = found
    missing = guide.not_there(step.output, shown) or ["(its lines are there, but not in this order or not alone)"]
    return "\n".join([shown, "", f"^ {step.line}", "The guide shows what did not come:", *missing])
