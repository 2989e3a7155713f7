"""What the tasks do, from the words on the command line to the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from slurmfab import atomic_file, inventory, membership, newcomers, record
from slurmfab import deploy as deployment
from slurmfab import lock as locks
from slurmfab.errors import HostError, InputError, SlurmfabError
from slurmfab.hostlist import expand, expand_endpoints, fold
from slurmfab.inventory import Inventory
from slurmfab.nodes import admission
from slurmfab.progress import Progress, plan_text, summary
from slurmfab.report import DONE, LEFT_OUT, Report, failures
from slurmfab.run import Run
from slurmfab.ssh import route
from slurmfab.ssh.host_keys import PinnedKey, known_keys, spelled
from slurmfab.ssh.transport import SshTransport

if TYPE_CHECKING:
    from slurmfab.cluster import Cluster, Ssh

SOMETHING_TO_DO = 4
"""The exit code of a plan that is not empty, as for drift detection by scripts."""


@dataclass(frozen=True)
class Contact:
    """How to reach hosts at first contact.

    Args:
        user: login name, empty for the usual.
        key: private key file, empty for the usual.
        port: of sshd, `None` for the usual.
        become: `sudo`, `none`, or empty for "sudo unless root logs in".
        gateway: jump host, empty for none.
        accept_new: whether unknown host keys are believed.
        name: the cluster's name, empty for `cluster`.
    """

    user: str = ""
    key: str = ""
    port: int | None = None
    become: str = ""
    gateway: str = ""
    accept_new: bool = False
    name: str = ""

    def ssh(self, hostlist: str) -> Ssh:
        """The `ssh` section for these hosts.

        Raises:
            InputError: `become` is neither of its words.
        """
        if self.become not in ("", "sudo", "none"):
            raise InputError(f"--become {self.become}: it is either sudo or none.")
        become = {"": None, "sudo": True, "none": False}[self.become]
        return membership.first_ssh(
            hostlist, user=self.user, key=self.key, port=self.port, become=become, gateway=self.gateway
        )

    @property
    def said(self) -> bool:
        """Whether anything of it was said, which is only for first contact."""
        return self != Contact(accept_new=self.accept_new)


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


def deploy(cluster: str, hosts: str, contact: Contact, output: Output) -> int:
    """Deploy from the cluster file, or write it first when hosts are met for the first time.

    Args:
        cluster: the cluster file's path, empty for the default one.
        hosts: hostlist, empty for all hosts of the cluster file.
        contact: how to reach hosts at first contact.
        output: what to tell.

    Returns:
        The exit code.
    """
    path = Path(cluster) if cluster else inventory.default_path()
    if hosts and not path.exists():
        known, meeting = first_contact(path, hosts, contact, output)
        code = converge(known, "", output, meeting.password, accept_new=contact.accept_new)
        if meeting.lost:
            names = ",".join(meeting.lost)
            print(f"Not in {path}, since they did not answer: {names}. Later: fab add-node {names}.", file=sys.stderr)  # noqa: T201
        return code or (LEFT_OUT if meeting.lost else DONE)
    known = inventory.load(path)
    if contact.said:
        raise InputError(f"{path} says how to reach the hosts; change its ssh section instead of giving options.")
    return converge(known, hosts, output, accept_new=contact.accept_new)


def first_contact(path: Path, hosts: str, contact: Contact, output: Output) -> tuple[Inventory, newcomers.Meeting]:
    """Meet hosts for the first time, and write the cluster file and the lock of those that answered.

    Raises:
        SlurmfabError: the host that would be the controller did not answer; nothing was written.
    """
    ssh = contact.ssh(hosts)
    progress = output.progress()
    meeting = newcomers.meet(
        hosts,
        ssh,
        accept_new=contact.accept_new,
        ask_password=output.asker(),
        progress=progress.line,
        refuse=lambda lost: refuse_without_controller(hosts, lost),
    )
    for error in meeting.lost.values():
        progress.line(str(error))
    known = membership.found(path, contact.name or "cluster", ssh, meeting.newcomers)
    progress.line(
        f"Wrote {path}: {known.cluster.controller} is the controller, {fold(known.cluster.compute_nodes)} compute."
    )
    return known, meeting


def refuse_without_controller(hosts: str, lost: Mapping[str, HostError]) -> None:
    """Stop at first contact if the host that would be the controller is lost.

    Raises:
        SlurmfabError: it is.
    """
    first = newcomers.text_of(expand_endpoints(hosts)[0])
    if first in lost:
        raise SlurmfabError(
            f"{lost[first]}\n{first} would be the controller, so nothing was written or changed. "
            "Name another host first, or mend that."
        )


def refuse_incomplete(lost: Mapping[str, HostError]) -> None:
    """Stop if any host is lost.

    Raises:
        SlurmfabError: with what is wrong with each.
    """
    if lost:
        raise SlurmfabError("\n".join([*map(str, lost.values()), "Nothing was changed."]))


def converge(
    known: Inventory,
    hosts: str,
    output: Output,
    password: str = "",
    *,
    accept_new: bool = False,
    command: str = "deploy",
) -> int:
    """Deploy what a cluster file says, tell how it went, and keep the record."""
    run = start(known, hosts, output, password, accept_new=accept_new, command=command)
    return perform(run, output, deploy_and_admit)


def deploy_and_admit(run: Run) -> None:
    """Deploy, and try the nodes that have joined and not been tried yet."""
    deployment.deploy(run)
    admission.admit(run)


def perform(run: Run, output: Output, work: Callable[[Run], object]) -> int:
    """Do the work of a run, tell how it went, and keep the record, also of work that was cut short by an error."""
    path = run.inventory.path
    try:
        work(run)
    except SlurmfabError:
        finish(run.report(), path, output)
        say_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()
    report = run.report()
    finish(report, path, output)
    print(summary(report), file=sys.stderr if output.json == "-" else sys.stdout)
    return report.exit_code


def say_failures(run: Run) -> None:
    """Say what went wrong on which host, when the run ends early."""
    run.progress.end()
    for line in failures(run.steps, run.lost):
        run.progress.line(line)


def plan(cluster: str, hosts: str, output: Output) -> int:
    """Show what a deployment would do; returns 4 when that is anything, and the report's exit code otherwise."""
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    run = start(known, hosts, output, command="plan")
    try:
        report = deployment.look(run)
    except SlurmfabError:
        say_failures(run)
        raise
    finally:
        run.progress.end()
        run.transport.close()
    write_json(report, output)
    print(plan_text(report, report.steps), file=sys.stderr if output.json == "-" else sys.stdout)
    return report.exit_code or (SOMETHING_TO_DO if any(step.differs for step in report.steps) else 0)


