"""`fab add-node`: hosts join a running cluster as compute nodes, all of them or none."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from slurmfab.base.errors import InputError, SlurmfabError
from slurmfab.base.folding import fold_lines
from slurmfab.base.hostlist import expand_endpoints, fold
from slurmfab.base.ip_addresses import canonical
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.nodes import bootstrap, discovery, membership
from slurmfab.core.engine import commands, file_writing, planning, requests, session
from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine.acceptance import on_trial
from slurmfab.core.engine.report import failures
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import NOTHING, Approvals
from slurmfab.core.impact.disruptive_changes import require_known
from slurmfab.core.plan.plan import PHASES
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import new_nodes, other_clusters
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value

NAMES_NEEDED = "srun and Slurm's commands need them, so add them to its /etc/hosts, or to DNS"


@dataclass(frozen=True)
class AddNodeOptions:
    """The options of `fab add-node`."""

    like: str = ""  # a compute node whose settings and partitions the new nodes get; empty for none
    partitions: tuple[str, ...] = ()  # names of partitions that the new nodes join
    approvals: Approvals = NOTHING  # the disruptive changes that the user allows


def add_node(cluster: str, hosts: str, options: AddNodeOptions, accept_new: bool, output: Output) -> int:
    """Prepare new hosts, write them into the cluster file, deploy, and resume them once a test job ran there.

    Nothing is written, and nothing is changed on the cluster's hosts, before all new hosts have their packages and
    users. An add-node that was interrupted later than that is continued. `hosts`: names, addresses or
    `user@address:port`. Raises InputError for known hosts and wrong options; SlurmfabError if one does not answer, or
    cannot be a node.
    """
    require_known(options.approvals)
    known = loading.load_named(cluster)
    if is_half_added(known, hosts):
        run = session.start(known, "", output, RunOptions("add-node", options.approvals))
        return session.perform(run, output, commands.deploy_and_accept)
    membership.refuse_known(known, hosts)
    check_options(known, options)
    discovered = discover(known, hosts, options, accept_new, output)
    grown, text = membership.joined(known, discovered.discovered_hosts, options.like or None, options.partitions)
    membership.refuse_unfit(known, grown.cluster, discovered.discovered_hosts)
    names = tuple(discovered.name for discovered in discovered.discovered_hosts)
    refuse_without_partition(grown, names)
    facts = {discovered.name: discovered.facts for discovered in discovered.discovered_hosts}
    new_nodes.refuse_unsuited(known, grown.cluster, facts, options.approvals.allowed)
    run = session.start(grown, "", output, RunOptions("add-node", options.approvals), password=discovered.password)
    return session.perform(run, output, lambda begun: carry_out(begun, names, text))


def discover(
    known: Inventory, hosts: str, options: AddNodeOptions, accept_new: bool, output: Output
) -> discovery.Discovery:
    """Connect to the new hosts and get their facts (see `add_node`); SlurmfabError if one did not answer."""
    progress = output.progress()
    ours = other_clusters.identity(known.cluster, known.lock, {})
    with progress.during("discovering", map(discovery.text_of, expand_endpoints(hosts))):
        return discovery.discover(
            hosts,
            known.cluster.ssh,
            accept_new=accept_new,
            ask_password=output.asker(),
            progress=progress.line,
            refuse=bootstrap.refuse_incomplete,
            names=requests.fact_selection(known, options.like or ""),
            judge=lambda facts: other_clusters.refuse_others(ours, facts, options.approvals.allowed),
            known=known,
        )


def carry_out(run: Run, names: tuple[str, ...], text: str) -> None:
    """Prepare the run's new hosts, write the files, and deploy to all; raises as `prepare_and_write`."""
    prepare_and_write(run, names, text)
    run.progress.line(f"{run.inventory.path}: added {fold(names)}.")
    commands.deploy_and_accept(run)


def prepare_and_write(run: Run, names: tuple[str, ...], text: str) -> None:
    """Prepare new hosts, then write cluster file and lock; SlurmfabError, all unchanged, if one cannot be."""
    prepare(run, names)
    file_writing.write(run, text)


def prepare(run: Run, names: tuple[str, ...]) -> None:
    """Set up users, packages and keys on the new hosts alone; SlurmfabError if one failed."""
    facts = requests.gather(run, (run.controller, *names))
    plan_input = planning.exclude_unfit_hosts(run, facts)
    planning.exclude_without_packages(run, plan_input)
    refuse_lost(run, names)
    tell_lacking(run, plan_input, names)
    with connecting(run, [host for host in run.hosts if host not in facts], names):
        deployment.converge(run, plan_input, [phase for phase in PHASES if phase.prepares], hosts=names)
    refuse_lost(run, names)


