"""What all commands share: they start a run, show and record what it does, and end with an exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from slurmfab.base import atomic_file
from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.json_output import as_json
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.core.engine import file_writing, missing_lock, record, retry
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.report import Report, failures
from slurmfab.core.engine.run import HostRepositories, PackageSource, Run, RunHooks, RunOptions
from slurmfab.core.engine.summary import next_step, summary
from slurmfab.hosts import route
from slurmfab.hosts.hidden_input import hidden_input
from slurmfab.hosts.host_keys import PinnedKey, known_host
from slurmfab.hosts.over_ssh import over_ssh
from slurmfab.hosts.transport import SshTransport

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.hosts.session import Line
    from slurmfab.hosts.transport import Transport


UPGRADE = "upgrade"  # the command that goes on with an upgrade, and tells of it by itself


@dataclass(frozen=True)
class Output:
    """The options that all tasks on a cluster share: what they show, and where hosts get packages from."""

    verbose: bool = False  # whether every difference is shown
    json: str = ""  # file for the report as JSON; `-` for standard output, empty for none
    ask_password: bool = False  # whether the user is asked for the sudo password at the start
    packages: PackageSource = field(default_factory=HostRepositories)  # where hosts get packages from

    def progress(self) -> Progress:
        """What shows the progress of a run."""
        return Progress(verbose=self.verbose)

    @property
    def stream(self) -> TextIO:
        """The stream for results as text: standard output, or standard error where standard output gets JSON."""
        return sys.stderr if self.json == "-" else sys.stdout

    def write_json(self, output: object) -> None:
        """Write an output as JSON, where `--json` asks for it; its class is in `reference/json_outputs.py`."""
        if not self.json:
            return
        text = json.dumps(as_json(output), indent=2) + "\n"
        if self.json == "-":
            sys.stdout.write(text)
        else:
            atomic_file.write(Path(self.json), text, through_link=True)

    def asker(self, stdin: TextIO | None = None) -> Callable[[], str] | None:
        """A function that asks for the sudo password on `stdin`; `None` where no user can answer."""
        source = stdin or sys.stdin
        if source is not None and source.isatty():
            return lambda: hidden_input.ask("sudo password: ")
        return (lambda: source.readline().rstrip("\n")) if self.ask_password else None


def perform(run: Run, output: Output, work: Callable[[Run], object]) -> int:
    """Do the work of a run, print the result, and write the record, also when an error, which goes on, ends it."""
    try:
        work(run)
        keep_lock_copy(run)
    except SlurmfabError as error:
        keep_lock_copy(run)
        run.end_early(error)
        report = finish(run, output, str(error))
        print_failures(run)
        if again := retry.repeated(run.inventory.path, report, run.id):
            run.progress.line(again)
        raise
    except BaseException:
        run.update_record()
        raise
    finally:
        run.progress.end()
        run.transport.close()
    report = finish(run, output)
    path = run.inventory.path
    again = retry.repeated(path, report, run.id)
    write("\n".join(filter(None, (summary(report), again, next_step(report, path)))), output.stream)
    return report.exit_code


def keep_lock_copy(run: Run) -> None:
    """Have the controller keep the lock as a run leaves it, if the run may have changed anything."""
    if run.claim.is_held:
        from slurmfab.core.engine import lock_copy  # not before hosts are asked

        lock_copy.keep(run)


@contextmanager
def ending(run: Run, *, tells: bool = True) -> Iterator[None]:
    """Close a run that only asks: its progress ends, and its connections; `tells`: what failed, before an error."""
    try:
        yield
    except SlurmfabError:
        if tells:
            print_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()


def print_failures(run: Run) -> None:
    """Print what failed on which host, when a run ends early."""
    run.progress.end()
    for line in failures(run.steps, run.failed_hosts):
        run.progress.line(line)


def start(
    known: Inventory,
    hosts: str,
    output: Output,
    options: RunOptions,
    *,
    password: str = "",
    accept_new: bool = False,
    hooks: RunHooks | None = None,
) -> Run:
    """Prepare a run over hosts (empty for all) of a cluster; no host is connected to yet.

    `password`: for sudo, if known. `accept_new`: trust hosts without known key. `hooks`: of the command; by default the
    lock is saved and no survey is checked. Raises InputError for other hosts, or a missing lock.
    """
    missing_lock.refuse(known)
    names = select_hosts(known.cluster, hosts, known.path)
    asker = output.asker()
    if output.ask_password and asker and not password:
        password = asker()
    policies = policies_of(known, known.cluster.hosts, accept_new=accept_new)
    progress = progress_of(known, options.command, output)
    routes = route.to_hosts(known.cluster)
    if options.patience != route.CONNECT_SECONDS:
        routes = {host: replace(one, patience=options.patience) for host, one in routes.items()}
    return Run(
        options,
        known,
        names,
        cast("Transport", Told(over_ssh(routes, policies, asker, password, progress.line), progress)),
        progress,
        packages=output.packages,
        hooks=hooks or RunHooks(save_lock=file_writing.save_lock),
        write_record=record.begin,
    )


class Told:
    """A transport whose open requests a terminal shows, so that no command waits in silence."""

    def __init__(self, transport: Transport, progress: Progress) -> None:
        self.transport = transport
        self.progress = progress

    def __getattr__(self, name: str) -> Any:
        return getattr(self.transport, name)

    def call(self, host: str, *words: Any, **named: Any) -> tuple[Line, ...]:
        """The answer of a host, as `Transport.call` has it."""
        with self.progress.asking(host):
            return self.transport.call(host, *words, **named)


def progress_of(known: Inventory, command: str, output: Output) -> Progress:
    """What shows the progress of a run; an upgrade of Slurm that is under way is told first."""
    progress, upgrade = output.progress(), known.lock.upgrade
    if upgrade and command != UPGRADE:
        progress.line(
            f"An upgrade of Slurm from {upgrade.had} to {upgrade.to} is under way (begun by {upgrade.by}, "
            f"{upgrade.since}). To go on with it: {FAB} upgrade."
        )
    return progress


def select_hosts(cluster: Cluster, hosts: str, path: Path) -> tuple[str, ...]:
    """The hosts of a hostlist (empty: all) in the cluster's order; InputError if one is not in the cluster."""
    named = expand(hosts) if hosts else cluster.hosts
    known, wanted = frozenset(cluster.hosts), frozenset(named)
    unknown = [host for host in named if host not in known]
    if unknown:
        raise InputError(
            f"{fold(unknown)}: not in {path} (known: {fold(cluster.hosts)}). To add new hosts: {FAB} add-node."
        )
    return tuple(host for host in cluster.hosts if host in wanted)


