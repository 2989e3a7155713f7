"""Accounting: what has run is on record, and who may run jobs, and who may not, is as the cluster file says."""

from __future__ import annotations

import pytest

from slurmfab.checks import associations
from slurmfab.checks.drifted import Drifted
from slurmfab.checks.hosts import CheckedHost, last_words
from slurmfab.checks.slurm import JOB_SECONDS, Slurm
from slurmfab.checks.wanted import CONFIGURATION, deploy, explains_refusals
from slurmfab.cluster import Cluster
from slurmfab.lock import Lock
from slurmfab.plans.kinds_of_drift import CHANGED_FILE
from slurmfab.slurm.refusals import SCRIPT
from slurmfab.slurm.render import fill

CODE = 7
"""The exit code of a job that is meant to fail: a number that no other mishap gives."""

ENDS_BADLY = f"echo $SLURM_JOB_ID; sleep 1; exit {CODE}"

RECORD_SECONDS = 20
"""How long a record may take: slurmctld sends what has ended to slurmdbd within seconds (slurm.conf(5))."""

READ = (
    "for try in $(seq {tries}); do "
    "record=$(sacct --noheader --parsable2 --allocations --jobs={job} --format=State,ExitCode,ElapsedRaw,User); "
    'case $record in FAILED*|COMPLETED*) break;; esac; sleep 0.5; done; echo "$record"'
)

STRANGER = "nobody"
"""A user of every host who runs no jobs."""

TRY = "runuser -u %s -- sbatch --test-only --chdir=/tmp --ntasks=1 --wrap=true"
"""Slurm judges the job as if it were real, and forgets it (sbatch(1), --test-only)."""

REFUSED = "Invalid account"


def test_slurmdbd_knows_the_cluster(database: CheckedHost, controller: CheckedHost, cluster: Cluster) -> None:
    """slurmdbd answers to the controller and knows the cluster"""
    done = ask_slurmdbd(controller)
    assert done is not None, (
        f"{controller.name} gets no answer from slurmdbd. Repair: {deploy(database.name)}; if it runs already, see "
        "/var/log/slurm/slurmdbd.log, and look for a firewall and other munge keys"
    )
    assert cluster.name in done.split(), (
        f"slurmdbd does not know the cluster {cluster.name}, so nothing that runs is kept. Repair: fab deploy"
    )


def test_finished_job_is_on_record(database: CheckedHost, controller: CheckedHost, slurm: Slurm) -> None:
    """a job that has ended is on record as it ended"""
    if ask_slurmdbd(controller) is None:
        pytest.skip("slurmdbd does not answer.")
    done = slurm.run((slurm.free_node(),), ENDS_BADLY)
    assert done.rc == CODE, f"a job ended with {done.rc} instead of {CODE}: {last_words(done)}"
    job = done.stdout.split()[0]
    record = controller.ask(READ.format(tries=2 * RECORD_SECONDS, job=job), seconds=3 * RECORD_SECONDS)
    logs = f"Repair: see /var/log/slurm/slurmdbd.log on {database.name}, and `sdiag` for messages that wait for it"
    assert record, f"sacct knows nothing of job {job}, {RECORD_SECONDS} s after its end. {logs}"
    state, code, elapsed, user = record.split("|")
    assert (state, code, user) == ("FAILED", f"{CODE}:0", "slurm"), (
        f"job {job} of slurm ended with {CODE}, and is on record as {user}'s, {state}, {code}. {logs}"
    )
    assert 1 <= int(elapsed) <= JOB_SECONDS, (
        f"job {job} took a second or two, and is on record with {elapsed} s. {logs}"
    )


def test_accounts_are_in_force(enforcer: CheckedHost, slurm: Slurm, cluster: Cluster) -> None:
    """slurmctld has the accounts, users and QOS of the cluster file"""
    enforced = slurm.configuration().get("accountingstorageenforce", "none")
    assert "associations" in enforced, (
        f"slurmctld holds nobody to an account (AccountingStorageEnforce = {enforced}). Repair: fab deploy"
    )
    found, expected = associations.ask(enforcer), associations.wanted(cluster)
    lacking = associations.missing(found, expected)
    assert not lacking, f"slurmctld does not know: {', '.join(lacking[:20])}. Repair: fab deploy"
    strangers = sorted(set(found.strangers) & {user for _, user in expected.pairs})
    assert not strangers, (
        f"{enforcer.name} has no UNIX user {', '.join(strangers[:20])}, so jobs of theirs are refused. "
        f"Repair: {deploy(enforcer.name)}; or, where people come from a directory service, see `getent passwd` there"
    )


def test_script_for_jobs_is_sound(enforcer: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the script that slurmctld runs at each job is slurmfab's"""
    if not explains_refusals(cluster, lock):
        pytest.skip("slurmctld runs no script of slurmfab's.")
    path = f"{CONFIGURATION}/{SCRIPT}"
    script = enforcer.file(path)
    if not script.exists or script.content_string != fill(SCRIPT, {"cluster_name": cluster.name}):
        state = "has been changed" if script.exists else "is missing, and without it slurmctld will not start again"
        raise Drifted(CHANGED_FILE, f"{path} {state}. Repair: {deploy(enforcer.name)}")


def test_without_an_account_no_job_runs(enforcer: CheckedHost, slurm: Slurm, cluster: Cluster, lock: Lock) -> None:
    """a user without an account is refused, and told why"""
    if enforcer.run("getent passwd %s", STRANGER).rc != 0:
        pytest.skip(f"there is no user {STRANGER} to try it with.")
    if any(user == STRANGER for _, user in associations.ask(enforcer).pairs):
        pytest.skip(f"the user {STRANGER} has an account.")
    done = slurm.controller.run(TRY, STRANGER)
    assert done.rc != 0, f"{STRANGER}, who has no account, may run jobs. Repair: fab deploy"
    assert REFUSED in done.stderr, f"{STRANGER} is refused, but for another reason: {last_words(done)}"
    if explains_refusals(cluster, lock):
        assert f"no account on the cluster {cluster.name}" in done.stderr, (
            f"{STRANGER} is refused without a word of what to do. Repair: {deploy(enforcer.name)}; then see "
            "/var/log/slurm/slurmctld.log for job_submit.lua"
        )


def ask_slurmdbd(controller: CheckedHost) -> str | None:
    """The clusters that slurmdbd knows; `None` where it does not answer."""
    done = controller.run("timeout 20 sacctmgr --noheader --parsable2 show cluster format=cluster")
    return str(done.stdout) if done.rc == 0 else None
