"""`fab add-node`: hosts become compute nodes of a cluster that is at work, all of them or none."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from slurmfab import asking, deploying, first_contact, inventory, membership, newcomers, operations
from slurmfab import deploy as deployment
from slurmfab import lock as locks
from slurmfab.clusterfile import writing
from slurmfab.consent import NOTHING, Consent
from slurmfab.errors import InputError, SlurmfabError
from slurmfab.hostlist import expand_endpoints, fold
from slurmfab.inventory import Inventory
from slurmfab.nodes import preflight
from slurmfab.nodes.admission import on_trial
from slurmfab.operations import Output
from slurmfab.plan import PHASES
from slurmfab.promises.dangers import require_known
from slurmfab.run import Run
from slurmfab.ssh.fan_out import on_each


@dataclass(frozen=True)
class Wish:
    """What the new nodes shall be.

    Args:
        like: a compute node whose settings and partitions they share, empty for none.
        partitions: names of partitions that get them.
        consent: what was agreed to beforehand.
    """

    like: str = ""
    partitions: tuple[str, ...] = ()
    consent: Consent = NOTHING


def add_node(cluster: str, hosts: str, wish: Wish, accept_new: bool, output: Output) -> int:
    """Meet new hosts, prepare them, write them into the cluster file, deploy, and let them in once a job has run there.

    Nothing is written, and nothing is changed on the cluster's hosts, before all new hosts have their packages and
    users. Hosts of an add-node that was cut off later than that are gone on with.

    Returns:
        The exit code.

    Raises:
        InputError: a host is in the cluster already, or the wish cannot be had.
        SlurmfabError: a host did not answer, or cannot be a node of this cluster; nothing was changed.
    """
    require_known(wish.consent)
    known = inventory.load(Path(cluster) if cluster else inventory.default_path())
    if is_half_added(known, hosts):
        return deploying.converge(known, "", output, command="add-node", consent=wish.consent)
    membership.refuse_known(known, hosts)
    check_wish(known, wish)
    progress = output.progress()
    meeting = newcomers.meet(
        hosts,
        known.cluster.ssh,
        accept_new=accept_new,
        ask_password=output.asker(),
        progress=progress.line,
        refuse=first_contact.refuse_incomplete,
        names=asking.cared_for(known, wish.like or ""),
    )
    membership.refuse_unfit(known, meeting.newcomers)
    grown, text = membership.joined(known, meeting.newcomers, wish.like or None, wish.partitions)
    names = tuple(newcomer.name for newcomer in meeting.newcomers)
    refuse_without_partition(grown, names)
    facts = {newcomer.name: newcomer.facts for newcomer in meeting.newcomers}
    preflight.refuse_unsuited(known, grown.cluster, facts, wish.consent.allowed)
    run = operations.start(grown, "", output, meeting.password, command="add-node", consent=wish.consent)
    return operations.perform(run, output, lambda begun: carry_out(begun, names, text))


def carry_out(run: Run, names: tuple[str, ...], text: str) -> None:
    """Prepare new hosts, write the files, and deploy to all; see `prepare_and_write`."""
    prepare_and_write(run, names, text)
    run.progress.line(f"{run.inventory.path}: {fold(names)} is in it now.")
    deploying.deploy_and_admit(run)


def prepare_and_write(run: Run, names: tuple[str, ...], text: str) -> None:
    """Prepare new hosts, then write the cluster file and the lock.

    Args:
        run: over the cluster with them, of which the files say nothing yet.
        names: the new hosts.
        text: the new cluster file.

    Raises:
        SlurmfabError: a new host could not be prepared; the files and the cluster's hosts are as before.
    """
    keep, run.keep = run.keep, lambda _: None
    prepare(run, names)
    run.keep = keep
    locks.save(run.inventory.lock, inventory.lock_path(run.inventory.path))
    writing.write(run.inventory.path, text)


def prepare(run: Run, names: tuple[str, ...]) -> None:
    """See to users, packages and keys on hosts that are not in use yet, and on no others.

    Raises:
        SlurmfabError: one of them failed.
    """
    facts = asking.gather(run, (run.controller, *names))
    situation = deployment.situate(run, facts)
    deployment.leave_out_without_packages(run, situation)
    refuse_lost(run, names)
    everybody, run.hosts = run.hosts, names
    try:
        with greeting(run, [host for host in everybody if host not in facts], names):
            deployment.converge(run, situation, [phase for phase in PHASES if phase.prepares])
    finally:
        run.hosts = everybody
    refuse_lost(run, names)


@contextmanager
def greeting(run: Run, hosts: Iterable[str], names: Collection[str]) -> Iterator[None]:
    """Connects to hosts and starts their agents meanwhile, so that a large cluster is ready when its new nodes are.

    They are asked for their facts, as they will be next; that changes nothing. Whoever does not answer is asked again
    then, and told of. Nobody is waited for once one of the new hosts, by their names, is lost.
    """
    asked = on_each(hosts, partial(asking.ask_facts_of, run))
    try:
        yield
        if not any(name in run.lost for name in names):
            deque(asked, maxlen=0)
    finally:
        asked.close()


def refuse_lost(run: Run, names: Sequence[str]) -> None:
    """Stop if any of these hosts is lost.

    Raises:
        SlurmfabError: with what is wrong with each.
    """
    lost = [str(run.lost[name]) for name in names if name in run.lost]
    if lost:
        left = ", ".join(name for name in names if name not in run.lost)
        aside = f" {left} could join without it." if left else ""
        raise SlurmfabError("\n".join([
            *lost, f"The cluster is as it was. Mend that and run the same command again.{aside}"
        ]))  # fmt: skip


def is_half_added(known: Inventory, hosts: str) -> bool:
    """Whether all the hosts are in the cluster, by name or address, and have not been let in yet."""
    by_address = {known.cluster.addresses.get(host, host): host for host in known.cluster.hosts}
    named = [endpoint.address for endpoint in expand_endpoints(hosts)]
    members = tuple(name if name in known.cluster.hosts else by_address.get(name, "") for name in named)
    return bool(members) and on_trial(known.lock, members) == members


def check_wish(known: Inventory, wish: Wish) -> None:
    """Refuse a wish that names what is not there, before anybody is asked.

    Raises:
        InputError: it does.
    """
    cluster = known.cluster
    if wish.like and wish.like not in cluster.compute_nodes:
        raise InputError(f"--like {wish.like}: no compute node (known: {fold(cluster.compute_nodes)}).")
    partitions = [partition.name for partition in cluster.partitions]
    strangers = [name for name in wish.partitions if name not in partitions]
    if strangers:
        raise InputError(f"--partition {','.join(strangers)}: no partition (known: {', '.join(partitions)}).")


def refuse_without_partition(grown: Inventory, names: Sequence[str]) -> None:
    """Refuse nodes that would be in no partition, where no job could ever reach them.

    Raises:
        InputError: they would.
    """
    partitions = grown.cluster.partitions
    idle = [name for name in names if not any(one.nodes == "ALL" or name in one.nodes for one in partitions)]
    if idle:
        raise InputError(
            f"{fold(idle)} would be in no partition. Say which: --partition "
            f"{'|'.join(partition.name for partition in partitions)}, or --like NODE."
        )
