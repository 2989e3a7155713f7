"""`fab replace-node`: a reinstalled or new machine replaces a compute node and keeps the node's name."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, replace

from slurmfab.base.errors import HostKeyChanged, HostKeyUnknown, InputError, SlurmfabError
from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import canonical, parsed
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading, people_ids
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.edits import node_removal
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock
from slurmfab.commands.nodes import add
from slurmfab.commands.nodes.discovery import introduce
from slurmfab.core.engine import commands, job_waiting, older_copy, requests, session
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.node_changes import change
from slurmfab.core.engine.run import Run, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import NOTHING, Approvals
from slurmfab.core.impact.disruptive_changes import LOST_LIMITS, require_known
from slurmfab.core.impact.hardware_changes import differences
from slurmfab.core.plan.pinned import is_same_machine
from slurmfab.core.plan.preflight import default_memory, new_nodes, other_clusters
from slurmfab.core.plan.preflight.hosts import unfit
from slurmfab.hosts import route
from slurmfab.hosts.host_keys import PinnedKey, changed_key_text
from slurmfab.hosts.known_hosts import HostKey
from slurmfab.hosts.transport import SshTransport
from slurmfab.on_hosts.agent.nodes.drain import NewNodeDrain
from slurmfab.on_hosts.agent.services.service import Service

DRAIN_REASON = "it is being replaced"


@dataclass(frozen=True)
class ReplaceNodeOptions:
    """The options of `fab replace-node`."""

    address: str = ""  # IP address of the new machine; empty if it keeps the old one
    accept_key: bool = False
    accept_hardware: bool = False  # whether its hardware may differ from the lock
    approvals: Approvals = NOTHING  # the disruptive changes that the user allows
    yes: bool = False  # whether to begin without a question


@dataclass(frozen=True)
class NewMachine:
    """The machine that replaces a node."""

    facts: HostFacts  # the facts that it reported
    host_key: HostKey  # the SSH host key that it showed
    password: str = ""  # the sudo password that the user typed; never shown

    def __repr__(self) -> str:
        return f"NewMachine({self.facts.name})"


def replace_node(cluster: str, host: str, options: ReplaceNodeOptions, output: Output) -> int:
    """Check the new machine against the lock, prepare it, and put the node into service once a test job ran there.

    Raises InputError if it is no compute node alone, or its key or hardware is not accepted; SlurmfabError if jobs run,
    or it cannot be this node. Nothing was changed then.
    """
    require_known(options.approvals)
    known = loading.load_named(cluster)
    refuse_other_roles(known, host)
    text = loading.read_text(known.path)
    if options.address:
        text = node_removal.with_address(text, host, checked_address(options.address))
    moved = replace(known, cluster=loading.parse(text, str(known.path)))
    machine = inspect(moved, host, accept_key=options.accept_key, asker=output.asker())
    refuse_unsuited(moved, host, machine, options.approvals.allowed)
    renewed = replace(moved, lock=locks.with_host(known.lock, host, host_lock(moved, host, machine, options)))
    run_options = RunOptions("replace-node", options.approvals, asks=not options.yes)
    run = session.start(renewed, "", output, run_options, password=machine.password)
    return session.perform(run, output, lambda begun: carry_out(begun, host, text))


def refuse_other_roles(known: Inventory, host: str) -> None:
    """Refuse, by InputError, a host that is not in the cluster, or not a compute node alone."""
    roles = known.cluster.roles(host)
    if not roles:
        nodes = fold(known.cluster.compute_nodes)
        raise InputError(f"{host}: not in {known.path} (known: {nodes}). To add a new host: {FAB} add-node.")
    if roles != ("compute",):
        raise InputError(
            f"{host}: its roles are {' and '.join(roles)}; {FAB} replace-node only replaces hosts whose one role is "
            f"compute. For a reinstalled host with other roles, run {FAB} deploy."
        )


def checked_address(address: str) -> str:
    """The value of `--address`, as an IP address in its usual form. Raises InputError if it is not an IP address."""
    try:
        return canonical(str(parsed(address)))
    except ValueError:
        raise InputError(f"--address {address}: this is not an IP address.") from None


def inspect(known: Inventory, host: str, *, accept_key: bool, asker: Callable[[], str] | None) -> NewMachine:
    """Gather the facts of the new machine, if its SSH host key is a pinned one or is accepted.

    Raises InputError for another key; HostError if the machine does not answer.
    """
    pinned = session.trusted_keys(known, host)
    policy = PinnedKey(host, pinned)
    try:
        return gather_facts(known, host, policy, asker)
    except (HostKeyChanged, HostKeyUnknown):
        assert policy.shown is not None, "the policy has refused this key"
        if not accept_key:
            raise InputError(
                f"{changed_key_text(host, pinned, policy.shown)}\nCompare the new key with the host's console "
                "(ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub), then add --accept-new-host-keys. "
                "Nothing was changed."
            ) from None
    return gather_facts(known, host, PinnedKey(host, {}, accept_new=True), asker)


def gather_facts(known: Inventory, host: str, policy: PinnedKey, asker: Callable[[], str] | None) -> NewMachine:
    """Connect to the machine and gather its facts; python3 is installed first if the machine lacks it.

    `known`: the cluster, with the machine's address. `asker`: asks the user for the sudo password; `None` if the user
    cannot be asked. Raises HostError if the machine does not answer, or its host key is refused.
    """
    way = route.to_hosts(known.cluster)[host]
    with closing(SshTransport({host: way}, {**session.relay_policies(known), host: policy}, asker)) as transport:
        facts = introduce(transport, host, requests.fact_selection(known, host))
        assert policy.shown is not None, "SSH is connected, so the host has shown a key"
        return NewMachine(facts, policy.shown, transport.sudo.known)


def refuse_unsuited(known: Inventory, host: str, machine: NewMachine, allowed: Collection[str] = ()) -> None:
    """Refuse a machine that cannot be this node, beyond the disruptive changes that the user allows.

    Raises InputError if it is another cluster's, IdConflict if it has others of our IDs, else SlurmfabError.
    """
    ours = other_clusters.identity(known.cluster, known.lock, {})
    other_clusters.refuse_others(ours, {host: machine.facts}, allowed)
    reasons = unfit(known.cluster, {host: machine.facts})
    reason = reasons.get(host) or new_nodes.same_machine(known, known.cluster, host, machine.facts)
    is_same = machine.host_key in known.lock.hosts.get(host, HostLock()).host_keys.items()
    reason = reason or ("" if is_same else new_nodes.at_work(machine.facts, allowed))
    reason = reason or new_nodes.too_small(known.cluster, host, machine.facts)
    reason = reason or ("" if LOST_LIMITS in allowed else new_nodes.weaker_cgroups(known, host, machine.facts.cgroup))
    reason = reason or default_memory.lowered(known.cluster, known.lock, host, machine.facts, allowed)
    if reason:
        raise SlurmfabError(f"{host}: {reason} Nothing was changed.")
    people_ids.decide(known.cluster, known.lock.ids, {host: machine.facts})


def host_lock(known: Inventory, host: str, machine: NewMachine, options: ReplaceNodeOptions) -> HostLock:
    """The node's new entry in the lock; InputError if its hardware differs, and that is not accepted."""
    old, facts = known.lock.hosts.get(host, HostLock()), machine.facts
    gpus = facts.gpus if known.cluster.mig_of(host) is None else None  # otherwise they are divided first
    # A new machine has no slurmd yet, so that its processors are as the kernel counts them.
    now = facts.hardware
    if old.hardware and now and is_same_machine(old, facts):
        now = replace(old.hardware, RealMemory=now.RealMemory)
    found = differences(old, now, gpus, known.cluster.memory_margin)
    if found and not options.accept_hardware:
        raise InputError("\n".join((
            f"{host}: its hardware differs from the lock:",
            *(f"  {change.name}: {change.wanted} -> {change.actual}" for change in found),
            "If this is intended, add --accept-hardware. Nothing was changed.",
        )))  # fmt: skip
    keys = dict([machine.host_key])
    fresh = HostLock(facts.hostname, keys, old.hardware, old.gpus, facts.cgroup, on_trial=True, kernel=old.kernel)
    if not found and old.hardware:
        return fresh
    return replace(fresh, hardware=facts.hardware, kernel=facts.kernel, gpus=facts.gpus)


