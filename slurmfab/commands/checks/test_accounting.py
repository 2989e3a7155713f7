"""Checks of accounting: finished jobs are recorded, and accounts, users and QOS are those of the cluster file."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

import pytest

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.own_jobs import hindrances
from slurmfab.cluster.slurm.job_submit_script import SCRIPT
from slurmfab.commands.checks.applies import DoesNotApply, Drifted
from slurmfab.commands.checks.daemons import last_errors
from slurmfab.commands.checks.hosts import CheckedHost, last_words, line_of, record_of
from slurmfab.commands.checks.slurm import JOB_SECONDS, Slurm
from slurmfab.commands.checks.wanted import deploy, explains_refusals, submit_script
from slurmfab.core.impact.drift_kinds import CHANGED_FILE
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import SHOW_ASSOCIATIONS
from slurmfab.on_hosts.agent.core.listing import listed
from slurmfab.on_hosts.agent.nodes.lost_jobs import SETTLE_SECONDS

CODE = 7  # exit code of a job that has to fail; no other failure gives this number
ENDS_BADLY = f"echo $SLURM_JOB_ID; sleep 1; exit {CODE}"  # prints the job ID, and fails after a second

RECORD_SECONDS = 20
"""Seconds that a record may take: slurmctld sends finished jobs to slurmdbd within seconds (slurm.conf(5)). The end of
a short job comes there before its start, and until that comes, within 5 s, the job is root's (Slurm 22.05)."""

READ = (
    "for try in $(seq {tries}); do "
    "record=$({recorded}); "
    'case $record in FAILED*"|slurm"|COMPLETED*"|slurm") break;; esac; sleep 0.5; done; echo "$record"'
)
"""Prints the record of a finished job of the slurm user, repeated every 0.5 s until it is there."""

STRANGER = "nobody"  # a user that exists on every host and has no account in Slurm

TRY = "runuser -u %s -- sbatch --test-only --partition=%s --chdir=/tmp --ntasks=1 --wrap=true"
"""Validates a job of a user without submitting it (sbatch(1), --test-only); there may be no default partition."""

REFUSED = "Invalid account"  # Slurm's error for a user without an account (slurm_errno.h, ESLURM_INVALID_ACCOUNT)

_ASSOCIATION = re.compile(r"^ClusterName=\S* Account=(\S*) UserName=([^\s(]*)(?:\((-?\d+)\))?", re.MULTILINE)
_QOS = re.compile(r"^QOS=([^\s(]+)", re.MULTILINE)

_NO_UID = 2**32 - 3
"""From this number on, a UID is a placeholder for one that slurmctld could not resolve (NO_VAL, slurm.h)."""


def test_slurmdbd_knows_the_cluster(database: CheckedHost, controller: CheckedHost, cluster: Cluster) -> None:
    """slurmdbd answers the controller and knows the cluster"""
    done = ask_slurmdbd(controller)
    assert done is not None, (
        f"slurmdbd does not answer {controller.name}{slurmdbd_says(database)}. Repair: {deploy(database.name)}; if it "
        "runs already, see /var/log/slurm/slurmdbd.log, and check for a firewall or a different munge key"
    )
    assert cluster.name in done.split(), (
        f"slurmdbd does not know the cluster {cluster.name}, so no job is recorded. Repair: {FAB} deploy"
    )


def test_slurmdbd_knows_slurmctld(database: CheckedHost, controller: CheckedHost, cluster: Cluster) -> None:
    """slurmdbd has the address of slurmctld, which sends it jobs only then"""
    if ask_slurmdbd(controller) is None:
        pytest.skip("slurmdbd does not answer.")
    port = controller.ask(line_of(commands.accounts("cluster", ["controlport"], cluster.name)))
    assert port != "0", (
        f"slurmdbd on {database.name} has no address of slurmctld, so no job comes on record: its database is another "
        f"one than when slurmctld started. Repair: {FAB} deploy"
    )


