"""Containers: which hosts get what the ways of the cluster file need, and what UIDs are refused."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster, facts_of, plan_input, prepared

from slurmfab.errors import InputError
from slurmfab.facts import Account
from slurmfab.plan.phases import containers as phase
from slurmfab.plan.plan_input import PlanInput
from slurmfab.plan.preflight import containers as preflight

HOSTS = "login: [l1]\ndatabase: d1\n"
PODMAN = "containers: [podman]\nusers: [{name: ann}]\n"


def wanted(more: str, **facts: object) -> PlanInput:
    whole = cluster(THREE_HOSTS + HOSTS + more)
    return plan_input(whole, facts_of(whole, prepared, **facts))


@pytest.mark.parametrize(("host", "has_it"), [("c1", True), ("n1", True), ("l1", True), ("d1", False)])
def test_hosts_on_which_people_or_jobs_work_get_podman(host: str, has_it: bool) -> None:
    assert ("podman" in phase.packages(wanted(PODMAN), host)) == has_it
    assert bool(phase.resources(wanted(PODMAN), host)) == has_it
    assert phase.packages(wanted(""), host) == ()


def test_users_of_a_directory_service_have_their_subordinate_ids_from_there() -> None:
    assert phase.resources(wanted(PODMAN + "unix_users: false\n"), "n1") == ()


def test_a_uid_that_hosts_have_and_that_has_no_subordinate_ids_is_refused() -> None:
    account = {"accounts": {"ann": Account(70000, 70000, "/home/ann", "/bin/sh")}, "groups": {"ann": 70000}}
    with pytest.raises(InputError, match="ann: UID 70000 has no range of subordinate IDs"):
        preflight.refuse_unfit(wanted(PODMAN, **account))
    preflight.refuse_unfit(wanted("users: [{name: ann}]\n", **account))
    preflight.refuse_unfit(wanted(PODMAN))