def carry_out(run: Run, host: str, text: str) -> None:
    """Drain the node, prepare the machine, write the files, deploy, and put the node into service.

    `run`: a run over the cluster with the new machine; the files are not written yet. Raises SlurmfabError if jobs run
    there, or the machine could not be prepared; the files are unchanged.
    """
    older_copy.refuse_early(run)
    change(run, "slurmctld", run.controller, Service("slurmctld"))
    refuse_jobs(run, host)
    run.confirm(
        f"The machine that answers at {run.inventory.cluster.addresses.get(host) or host} becomes {host}: it gets the "
        "cluster's users, keys, packages and files, and the lock forgets SSH host key and hardware of the one before.",
        f"Replace {host}?",
    )
    change(run, "drain", run.controller, NewNodeDrain((host,), DRAIN_REASON, stamp(), takes_over=True))
    add.prepare_and_write(run, (host,), text)
    commands.deploy_and_accept(run)


def refuse_jobs(run: Run, host: str) -> None:
    """Stop by SlurmfabError if the node has jobs; COMPLETING ones on a silent node do not count: they cannot end."""
    before = job_waiting.nodes_and_jobs(run)
    if host not in before.by_name:
        return
    answers = before.by_name[host].state.answers
    jobs = [job for job in job_waiting.jobs_on(before, [host]) if answers or job.state != "COMPLETING"]
    if jobs:
        raise SlurmfabError(
            f"{host}: this node has jobs: {job_waiting.format_jobs(jobs)}. Wait for them ({FAB} drain {host} --reason "
            "replaced --wait) or cancel them. Nothing was changed."
        )
