"""First contact: discovers hosts, writes a cluster file and a lock for them, and deploys."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from slurmfab.engine import commands, session
from slurmfab.engine.report import DONE, LEFT_OUT, failures
from slurmfab.engine.run import RunOptions
from slurmfab.engine.session import Output
from slurmfab.engine.summary import after_new_nodes
from slurmfab.errors import HostError, SlurmfabError
from slurmfab.hostlist import expand_endpoints, fold
from slurmfab.impact.approvals import DeployOptions
from slurmfab.inventory import fabfile, loading
from slurmfab.inventory.connection_options import ConnectionOptions
from slurmfab.inventory.loading import Inventory
from slurmfab.nodes import discovery, membership
from slurmfab.program_name import FAB
from slurmfab.terminal import write


def deploy(cluster: str, options: DeployOptions, connection_options: ConnectionOptions, output: Output) -> int:
    """Discover hosts, write the cluster file, and deploy.

    Args:
        cluster: path of the cluster file that is written; empty for the default one.
        options: the hosts, and the changes that the user allows.
        connection_options: how to reach the hosts.
        output: where to print.

    Returns:
        The exit code: 3 if some hosts did not answer.
    """
    commands.refuse_wrong_options(options)
    path = loading.named_path(cluster)
    known, discovered = make(path, options.hosts, connection_options, output)
    run_options, accept_new = RunOptions("deploy", options.approvals), connection_options.accept_new
    run = session.start(known, "", output, run_options, password=discovered.password, accept_new=accept_new)
    code = session.perform(run, output, commands.deploy_and_accept)
    if discovered.failed_hosts:
        names = fold(discovered.failed_hosts)
        write(
            f"Not in {path}, because they did not answer: {names}. Later: {FAB} add-node {shlex.quote(names)}.",
            sys.stderr,
        )
    if code == DONE:
        write(after_new_nodes(path), output.stream)
    return code or (LEFT_OUT if discovered.failed_hosts else DONE)


def make(
    path: Path, hosts: str, connection_options: ConnectionOptions, output: Output
) -> tuple[Inventory, discovery.Discovery]:
    """Discover hosts, and write the cluster file and the lock for the hosts that answer.

    Args:
        path: path of the cluster file.
        hosts: a Slurm hostlist; the first host becomes the controller.
        connection_options: how to reach the hosts.
        output: where to print.

    Returns:
        The new cluster, and the discovered hosts.

    Raises:
        SlurmfabError: the host that would be the controller did not answer; nothing was written.
    """
    ssh = membership.first_ssh(hosts, connection_options)
    progress = output.progress()
    with progress.during("discovering", map(discovery.text_of, expand_endpoints(hosts))):
        discovered = discovery.discover(
            hosts,
            ssh,
            accept_new=connection_options.accept_new,
            ask_password=output.asker(),
            progress=progress.line,
            refuse=lambda failed: refuse_without_controller(hosts, failed),
        )
    for line in failures((), discovered.failed_hosts):
        progress.line(line)
    known = membership.write_new_cluster(path, connection_options.name or "cluster", ssh, discovered.discovered_hosts)
    progress.line(
        f"Wrote {path}: {known.cluster.controller} is the controller, {fold(known.cluster.compute_nodes)} compute."
    )
    written = fabfile.provide(path)
    if written:
        progress.line(written)
    return known, discovered


def refuse_without_controller(hosts: str, failed: Mapping[str, HostError]) -> None:
    """Stop if the host that would be the controller did not answer.

    Args:
        hosts: the hostlist that the user typed.
        failed: the errors of hosts that did not answer, by host as the user typed it.

    Raises:
        SlurmfabError: the first host is one of them.
    """
    first = discovery.text_of(expand_endpoints(hosts)[0])
    if first in failed:
        raise SlurmfabError(
            f"{failed[first]}\n{first} would be the controller, so nothing was written or changed. "
            "Fix this, or put another host first."
        )


def refuse_incomplete(failed: Mapping[str, HostError]) -> None:
    """Stop if any host did not answer.

    Raises:
        SlurmfabError: a host did not answer; the message has the reasons.
    """
    if failed:
        raise SlurmfabError("\n".join([*failures((), failed), "Nothing was changed."]))
