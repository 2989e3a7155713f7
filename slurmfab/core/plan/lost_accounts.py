"""Jobs whose users lose the right to run jobs, as Slurm begins to ask for an account (AccountingStorageEnforce)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from slurmfab.cluster.inventory.accounting import ROOT
from slurmfab.cluster.slurm.job_submit_script import HOLDING
from slurmfab.core.impact.disruptive_changes import LOST_ACCOUNTS, Disruption
from slurmfab.core.plan.phases import accounts
from slurmfab.core.plan.phases.database import SLURMDBD
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status.snapshot import Job

KEY = "AccountingStorageEnforce"

REASON = (
    "From then on Slurm runs jobs of users with an account alone: those of others that wait stay in the queue "
    "(InvalidAccount), and those that run go on, but are in no record. Give these users accounts in the cluster file, "
    f"or write slurm_conf: {{{KEY}: null}}, with which nobody needs an account."
)


def begins(plan_input: PlanInput) -> bool:
    """Whether the new slurm.conf asks for accounts where the present one does not."""
    before, after = plan_input.setting_before(KEY), plan_input.conf_wanted.settings.get(KEY.lower(), "")
    is_there = bool(plan_input.controller_facts.slurm_conf) and not plan_input.files_stay
    return is_there and asks(after) and not asks(before)


def asks(enforced: str) -> bool:
    """Whether jobs need an account by a value of AccountingStorageEnforce."""
    return bool(HOLDING & {word.strip().lower() for word in enforced.split(",")})


def has_database(plan_input: PlanInput) -> bool:
    """Whether slurmctld has a slurmdbd already, where users may have accounts that the cluster file does not name."""
    return plan_input.setting_before("AccountingStorageType") == SLURMDBD


def disruptions(
    plan_input: PlanInput, jobs: Sequence[Job], known: Iterable[tuple[str, str]] = ()
) -> tuple[Disruption, ...]:
    """The jobs without an account; `known`: accounts and users who have one in slurmdbd already, in pairs."""
    if not jobs or not begins(plan_input):
        return ()
    allowed = {user: {account for account, _ in theirs} for user, _, theirs in accounts.users(plan_input)}
    for account, user in known if not plan_input.prune else ():
        allowed.setdefault(user, set()).add(account)
    hurt = tuple(job for job in jobs if not may_run(job, allowed))
    users = ", ".join(dict.fromkeys(f"{one.user}{f' ({one.account})' if one.account else ''}" for one in hurt))
    return (Disruption(LOST_ACCOUNTS, f"{KEY}: no account for {users}", REASON, hurt),) if hurt else ()


def may_run(job: Job, allowed: Mapping[str, set[str]]) -> bool:
    """Whether a job's user has its account, or any where it names none; root has one from the start."""
    theirs = allowed.get(job.user, set())
    return job.user == ROOT or (job.account in theirs if job.account else bool(theirs))
