"""A cluster that runs: nothing to change, one value changed, and its checks; the floor is one login on every host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

from benchmarks.clusters import Cluster, require_value
from benchmarks.measuring import Way
from benchmarks.peers.peer import Job, Peer
from benchmarks.programs import ProgramFailed, output_of, timed
from benchmarks.results import MEMORY, PROCESSORS, SECONDS, Target
from benchmarks.scenarios.scenario import SLURMFAB, SSH_CHEAP, SSH_TRUE, Scenario, Setting, floors
from slurmfab.base.exit_codes import DONE, NOT_ALL_CHECKED

KEY = "SlurmdTimeout"
FIRST_VALUE = 301
CHECKS = "check-cluster"
ALL_CHECKS = "check-cluster, all checks"
ONE_CORE_FREE, NO_CORE_FREE = "a core of each node is free", "jobs have all cores"
QUEUE = """
cd /tmp
set -- $(sinfo --noheader --format='%c %m' | sort -n | head -1)
cores=$1 most=$(($2 * 6 / 10))  # so that one fits a node
for number in $(seq 44); do
    runuser -u slurm -- sbatch --quiet --nodes=1 --cpus-per-task={share} --mem=$most --output=/dev/null \\
        --wrap='exec sleep 3600'
done
until [ "$(squeue --noheader --states=RUNNING | wc -l)" = 4 ]; do sleep 0.2; done
"""
GROUPS = "reachable,daemons,munge,configuration,takes_jobs,hardware"
"""The checks that the target is about: daemons, keys, hashes, states; none of them runs a job."""


def peer_jobs(setting: Setting, nodes: int) -> Iterator[tuple[Peer, Job]]:
    """For each peer a cluster that it has deployed itself; one that cannot is skipped, with the reason."""
    for peer in setting.peers:
        letter = peer.name[0].lower()
        directory = setting.labs.directory / f"{letter}{nodes}"
        try:
            made = setting.labs.deployed(nodes, letter, partial(deployed_by, peer, directory))
        except ProgramFailed as error:
            setting.skipped[peer.name] = str(error)
            setting.say(f"{peer.name} is left out: {error}")
            continue
        yield peer, Job(made.access, directory)


def deployed_by(peer: Peer, directory: Path, cluster: Cluster) -> None:
    """A peer's deployment."""
    peer.deploy(Job(cluster.access, directory))


def no_change(nodes: int, setting: Setting, *, beside_peers: bool = True) -> Iterable[Way]:
    """A deployment that finds all as it should be."""
    cluster = setting.labs.deployed(nodes)
    cluster.require_no_change()
    yield from floors(cluster.access)
    yield Way(SLURMFAB, lambda: cluster.slurmfab("deploy"))
    for peer, job in peer_jobs(setting, nodes) if beside_peers else ():
        yield Way(peer.name, partial(peer.deploy, job), is_peer=True)


def one_value(setting: Setting) -> Iterable[Way]:
    """A value of slurm.conf, another one each time, that is in force everywhere in the end."""
    cluster = setting.labs.deployed(4)
    values = iter(range(FIRST_VALUE, FIRST_VALUE + 10000))
    now = [FIRST_VALUE]

    def another() -> None:
        now[0] = next(values)
        cluster.change(KEY, now[0])

    yield from floors(cluster.access)
    yield Way(
        SLURMFAB,
        lambda: cluster.slurmfab("deploy"),
        another,
        lambda: require_value(cluster.access, KEY, now[0]),
    )
    for peer, job in peer_jobs(setting, 4):
        yield peer_changes(peer, job)


def peer_changes(peer: Peer, job: Job) -> Way:
    """A peer that changes the value."""
    values = iter(range(FIRST_VALUE, FIRST_VALUE + 10000))
    now = [job]

    def another() -> None:
        now[0] = Job(job.hosts, job.directory, next(values))

    return Way(
        peer.name,
        lambda: peer.deploy(now[0]),
        another,
        lambda: require_value(job.hosts, KEY, now[0].timeout),
        is_peer=True,
    )


