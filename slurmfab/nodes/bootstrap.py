"""First contact: discovers hosts, writes a cluster file and a lock for them, and deploys."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from slurmfab.engine import commands, session
from slurmfab.engine.report import DONE, LEFT_OUT, failures
from slurmfab.engine.run import RunOptions
from slurmfab.engine.session import Output
from slurmfab.engine.summary import after_new_nodes
from slurmfab.errors import HostError, SlurmfabError
from slurmfab.facts import HostFacts
from slurmfab.hostlist import expand_endpoints, fold
from slurmfab.impact.approvals import DeployOptions
from slurmfab.inventory import fabfile, loading
from slurmfab.inventory.connection_options import ConnectionOptions
from slurmfab.inventory.loading import Inventory
from slurmfab.nodes import discovery, existing_cluster, membership
from slurmfab.nodes.discovery import DiscoveredHost
from slurmfab.nodes.existing_cluster import Founding
from slurmfab.plan.preflight import other_clusters
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
    known, discovered = make(path, options.hosts, connection_options, output, options.approvals.allowed)
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
    path: Path, hosts: str, connection_options: ConnectionOptions, output: Output, allowed: Collection[str] = ()
) -> tuple[Inventory, discovery.Discovery]:
    """Discover hosts, and write the cluster file and the lock for the hosts that answer.

    Args:
        path: path of the cluster file.
        hosts: a Slurm hostlist; the first host becomes the controller, unless the hosts form a cluster already.
        connection_options: how to reach the hosts.
        output: where to print.
        allowed: names of disruptive changes that the user allows.

    Returns:
        The new cluster, and the discovered hosts.

    Raises:
        SlurmfabError: a host belongs to another cluster, or the one that would be the controller did not answer.
    """
    ssh = membership.first_ssh(hosts, connection_options)
    progress, name = output.progress(), connection_options.name
    with progress.during("discovering", map(discovery.text_of, expand_endpoints(hosts))):
        discovered = discovery.discover(
            hosts,
            ssh,
            accept_new=connection_options.accept_new,
            ask_password=output.asker(),
            progress=progress.line,
            refuse=lambda failed: refuse_without_controller(hosts, failed),
            judge=lambda facts: judge(facts, {}, name, allowed),
        )
    for line in failures((), discovered.failed_hosts):
        progress.line(line)
    founding, members = found(discovered.discovered_hosts, name, allowed)
    known = membership.write_new_cluster(path, founding.name, ssh, members)
    for line in filter(None, (founding.notice, wrote(path, known), fabfile.provide(path))):
        progress.line(line)
    return known, discovered


def wrote(path: Path, known: Inventory) -> str:
    """What the new cluster file says, as a line."""
    return f"Wrote {path}: {known.cluster.controller} is the controller, {fold(known.cluster.compute_nodes)} compute."


def found(
    hosts: Sequence[DiscoveredHost], name: str, allowed: Collection[str]
) -> tuple[Founding, tuple[DiscoveredHost, ...]]:
    """The cluster that first contact makes or goes on with, and its hosts, the controller first.

    Args:
        hosts: the hosts, in the order in which the user named them.
        name: the ClusterName that the user wants; empty for the default.
        allowed: names of disruptive changes that the user allows.

    Raises:
        InputError: a host belongs to another cluster, or this one has more than a new cluster file has.
    """
    facts = {one.name: one.facts for one in hosts}
    founding = judge(facts, {one.name: one.address for one in hosts}, name, allowed)
    existing_cluster.refuse_losing(founding, facts)
    return founding, tuple(sorted(hosts, key=lambda one: one.name != founding.controller))


def judge(
    facts: Mapping[str, HostFacts], addresses: Mapping[str, str], name: str, allowed: Collection[str]
) -> Founding:
    """The cluster that first contact makes or goes on with, if its hosts belong to no other.

    Args:
        facts: the facts of the hosts that answered, in the order in which the user named them.
        addresses: their addresses, as far as known.
        name: the ClusterName that the user wants; empty for the default.
        allowed: names of disruptive changes that the user allows.

    Raises:
        InputError: a host belongs to another cluster; nothing was changed.
    """
    founding = existing_cluster.choose(facts, addresses, name)
    other_clusters.refuse_others(founding.identity, facts, allowed)
    return founding


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
