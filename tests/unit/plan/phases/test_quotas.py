"""Quotas: on which host and file system, of whom, and where they are taken back."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.core.plan.phases import quotas
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.mounts.quotas import UserQuotas

USERS = "users: [{name: ann}, {name: bob, quota: {soft: 1M, hard: 2M}}, {name: carl, quota: false}]\n"
QUOTA = "quota: {path: /home/staff, hard: 4K}\n"
EXPORTED = "exports: [{path: /srv, host: n1, mount: /mnt}, {path: /srv/home, host: n2, mount: /home}]\n"
LOCAL = "mounts: [{path: /home, source: /dev/disk/by-label/home, type: ext4, hosts: c1}]\n"


def wanted(more: str, **facts: Any) -> PlanInput:
    return prepared_input(THREE_HOSTS + more, **facts)


@pytest.mark.parametrize(
    ("more", "places"),
    [
        (QUOTA + EXPORTED, {"n2": "/srv/home"}),
        (QUOTA + LOCAL, {"c1": "/home"}),
        (QUOTA + EXPORTED.replace("/mnt}", "/homes}"), {"n2": "/srv/home"}),
    ],
)
def test_quotas_are_set_where_the_file_system_is(more: str, places: dict[str, str]) -> None:
    found = wanted(USERS + more)
    for host in ("c1", "n1", "n2"):
        assert [one.id for one in quotas.resources(found, host)] == [
            f"user-quotas:{place}" for place in places.get(host, "").split()
        ]
        assert quotas.packages(found, host) == ("quota",) * (host in places)


def test_users_have_the_usual_limits_their_own_or_none() -> None:
    found = wanted(USERS + QUOTA + LOCAL)
    ids = found.lock.ids
    limits = (("ann", ids["ann.uid"], 0, 4), ("bob", ids["bob.uid"], 1024, 2048))
    assert quotas.resources(found, "c1") == (UserQuotas("/home", limits),)
    others = wanted(f"{USERS}{QUOTA}{LOCAL}unix_users: false\n")
    assert quotas.wanted(others) == (("ann", 0, 0, 4), ("bob", 0, 1024, 2048))


def test_limits_that_a_host_has_had_are_taken_back() -> None:
    found = wanted("", owned=("quota",))
    assert quotas.resources(found, "n1") == (UserQuotas("", ()),)
    silent = dataclasses.replace(found, facts={host: fact for host, fact in found.facts.items() if host != "n1"})
    assert quotas.resources(silent, "n1") == ()
    assert quotas.resources(wanted("", owned=("other",)), "n1") == ()