def test_slurmctld_would_start_with_this_database(
    database: CheckedHost, controller: CheckedHost, cluster: Cluster
) -> None:
    """slurmdbd has the cluster ID of slurmctld's state, without which slurmctld would not start again"""
    named = controller.ask("cat %s", f"{cluster.state_directory}/clustername").partition("|")[2]
    if not named or cluster.database is None or cluster.database.external:
        raise DoesNotApply("Slurm before 24.11 has no such ID, and a database server elsewhere is not asked for it")
    query = f"SELECT id FROM cluster_table WHERE deleted = 0 AND name = '{cluster.name}'"  # noqa: S608 - a plain name
    found = database.ask("mariadb --batch --skip-column-names --execute=%s %s", query, cluster.database.name)
    assert found == named, (
        f"the cluster ID is {named} in slurmctld's state on {controller.name} and {found or 'none'} in slurmdbd's "
        f"database on {database.name}, so the next start of slurmctld would end with CLUSTER ID MISMATCH. "
        f"Repair: {FAB} deploy"
    )


def test_finished_job_is_on_record(database: CheckedHost, controller: CheckedHost, slurm: Slurm) -> None:
    """a finished job is recorded with its state and exit code"""
    if ask_slurmdbd(controller) is None:
        pytest.skip("slurmdbd does not answer.")
    done = slurm.run((slurm.free_node(),), ENDS_BADLY)
    assert done.rc == CODE, f"a test job ended with exit code {done.rc} instead of {CODE}: {last_words(done)}"
    job = done.stdout.split()[0]
    recorded = record_of(job, "State", "ExitCode", "ElapsedRaw", "User")
    record = controller.ask(READ.format(tries=2 * RECORD_SECONDS, recorded=recorded), seconds=3 * RECORD_SECONDS)
    logs = f"Repair: see /var/log/slurm/slurmdbd.log on {database.name}, and `sdiag` for unsent messages to it"
    assert record, f"sacct has no record of job {job} {RECORD_SECONDS} s after its end{slurmdbd_says(database)}. {logs}"
    state, code, elapsed, user = record.split("|")
    assert (state, code, user) == ("FAILED", f"{CODE}:0", "slurm"), (
        f"job {job} of slurm ended with exit code {CODE}, "
        f"but sacct shows user {user}, state {state}, exit code {code}. {logs}"
    )
    assert 1 <= int(elapsed) <= JOB_SECONDS, f"job {job} took a second or two, but sacct shows {elapsed} s. {logs}"


def test_each_open_record_is_of_a_known_job(database: CheckedHost, slurm: Slurm) -> None:
    """each job that slurmdbd has as pending or running is known to slurmctld"""
    if ask_slurmdbd(slurm.controller) is None:
        pytest.skip("slurmdbd does not answer.")
    found = slurm.open_records()
    if found:  # a job may have ended between two questions
        time.sleep(SETTLE_SECONDS)
        found = [one for one in slurm.open_records() if one in found]
    named = listed(f"{one.id} of {one.user} ({one.state})" for one in found)
    assert not found, (
        f"{database.name} has records that never end, as a crash has lost their jobs: {named}. Their users have to "
        f"submit these again. Repair: {FAB} close-runaways"
    )


def slurmdbd_says(database: CheckedHost) -> str:
    """The last errors of slurmdbd, as the end of a sentence; empty if it wrote none."""
    errors = last_errors(database, "slurmdbd")
    return f"; slurmdbd's own log says: {' | '.join(errors)}" if errors else ""


def test_accounts_are_in_force(enforcer: CheckedHost, slurm: Slurm, cluster: Cluster) -> None:
    """slurmctld has the accounts, users and QOS of the cluster file"""
    enforced = slurm.configuration().get("accountingstorageenforce", "none")
    assert "associations" in enforced, (
        f"slurmctld does not require accounts (AccountingStorageEnforce = {enforced}). Repair: {FAB} deploy"
    )
    found, expected = ask(enforcer), wanted(cluster)
    lacking = missing(found, expected)
    assert not lacking, f"slurmctld does not know: {', '.join(lacking[:20])}. Repair: {FAB} deploy"
    strangers = sorted(set(found.strangers) & {user for _, user in expected.pairs})
    assert not strangers, (
        f"{enforcer.name} has no UNIX user {', '.join(strangers[:20])}, so slurmctld refuses their jobs. "
        f"Repair: {deploy(enforcer.name)}; if users come from a directory service, check `getent passwd` there"
    )


