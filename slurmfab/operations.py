"""What all tasks on a cluster have in common: a run that begins, is told about, recorded, and ends in an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from slurmfab import atomic_file, inventory
from slurmfab import lock as locks
from slurmfab.consent import NOTHING, Consent
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.hostlist import expand, fold
from slurmfab.inventory import Inventory
from slurmfab.progress import Progress, summary
from slurmfab.report import Report, failures
from slurmfab.run import Run
from slurmfab.runs import record
from slurmfab.ssh import route
from slurmfab.ssh.host_keys import PinnedKey, known_keys, spelled
from slurmfab.ssh.transport import SshTransport

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster


@dataclass(frozen=True)
class Output:
    """What to tell, and to whom.

    Args:
        verbose: every difference.
        json: file for the report as JSON, `-` for standard output, empty for none.
        ask_password: ask for the sudo password whether or not a sudo asks for it.
    """

    verbose: bool = False
    json: str = ""
    ask_password: bool = False

    def progress(self) -> Progress:
        """Whom to tell while it goes on."""
        return Progress(verbose=self.verbose)

    def asker(self, stdin: TextIO | None = None) -> Callable[[], str] | None:
        """What asks for the sudo password, `None` where nobody can answer; `stdin` is standard input when left out."""
        source = stdin or sys.stdin
        if source is not None and source.isatty():
            return lambda: getpass("sudo password: ")
        return (lambda: source.readline().rstrip("\n")) if self.ask_password else None


def perform(run: Run, output: Output, work: Callable[[Run], object]) -> int:
    """Do the work of a run, tell how it went, and keep the record, also of work that was cut short by an error."""
    try:
        work(run)
    except SlurmfabError as error:
        finish(run, output, str(error))
        say_failures(run)
        raise
    except BaseException:
        run.note()
        raise
    finally:
        run.progress.end()
        run.transport.close()
    report = finish(run, output)
    print(summary(report), file=sys.stderr if output.json == "-" else sys.stdout)
    return report.exit_code


def say_failures(run: Run) -> None:
    """Say what went wrong on which host, when the run ends early."""
    run.progress.end()
    for line in failures(run.steps, run.lost):
        run.progress.line(line)


def start(
    known: Inventory,
    hosts: str,
    output: Output,
    password: str = "",
    *,
    command: str,
    accept_new: bool = False,
    consent: Consent = NOTHING,
) -> Run:
    """A run over the named hosts of a cluster, or all of them; nobody has been asked yet."""
    names = chosen(known.cluster, hosts, known.path)
    asker = output.asker()
    if output.ask_password and asker and not password:
        password = asker()
    policies = {host: PinnedKey(host, pinned(known, host), accept_new=accept_new) for host in known.cluster.hosts}
    transport = SshTransport(route.to_hosts(known.cluster), policies, asker, password)
    return Run(command, known, transport, output.progress(), names, keep_lock, consent, record.begin)


def chosen(cluster: Cluster, hosts: str, path: Path) -> tuple[str, ...]:
    """The hosts that a run is about, in the cluster's order.

    Raises:
        InputError: one is not in the cluster.
    """
    named = expand(hosts) if hosts else cluster.hosts
    known, meant = frozenset(cluster.hosts), frozenset(named)
    strangers = [host for host in named if host not in known]
    if strangers:
        raise InputError(
            f"{fold(strangers)}: not in {path} (known: {fold(cluster.hosts)}). New hosts join by fab add-node."
        )
    return tuple(host for host in cluster.hosts if host in meant)


def pinned(known: Inventory, host: str) -> dict[str, str]:
    """The public keys that a host may show: the lock's, else those that known_hosts files hold for it."""
    if host in known.lock.hosts and known.lock.hosts[host].host_keys:
        return dict(known.lock.hosts[host].host_keys)
    way = route.to_host(host, known.cluster.ssh, known.cluster.addresses.get(host, ""))
    return known_keys({spelled(name, way.port) for name in (host, way.address)})


def keep_lock(known: Inventory) -> None:
    """Write the lock, if it has changed."""
    locks.save(known.lock, inventory.lock_path(known.path))


def finish(run: Run, output: Output, error: str = "") -> Report:
    """Keep the record of a run that changed or lost anything, and write the JSON that was asked for.

    Args:
        run: it has ended.
        output: what to tell.
        error: why it stopped early.

    Returns:
        The run's report.
    """
    record.finish(run, error)
    report = run.report()
    write_json(report, output)
    return report


def write_json(report: Report, output: Output) -> None:
    """The report as JSON, where that was asked for."""
    text = json.dumps(report.as_json(), indent=2) + "\n"
    if output.json == "-":
        sys.stdout.write(text)
    elif output.json:
        atomic_file.write(Path(output.json), text)
