"""Checks of mounts: each is there, and what one host writes another one reads, as root and as an ordinary user."""

from __future__ import annotations

import secrets
import shlex
from collections.abc import Mapping
from typing import NamedTuple

import pytest

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.mounts import Mount, covering
from slurmfab.cluster.inventory.storage import clients, exports_of, limits, mounts_of, places
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.wanted import deploy
from slurmfab.on_hosts.agent.core import mounts
from slurmfab.on_hosts.agent.mounts import exports, quotas
from slurmfab.on_hosts.agent.mounts.exports import Entry
from slurmfab.on_hosts.agent.mounts.mount_point import is_right
from slurmfab.on_hosts.agent.mounts.mount_units import AUTOFS, mounted_at

KIB_PER_GB = 1 << 20

SECONDS = 10  # time limit of each access: a file server that takes longer does not work for people either
LATE = (124, 137)  # exit codes of timeout(1) for a command that it has stopped
NO_ANSWER = f"no answer within {SECONDS} s; is its server up?"

LIMITED = """\
told=$(mktemp) && {{ {{ {command} >"$told" 2>&1; echo $? >"$told.rc"; }} </dev/null >/dev/null 2>&1 & }}
for try in $(seq {tries}); do test -s "$told.rc" && break; sleep 0.1; done
code=$(cat "$told.rc" 2>/dev/null || echo 124); cat "$told"; rm -f "$told" "$told.rc"; exit "$code"
"""
"""Runs a command in the background, and waits for its end, but not for longer than the time limit."""

ROOT, NOBODY = "root", "nobody"

DENIED = ("Permission denied", "Operation not permitted")
"""What a file server that gives root no rights there (root_squash) answers."""

AWAITED = "for try in $(seq 40); do test -e {file} && break; sleep 0.2; done"
"""Waits for a file: a host may remember for some seconds that it was not there."""


def test_mounts_are_there(mounting: CheckedHost, cluster: Cluster) -> None:
    """each mount is there, from its source and with its type"""
    wanted = mounts_of(cluster, mounting.name)
    table = mounts.parse(mounting.ask("cat /proc/self/mountinfo"))
    awaited = [one.path for one in wanted if wrong_mount(one, table) and any(at.path == one.path for at in table)]
    if awaited:
        # What failed at boot, as where the file server came later, is mounted by its next use.
        mounting.run(
            as_user(ROOT, "; ".join(f"stat -c %m {shlex.quote(path)}/." for path in awaited)), seconds=3 * SECONDS
        )
        table = mounts.parse(mounting.run("cat /proc/self/mountinfo").stdout)
    wrong = [why for mount in wanted if (why := wrong_mount(mount, table))]
    assert not wrong, f"{'; '.join(wrong)}. Repair: {deploy(mounting.name)}"