def start(
    known: Inventory, hosts: str, output: Output, password: str = "", *, accept_new: bool = False, command: str
) -> Run:
    """A run over the named hosts of a cluster, or all of them; nobody has been asked yet."""
    names = chosen(known.cluster, hosts, known.path)
    asker = output.asker()
    if output.ask_password and asker and not password:
        password = asker()
    policies = {host: PinnedKey(host, pinned(known, host), accept_new=accept_new) for host in known.cluster.hosts}
    transport = SshTransport(route.to_hosts(known.cluster), policies, asker, password)
    return Run(command, known, transport, output.progress(), names, keep_lock)


def chosen(cluster: Cluster, hosts: str, path: Path) -> tuple[str, ...]:
    """The hosts that a run is about, in the cluster's order.

    Raises:
        InputError: one is not in the cluster.
    """
    named = expand(hosts) if hosts else cluster.hosts
    strangers = [host for host in named if host not in cluster.hosts]
    if strangers:
        raise InputError(
            f"{fold(strangers)}: not in {path} (known: {fold(cluster.hosts)}). New hosts join by fab add-node."
        )
    return tuple(host for host in cluster.hosts if host in named)


def pinned(known: Inventory, host: str) -> dict[str, str]:
    """The public keys that a host may show: the lock's, else those that known_hosts files hold for it."""
    if host in known.lock.hosts and known.lock.hosts[host].host_keys:
        return dict(known.lock.hosts[host].host_keys)
    way = route.to_host(host, known.cluster.ssh, known.cluster.addresses.get(host, ""))
    return known_keys({spelled(name, way.port) for name in (host, way.address)})


def keep_lock(known: Inventory) -> None:
    """Write the lock, if it has changed."""
    locks.save(known.lock, inventory.lock_path(known.path))


def finish(report: Report, path: Path, output: Output) -> None:
    """Keep the record of a run that changed or lost anything, and write the JSON that was asked for."""
    if report.steps or report.lost:
        record.write(report, path)
    write_json(report, output)


def write_json(report: Report, output: Output) -> None:
    """The report as JSON, where that was asked for."""
    text = json.dumps(report.as_json(), indent=2) + "\n"
    if output.json == "-":
        sys.stdout.write(text)
    elif output.json:
        atomic_file.write(Path(output.json), text)