def trusted_keys(known: Inventory, host: str) -> dict[str, tuple[str, ...]]:
    """A host's trusted keys, base64 by type such as `ssh-ed25519`: the lock's, or else of known_hosts."""
    if host in known.lock.hosts and known.lock.hosts[host].host_keys:
        return {kind: (key,) for kind, key in known.lock.hosts[host].host_keys.items()}
    return known_host(route.to_host(host, known.cluster.ssh, known.cluster.addresses.get(host, ""))).keys()


def policies_of(known: Inventory, hosts: Iterable[str], *, accept_new: bool = False) -> dict[str, PinnedKey]:
    """The checks of hosts' SSH keys, by host. `accept_new`: whether a host of which no key is known may show one."""
    owners = {key: name for name, one in known.lock.hosts.items() for key in one.host_keys.values()}
    return {host: PinnedKey(host, trusted_keys(known, host), accept_new=accept_new, owners=owners) for host in hosts}


def ssh_to(known: Inventory, asker: Callable[[], str] | None = None, password: str = "") -> SshTransport:
    """Connections of this process to the hosts of a cluster; `asker` and `password` are for sudo."""
    policies = policies_of(known, known.cluster.hosts)
    return SshTransport(route.to_hosts(known.cluster), policies, asker, password)


def relay_policies(known: Inventory) -> dict[str, PinnedKey]:
    """The pinned keys of the relays in the cluster file, for connections to other hosts alone."""
    names = [relay for relays in known.cluster.ssh.relays for relay in expand(relays)]
    return policies_of(known, names)


def finish(run: Run, output: Output, error: str = "") -> Report:
    """Finish the record of a run, with the error that ended it if any, and write the report of `--json`."""
    record.finish(run, error)
    report = run.report()
    output.write_json(report)
    return report
