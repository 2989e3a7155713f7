"""Files that one host writes to a mount and another reads: what runs for that on the hosts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import NamedTuple

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.mounts import Mount, covering
from slurmfab.cluster.inventory.storage import clients, exports_of, mounts_of
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.on_hosts.agent.mounts.exports import Entry

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
OPEN = "any"  # the name of a directory in which everybody may write

DENIED = ("Permission denied", "Operation not permitted")
"""What a file server that gives root no rights there (root_squash) answers."""

READ = "for try in $(seq 40); do test -e {file} && break; sleep 0.2; done; cat {file}"
"""Waits for a file: a host may remember for some seconds that it was not there."""


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


def proofs(cluster: Cluster, host: str, mount: Mount, token: str) -> tuple[Proof, Proof]:
    """What root and an ordinary user (one in its home, or `nobody` in a new directory) write from this host."""
    name = f".slurmfab-check-{token}"
    user, home = home_user(cluster, host, mount)
    directory = f"{mount.path}/{name}"
    file = f"{home}/{name}" if user else f"{directory}/{OPEN}/{NOBODY}"
    return Proof(ROOT, f"{directory}/{ROOT}", token), Proof(user or NOBODY, file, token)


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
    """Write a file, and return why that fails; root makes its directory, and one below it for everybody."""
    file, directory = shlex.quote(proof.file), proof.file.rpartition("/")[0]
    script = f"echo {proof.text} > {file}"
    if proof.user == ROOT:
        script = (
            f"mkdir -m 755 {shlex.quote(directory)} && {script} && mkdir -m 1777 {shlex.quote(f'{directory}/{OPEN}')}"
        )
    return attempt(host, proof.user, script)


def read(host: CheckedHost, proof: Proof) -> str:
    """Read a file that another host has written, and return why that fails, or what else is in it."""
    file = shlex.quote(proof.file)
    return attempt(host, proof.user, f"{READ.format(file=file)} | grep -qx {proof.text} || {{ cat {file}; exit 1; }}")


def clean(host: CheckedHost, some: tuple[Proof, Proof]) -> None:
    """Remove what `write` made."""
    directory = shlex.quote(some[0].file.rpartition("/")[0])
    attempt(host, ROOT, f"rm -rf -- {directory}")
    if some[1].user != NOBODY:
        attempt(host, some[1].user, f"rm -f -- {shlex.quote(some[1].file)}")


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
