"""What the tasks do, from the words on the command line to the exit code."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from getpass import getpass
from pathlib import Path
from typing import TYPE_CHECKING

from slurmfab import atomic_file, inventory, membership, newcomers, record, route
from slurmfab import deploy as deployment
from slurmfab import lock as locks
from slurmfab.errors import HostError, InputError, SlurmfabError
from slurmfab.host_keys import PinnedKey, known_keys, spelled
from slurmfab.hostlist import expand, expand_endpoints, fold
from slurmfab.inventory import Inventory
from slurmfab.progress import Progress, plan_text, summary
from slurmfab.report import Report
from slurmfab.transport import SshTransport

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
        return membership.first_ssh(hostlist, user=self.user, key=self.key, port=self.port, become=become,
                                    gateway=self.gateway)

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

    def asker(self) -> Callable[[], str] | None:
        """What asks for the sudo password, `None` where nobody can answer."""
        if sys.stdin is not None and sys.stdin.isatty():
            return lambda: getpass("sudo password: ")
        return (lambda: sys.stdin.readline().rstrip("\n")) if self.ask_password else None


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
    lost: Mapping[str, HostError] = {}
    password = ""
    if hosts and not path.exists():
        ssh = contact.ssh(hosts)
        progress = output.progress()
        meeting = newcomers.meet(hosts, ssh, accept_new=contact.accept_new, ask_password=output.asker(),
                                 progress=progress.line, refuse=lambda lost: refuse_without_controller(hosts, lost))
        lost, password = meeting.lost, meeting.password
        for error in lost.values():
            progress.line(str(error))
        known = membership.found(path, contact.name or "cluster", ssh, meeting.newcomers)
        progress.line(f"Wrote {path}: {known.cluster.controller} is the controller, "
                      f"{fold(known.cluster.compute_nodes)} compute.")
        hosts = ""
    else:
        known = inventory.load(path)
        if contact.said:
            raise InputError(f"{path} says how to reach the hosts; change its ssh section instead of giving options.")
    code = converge(known, hosts, output, password, accept_new=contact.accept_new)
    if lost:
        names = ",".join(lost)
        print(f"Not in {path}, since they did not answer: {names}. Later: fab add-node {names}.", file=sys.stderr)  # noqa: T201
    return code or (3 if lost else 0)


def refuse_without_controller(hosts: str, lost: Mapping[str, HostError]) -> None:
    """Stop at first contact if the host that would be the controller is lost.

    Raises:
        SlurmfabError: it is.
    """
    first = newcomers.text_of(expand_endpoints(hosts)[0])
    if first in lost:
        raise SlurmfabError(f"{lost[first]}\n{first} would be the controller, so nothing was written or changed. "
                            "Name another host first, or mend that.")


def refuse_incomplete(lost: Mapping[str, HostError]) -> None:
    """Stop if any host is lost.

    Raises:
        SlurmfabError: with what is wrong with each.
    """
    if lost:
        raise SlurmfabError("\n".join([*map(str, lost.values()), "Nothing was changed."]))


def converge(known: Inventory, hosts: str, output: Output, password: str = "", *, accept_new: bool = False,
             command: str = "deploy") -> int:
    """Deploy what a cluster file says, tell how it went, and keep the record."""
    run = start(known, hosts, output, password, accept_new=accept_new, command=command)
    try:
        report = deployment.deploy(run)
    except SlurmfabError as error:
        run.progress.end()
        finish(run.report(), known.path, output)
        raise error
    finally:
        run.transport.close()
    finish(report, known.path, output)
    print(summary(report), file=sys.stderr if output.json == "-" else sys.stdout)  # noqa: T201
    return report.exit_code


def plan(cluster: str, hosts: str, output: Output) -> int:
    """Show what a deployment would do; returns 4 when that is anything, and the report's exit code otherwise."""
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    run = start(known, hosts, output, command="plan")
    try:
        report = deployment.look(run)
    finally:
        run.progress.end()
        run.transport.close()
    write_json(report, output)
    print(plan_text(report, report.steps), file=sys.stderr if output.json == "-" else sys.stdout)  # noqa: T201
    return report.exit_code or (SOMETHING_TO_DO if any(step.differs for step in report.steps) else 0)


def add_node(cluster: str, hosts: str, like: str, accept_new: bool, output: Output) -> int:
    """Meet new hosts, write them into the cluster file, and deploy.

    Raises:
        InputError: a host is in the cluster already.
        SlurmfabError: one did not answer, or cannot be a node of this cluster; nothing was changed.
    """
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    membership.refuse_known(known, hosts)
    progress = output.progress()
    meeting = newcomers.meet(hosts, known.cluster.ssh, accept_new=accept_new, ask_password=output.asker(),
                             progress=progress.line, refuse=refuse_incomplete)
    membership.refuse_unfit(known, meeting.newcomers)
    grown = membership.joined(known, meeting.newcomers, {}, like or None)
    progress.line(f"{known.path}: added {fold(newcomer.name for newcomer in meeting.newcomers)}.")
    return converge(grown, "", output, meeting.password, command="add-node")


def start(known: Inventory, hosts: str, output: Output, password: str = "", *, accept_new: bool = False, command: str
          ) -> deployment.Run:
    """A run over the named hosts of a cluster, or all of them; nobody has been asked yet."""
    names = chosen(known.cluster, hosts, known.path)
    asker = output.asker()
    if output.ask_password and asker and not password:
        password = asker()
    policies = {host: PinnedKey(host, pinned(known, host), accept_new=accept_new) for host in known.cluster.hosts}
    transport = SshTransport(route.to_hosts(known.cluster), policies, asker, password)
    return deployment.Run(command, known, transport, output.progress(), names, keep_lock)


def chosen(cluster: Cluster, hosts: str, path: Path) -> tuple[str, ...]:
    """The hosts that a run is about, in the cluster's order.

    Raises:
        InputError: one is not in the cluster.
    """
    named = expand(hosts) if hosts else cluster.hosts
    strangers = [host for host in named if host not in cluster.hosts]
    if strangers:
        raise InputError(f"{fold(strangers)}: not in {path} (known: {fold(cluster.hosts)}). New hosts join by fab add-node.")
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
