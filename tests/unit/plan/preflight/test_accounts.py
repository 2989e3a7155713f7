"""Accounts that hosts or their Slurm have something against are refused before anything is changed."""

from __future__ import annotations

import pytest
from account_trees import HEAD
from support import prepared, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Account
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight.accounts import refuse_unfit


def planned(text: str, slurm: str = "24.11.5", **differing: object) -> PlanInput:
    return prepared_input(HEAD + text, slurm=slurm, **differing)


def test_people_whom_the_directory_service_does_not_know_on_the_controller_are_refused() -> None:
    text = "unix_users: false\naccounts: [{name: a}]\nusers: [{name: ada, accounts: a}, {name: bob, accounts: a}]\n"
    known = {**prepared("c1").accounts, "ada": Account(3001, 3001, "/home/ada", "/bin/bash")}
    with pytest.raises(InputError, match=r"c1: users: bob: no such user there \(getent passwd bob\)"):
        refuse_unfit(planned(text, accounts=known))


def test_people_whom_slurmfab_makes_need_not_be_there_yet() -> None:
    refuse_unfit(planned("accounts: [{name: a}]\nusers: [{name: bob, accounts: a}]\n"))


def test_limits_of_what_slurmctld_does_not_count_are_refused() -> None:
    with pytest.raises(InputError, match=r"qos normal: MaxTRESPerUser: slurmctld does not count gres/gpu"):
        refuse_unfit(planned("qos: [{name: normal, MaxTRESPU: gres/gpu=4}]\n"))


def test_limits_of_what_the_users_slurm_conf_has_counted_are_let_through() -> None:
    text = "qos: [{name: normal, GrpTRES: license/matlab=4}]\nslurm_conf: {AccountingStorageTRES: license/matlab}\n"
    refuse_unfit(planned(text))


@pytest.mark.parametrize(("slurm", "is_refused"), [("22.05.8", True), ("24.11.5", False)])
def test_limits_that_came_with_a_later_slurm_are_refused(slurm: str, is_refused: bool) -> None:
    now = planned("qos: [{name: normal, MaxTRESRunMinsPU: cpu=4}]\n", slurm)
    if is_refused:
        with pytest.raises(InputError, match=r"MaxTRESRunMinsPU came with Slurm 23.02, and c1 has 22.05"):
            refuse_unfit(now)
    else:
        refuse_unfit(now)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("accounts: [{name: a, GrpTRES: gres/gpu=4}]\n", "account a: GrpTRES"),
        ("accounts: [{name: a}]\nusers: [{name: ada, accounts: a, MaxTRES: gres/gpu=4}]\n", "user ada: MaxTRES"),
        (
            "accounts: [{name: a}]\nusers: [{name: ada, accounts: a, associations: {a: {MaxTRES: gres/gpu=4}}}]\n",
            "user ada in a: MaxTRES",
        ),
    ],
)
def test_limits_of_accounts_users_and_associations_are_looked_at_too(text: str, what: str) -> None:
    with pytest.raises(InputError, match=f"{what}.*: slurmctld does not count gres/gpu"):
        refuse_unfit(planned(text))
