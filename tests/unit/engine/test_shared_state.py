"""Whether two controllers see one directory: who is asked what, in which order, and what is said when they do not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support import cluster

from slurmfab.base.errors import HostError, InputError
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.core.engine import shared_state
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, WOULD_CHANGE, Outcome
from slurmfab.on_hosts.agent.files.left_file import LeftFile

TWO = "cluster: lab\ncontrollers: [c1, c2]\nstate_directory: /shared/state\nnodes: [{hosts: n1}]\n"


class Disks:
    """Hosts with directories of their own or a shared one, who remember what they were asked.

    Args:
        place_of: which disk a host's state directory is on.
        full: hosts that cannot write.
    """

    def __init__(self, place_of: Callable[[str], str], full: tuple[str, ...] = ()) -> None:
        self.place_of = place_of
        self.full = full
        self.files: set[tuple[str, str]] = set()
        self.asked: list[tuple[str, str]] = []

    def ask(self, host: str, file: LeftFile, is_dry: bool) -> Outcome:
        path = (self.place_of(host), file.file)
        self.asked.append((host, "find" if is_dry else "leave" if file.there else "take"))
        if (path in self.files) == file.there:
            return Outcome(file.id, OK)
        if is_dry:
            return Outcome(file.id, WOULD_CHANGE)
        if host in self.full:
            return Outcome(file.id, FAILED, message="no space left")
        if file.there:
            self.files.add(path)
        else:
            self.files.discard(path)
        return Outcome(file.id, CHANGED)


def wanted() -> Cluster:
    return cluster(TWO)


def test_two_controllers_on_one_file_system_see_each_others_files_and_remove_them() -> None:
    disks = Disks(lambda _: "nfs")
    shared_state.require_shared(wanted(), ("c1", "c2", "n1"), disks.ask)
    assert {step for _, step in disks.asked} == {"leave", "find", "take"}
    assert {host for host, _ in disks.asked} == {"c1", "c2"}
    assert disks.files == set()


def test_two_controllers_with_separate_disks_are_refused_and_no_file_is_left() -> None:
    disks = Disks(lambda host: host)
    with pytest.raises(InputError, match=r"/shared/state is not the same .* on c2 and on c1.*Nothing was changed"):
        shared_state.require_shared(wanted(), ("c1", "c2"), disks.ask)
    assert disks.files == set()


def test_a_controller_that_cannot_write_is_named_with_the_reason_and_no_file_is_left() -> None:
    disks = Disks(lambda _: "nfs", full=("c2",))
    with pytest.raises(HostError, match=r"c2: .*cannot be checked: no space left"):
        shared_state.require_shared(wanted(), ("c1", "c2"), disks.ask)
    assert disks.files == set()


@pytest.mark.parametrize("hosts", [("c1", "n1"), ("n1",)])
def test_without_both_controllers_in_the_run_no_host_is_asked(hosts: tuple[str, ...]) -> None:
    disks = Disks(lambda host: host)
    shared_state.require_shared(wanted(), hosts, disks.ask)
    assert disks.asked == []


def test_a_single_controller_is_not_asked() -> None:
    disks = Disks(lambda host: host)
    shared_state.require_shared(cluster(), ("c1", "n1", "n2"), disks.ask)
    assert disks.asked == []


NFS = "mounts: [{path: /shared, source: 'nas:/x', type: nfs}]\n"


@pytest.mark.parametrize(
    ("more", "is_ours"),
    [
        ("", False),
        (NFS, True),
        (NFS.replace("'nas:/x', type: nfs", "/dev/sdb, type: ext4"), False),
        (NFS.replace("type: nfs", "type: nfs, hosts: c1"), False),
    ],
)
def test_a_state_on_one_mount_of_the_network_is_shared_by_the_cluster_file_itself(more: str, is_ours: bool) -> None:
    assert shared_state.is_mounted_by_us(cluster(TWO + more)) is is_ours