def check_cluster(nodes: int, setting: Setting) -> Iterable[Way]:
    """The checks, with and without those that run jobs."""
    cluster = setting.labs.deployed(nodes)
    yield from floors(cluster.access)
    yield Way(CHECKS, lambda: cluster.slurmfab("check-cluster", "--only", GROUPS))
    yield Way(ALL_CHECKS, lambda: cluster.slurmfab("check-cluster"))


def under_load(setting: Setting) -> Iterable[Way]:
    """All checks while users' jobs wait: they have all cores of each node, or leave one."""
    cluster = setting.labs.deployed(4)
    for name, share in ((ONE_CORE_FREE, "$((cores - 1))"), (NO_CORE_FREE, "$cores")):
        yield Way(
            name,
            lambda: timed(cluster.command("check-cluster"), codes=(DONE, NOT_ALL_CHECKED)),
            partial(fill, cluster, share),
            partial(empty, cluster),
        )


def fill(cluster: Cluster, share: str) -> None:
    """Have four jobs run, one on each node, and forty wait; `share`: cores of each, as shell text."""
    output_of(cluster.access.ssh("ctl", QUEUE.format(share=share)))


def empty(cluster: Cluster) -> None:
    """End all jobs."""
    output_of(cluster.access.ssh("ctl", 'scancel --user=slurm; until [ -z "$(squeue -h)" ]; do sleep 0.2; done'))


CHEAPEST = Target(SLURMFAB, SSH_CHEAP)
OTHERS = (CHEAPEST, Target("pyinfra", SSH_TRUE), Target("Ansible", SSH_TRUE))
OWN_CLUSTERS = "Each peer has its own cluster, which it deployed itself."

NO_CHANGE_5 = Scenario(
    "no-change-5",
    "deploy with nothing to change, 5 hosts",
    partial(no_change, 4),
    (
        Target(SLURMFAB, SSH_TRUE, 1.3),
        Target(SLURMFAB, at_most=250, unit=PROCESSORS),
        Target(SLURMFAB, at_most=50, unit=MEMORY),
        *OTHERS,
    ),
    notes=(OWN_CLUSTERS,),
)
NO_CHANGE_16 = Scenario(
    "no-change-16",
    "deploy with nothing to change, 16 hosts",
    partial(no_change, 15, beside_peers=False),
    (Target(SLURMFAB, SSH_TRUE, 1.5), CHEAPEST),
)
ONE_VALUE = Scenario(
    "one-value",
    "one slurm.conf value changed, live everywhere, 5 hosts",
    one_value,
    (Target(SLURMFAB, SSH_TRUE, 4), *OTHERS),
    notes=(OWN_CLUSTERS, "After each change, every host's file and slurmctld's output are verified."),
)
CHECKING = (Target(CHECKS, SSH_TRUE, 8), Target(ALL_CHECKS, SSH_TRUE, 5), Target(CHECKS, SSH_CHEAP))
WHAT_CHECKS = f"The checks are `--only {GROUPS}`; the row “all checks” also runs the other checks, with jobs."
CHECK_CLUSTER_5, CHECK_CLUSTER = (
    Scenario(
        name,
        f"check-cluster (daemons, keys, hashes, states), {nodes + 1} hosts",
        partial(check_cluster, nodes),
        CHECKING,
        rounds=3,
        notes=(WHAT_CHECKS,),
    )
    for name, nodes in (("check-cluster-5", 4), ("check-cluster", 15))
)
FULL_QUEUE = Scenario(
    "full-queue",
    "check-cluster of everything while 40 jobs wait, 5 hosts",
    under_load,
    tuple(Target(name, at_most=15, unit=SECONDS) for name in (ONE_CORE_FREE, NO_CORE_FREE)),
    rounds=3,
    notes=("Where jobs have all cores, no test job can run, and the checks that need one are told as not run.",),
)