def test_jobs_need_no_account(recorder: CheckedHost, slurm: Slurm) -> None:
    """slurmctld records jobs and requires no account, as the cluster file says"""
    enforced = slurm.configuration().get("accountingstorageenforce", "none")
    assert "associations" not in enforced, (
        f"slurmctld requires accounts (AccountingStorageEnforce = {enforced}), and the cluster file does not. "
        f"Repair: {deploy(recorder.name)}"
    )


def test_script_for_jobs_is_sound(enforcer: CheckedHost, inventory: Inventory) -> None:
    """the job_submit script is the one that slurmfab wrote"""
    if not explains_refusals(inventory.cluster, inventory.lock):
        raise DoesNotApply("slurmctld does not run slurmfab's job_submit script")
    path = f"{SLURM_DIRECTORY}/{SCRIPT}"
    script = enforcer.file(path)
    if not script.exists or script.content_string != submit_script(inventory):
        state = "has been changed" if script.exists else "is missing; slurmctld cannot start again without it"
        raise Drifted(CHANGED_FILE, f"{path} {state}. Repair: {deploy(enforcer.name)}")


def test_without_an_account_no_job_runs(enforcer: CheckedHost, slurm: Slurm, cluster: Cluster, lock: Lock) -> None:
    """jobs of a user without an account are refused with a reason"""
    if not enforcer.user(STRANGER).exists:
        pytest.skip(f"there is no user {STRANGER} for the test.")
    if any(user == STRANGER for _, user in ask(enforcer).pairs):
        pytest.skip(f"the user {STRANGER} has an account.")
    if not cluster.partitions:
        pytest.skip("there is no partition.")
    done = slurm.controller.run(TRY, STRANGER, min(cluster.partitions, key=hindrances).name)
    assert done.rc != 0, f"the user {STRANGER} has no account but may run jobs. Repair: {FAB} deploy"
    assert REFUSED in done.stderr, (
        f"jobs of the user {STRANGER} are refused, but for another reason: {last_words(done)}"
    )
    if explains_refusals(cluster, lock):
        assert f"no account on the cluster {cluster.name}" in done.stderr, (
            f"jobs of the user {STRANGER} are refused, but the error does not say what to do. "
            f"Repair: {deploy(enforcer.name)}; then see "
            "/var/log/slurm/slurmctld.log for job_submit.lua"
        )


def ask_slurmdbd(controller: CheckedHost) -> str | None:
    """Names of the clusters in slurmdbd, one per line; `None` if it does not answer."""
    done = controller.run(f"timeout 20 {line_of(commands.accounts('cluster', ['cluster']))}")
    return str(done.stdout) if done.rc == 0 else None


@dataclass(frozen=True)
class Associations:
    """Accounts, users and QOS."""

    pairs: frozenset[tuple[str, str]]  # account and user; for the account itself, the user is empty
    qos: frozenset[str]  # names of the QOS
    strangers: tuple[str, ...] = ()  # users whose UID slurmctld could not resolve, so that it refuses their jobs


def parse(shown: str) -> Associations:
    """The associations in the output of `scontrol show assoc_mgr flags=assoc,qos`."""
    found = _ASSOCIATION.findall(shown)
    strangers = {user for _, user, uid in found if uid and not 0 <= int(uid) < _NO_UID}
    return Associations(
        frozenset((account, user) for account, user, _ in found),
        frozenset(_QOS.findall(shown)),
        tuple(sorted(strangers)),
    )


def ask(controller: CheckedHost) -> Associations:
    """The associations in the memory of slurmctld."""
    return parse(controller.ask(line_of(SHOW_ASSOCIATIONS)))


def wanted(cluster: Cluster) -> Associations:
    """The associations in the cluster file."""
    accounts = {(account.name, "") for account in cluster.accounts}
    people = {(account, user.name) for user in cluster.users for account in user.accounts}
    return Associations(frozenset(accounts | people), frozenset(qos.name for qos in cluster.qos))


def missing(found: Associations, expected: Associations) -> list[str]:
    """Descriptions of the expected QOS, accounts and users that were not found, as in `user ada in physics`."""
    pairs = sorted(expected.pairs - found.pairs)
    return [
        *(f"QOS {name}" for name in sorted(expected.qos - found.qos)),
        *(f"account {account}" for account, user in pairs if not user),
        *(f"user {user} in {account}" for account, user in pairs if user),
    ]
