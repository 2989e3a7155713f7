"""What people should know of the hosts of an imported cluster, besides what became of its settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import MADE_BY_SLURMFAB
from slurmfab.commands.import_cluster.asked import NOTHING, Asked
from slurmfab.commands.import_cluster.carried import ON_CONTROLLERS, ON_NODES
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.on_hosts.agent.slurm.found_files import ELSEWHERE, MISSING


def remarks(asked: Asked) -> Iterator[str]:
    """Yield a text of one or more sentences for each thing."""
    yield from left(asked)
    yield from hidden(asked)
    yield from others(asked)
    found = asked.cluster
    if asked.trouble:
        yield (
            f"slurmdbd did not tell of accounts, users and QOS: {asked.trouble} They are not in the cluster file, and "
            f"stay in slurmdbd as they are. Later: {FAB} accounts-export."
        )
    if "slurmctld" not in asked.running.get(found.controller, ()):
        yield f"{found.controller}: slurmctld does not run there now; its files were read all the same."
    idle = [name for name in old_nodes(asked) if "slurmd" not in asked.running.get(name, ())]
    if idle:
        every = " That is every node that answered, so no job runs." if idle == list(old_nodes(asked)) else ""
        yield (
            f"{fold(idle)}: slurmd does not run there now.{every} The first deployment starts it; see before why it "
            "ended: journalctl -u slurmd."
        )
    if found.facts[found.controller].slurm_conf.startswith(MADE_BY_SLURMFAB):
        yield (
            f"slurmfab made the slurm.conf of {found.controller}. If a copy of its cluster file and lock is left, "
            "use that instead: it says more than an import can find."
        )


def old_nodes(asked: Asked) -> tuple[str, ...]:
    """The compute nodes that answered."""
    return tuple(name for name in OldCluster(asked.cluster).nodes if name in asked.cluster.hosts)


def left(asked: Asked) -> Iterator[str]:
    """Files that belong to Slurm and are not in the cluster file, by reason."""
    old = OldCluster(asked.cluster)
    users = {
        old.setting(key).partition(" ")[0]: hosts
        for keys, hosts in ((ON_NODES, old.nodes), (ON_CONTROLLERS, tuple(name for name, _ in old.controllers)))
        for key in keys
    }
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, files in asked.cluster.hosts.items():
        for path, reason in files.left.items():
            if reason != ELSEWHERE and (reason != MISSING or name in users.get(path, (name,))):
                reasons.setdefault((path, reason), []).append(name)
    for (path, reason), names in reasons.items():
        yield f"{fold(names)}: {path}: {reason}."


def hidden(asked: Asked) -> Iterator[str]:
    """Passwords that were not read, but for slurmdbd's own, which stays in its file."""
    found: dict[tuple[str, str], list[str]] = {}
    for name, pairs in asked.hidden.items():
        for path, key in pairs:
            if not path.endswith("/slurmdbd.conf"):
                found.setdefault((path, key), []).append(name)
    for (path, key), names in found.items():
        yield (
            f"{fold(names)}: {path}: {key} is a password, so its value was not read. It stays in slurm.conf on the "
            "hosts, also when slurmfab writes that anew; to remove it, write slurm_conf: {" + key + ": null}."
        )


def others(asked: Asked) -> Iterator[str]:
    """Hosts that the user named and that are no members."""
    kinds: Mapping[str, str] = asked.strangers
    for name, what in kinds.items():
        then = (
            f"To make it a compute node later: {FAB} add-node {name}."
            if what == NOTHING
            else "To have slurmfab manage it as a login host, add it to `login` in the cluster file."
        )
        yield f"{name}: slurm.conf does not name it, and {what}, so it was left out. {then}"
