"""`fab import`: reads a cluster that somebody made by hand, and writes its cluster file; no host is changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.base.hostlist import fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, table, write
from slurmfab.cluster.inventory import fabfile, loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.site_files import ON_CONTROLLERS, ON_NODES
from slurmfab.commands.import_cluster import asking, hearing, writing
from slurmfab.commands.import_cluster.asked import NOT_ASKED, NOTHING, Asked
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.found import Kept, Takeover
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.survey import survey
from slurmfab.commands.nodes import discovery
from slurmfab.core.engine import commands, record
from slurmfab.core.engine.report import failures
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output, start
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB
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


HEADER = ("file", "key", "value", "where it is now")
WIDEST_VALUE = 60


@dataclass(frozen=True)
class Imported:
    """A cluster that was imported."""

    version: int  # of this format: 1
    cluster: str  # the cluster's name
    controller: str  # its primary controller
    hosts: Mapping[str, str]  # addresses of the hosts, by name
    unreachable: Mapping[str, str]  # hosts that did not answer or were left out, each with the reason
    files: tuple[str, ...]  # the files that were written
    remarks: tuple[str, ...]  # what to look at, for people
    keys: tuple[Kept, ...]  # what became of each key of the old files
    exit_code: int  # of the task


ADOPT = ("least", "usual")  # how much of what a cluster does not have an import takes


@dataclass(frozen=True)
class ImportOptions:
    """How the cluster file of an import leaves the cluster as it is."""

    adopt: str = ADOPT[0]  # of `ADOPT`
    keep_files: bool = False  # whether no deployment writes Slurm's files


def import_cluster(
    cluster: str, hosts: str, connection: ConnectionOptions, output: Output, wanted: ImportOptions
) -> int:
    """Write the cluster file of a cluster that exists, from its controller on.

    Returns 3 if hosts are silent or left out, and 1 if the first plan of the new files is refused. Raises
    SlurmfabError if it cannot be imported, or a file exists already; nothing was written.
    """
    path = loading.named_path(cluster)
    asked, takeover = surveyed(path, hosts, connection, output, wanted)
    known = writing.write(path, takeover, lambda made: lock_of(made, asked))
    refused, code = refusal_of_plan(known, asked, output)
    told = (*remarks(asked), *takeover.remarks, *refused)
    code = code or (LEFT_OUT if silent(asked) else DONE)
    write(text(known, asked, takeover, told, output, is_refused=code == FAILURE), output.stream)
    output.write_json(imported(known, asked, takeover, told, code))
    return code


def surveyed(
    path: Path, hosts: str, connection: ConnectionOptions, output: Output, wanted: ImportOptions
) -> tuple[Asked, Takeover]:
    """Ask a cluster, and make its cluster file, which shall be at this path; nothing is written.

    Raises SlurmfabError if it cannot be imported, or a file exists already.
    """
    if not hosts:
        raise InputError(f"Name the controller of the cluster: {FAB} import --hosts CONTROLLER.")
    if wanted.adopt not in ADOPT:
        raise InputError(f"--adopt is {' or '.join(ADOPT)}, not {wanted.adopt!a}.")
    writing.refuse_existing(path)
    asked = asking.ask(hosts, connection, output)
    discovery.tell_accepted([asked.discovered[name] for name in asked.unpinned], output.progress().line)
    found, takeover = hearing.hear(
        asked.cluster,
        lambda one: survey(one, adopts_least=wanted.adopt == ADOPT[0], keep_files=wanted.keep_files),
    )
    return asked.only(found), takeover


def refusal_of_plan(known: Inventory, asked: Asked, output: Output) -> tuple[tuple[str, ...], int]:
    """What the plan of the new files complains of, over the connections that they lead to, and the exit code for it.

    Hosts that were silent to the import are no news.
    """
    run = start(known, "", output, RunOptions(record.IMPORT), password=asked.password)
    record.write(run, record.FINISHED)  # what a rollback of the first deployment leads back to
    try:
        report = commands.dry_run(run)
    except SlurmfabError as error:
        return (f"The plan of {known.path} is refused: {error}",), FAILURE
    news = {host: reason for host, reason in report.reasons.items() if host not in silent(asked)}
    failed = {} if report.failed_hosts or report.exit_code != FAILURE else {step.host: step for step in report.steps}
    told = [f"{host}: by {known.path}, a deployment leaves it out: {reason}" for host, reason in news.items()]
    told += failures(tuple(failed.values()), {})
    return tuple(told), FAILURE if failed else LEFT_OUT if news else DONE


def silent(asked: Asked) -> dict[str, str]:
    """The hosts that did not answer or were left out, with the reason; none of those that may not exist yet."""
    return {name: reason for name, reason in asked.cluster.unreachable.items() if reason != NOT_ASKED}


def lock_of(known: Inventory, asked: Asked) -> Lock:
    """The lock of the new cluster: what its hosts showed, with the SSH host keys by which they were reached."""
    lock = first_lock(known.cluster, OldCluster(asked.cluster))
    for name, one in asked.discovered.items():
        if name in lock.hosts and not lock.hosts[name].host_keys:
            lock = locks.with_host(
                lock, name, replace(lock.hosts[name], host_keys={one.host_key.kind: one.host_key.base64})
            )
    return lock


def text(
    known: Inventory, asked: Asked, takeover: Takeover, told: tuple[str, ...], output: Output, *, is_refused: bool
) -> str:
    """What was imported, as text. `output`: says whether every key is shown, and where. `is_refused`: by a plan."""
    lines = [headline(known, asked)]
    if output.verbose:
        lines += ["", *table(rows(takeover.account), columns(output.stream))]
    if told:
        lines += ["", "To know:", *(f"  - {one}" for one in told)]
    count = len(takeover.files)
    beside = f", and {count} file{'s' * (count > 1)} beside them: {', '.join(takeover.files)}" if count else ""
    lines += ["", f"Wrote {known.path} and its lock{beside}. Nothing was changed on any host."]
    lines += [line for line in (fabfile.provide(known.path),) if line]
    return "\n".join(
        [
            *lines,
            f"Next: correct what the plan refuses in {known.path}, or on the hosts; then: {FAB} plan{named(known)}."
            if is_refused
            else f"Next: read {known.path}, then see what a deployment would do: {FAB} plan{named(known)}.",
        ]
    )


def named(known: Inventory) -> str:
    """The option that names the cluster file, with a space in front; empty for the default one."""
    return "" if known.path == loading.default_path() else f" --cluster {known.path}"


def headline(known: Inventory, asked: Asked) -> str:
    """The cluster in a sentence."""
    cluster, found = known.cluster, asked.cluster
    version = found.facts[found.controller].slurm_version
    parts = [
        f"{fold(cluster.controllers)} {'is the controller' if len(cluster.controllers) == 1 else 'are controllers'}"
    ]
    parts += [f"{fold(cluster.compute_nodes)} compute"]
    parts += [f"slurmdbd is on {fold(cluster.database_hosts)}"] if cluster.database_hosts else []
    return f"The cluster {cluster.name} with Slurm {version or 'of an unknown version'}: {', '.join(parts)}."


def rows(account: tuple[Kept, ...]) -> list[tuple[str, ...]]:
    """The table of what became of each key of the old files."""
    return [HEADER, *((one.file, one.key, one.shown[:WIDEST_VALUE], one.where) for one in account)]


def imported(known: Inventory, asked: Asked, takeover: Takeover, told: tuple[str, ...], code: int) -> Imported:
    """What was imported, for JSON."""
    found = asked.cluster
    hosts = {name: one.address for name, one in asked.discovered.items()}
    files = tuple(map(str, writing.file_names(known.path, takeover.files)))
    return Imported(
        1, known.cluster.name, found.controller, hosts, found.unreachable, files, told, takeover.account, code
    )
