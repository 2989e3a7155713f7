"""What checks rest on: where a check fails, all that rest on it fail as well, and that is one failure and not many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from slurmfab.commands.checks.results import FAILED, Result


@dataclass(frozen=True)
class Rests:
    """What a check rests on."""

    here: tuple[str, ...] = ()  # checks on the same host, as `group.check`; one of an account without its name
    there: tuple[str, ...] = ()


USERS = ("identity.user_has_its_ids",)
ROOM = ("system.file_systems_have_room",)
MUNGED = ("daemons.munged_runs", "daemons.munge_socket_is_there")
TRUST = (*MUNGED, "munge.key_is_the_controllers", "daemons.munged_has_its_key", "clock.clock_is_the_controllers")
STATE = ("daemons.slurmctld_can_use_its_state", "daemons.state_is_of_a_version_that_slurm_reads")
SLURMCTLD = ("daemons.slurmctld_runs", "daemons.slurmctld_listens")
SLURMD = ("daemons.slurmd_runs", "daemons.slurmd_listens")
SLURMDBD = ("daemons.slurmdbd_runs", "database.slurmdbd_listens")
FILES = ("configuration.files_are_the_controllers", "configuration.files_are_as_the_cluster_file_says")
BELIEVED = ("munge.credential_of_the_controller_is_believed", "munge.controller_believes_the_credential")
JOB = Rests((*SLURMD, "nodes.node_takes_jobs"), ("daemons.controller_answers",))

RESTS: Mapping[str, Rests] = {
    "daemons.munged_runs": Rests((*USERS, *ROOM, "munge.key_is_safe")),
    "daemons.munge_socket_is_there": Rests(("daemons.munged_runs",)),
    "daemons.slurmctld_runs": Rests((*USERS, *ROOM, *MUNGED, *STATE)),
    "daemons.slurmd_runs": Rests((*USERS, *ROOM, *MUNGED)),
    "daemons.slurmdbd_runs": Rests((*USERS, *ROOM, *MUNGED, "database.password_is_slurms_alone")),
    "daemons.slurmctld_listens": Rests(("daemons.slurmctld_runs",)),
    "daemons.slurmd_listens": Rests(("daemons.slurmd_runs",)),
    "database.slurmdbd_listens": Rests(("daemons.database_runs", "daemons.slurmdbd_runs")),
    "daemons.controller_answers": Rests((*TRUST, *FILES, *BELIEVED), (*MUNGED, *SLURMCTLD)),
    "daemons.backup_answers": Rests(("daemons.backup_runs", *TRUST), MUNGED),
    "daemons.slurmctld_can_use_its_state": Rests(USERS),
    "daemons.backup_can_use_the_state": Rests(USERS),
    "daemons.directories_are_theirs": Rests(USERS),
    "munge.key_is_safe": Rests(USERS),
    **{name: Rests(TRUST, MUNGED) for name in BELIEVED},
    "system.users_can_read_slurm_conf": Rests(FILES),
    "system.users_get_credentials": Rests(MUNGED),
    "ssh.controller_gets_in": Rests(USERS),
    "ssh.host_gets_to_the_controller": Rests(USERS),
    "network.node_reaches_slurmctld": Rests((), SLURMCTLD),
    "network.node_is_reached_by_others": Rests(SLURMD),
    "configuration.slurmctld_runs_with_this_file": Rests((*FILES, "daemons.controller_answers")),
    "nodes.node_takes_jobs": Rests(
        (
            *SLURMD,
            *BELIEVED,
            *FILES,
            "daemons.controller_answers",
            "nodes.hardware_is_the_locks",
            "health.node_is_well",
        ),
        ("daemons.controller_answers",),
    ),
    "health.node_is_well": Rests(SLURMD, ("daemons.controller_answers",)),
    "afterwards.node_still_takes_jobs": Rests(("nodes.node_takes_jobs", *SLURMD), ("daemons.controller_answers",)),
    "jobs.job_runs": JOB,
    "limits.memory_is_limited": Rests(("jobs.job_runs", *JOB.here), JOB.there),
    "limits.cores_are_limited": Rests(("jobs.job_runs", *JOB.here), JOB.there),
    "limits.tmp_is_the_jobs_own": Rests(("jobs.job_runs", *JOB.here), JOB.there),
    **{
        f"gpus.{name}": Rests(("gpus.gpus_are_there", "jobs.job_runs", *JOB.here), JOB.there)
        for name in (
            "job_has_the_gpu_that_it_asked_for",
            "job_has_the_gpus_that_it_asked_for",
            "gpus_are_kept_apart",
            "job_with_a_share_has_one_gpu",
            "job_without_gpus_has_none",
        )
    },
    **{
        f"containers.{name}": Rests(("jobs.job_runs", *JOB.here), JOB.there)
        for name in (
            "containers_start_in_jobs",
            "containers_have_the_gpus_of_their_job",
            "containers_are_held_to_the_memory_of_their_job",
        )
    },
    "accounting.slurmdbd_knows_the_cluster": Rests((*SLURMDBD, *MUNGED), MUNGED),
    "accounting.finished_job_is_on_record": Rests(
        ("accounting.slurmdbd_knows_the_cluster", *SLURMDBD), ("daemons.controller_answers",)
    ),
    "accounting.accounts_are_in_force": Rests(("daemons.controller_answers",)),
    "accounting.without_an_account_no_job_runs": Rests(("daemons.controller_answers",)),
    "mail.end_of_a_job_is_mailed": Rests(("daemons.controller_answers",)),
    "tools.sstatus_answers_users": Rests(("daemons.controller_answers",), ("daemons.controller_answers",)),
    "monitoring.figures_of_slurm_are_fresh": Rests(("daemons.controller_answers",), ("daemons.controller_answers",)),
}
"""What each check rests on; checks that are not here need nothing but a login to their host."""

ON_ALL_NODES = {"jobs.job_runs_on_many_nodes": "jobs.job_runs"}
"""Checks of all nodes together, and the check of each node that they rest on."""

Place = tuple[str, str]  # a check and a host


def with_causes(results: Iterable[Result], controller: str) -> tuple[Result, ...]:
    """The results in the order of checks, each failure with the one that it follows from."""
    told = tuple(results)
    failed = {(name_of(one), one.host): one for one in reversed(told) if one.outcome == FAILED}
    order = {place: number for number, place in enumerate(reversed(failed))}
    return tuple(
        replace(one, because=cause_of((name_of(one), one.host), failed, order, controller))
        if one.outcome == FAILED
        else one
        for one in told
    )


def cause_of(place: Place, failed: Mapping[Place, Result], order: Mapping[Place, int], controller: str) -> str:
    """The first failure, in order, that follows from none itself and that this one follows from; or empty."""
    below = {one for one in reached(place, failed, controller) if one in failed}
    first = [one for one in below if not any(other in failed for other in reached(one, failed, controller))]
    found = min(first, key=lambda one: order[one], default=None)
    return f"{failed[found].group}.{failed[found].check} on {found[1]}" if found else ""


def reached(place: Place, failed: Mapping[Place, Result], controller: str) -> set[Place]:
    """All that a check on a host rests on, directly or by what is in between, which need not have failed itself."""
    seen: set[Place] = set()
    left = [place]
    while left:
        new = set(directly(left.pop(), failed, controller)) - seen
        seen |= new
        left += new
    return seen


def directly(place: Place, failed: Mapping[Place, Result], controller: str) -> Iterator[Place]:
    """What a check on a host itself rests on."""
    name, host = place
    rests = RESTS.get(name, Rests())
    yield from ((other, host) for other in rests.here)
    yield from ((other, controller) for other in rests.there)
    each = ON_ALL_NODES.get(name)
    if each:
        yield from ((each, one) for one in {host for _, host in failed})


def name_of(result: Result) -> str:
    """The name of a check as in `RESTS`, without an account."""
    return f"{result.group}.{result.check.partition('.')[0]}"
