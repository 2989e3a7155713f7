"""A deployer that is killed at many random moments: no file is ever torn, no job lost, and the end is always the same.

SLURMFAB_SEED repeats the moments of an earlier run, which says them.
"""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fingerprints import CLUSTER, KEY, PACKAGE_KEY, at_rest, differences, looks, now, seen, watch
from lab_cluster import AS_SLURM, DeployedLab
from lab_user import Person, words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

ALL = ("ctl", "n1", "n2")
KILLS = 8
LOOKING_SECONDS = 1.2
"""About how long a run takes until it begins to change anything."""

CHANGE = """
  - {PartitionName: extra, Nodes: n2, MaxTime: 30}
slurm_conf: {KillWait: 41, SlurmdTimeout: 200}
"""
JOBS = (
    "squeue --noheader --states=RUNNING --format='%i %N %S' | sort; squeue --noheader --steps --format='%i %N' | sort"
)
STEPS = "pgrep -u slurm -x sleep; pgrep -c slurmstepd"


@dataclass(frozen=True)
class Undisturbed:
    """A deployment that was left alone.

    Args:
        looks: how the hosts looked afterwards.
        seconds: how long it took.
    """

    looks: dict[str, list[str]]
    seconds: float


@pytest.fixture(scope="module", params=in_turn("kill"))
def suite(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def person(tmp_path_factory: pytest.TempPathFactory) -> Person:
    return Person.at(tmp_path_factory.mktemp("killer"))


@pytest.fixture(scope="module")
def left_alone(suite: str, person: Person, stock: Stock) -> Undisturbed:
    """A first deployment without any trouble, to hosts that are gone afterwards."""
    with stock.bare(suite, nodes=2) as hosts:
        return undisturbed(hosts, person)


@pytest.fixture(scope="module")
def hosts(suite: str, left_alone: Undisturbed, stock: Stock) -> Iterator[DeployedLab]:
    """Bare hosts of the same names and addresses, on which nobody has deployed yet; their files are watched."""
    assert left_alone.seconds
    with stock.bare(suite, nodes=2) as made:
        watch(made, *ALL)
        yield made


def undisturbed(hosts: DeployedLab, person: Person) -> Undisturbed:
    """Deploy to the end."""
    begun = time.monotonic()
    done = person.slurmfab("deploy", "--cluster", str(hosts.inventory_path))
    seconds = time.monotonic() - begun
    assert done.returncode == 0, words_of(done)
    return Undisturbed(looks(hosts, *ALL), seconds)


def changed(hosts: DeployedLab, person: Person, text: str) -> Undisturbed:
    """Deploy another cluster file to the end; what Slurm makes of it is part of how the controller looks."""
    hosts.inventory_path.write_text(text)
    done = undisturbed(hosts, person)
    done.looks["slurm"] = hosts.on("ctl", CLUSTER).splitlines()
    return done


def start_jobs(hosts: DeployedLab) -> None:
    """A job with a step on each node."""
    job = "runuser -u slurm -- sbatch --chdir=/tmp --output=/dev/null --wrap 'srun --overlap sleep 900'"
    for node in ALL[1:]:
        hosts.on("ctl", f"cd /tmp && {job.replace('sbatch', f'sbatch --nodelist={node}')}")
    hosts.until("ctl", "squeue --noheader --steps --format=%i | grep -c '[.]0$'", "2")


def running(hosts: DeployedLab) -> dict[str, str]:
    """The jobs and steps that Slurm has, with their beginnings, and the processes of theirs on each node."""
    return {"ctl": hosts.on("ctl", JOBS), **{node: hosts.on(node, STEPS) for node in ALL[1:]}}


def moments(seconds: float, count: int) -> list[float]:
    """Random moments spread over so many seconds, in their order; they are said, so that they can be repeated."""
    seed = int(os.environ.get("SLURMFAB_SEED") or random.SystemRandom().randrange(2**32))
    chance = random.Random(seed)
    chosen = [seconds * (number + chance.random()) / count for number in range(count)]
    print(f"SLURMFAB_SEED={seed}: {', '.join(f'{moment:.2f}' for moment in chosen)} s")  # noqa: T201
    return chosen


def kill(hosts: DeployedLab, person: Person, moment: float) -> None:
    """Begin to deploy, and kill the deployer after so many seconds, if it is still at work; wait for the hosts."""
    process = person.start("deploy", "--cluster", str(hosts.inventory_path))
    try:
        process.communicate(timeout=moment)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    at_rest(hosts, *ALL)


def test_a_first_deployment_that_is_killed_again_and_again_when_it_may_end_then_is_as_if_it_had_been_left_alone(
    hosts: DeployedLab, person: Person, left_alone: Undisturbed
) -> None:
    before = {host: now(hosts, host) for host in ALL}
    reached = 0.0
    for moment in moments(left_alone.seconds, KILLS):
        # Each run goes on where the last one was cut off, so what a whole one does is cut at these moments.
        kill(hosts, person, LOOKING_SECONDS + moment - reached)
        reached = moment
        assert {hosts.on(host, PACKAGE_KEY) for host in ALL} <= {"whole", "absent"}
    assert differences(undisturbed(hosts, person).looks, left_alone.looks) == {}
    for host in ALL:
        others = seen(hosts, host) - before[host] - now(hosts, host)
        # munge's package makes a key on each host, and not in one step.
        assert {line for line in others if not line.startswith(KEY)} == set(), host
    assert sorted(hosts.on("ctl", AS_SLURM + "srun -N2 hostname").split()) == ["n1", "n2"]


def test_a_change_that_is_killed_again_and_again_when_jobs_run_then_they_go_on_and_the_end_is_the_same(
    hosts: DeployedLab, person: Person
) -> None:
    start_jobs(hosts)
    before = running(hosts)
    old, new = hosts.inventory_path.read_text(), hosts.inventory_path.read_text().rstrip("\n") + CHANGE
    states = {text: state for text in (new, old) if (state := changed(hosts, person, text))}
    before_kills = {host: seen(hosts, host) for host in ALL}
    for number, moment in enumerate(moments(states[new].seconds, KILLS)):
        hosts.inventory_path.write_text(old if number % 2 else new)
        kill(hosts, person, moment)
        assert running(hosts) == before
    assert differences(changed(hosts, person, new).looks, states[new].looks) == {}
    assert running(hosts) == before
    assert {host: seen(hosts, host) for host in ALL} == before_kills
    again = person.slurmfab("deploy", "--cluster", str(hosts.inventory_path))
    assert "nothing changed on 3 hosts, all is as wanted" in words_of(again)