def tell_lacking(run: Run, plan_input: PlanInput, names: tuple[str, ...]) -> None:
    """Say which names and users new hosts do not know, where the site and not slurmfab brings these; HostError."""
    cluster, found = plan_input.cluster, list[tuple[str, str]]()
    people = [user.name for user in cluster.users if user.accounts] if not cluster.unix_users else []
    hostnames = {host: plan_input.host(host).hostname or host for host in plan_input.members}

    def unknown(host: str, others: Iterable[str]) -> str:
        """The names of others that a host cannot resolve, as a hostlist; empty for none."""
        asked = [hostnames[name] for name in others if name != host]
        request = {"op": "addresses", "names": asked}
        told = answer_value(host, run.transport.call(host, request), "addresses") if asked else {}
        return fold([name for name in asked if not told.get(name)])

    for host in names:
        if lacking := [name for name in people if name not in plan_input.facts[host].accounts]:
            why = f"it does not know the users {', '.join(lacking)} (unix_users: false), whose jobs would fail there"
            found.append((host, why))
        if not cluster.hosts_file and (lost := unknown(host, plan_input.members)):
            found.append((host, f"it does not know the names {lost} (hosts_file: false); {NAMES_NEEDED}"))
    if not cluster.hosts_file and (lost := unknown(run.controller, names)):
        found.append((run.controller, f"it does not know the names {lost} (hosts_file: false); {NAMES_NEEDED}"))
    for line in fold_lines(found):
        run.progress.line(f"{line}.")


@contextmanager
def connecting(run: Run, hosts: Iterable[str], names: Collection[str]) -> Iterator[None]:
    """Connect to the cluster's other hosts while the new hosts are prepared, which takes minutes.

    The other hosts are asked for their facts, which changes nothing. A host that does not answer now is asked again
    later, and reported then. If a new host fails, the other hosts are not waited for. `hosts`: the other hosts.
    """
    asked = on_each(hosts, partial(requests.ask_facts_of, run))
    try:
        yield
        if not any(name in run.failed_hosts for name in names):
            deque(asked, maxlen=0)
    finally:
        asked.close()


def refuse_lost(run: Run, names: Sequence[str]) -> None:
    """Stop if any of these hosts has failed. Raises SlurmfabError if a host has failed; the message has the reasons."""
    lost = failures((), {name: run.failed_hosts[name] for name in names if name in run.failed_hosts})
    if lost:
        left = ", ".join(name for name in names if name not in run.failed_hosts)
        without = f" {left} could join without it." if left else ""
        raise SlurmfabError("\n".join([
            *lost, f"The cluster was not changed. Fix this and run the same command again.{without}"
        ]))  # fmt: skip


def is_half_added(known: Inventory, hosts: str) -> bool:
    """Whether all hosts of a hostlist are in the cluster already, and no test job has run yet on some of them."""
    by_address = {known.cluster.addresses.get(host, host): host for host in known.cluster.hosts}
    named = [canonical(endpoint.address) for endpoint in expand_endpoints(hosts)]
    members = tuple(name if name in known.cluster.hosts else by_address.get(name, "") for name in named)
    return all(members) and bool(on_trial(known.lock, members))


def check_options(known: Inventory, options: AddNodeOptions) -> None:
    """Refuse, before any host is asked, options that name nodes or partitions which do not exist, by InputError."""
    cluster = known.cluster
    if options.like and options.like not in cluster.compute_nodes:
        raise InputError(f"--like {options.like}: not a compute node (known: {fold(cluster.compute_nodes)}).")
    partitions = [partition.name for partition in cluster.partitions]
    unknown = [name for name in options.partitions if name not in partitions]
    if unknown:
        raise InputError(f"--partition {','.join(unknown)}: no such partition (known: {', '.join(partitions)}).")


def refuse_without_partition(grown: Inventory, names: Sequence[str]) -> None:
    """Refuse new nodes without a partition, in which no job could run on them, by InputError."""
    partitions = grown.cluster.partitions
    without = [name for name in names if not any(one.nodes == "ALL" or name in one.nodes for one in partitions)]
    if without:
        raise InputError(
            f"{fold(without)} would not be in any partition. Add --partition "
            f"{'|'.join(partition.name for partition in partitions)}, or --like NODE."
        )
