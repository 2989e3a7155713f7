"""What a failure explains: where a check fails, those whose mechanism is known to rest on it are told below it.

A failure is folded only where the table has it. Of a check that can fail for more than one reason, what it saw counts
(its sign), behind a colon: a comment in slurm.conf explains no silent node, and nothing explains one that an admin has
drained. A check that has passed explains nothing, and nothing goes through it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from slurmfab.commands.checks.results import FAILED, PASSED, Result


@dataclass(frozen=True)
class Rests:
    """What a check rests on: `group.check`, which explains it, or `group.check:sign` if it has failed in that way."""

    here: tuple[str, ...] = ()  # checks on the same host; of accounts with the account
    there: tuple[str, ...] = ()  # checks on the controller


SLURM, MUNGE = "identity.user_has_its_ids.slurm", "identity.user_has_its_ids.munge"
MUNGED = ("daemons.munged_runs", "daemons.munge_socket_is_there")
STATE = ("daemons.slurmctld_can_use_its_state", "daemons.state_is_of_a_version_that_slurm_reads")
SLURMCTLD = ("daemons.slurmctld_runs", "daemons.slurmctld_listens")
SLURMD = ("daemons.slurmd_runs", "daemons.slurmd_listens")
SLURMDBD = ("daemons.slurmdbd_runs", "database.slurmdbd_listens")
LOCKED = "database.no_query_waits_for_a_lock"
FULL = "system.file_systems_have_room"
FILES = ("configuration.files_are_the_controllers", "configuration.files_are_as_the_cluster_file_says")
WAYS = tuple(f"{file}:{sign}" for file in FILES for sign in ("missing", "ways"))
"""slurm.conf is not there, or says otherwise where daemons are and how they believe one another."""

SETTINGS = tuple(f"{file}:{sign}" for file in FILES for sign in ("missing", "ways", "settings"))
KEYS = ("munge.key_is_the_controllers", "daemons.munged_has_its_key")
BELIEVED = ("munge.credential_of_the_controller_is_believed", "munge.controller_believes_the_credential")
ANSWERS = "daemons.controller_answers"
TAKES = "nodes.node_takes_jobs"
REACHED = ("network.controller_reaches_slurmd", "network.node_is_reached_by_others", "network.node_reaches_slurmctld")
SILENT = Rests((*SLURMD, *MUNGED, *BELIEVED, *WAYS, *REACHED, ANSWERS), (ANSWERS, *MUNGED))
LESS = Rests(("nodes.hardware_is_the_locks", *SETTINGS))
UNWELL = Rests(("health.node_is_well",))
JOB = Rests((*SLURMD, TAKES, *BELIEVED, *REACHED, *WAYS), (ANSWERS,))
"""What keeps a job from starting on a node."""

NOT_STARTED = "not started"

OF_JOBS = (
    *("limits.memory_is_limited", "limits.cores_are_limited", "limits.tmp_is_the_jobs_own"),
    *("containers.containers_start_in_jobs", "containers.containers_have_the_gpus_of_their_job"),
    "containers.containers_are_held_to_the_memory_of_their_job",
)
OF_GPU_JOBS = tuple(
    f"gpus.{name}"
    for name in (
        *("job_has_the_gpu_that_it_asked_for", "job_has_the_gpus_that_it_asked_for", "gpus_are_kept_apart"),
        *("job_with_a_share_has_one_gpu", "job_without_gpus_has_none"),
    )
)
"""Checks that run jobs: where Slurm does not start one, what keeps jobs from starting explains them, too."""

RESTS: Mapping[str, Rests] = {
    "daemons.munged_runs": Rests((MUNGE, f"{FULL}:all", "munge.key_is_safe")),
    "daemons.munge_socket_is_there": Rests(("daemons.munged_runs",)),
    "daemons.slurmctld_runs": Rests((SLURM, f"{FULL}:all", f"{FULL}:slurmctld", *MUNGED, *STATE)),
    "daemons.slurmd_runs": Rests((SLURM, f"{FULL}:all", f"{FULL}:slurmd", *MUNGED)),
    "daemons.database_runs": Rests((f"{FULL}:all", f"{FULL}:mariadb")),
    "daemons.slurmdbd_runs": Rests(
        (SLURM, f"{FULL}:all", f"{FULL}:slurmctld", *MUNGED, "database.password_is_slurms_alone")
    ),
    "daemons.slurmctld_listens": Rests(("daemons.slurmctld_runs",)),
    "daemons.slurmd_listens": Rests(("daemons.slurmd_runs",)),
    "database.slurmdbd_listens": Rests(("daemons.database_runs", "daemons.slurmdbd_runs")),
    ANSWERS: Rests((*MUNGED, *BELIEVED, *WAYS, "network.node_reaches_slurmctld"), (*MUNGED, *SLURMCTLD)),
    "daemons.backup_answers": Rests(("daemons.backup_runs", *MUNGED, *BELIEVED), MUNGED),
    "daemons.slurmctld_can_use_its_state": Rests((SLURM,)),
    "daemons.backup_can_use_the_state": Rests((SLURM,)),
    "daemons.directories_are_theirs": Rests((SLURM, MUNGE)),
    "munge.key_is_safe": Rests((MUNGE,)),
    # One that was not tried would fail for keys, and for clocks that are too far apart.
    **{name: Rests((*MUNGED, *KEYS, "clock.clock_is_the_controllers:apart"), MUNGED) for name in BELIEVED},
    **{f"{name}:": Rests(KEYS) for name in BELIEVED},
    **{f"{name}:clock": Rests(("clock.clock_is_the_controllers",)) for name in BELIEVED},
    "system.users_can_read_slurm_conf": Rests(tuple(f"{file}:missing" for file in FILES)),
    "system.users_get_credentials": Rests(MUNGED),
    "ssh.controller_gets_in": Rests((SLURM,)),
    "ssh.host_gets_to_the_controller": Rests((SLURM,)),
    "network.node_reaches_slurmctld": Rests((), SLURMCTLD),
    "network.node_is_reached_by_others": Rests(SLURMD),
    "network.controller_reaches_slurmd": Rests(SLURMD),
    # Slurm's hash of the file counts its comments, too.
    "configuration.slurmctld_runs_with_this_file": Rests((*FILES, ANSWERS)),
    TAKES: SILENT,
    f"{TAKES}:silent": SILENT,
    f"{TAKES}:less": LESS,
    f"{TAKES}:unwell": UNWELL,
    "health.node_is_well:unit slurmd": Rests(SLURMD),
    "health.node_is_well:unit munge": Rests(MUNGED),
    "health.node_is_well:clock": Rests(("clock.clock_is_the_controllers",)),
    "afterwards.node_still_takes_jobs:silent": SILENT,
    "afterwards.node_still_takes_jobs:less": LESS,
    "afterwards.node_still_takes_jobs:unwell": UNWELL,
    "jobs.job_runs": JOB,
    f"jobs.job_runs:{NOT_STARTED}": JOB,
    **{f"{name}:{NOT_STARTED}": replace(JOB, here=("jobs.job_runs", *JOB.here)) for name in (*OF_JOBS, *OF_GPU_JOBS)},
    **{f"{name}:": Rests(("gpus.gpus_are_there",)) for name in OF_GPU_JOBS},
    "accounting.slurmdbd_knows_the_cluster": Rests((*SLURMDBD, *MUNGED, LOCKED, f"{FULL}:mariadb"), MUNGED),
    f"accounting.finished_job_is_on_record:{NOT_STARTED}": Rests((), (ANSWERS,)),
    "accounting.finished_job_is_on_record:": Rests(
        ("accounting.slurmdbd_knows_the_cluster", *SLURMDBD, LOCKED, f"{FULL}:all", f"{FULL}:mariadb")
    ),
    "accounting.accounts_are_in_force": Rests((ANSWERS,)),
    "accounting.without_an_account_no_job_runs": Rests((ANSWERS,)),
    "mail.end_of_a_job_is_mailed": Rests((ANSWERS,)),
    "tools.sstatus_answers_users": Rests((ANSWERS,), (ANSWERS,)),
    "monitoring.figures_of_slurm_are_fresh": Rests((ANSWERS,), (ANSWERS,)),
}
"""What explains each check; one with signs has a row for each of them, and one without for where it was not run."""

SIGNED = frozenset(name.partition(":")[0] for name in RESTS if ":" in name)

ON_ALL_NODES = {"jobs.job_runs_on_many_nodes": "jobs.job_runs"}
"""Checks of all nodes together, and the check of each node that they rest on."""

Place = tuple[str, str]  # a check and a host


def with_causes(results: Iterable[Result], controller: str) -> tuple[Result, ...]:
    """The results in the order of checks, each failure with the one that it follows from."""
    told = tuple(results)
    failed = {(name_of(one), one.host): one for one in reversed(told) if one.outcome == FAILED}
    passed = {(name_of(one), one.host) for one in told if one.outcome == PASSED} - {*failed}
    order = {place: number for number, place in enumerate(reversed(failed))}
    return tuple(
        replace(one, because=cause_of((name_of(one), one.host), failed, passed, order, controller))
        if one.outcome == FAILED
        else one
        for one in told
    )


def cause_of(
    place: Place,
    failed: Mapping[Place, Result],
    passed: Collection[Place],
    order: Mapping[Place, int],
    controller: str,
) -> str:
    """The first failure, in order, that follows from none itself and that this one follows from; or empty."""
    below = {one for one in reached(place, failed, passed, controller) if one in failed}
    first = [one for one in below if not any(other in failed for other in reached(one, failed, passed, controller))]
    found = min(first, key=lambda one: order[one], default=None)
    return f"{failed[found].group}.{failed[found].check} on {found[1]}" if found else ""


def reached(place: Place, failed: Mapping[Place, Result], passed: Collection[Place], controller: str) -> set[Place]:
    """All that explains a check on a host, directly or by what is in between, which need not have been run."""
    seen: set[Place] = set()
    left = [place]
    while left:
        new = set(directly(left.pop(), failed, controller)) - seen - {*passed}
        seen |= new
        left += new
    return seen


def directly(place: Place, failed: Mapping[Place, Result], controller: str) -> Iterator[Place]:
    """What itself explains a check on a host, as far as that has not failed in another way."""
    name, host = place
    result = failed.get(place)
    rests = RESTS.get(f"{name}:{result.sign}" if result and name in SIGNED else name, Rests())
    for names, where in ((rests.here, host), (rests.there, controller)):
        for other, _, sign in (one.partition(":") for one in names):
            found = failed.get((other, where))
            if not sign or found is None or found.sign == sign:
                yield other, where
    each = ON_ALL_NODES.get(name)
    if each:
        yield from ((each, one) for one in {host for _, host in failed})


def name_of(result: Result) -> str:
    """The name of a check as in `RESTS`."""
    return f"{result.group}.{result.check}"
