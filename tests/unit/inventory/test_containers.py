"""What a cluster file may say of containers, and which numbers users get for them."""

from __future__ import annotations

import itertools

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory import people_ids
from slurmfab.cluster.inventory.containers import Enroot

ENROOT = "./enroot_4.1.2-1_amd64.deb"
BOTH = f"containers: [enroot]\npackages: {{all: [{ENROOT}, nvslurm-plugin-pyxis]}}\n"


@pytest.mark.parametrize("text", ["[podman]", "{use: [podman]}", "{use: [podman], podman: {}}"])
def test_containers_when_a_list_or_a_mapping_then_name_the_ways(text: str) -> None:
    found = cluster(f"{THREE_HOSTS}containers: {text}\n").containers
    assert found is not None
    assert (found.use, found.podman.storage) == (("podman",), "/var/lib/podman-users")


@pytest.mark.parametrize("text", ["", "containers: false\n", "containers:\n"])
def test_containers_when_missing_or_false_then_are_none(text: str) -> None:
    assert cluster(THREE_HOSTS + text).containers is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("containers: []", "it is empty; name at least one way"),
        ("containers: [rkt]", "containers.use[0]: it must be 'podman', "),
        ("containers: [podman, podman]", '"podman" is listed twice'),
        ("containers: {podman: {storage: /images}}", "use"),
        ("containers: {use: [podman], lxc: {}}", "lxc"),
        ("containers: {use: [podman], podman: {storage: images}}", "is not an absolute path"),
        ("containers: {use: [podman], enroot: {mount_home: true}}", "options of enroot, which is not in its list"),
        ("containers: {use: [enroot], enroot: {hooks: [mpi]}}", "it must be 'slurm-pmi' or 'slurm-pytorch'"),
        ("containers: [enroot]", "enroot comes from its authors; name it under packages for c1,n[1-2]"),
        (f"containers: [enroot]\npackages: {{compute: [{ENROOT}]}}", "under packages for c1, such as"),
        (f"containers: [enroot]\npackages: {{all: [{ENROOT}]}}", "nvslurm-plugin-pyxis comes from its authors"),
        (f"{BOTH}slurm_files: {{plugstack.conf.d/slurmfab-pyxis.conf: f}}", "slurmfab writes it for containers"),
        (f"{BOTH}slurm_conf: {{PlugStackConfig: /etc/x}}", "has Slurm load pyxis from plugstack.conf.d"),
        ("containers: [apptainer]\npackages: {all: [apptainer-suid]}", "apptainer-suid lets Apptainer work as root"),
        ("containers: {use: [podman], podman: {storage: /home}}", "is a directory of the system"),
        ("containers: {use: [podman], podman: {prune: {unused_for: 3}}}", '"3" is not a number of days, such as 30d'),
        ("containers: {use: [podman], podman: {prune: {unused_for: 0d}}}", "is not a number of days"),
        ("containers: {use: [podman], podman: {prune: {above: 80}}}", "is not a percentage from 10% to 99%"),
        ("containers: {use: [podman], podman: {prune: {when: often}}}", '"often" is neither one of'),
        ("containers: [podman]\nslurm_conf: {Prolog: /x}", "podman under containers needs a prolog of slurmfab's"),
        (
            "containers: {use: [podman], podman: {storage: /srv/i}}\n"
            "mounts: [{path: /srv, source: 'nas:/x', type: nfs4}]",
            '"/srv/i" is on /srv (nfs4), which hosts share',
        ),
        (
            "containers: {use: [podman], podman: {storage: /data/i}}\nusers: [{name: ann, home: /data/i/ann}]",
            "which is the home of ann",
        ),
        ("containers: [podman]\nusers: [{name: ann, uid: 70000}]", "UID 70000 has no range of subordinate IDs"),
        (
            "containers: [podman]\nusers: [{name: ann, uid: 2001}, {name: bob, uid: 131137600}]",
            "UID 131137600 is one of the subordinate IDs of ann (UID 2001)",
        ),
    ],
)
def test_containers_when_they_make_no_sense_then_are_refused(more: str, reason: str) -> None:
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    assert reason in str(error.value)


def test_subordinate_ids_when_all_users_have_some_then_none_overlap() -> None:
    uids = (1000, 1001, 2001, 60000, people_ids.LAST_UID)
    firsts = [people_ids.first(uid) for uid in uids]
    assert all(after - before >= people_ids.COUNT for before, after in itertools.pairwise(firsts))
    assert firsts[-1] + people_ids.COUNT - 1 < 2**32 - 1


def test_subordinate_ids_when_a_uid_comes_from_a_host_then_it_is_judged_too() -> None:
    found = cluster(f"{THREE_HOSTS}containers: [podman]\nusers: [{{name: ann}}]\n")
    assert next(iter(people_ids.mistakes(found, {"ann.uid": 65534})))[0] == "ann"
    assert people_ids.ranges(found, {"ann.uid": 65534}) == ()


def test_enroot_when_its_packages_are_named_then_has_its_settings() -> None:
    found = cluster(THREE_HOSTS + BOTH.replace("enroot_", "enroot-hardened_")).containers
    assert found is not None
    assert found.enroot == Enroot(storage="/var/lib/enroot-users", hooks=("slurm-pmi", "slurm-pytorch"))
