"""`fab doctor`: looks at everything, and shows a line for each thing; with --lab at what labs need."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from slurmfab.base.errors import InputError
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.exit_codes import FAILURE as FAILED
from slurmfab.base.terminal import GREEN, RED, YELLOW, Cell, Paint, table, write
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.doctor import archives, cluster_files, hosts, software, ssh_setup
from slurmfab.commands.doctor.finding import FAILURE, OK, WARNING, Diagnosis, Finding, failure, guarded, ok, warning
from slurmfab.core.engine import session
from slurmfab.core.engine.sleeping import may_sleep
from slurmfab.hosts import route
from slurmfab.hosts.transport import SshTransport
from slurmfab.lab import needs, twins
from slurmfab.lab.command import obstacle
from slurmfab.lab.layout import CACHE, LABS


def of_labs() -> Iterator[Finding]:
    """Yield what keeps labs from starting, what makes them slow, and where their disks are."""
    missing = obstacle()
    if missing:
        yield failure("lab", missing)
        return
    for text in needs.obstacles():
        yield failure("lab", text)
    for text in needs.remarks():
        yield warning("lab", text)
    for place in needs.open_to_others():
        text = f"{place} has file systems of hosts, whose setuid programs other users of this machine could run."
        yield failure("lab's files", text, f"chown root:root {place}; chmod 700 {place}")
    for place in (CACHE, LABS.parent):
        # Nothing is made there before a lab is.
        there = next(parent for parent in (place, *place.parents) if parent.is_dir())
        if needs.holds_overlays(there):
            yield ok("lab's disks", f"{place} can hold them")
        elif short := needs.shortage(there):
            yield failure("lab's disks", short)
        else:
            yield warning("lab's disks", f"{place} cannot hold them, as in a container: a tmpfs will, in memory.")


VERSION = 1  # version of the JSON format

SHOWN: Mapping[str, tuple[str, str]] = {OK: ("ok", GREEN), WARNING: ("warning", YELLOW), FAILURE: ("FAILED", RED)}
"""The word for a state, and its colour."""


def examine(cluster: str, names: str, output: session.Output, *, is_local: bool) -> int:
    """Look at this machine and, unless `is_local`, the way to the named hosts (empty for all), and print it all.

    Returns 1 for a failure of this machine, 3 if only hosts failed. Raises InputError of the file, or for other hosts.
    """
    path = loading.named_path(cluster)
    if cluster and not path.exists():
        raise InputError(f"There is no cluster file {path}.")
    findings = []
    known, about_file = cluster_files.load(path)
    wanted = session.select_hosts(known.cluster, names, path) if known else ()
    for finding in (*about_file, *of_this_machine(path, known), *of_hosts(known, wanted, output, is_local=is_local)):
        findings.append(finding)
    return tell(path, findings, output)


def examine_for_lab(cluster: str, output: session.Output) -> int:
    """Look at whether this machine can run a lab, and print what was found; returns the exit code."""
    return tell(loading.named_path(cluster), tuple(guarded("lab", of_labs)), output)


def tell(path: Path, findings: Sequence[Finding], output: session.Output) -> int:
    """Print findings, write them as JSON, and return the exit code."""
    show(findings, output)
    output.write_json(Diagnosis(VERSION, exit_code(findings), str(path), tuple(findings)))
    return exit_code(findings)


def of_this_machine(path: Path, known: Inventory | None) -> Iterator[Finding]:
    """Yield what is to be said of this machine."""
    yield from guarded("directory", lambda: cluster_files.writable(path))
    yield from guarded("fabfile", lambda: cluster_files.tasks_for_fab(path))
    if path.exists():
        yield from guarded("git", lambda: cluster_files.in_git(path))
    yield from guarded("slurmfab", software.python_and_packages)
    yield from guarded("ssh programs", software.programs)
    yield from guarded("ssh_config", ssh_setup.ssh_config)
    yield from guarded("known_hosts", ssh_setup.known_hosts)
    yield from guarded("SSH keys", lambda: keys(known))
    yield from guarded("signing key", archives.signing_key)
    yield from guarded("archives", lambda: archives.kept(path, known))
    yield from guarded("encryption", lambda: archives.encrypted(path, known))
    yield from guarded("clock", software.clock)
    yield from guarded("rehearsals", of_rehearsals)
    yield from guarded("disk", lambda: software.disk(path.parent))
    yield from guarded("language", lambda: software.terminal(sys.stdout, os.environ))


def of_rehearsals() -> Iterator[Finding]:
    """Remove what rehearsals have left that were killed, which root alone sees, and yield that."""
    if not os.geteuid():
        yield from (
            warning("rehearsals", f"{name} was left by a rehearsal that was killed: removed, with the cluster's data")
            for name in twins.remove_forgotten()
        )


def keys(known: Inventory | None) -> Iterator[Finding]:
    """Yield which SSH keys there are, for the hosts of the cluster if there is one."""
    others: dict[str, None] = {}
    if known:
        for way in route.to_hosts(known.cluster).values():
            others.update(dict.fromkeys(way.keys))
    named = (known.cluster.ssh.key or "") if known else ""
    yield from ssh_setup.agent_and_keys(ssh_setup.ask_agent(os.environ), named, others)


def of_hosts(
    known: Inventory | None, wanted: tuple[str, ...], output: session.Output, *, is_local: bool
) -> Iterator[Finding]:
    """Yield what is to be said of the way to the hosts; ways that cannot be planned are one failure."""
    if known is None or is_local:
        return

    def look() -> Iterator[Finding]:
        has_bundle = bool(known.cluster.bundle)
        through = known.cluster.controller if known.cluster.packages.through else ""
        policies = {**session.policies_of(known, wanted), **session.relay_policies(known)}
        progress = output.progress()
        transport = SshTransport(route.to_hosts(known.cluster), policies, tell=progress.line)
        try:
            progress.begin("logging in", wanted)
            answers = hosts.ask_all(transport, wanted, () if has_bundle else [through] if through else wanted)
        finally:
            progress.end()
            transport.close()
        sleepers = [host for host in wanted if may_sleep(known.cluster, host)]
        slurm_of = known.cluster.slurm_of
        yield from hosts.judged(answers, has_bundle=has_bundle, through=through, slurm_of=slurm_of, sleepers=sleepers)

    yield from guarded("hosts", look)


def show(findings: Iterable[Finding], output: session.Output) -> None:
    """Print a line for each finding, in the order in which they were made, and how many need somebody."""
    paint = Paint(output.stream)
    found = tuple(findings)
    rows = [[Cell(*SHOWN[one.state]), Cell(one.subject), Cell(one.text)] for one in found]
    counts = {state: sum(one.state == state for one in found) for state in SHOWN}
    write("\n".join(table(rows, paint.width, paint)), output.stream)
    bad = [f"{counts[state]} {word}" for state, word in ((FAILURE, "failed"), (WARNING, "to look at")) if counts[state]]
    write(f"{', '.join(bad) or 'Nothing to repair'}, {counts[OK]} ok.", output.stream)


def exit_code(findings: Iterable[Finding]) -> int:
    """The exit code: 1 for a failure of this machine, 3 if only hosts failed."""
    failed = [one for one in findings if one.state == FAILURE]
    if any(not one.is_host for one in failed):
        return FAILED
    return LEFT_OUT if failed else DONE