def test_exports_are_served(exporting: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """the directories of its exports are served to the hosts that may mount them"""
    wanted = wanted_exports(cluster, lock, exporting.name)
    if not wanted:
        raise DoesNotApply("no other host may mount what it exports")
    server, threads = exporting.service("nfs-server"), exporting.file("/proc/fs/nfsd/threads")
    table = exports.exports_entries(exporting.run("exportfs -s").stdout)
    lacking = exports.exports_missing(wanted, table)
    wrong = [
        *([] if server.is_running else [f"nfs-server is {server.systemd_properties['ActiveState']}"]),
        *(["the NFS server has no threads"] if threads.exists and threads.content_string.strip() == "0" else []),
        *(f"{path} is not exported to {', '.join(some[:3])}" for path, some in lacking.items()),
    ]
    assert not wrong, (
        f"{'; '.join(wrong)}. Repair: {deploy(exporting.name)}; then see `systemctl status nfs-server` there"
    )


def test_quotas_are_set(limiting: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """users have the quotas of the cluster file, on the host that has the file system"""
    point = limiting.ask(f"findmnt -n -o TARGET --target {shlex.quote(places(cluster)[limiting.name])}").strip()
    done = limiting.run(shlex.join(quotas.repquota(point)))
    assert done.rc == 0, (
        f"{point} cannot limit users: {last_words(done)}. Repair: mount it with the option usrquota (ext4 also needs "
        f"`tune2fs -O quota`), then {deploy(limiting.name)}"
    )
    found = quotas.parse_quotas(done.stdout)
    wrong = []
    for user, soft, hard in limits(cluster):
        uid = lock.ids.get(f"{user}.uid") or int(limiting.run("id -u %s", user).stdout.strip() or 0)
        there = found.get(uid, quotas.NONE)
        if (there.soft, there.hard) != (soft, hard):
            pairs = (there.soft, there.hard), (soft, hard)
            actual, wanted = (quotas.limits_text(*pair) for pair in pairs)
            wrong.append(f"{user} has {actual} instead of {wanted}")
    assert not wrong, f"on {point}, {'; '.join(wrong[:3])}. Repair: {deploy(limiting.name)}"


def test_files_are_shared(mounting: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster) -> None:
    """what is written to a mount is read on another host, by root and by an ordinary user"""
    written = [one for one in mounts_of(cluster, mounting.name) if elsewhere(cluster, mounting.name, one)]
    if not written:
        raise DoesNotApply("no other host has one of its mounts, or it may not write there")
    shared = [(mount, other) for mount in written if (other := partner(cluster, mounting.name, others, mount))]
    if not shared:
        pytest.skip("no other host that answers has one of its mounts.")
    table = mounts.parse(mounting.ask("cat /proc/self/mountinfo"))
    there = [(mount, other) for mount, other in shared if not wrong_mount(mount, table)]
    wrong = [f"{mount.path}: {why}" for mount, other in there if (why := not_shared(cluster, mounting, other, mount))]
    assert not wrong, (
        f"{'; '.join(wrong)}. Repair: see the file server, its exports, and `journalctl -b` on {mounting.name}"
    )


def test_homes_are_on_their_mount(mounting: CheckedHost, cluster: Cluster) -> None:
    """the homes of users, and the directory that has them, are on the mount that hosts share"""
    homes = {
        home: mount.path for mount in mounts_of(cluster, mounting.name) for home in homes_on(cluster, mounting, mount)
    }
    if not homes:
        raise DoesNotApply("no user of the cluster file has a home on a mount")
    # Not stat(1), which takes a bind mount for the file system below it.
    script = "".join(f"test ! -e {home} || echo $(findmnt -n -o TARGET --target {home}) {home}; " for home in homes)
    done = mounting.run(as_user(ROOT, f"{script}true"), seconds=3 * SECONDS)
    assert done.rc not in LATE, f"homes do not answer within {SECONDS} s; is their server up?"
    found = {home: point for point, _, home in (line.partition(" ") for line in str(done.stdout).splitlines())}
    wrong = [f"{home} is on {found[home]}" for home, point in homes.items() if found.get(home, point) != point]
    assert not wrong, f"{'; '.join(wrong[:3])}, where other hosts do not see it. Repair: {deploy(mounting.name)}"


def test_scratch_has_its_place(scratch_node: CheckedHost, cluster: Cluster) -> None:
    """the directory for those of jobs is root's, on its mount, on a disk with room for what jobs may reserve"""
    assert cluster.scratch is not None, "the fixture has only nodes with it"
    path, size = cluster.scratch.path, cluster.scratch.of_node(scratch_node.name)
    script = f"stat -c '%F, %U, %a' {path} && df -Pk {path} | tail -n 1"
    done = scratch_node.run(as_user(ROOT, script), seconds=3 * SECONDS)
    assert done.rc not in LATE, f"{path} does not answer within {SECONDS} s; is its disk ill?"
    below = covering(mounts_of(cluster, scratch_node.name), path)
    why = wrong_scratch(path, size, below.path if below else "", str(done.stdout).splitlines())
    assert not why, f"{why}. Repair: {deploy(scratch_node.name)}"


def wrong_scratch(path: str, size: int, mount: str, printed: list[str]) -> str:
    """What is wrong with the directory for those of jobs, by what `stat` and `df` printed; empty if nothing is.

    `size`: gigabytes that jobs may reserve. `mount`: the mount point that it should be on; empty for any.
    """
    if len(printed) != 2:
        return f"{path} is missing"
    access, (*_, total, _, _, _, point) = printed[0], printed[1].split()
    if access != "directory, root, 755":
        return f"{path} is not root's directory with mode 755, but: {access}"
    if mount and point != mount:
        return f"{path} is on {point}, as {mount} is not mounted"
    if int(total) < size * KIB_PER_GB:
        there = int(total) / KIB_PER_GB
        return f"jobs may reserve {size} GB below {path} (scratch.size), and the file system has {there:.0f} GB"
    return ""


def elsewhere(cluster: Cluster, host: str, mount: Mount) -> bool:
    """Whether a host writes to a mount whose files another host of the cluster file has, too."""
    same = set() if mount.is_read_only else {*with_same_files(cluster, mount)}
    return any(same.intersection(mounts_of(cluster, other)) for other in cluster.hosts if other != host)


def homes_on(cluster: Cluster, host: CheckedHost, mount: Mount) -> list[str]:
    """The homes of users, and the directory of homes, that are on a mount of a host."""
    there = mounts_of(cluster, host.name)
    homes = (*([cluster.homes] if cluster.homes else []), *(user.home_directory for user in cluster.users))
    return [home for home in homes if covering(there, home) is mount]


def wrong_mount(mount: Mount, table: list[mounts.Mount]) -> str:
    """What is wrong with a mount, given what is mounted on the host; empty if nothing is."""
    there = mounted_at(table, mount.path)
    waits = mount.automount and any(one.path == mount.path and one.type == AUTOFS for one in table)
    if there is None:
        return "" if waits else f"{mount.path} is not mounted"
    if not is_right(there, table, mount.source, mount.type):
        return f"{mount.path} is {there.source} ({there.type}), not {mount.source} ({mount.type})"
    if there.read_only and not mount.is_read_only:
        return f"{mount.path} is mounted read-only"
    return ""


def not_shared(cluster: Cluster, host: CheckedHost, other: CheckedHost, mount: Mount) -> str:
    """Why files of a mount do not get to another host; empty if root's, or else an ordinary user's, do."""
    token, why = secrets.token_hex(6), ""
    directory = f"{mount.path}/.slurmfab-check-{token}"
    proof = proof_of_user(cluster, host.name, mount, token)
    try:
        why = root_is_not_shared(host, other, directory) or user_is_not_shared(host, other, proof)
        return why
    finally:
        if NO_ANSWER not in why:
            clean(host, directory, proof)


def root_is_not_shared(host: CheckedHost, other: CheckedHost, directory: str) -> str:
    """Why what root makes does not come from one host to another; empty if it does, or if the server denies root.

    It is a directory, in which everybody may write: root of another host may exchange it for a link at any time, and
    mkdir(2) follows none, as writing and reading a file does.
    """
    made = shlex.quote(directory)
    why = attempt(host, ROOT, f"mkdir -m 1777 {made}")
    if why:
        return "" if any(one in why for one in DENIED) else f"root cannot write there: {why}"
    why = attempt(other, ROOT, f"{AWAITED.format(file=made)}; stat -c %F {made} | grep -qx directory")
    return f"{other.name} does not see what root makes here" + (f": {why}" if why == NO_ANSWER else "") if why else ""


def user_is_not_shared(host: CheckedHost, other: CheckedHost, proof: Proof) -> str:
    """Why an ordinary user's files do not; empty if they do, or if such users may not enter the mount."""
    directory = proof.file.rpartition("/")[0]
    if proof.user == NOBODY and attempt(host, NOBODY, f"cd {shlex.quote(directory)}"):
        return ""
    why = write(host, proof)
    if why:
        return f"{proof.user} cannot write to {directory}: {why}"
    why = read(other, proof)
    return f"{other.name} does not see what {proof.user} writes here: {why}" if why else ""


class Proof(NamedTuple):
    """A file that a user writes on one host and reads on another."""

    user: str
    file: str
    text: str


def home_user(cluster: Cluster, host: str, mount: Mount) -> tuple[str, str]:
    """The first user of the cluster file whose home is on a mount of a host, and the home; empty for none."""
    mounts = mounts_of(cluster, host)
    found = ((one.name, one.home_directory) for one in cluster.users if covering(mounts, one.home_directory) is mount)
    return next(found, ("", ""))


def proof_of_user(cluster: Cluster, host: str, mount: Mount, token: str) -> Proof:
    """What an ordinary user (one in its home, or `nobody` in root's new directory) writes from this host."""
    user, home = home_user(cluster, host, mount)
    name = f".slurmfab-check-{token}"
    return Proof(user or NOBODY, f"{home}/{name}" if user else f"{mount.path}/{name}/{NOBODY}", token)


def as_user(user: str, script: str) -> str:
    """A command that runs a script as a user, with a time limit even if it hangs on a silent file server."""
    shell = ["sh", "-c", script] if user == ROOT else ["su", "-s", "/bin/sh", user, "-c", script]
    return LIMITED.format(command=shlex.join(["timeout", "-k", "1", str(SECONDS), *shell]), tries=(SECONDS + 2) * 10)


def attempt(host: CheckedHost, user: str, script: str) -> str:
    """Run a script as a user, and return why it fails; empty if it does not."""
    done = host.run(as_user(user, script), seconds=3 * SECONDS)
    if done.rc in LATE:
        return NO_ANSWER
    return "" if done.rc == 0 else last_words(done)


def write(host: CheckedHost, proof: Proof) -> str:
    """Write a file, and return why that fails."""
    return attempt(host, proof.user, f"echo {proof.text} > {shlex.quote(proof.file)}")


def read(host: CheckedHost, proof: Proof) -> str:
    """Read a file that another host has written, and return why that fails, or what else is in it."""
    file = shlex.quote(proof.file)
    shown = f"head -c 200 {file}"
    script = f"{AWAITED.format(file=file)}; {shown} | grep -qx {proof.text} || {{ {shown}; exit 1; }}"
    return attempt(host, proof.user, script)


def clean(host: CheckedHost, directory: str, proof: Proof) -> None:
    """Remove what was made; `directory`: root's."""
    attempt(host, proof.user, f"rm -f -- {shlex.quote(proof.file)}")
    attempt(host, ROOT, f"rmdir -- {shlex.quote(directory)}")


def partner(cluster: Cluster, host: str, others: Mapping[str, CheckedHost], mount: Mount) -> CheckedHost | None:
    """The host that reads what another writes: the next one in the cluster file with this mount; `None` for none."""
    same = set(with_same_files(cluster, mount))
    having = [name for name in cluster.hosts if name in {host, *others} and same.intersection(mounts_of(cluster, name))]
    following = having[(having.index(host) + 1) % len(having)]
    return others.get(following) if following != host else None


def wanted_exports(cluster: Cluster, lock: Lock, host: str) -> dict[Entry, str]:
    """The entries that a server has to have: one for each directory and each known host that may mount it."""
    known = {name for name, one in lock.hosts.items() if one.hostname}
    return {
        (export.path, cluster.addresses.get(client) or client): ",".join(export.options)
        for export in exports_of(cluster, host)
        for client in clients(cluster, export)
        if client in known
    }


def with_same_files(cluster: Cluster, mount: Mount) -> tuple[Mount, ...]:
    """The mounts that show the same files on other hosts: the mount itself, or both kinds of an export's."""
    for _, here, elsewhere in cluster.served:
        if mount in (here, elsewhere):
            return tuple(filter(None, (here, elsewhere)))
    return (mount,) if mount.is_network else ()
