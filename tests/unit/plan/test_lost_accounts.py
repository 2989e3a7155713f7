"""Jobs of users without an account, where a new slurm.conf begins to ask for one."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.core.impact.disruptive_changes import LOST_ACCOUNTS
from slurmfab.core.plan import lost_accounts
from slurmfab.core.status.snapshot import Job

ACCOUNTS = """
database: c1
accounts: [{name: physics}, {name: chemistry}]
users: [{name: ada, accounts: [physics]}]
"""
RECORDS = f"{THREE_HOSTS}{ACCOUNTS}slurm_conf: {{AccountingStorageEnforce: null}}\n"
ENFORCES = f"{THREE_HOSTS}{ACCOUNTS}"


def job(number: str, user: str, account: str = "") -> Job:
    return Job(number, number, user, ("main",), "PENDING", "", 1, 1, 0, 0, "1:00", "", "x", account)


JOBS = (job("1", "ada"), job("2", "ada", "chemistry"), job("3", "bob"), job("4", "bob", "physics"), job("5", "root"))


@pytest.mark.parametrize(
    ("before", "after", "known", "hurt"),
    [
        (THREE_HOSTS, ENFORCES, [], ["2", "3", "4"]),
        (RECORDS, ENFORCES, [("chemistry", "ada"), ("physics", "bob")], []),
        (RECORDS, ENFORCES, [("chemistry", "bob")], ["2", "4"]),
        (THREE_HOSTS, RECORDS, [], []),
        (ENFORCES, ENFORCES, [], []),
        ("", ENFORCES, [], []),
    ],
    ids=["no accounts before", "accounts before", "another account", "records alone", "as before", "a new cluster"],
)
def test_jobs_when_slurm_begins_to_ask_for_accounts_then_those_without_are_named(
    before: str, after: str, known: list[tuple[str, str]], hurt: list[str]
) -> None:
    conf = {"slurm_conf": dict(prepared_input(before).files)["slurm.conf"]} if before else {}
    found = lost_accounts.disruptions(prepared_input(after, **conf), JOBS, known)
    assert [one.id for danger in found for one in danger.jobs] == hurt
    assert {(danger.name, danger.ways) for danger in found} == (
        {(LOST_ACCOUNTS, (f"--allow {LOST_ACCOUNTS}",))} if hurt else set()
    )


def test_jobs_without_an_account_when_they_are_named_then_so_are_user_and_account() -> None:
    conf = {"slurm_conf": dict(prepared_input(THREE_HOSTS).files)["slurm.conf"]}
    (danger,) = lost_accounts.disruptions(prepared_input(ENFORCES, **conf), JOBS)
    assert danger.what == "AccountingStorageEnforce: no account for ada (chemistry), bob, bob (physics)"
