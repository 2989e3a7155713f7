"""What the tests deployed to: suite, Slurm, kind of packages, architecture and Python, as the hosts tell it.

While tests run, each combination leaves a small file below build/deployed. `make supported` puts them into
deployed.json, from which `python -m reference` makes the tables of docs/supported.md and of the README.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import suites

from slurmfab.cluster.slurm.versions import DISTRIBUTION, SlurmVersion
from slurmfab.lab import Lab

REPOSITORY = Path(__file__).parents[2]
RECORD = Path(__file__).with_name("deployed.json")
SEEN = REPOSITORY / "build" / "deployed"
"""One file per combination, of all runs since somebody has removed them."""

FACTS = """
for program in slurmctld slurmd; do
    place=$(readlink -f "$(command -v $program)") || continue
    owner=$(grep -lxF "$place" /var/lib/dpkg/info/*$program*.list) || continue
    $program -V; basename "$owner"; dpkg --print-architecture; readlink -f /usr/bin/python3
    break
done
"""
"""Shell script: prints Slurm's version, the dpkg list that has its program, the architecture and the Python."""


@dataclass(frozen=True, order=True)
class Combination:
    """What tests deployed to.

    Args:
        suite: the lab's suite; the os-release of Debian's sid has the name of the release that it becomes. On a
            look-alike of Ubuntu, the name of that.
        slurm: release series of the Slurm that is installed there, such as `24.11`; a mirror may have a newer point
            release every day.
        packages: whose packages: `debian` or `debian-smd`.
        architecture: Debian's name for it.
        python: series of the Python that ran the agent.
        test: the file of tests that deployed to it, where not all lab tests do.
    """

    suite: str
    slurm: str
    packages: str
    architecture: str
    python: str
    test: str = ""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What makes it one: all but Python, which is new in sid every year."""
        return self.suite, self.slurm, self.packages, self.architecture

    @property
    def is_its_suites_own(self) -> bool:
        """Whether the Slurm is the one that the suite has."""
        return self.packages == "debian" and DISTRIBUTION.get(self.suite) == self.slurm


def note(lab: Lab, facts: str) -> None:
    """Leave a file for what a lab's host is.

    Args:
        lab: the lab.
        facts: what `FACTS` has printed on one of its hosts.
    """
    if facts:
        found = parse(lab.spec.like or lab.suite, facts, os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0])
        SEEN.mkdir(parents=True, exist_ok=True)
        file = SEEN / f"{'-'.join(found.key)}.json"
        # Other processes of a run may do the same.
        half = file.with_suffix(f".{os.getpid()}")
        half.write_text(f"{json.dumps(asdict(found))}\n")
        half.rename(file)


def parse(suite: str, facts: str, test: str = "") -> Combination:
    """What `FACTS` has printed on a host of a suite."""
    version, owner, architecture, python = facts.splitlines()
    kind = "debian-smd" if owner.startswith("slurm-smd") else "debian"
    slurm = str(SlurmVersion.parse(version))
    return Combination(suite, slurm, kind, architecture, python.rpartition("/python")[2], test)


def seen(since: float = 0) -> tuple[Combination, ...]:
    """What tests have deployed to, from the files that they left.

    Args:
        since: files of before that time, in seconds since the epoch, are left out.
    """
    files = (file for file in SEEN.glob("*.json") if file.stat().st_mtime >= since)
    return tuple(sorted(Combination(**json.loads(file.read_text())) for file in files))


def recorded() -> tuple[Combination, ...]:
    """The record that is in the repository; empty before the first one is made."""
    return tuple(Combination(**row) for row in json.loads(RECORD.read_text())) if RECORD.exists() else ()


def missing(found: Iterable[Combination]) -> tuple[Combination, ...]:
    """Those that the record lacks."""
    known = {one.key for one in recorded()}
    return tuple(one for one in found if one.key not in known)


def renew() -> tuple[Combination, ...]:
    """Put what tests have deployed to into the record; what they did not deploy to stays in it."""
    rows = {one.key: one for one in recorded()}
    for one in seen():
        test = "" if one.suite in suites.DEFAULT and one.is_its_suites_own else one.test
        rows[one.key] = Combination(*one.key, one.python, test)
    listed = sorted(rows.values())
    lines = ",\n".join(f"  {json.dumps(asdict(row))}" for row in listed)
    RECORD.write_text(f"[\n{lines}\n]\n")
    return tuple(listed)


if __name__ == "__main__":
    renew()
