"""Quotas in a cluster file: which host sets them for whom, and what is refused with its line."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.cluster.inventory.storage import limits, places

HEAD = """\
cluster: lab
controllers: [c1]
nodes: [{hosts: "n[1-2]"}]
users: [{name: ann}, {name: bob, quota: {hard: 1T}}, {name: carl, quota: false}]
"""
EXPORT = "exports: [{path: /srv/home, host: c1, mount: /home}]\n"
NAS = "mounts: [{path: /home, source: 'nas:/home', type: nfs4}]\n"


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("quota: {path: /home}\n" + EXPORT, "a quota has soft, hard, or both"),
        ("quota: {path: /home, soft: 2G, hard: 1G}\n" + EXPORT, r"soft \(2G\) is more than hard \(1G\)"),
        ("quota: {path: /home, soft: 5%}\n" + EXPORT, '"5%" is not an amount such as 50G'),
        ("quota: {path: /home, soft: 0G}\n" + EXPORT, '"0G" is not an amount'),
        ("quota: {soft: 1G}\n" + EXPORT, "path: this key is missing"),
        ("quota: {path: /home, soft: 1G}\n", '"/home" is on no mount and no export of the cluster file'),
        ("quota: {path: /home, soft: 1G}\n" + NAS, '"/home" is from nas:/home, which is no host of this cluster'),
    ],
)
def test_a_quota_that_cannot_be_set_is_refused_with_its_line(more: str, why: str) -> None:
    with pytest.raises(InputError, match=rf"cluster.yaml:5: quota.*{why}"):
        cluster(HEAD + more)


def test_a_users_own_quota_needs_the_file_system() -> None:
    with pytest.raises(InputError, match=r"cluster.yaml:4: users\[1\].quota: it needs the key quota"):
        cluster(HEAD)


def test_a_users_own_quota_is_a_mapping_or_false() -> None:
    with pytest.raises(
        InputError, match=r"cluster.yaml:4: users\[1\].quota: it must be a mapping with soft and hard, or"
    ):
        cluster(HEAD.replace("{hard: 1T}", "1T") + "quota: {path: /home, hard: 1G}\n" + EXPORT)


def test_limits_are_the_users_own_or_those_of_all_in_kib() -> None:
    found = cluster(HEAD + "quota: {path: /home, soft: 50G, hard: 60G}\n" + EXPORT)
    assert limits(found) == (("ann", 52428800, 62914560), ("bob", 0, 1 << 30))


@pytest.mark.parametrize(
    ("more", "where"),
    [
        (EXPORT, {"c1": "/srv/home"}),
        ("exports: [{path: /home, host: n1}]\n", {"n1": "/home"}),
        ("mounts: [{path: /home, source: /dev/sdb1, type: xfs, options: uquota, roles: compute}]\n",
         {"n1": "/home", "n2": "/home"}),
    ],
)  # fmt: skip
def test_the_host_that_has_the_file_system_sets_quotas(more: str, where: dict[str, str]) -> None:
    assert places(cluster(HEAD + "quota: {path: /home/people, hard: 1G}\n" + more)) == where
    assert places(cluster(HEAD.replace(", quota: {hard: 1T}", "").replace(", quota: false", "") + more)) == {}


@pytest.mark.parametrize("quota", ["{path: /home, soft: 1G}", "{path: /home, soft: 5X}", "{soft: 1G}"])
def test_a_mistake_in_a_quota_is_one_complaint_and_makes_no_second_one(quota: str) -> None:
    with pytest.raises(ClusterFileError) as raised:
        cluster(f"{HEAD}quota: {quota}\n")
    assert len(str(raised.value).splitlines()) == 1, str(raised.value)
