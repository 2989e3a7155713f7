"""Checks of Podman: each user's subordinate IDs and directory, the same on all hosts, and the timer that prunes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from slurmfab.base.paths import PRUNE_UNIT
from slurmfab.cluster.inventory import people_ids
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.commands.checks.daemons import timer_of
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import deploy

MOST_NAMED = 5
FILES = ("/etc/subuid", "/etc/subgid")


def test_users_have_their_subordinate_ids(podman_host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """users have the subordinate IDs for containers that follow from their UIDs, and no line gives one to another"""
    wanted = {f"{name}:{first}:{people_ids.COUNT}" for name, first in people_ids.ranges(cluster, lock.ids)}
    users = {line.partition(":")[0] for line in wanted}
    for path in FILES:
        file = podman_host.file(path)
        found = file.content_string.splitlines() if file.exists else []
        missing = sorted(line.partition(":")[0] for line in wanted - set(found))
        assert not missing, (
            f"{', '.join(missing[:MOST_NAMED])} lacks the right numbers in {path}. Repair: {deploy(podman_host.name)}"
        )
        more = sorted({line.partition(":")[0] for line in set(found) - wanted} & users)
        assert not more, (
            f"{', '.join(more[:MOST_NAMED])} has further numbers in {path}. Repair: {deploy(podman_host.name)}"
        )
        shared = list(intruders(set(found) - wanted, wanted))
        assert not shared, (
            f"{'; '.join(shared[:MOST_NAMED])}, by {path}: who starts a container there has the other's files. Repair: "
            f"remove that line from {path} on {podman_host.name}; subordinate IDs follow from UIDs there"
        )


def intruders(others: Iterable[str], wanted: Iterable[str]) -> Iterator[str]:
    """Who has numbers of another user, in those of the lines of /etc/subuid or /etc/subgid that nobody wants."""
    ranges = [(fields[0], int(fields[1]), int(fields[2])) for fields in (line.split(":") for line in wanted)]
    for line in sorted(others):
        name, first, count = (*line.split(":"), "", "")[:3]
        if not (first.isdecimal() and count.isdecimal()):
            continue
        for owner, begin, size in ranges:
            if int(first) < begin + size and begin < int(first) + int(count):
                yield f"{name} has subordinate IDs of {owner} ({line})"


def test_users_have_a_directory_for_images(podman_host: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """users have a directory for images on the host's own disk, and can enter it"""
    assert cluster.containers is not None, "the argument asks for it"
    storage = cluster.containers.podman.storage
    for name in [user.name for user in cluster.users if f"{user.name}.uid" in lock.ids][:MOST_NAMED]:
        path = f"{storage}/{lock.ids[f'{name}.uid']}"
        done = podman_host.run("runuser -u %s -- test -w %s -a -x %s", name, path, path)
        assert done.rc == 0, (
            f"{name} cannot write to {path}. Repair: {deploy(podman_host.name)}; if that changes nothing, let users "
            "enter the directories above it (mode 0755)"
        )


def test_images_are_pruned(pruning_host: CheckedHost) -> None:
    """the timer that removes images which nobody has used for long is active, and its last run succeeded"""
    timer, result = timer_of(pruning_host, PRUNE_UNIT)
    assert timer == "active", f"{PRUNE_UNIT}.timer is not active. Repair: {deploy(pruning_host.name)}"
    assert result == "success", f"the last run failed. See: journalctl --unit={PRUNE_UNIT}"
