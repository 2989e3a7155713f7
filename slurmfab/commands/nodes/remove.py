"""`fab remove-node`: removes compute nodes without losing a job; files last, so that it can be repeated."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from slurmfab.base.errors import HostlistError, InputError, SlurmfabError, Unreachable
from slurmfab.base.hostlist import expand, fold, shell_word
from slurmfab.base.paths import MUNGE_KEY, SLURM_DIRECTORY, SLURM_HOME
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.edits import node_removal
from slurmfab.cluster.inventory.firewall import MANAGED
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.storage import mounts_of
from slurmfab.cluster.slurm.platform import PLATFORMS, wanted
from slurmfab.core.engine import converge as deployment
from slurmfab.core.engine import file_writing, job_waiting, older_copy, session
from slurmfab.core.engine.actor import stamp
from slurmfab.core.engine.node_changes import change, change_each, work_on_each
from slurmfab.core.engine.requests import ask_facts, fact_selection
from slurmfab.core.engine.run import Run, RunHooks, RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.plan.package_managers import kinds
from slurmfab.core.plan.phases.hosts_file import TEMPLATES
from slurmfab.core.plan.phases.logins import NODE_LOGINS
from slurmfab.core.plan.phases.slurm_conf import JOB_CONTAINER, WATCHED
from slurmfab.core.plan.plan import PHASES
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import other_clusters
from slurmfab.core.status.snapshot import Job
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.facts.facts import CONFIGLESS_DROP_IN
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.file import Absent
from slurmfab.on_hosts.agent.files.owned_files import OwnedFiles
from slurmfab.on_hosts.agent.mounts import exports, quotas
from slurmfab.on_hosts.agent.nodes.drain import NodeDrain
from slurmfab.on_hosts.agent.nodes.jobs import JobsEnded
from slurmfab.on_hosts.agent.packages.former_packages import FormerPackages, RemovedPackages
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.fetched_files import FETCHED_LINK
from slurmfab.on_hosts.agent.slurm.site_files import SiteFiles
from slurmfab.on_hosts.agent.undo.undo_secrets import NoKeptSecrets

NEEDED = ("name", "ssh", "addresses", "controllers", "login", "nodes")
"""The fields of a cluster file that say nothing but which hosts there are."""


NO_FILES = frozenset((NODE_LOGINS, exports.OF, exports.LOADED_OF, quotas.OF))
"""What hosts remember in other ways than as owned files. A host that still serves others keeps its exports."""


PROTECTED = tuple(name for one in PLATFORMS.values() for name in one.protected)


def decommission_cleaned(
    *,
    purge: bool,
    site_files: tuple[str, ...] = (),
    taken_back: tuple[Resource, ...] = (),
    removed: type[RemovedPackages] = RemovedPackages,
) -> tuple[Resource, ...]:
    """The cluster's files, keys and daemons removed; users stay, because they own files, and so do logs.

    Packages are removed last: then a maintainer script finds no configuration by which it could reach the cluster.
    `site_files`: names of the site's own files in Slurm's directory. `taken_back`: the removal of what the host has for
    optional keys, from `taken_back`. `removed`: the kind of packages that go.
    """
    packages_gone = tuple(one for one in taken_back if isinstance(one, FormerPackages))
    return (
        Service("slurmd", running=False),
        Service("munge", running=False),
        Absent(MUNGE_KEY, secret=True),
        *(Absent(path) for path in (*WATCHED, f"{SLURM_DIRECTORY}/{JOB_CONTAINER}", CONFIGLESS_DROP_IN, FETCHED_LINK)),
        *((SiteFiles(SLURM_DIRECTORY, (), site_files),) if site_files else ()),
        Block(f"{SLURM_HOME}/.ssh/authorized_keys", "slurm keys", ""),
        Absent(f"{SLURM_HOME}/.ssh/id_ed25519", secret=True),
        Absent(f"{SLURM_HOME}/.ssh/id_ed25519.pub"),
        Block("/etc/ssh/ssh_known_hosts", "host keys", ""),
        Block("/etc/hosts", "hosts", ""),
        *(Block(path, "hosts", "", is_found=True) for path in TEMPLATES.values()),
        *(one for one in taken_back if one not in packages_gone),
        NoKeptSecrets(),  # after all that the undo store keeps copies of
        *packages_gone,
        *((removed(tuple(sorted(purged())), PROTECTED),) if purge else ()),
    )


def open_again(known: Inventory, facts: HostFacts) -> tuple[Resource, ...]:
    """The removal of what keeps users without a job from logging in; empty where the host has no such thing."""
    return tuple(planned(without_options(known, facts), facts.name, guards_logins=True))


def taken_back(known: Inventory, facts: HostFacts) -> tuple[Resource, ...]:
    """The removal of all else that the host has for optional keys: mounts, files, programs, packages.

    It is what a deployment does when these keys go, in the same order. Files of capabilities that have no phase of
    their own for that, such as apt's sources, are taken back last. `known`: the cluster with the host.
    """
    resources = tuple(planned(without_options(known, facts), facts.name, guards_logins=False))
    done = {one.name() for one in resources if isinstance(one, OwnedFiles)} | NO_FILES
    return (*resources, *(OwnedFiles(of, ()) for of in facts.owned if of not in done))


def without_options(known: Inventory, facts: HostFacts) -> PlanInput:
    """The input of a plan for a host with a cluster file that has the same hosts, and no optional key."""
    fields = {name: getattr(known.cluster, name) for name in NEEDED}
    fields["nodes"] = tuple(group.model_copy(update={"mig": None}) for group in known.cluster.nodes)
    return PlanInput(Cluster(**fields), known.lock, {facts.name: facts})


def planned(plan_input: PlanInput, host: str, *, guards_logins: bool) -> Iterator[Resource]:
    """Yield what phases take back from a host, those that a login proves, or all others."""
    for phase in PHASES:
        if phase.taken_back and phase.guards_logins == guards_logins:
            # The files of Slurm's directory are removed with all others there.
            yield from (one for one in phase.resources(plan_input, host) if not isinstance(one, SiteFiles))


def left_on(cluster: Cluster, host: str) -> tuple[str, ...]:
    """The optional keys of the cluster file by which a host may have something, in the words of the cluster file."""
    roles = cluster.roles(host)
    asked = {
        "mounts": bool(mounts_of(cluster, host)),
        "mig": cluster.mig_of(host) is not None,
        "node_logins": cluster.closes(host),
        "user_ssh": cluster.user_ssh != "own",
        "directory": cluster.directory is not None,
        "firewall": cluster.firewall is not None and cluster.firewall.mode == MANAGED,
        "files": any(one.is_on(host, roles) for one in cluster.files.values()),
        "packages": bool(cluster.packages.of_host(host, roles)),
        "modules": cluster.modules is not None,
        "mpi": cluster.mpi is not None,
        "prolog": cluster.prolog is not None,
        "epilog": cluster.epilog is not None,
        "job_environment": cluster.job_environment is not None,
        "health": cluster.health is not None,
        "scratch": cluster.scratch is not None,
        "users": bool(cluster.users) and cluster.unix_users,
    }
    return tuple(key for key, is_asked in asked.items() if is_asked)


def purged() -> set[str]:
    """The packages of a compute node that only Slurm needs, of each kind: a host has those of one."""
    names = (name for one in PLATFORMS.values() for name in (*one.packages("compute"), *one.telling[:1]))
    return {name for name in names if not name.startswith("openssh")}


DRAIN_REASON = "it leaves the cluster"
LEAST_SECONDS = 1.0  # how long `--timeout 0` waits for jobs that are completing


@dataclass(frozen=True)
class RemoveNodeOptions:
    """The options of `fab remove-node`."""

    minutes: int | None = None  # how long to wait for running jobs; `None` for no limit
    now: bool = False
    purge: bool = False
    abandon: bool = False  # whether the nodes are not contacted: they are lost, or not to be trusted
    empty_partition: bool = False  # whether a partition may have no nodes afterwards
    yes: bool = False  # whether to begin without a question


def remove_node(cluster: str, hosts: str, options: RemoveNodeOptions, output: Output) -> int:
    """Drain nodes, wait for their jobs, remove the nodes from all files, and clean their hosts.

    Returns 3 if one could not be reached for that. Raises InputError if a host is not only a compute node, or none
    would be left; SlurmfabError, files unchanged, if jobs do not end in time, or a host fails.
    """
    known = loading.load_named(cluster)
    leaving = expand(hosts)
    if options.abandon and options.purge:
        raise InputError("--purge removes packages on the nodes, which --abandon does not contact. Give one of them.")
    refuse(known, leaving, empty_partition=options.empty_partition)
    text = node_removal.without_nodes(loading.read_text(known.path), leaving)
    run = session.start(known, "", output, RunOptions("remove-node", asks=not options.yes), hooks=hooks(known, leaving))
    return session.perform(run, output, lambda begun: carry_out(begun, leaving, text, options))


def hooks(known: Inventory, leaving: tuple[str, ...]) -> RunHooks:
    """Hooks that keep the nodes in the saved lock until the run itself removes them from both files at the end."""
    kept = {host: known.lock.hosts[host] for host in leaving if host in known.lock.hosts}

    def save_lock(run: Run) -> None:
        lock = run.inventory.lock
        file_writing.save_lock(run, replace(lock, hosts={**lock.hosts, **kept}))

    return RunHooks(save_lock=save_lock)


def refuse(known: Inventory, leaving: tuple[str, ...], *, empty_partition: bool) -> None:
    """Refuse, by InputError with all reasons, hosts that cannot be removed, before any host is contacted."""
    cluster = known.cluster
    unknown = [host for host in leaving if host not in cluster.hosts]
    others = [host for host in leaving if host in cluster.hosts and cluster.roles(host) != ("compute",)]
    reasons = []
    if unknown:
        reasons.append(f"{fold(unknown)}: not in {known.path} (known: {fold(cluster.compute_nodes)}).")
    reasons += [
        f"{host}: its roles are {' and '.join(cluster.roles(host))}; {FAB} remove-node only removes hosts whose one "
        "role is compute."
        for host in others
    ]
    left = set(cluster.compute_nodes) - set(leaving)
    if not left:
        reasons.append("No compute node would be left, and Slurm needs at least one.")
    emptied = [one.name for one in cluster.partitions if one.nodes and one.nodes != "ALL" and not left & set(one.nodes)]
    if left and emptied and not empty_partition:
        reasons.append(
            f"{', '.join(emptied)}: no node would be left in the partition, and its jobs would never start. If this is "
            "intended, add --allow-empty-partition."
        )
    if reasons:
        raise InputError("\n".join((*reasons, "Nothing was changed.")))


def carry_out(run: Run, leaving: tuple[str, ...], text: str, options: RemoveNodeOptions) -> None:
    """Drain, wait, stop slurmd, deploy to others, clean, and write files; SlurmfabError, unwritten, if it fails."""
    known = run.inventory
    older_copy.refuse_early(run)
    others = {} if options.abandon else hosts_of_others(run, leaving)
    ours = () if options.abandon else tuple(host for host in leaving if host not in others)
    vacate(run, leaving, options)
    change_each(run, "slurmd stop", ours, Service("slurmd", running=False))  # first, while the node is still drained
    lock = locks.without_hosts(known.lock, leaving)
    smaller = replace(run.inventory, cluster=loading.parse(text, str(known.path)), lock=lock)
    run.change_cluster(smaller, tuple(host for host in run.hosts if host not in leaving))
    deployment.deploy(run)
    work_on_each(run, run.remaining(ours), lambda host: clean(run, known, host, purge=options.purge))
    broken = [
        host for host in leaving if host in run.failed_hosts and not isinstance(run.failed_hosts[host], Unreachable)
    ]
    if broken:
        raise SlurmfabError(
            f"{run.failed_hosts[broken[0]]}\n"
            f"Slurm does not have {fold(leaving)} any more, but {run.inventory.path} still does, so the next "
            "deployment takes back what is named there. Fix this and run the same command again. If the host is not "
            f"to be trusted: {FAB} remove-node {shell_word(leaving)} --abandon, which does not contact it."
        )
    file_writing.write(run, text)
    run.progress.line(f"{run.inventory.path}: removed {fold(leaving)}.")
    if options.abandon:
        run.progress.line(unclean(known, leaving, "not contacted"))
    elif lost := [host for host in ours if host in run.failed_hosts]:
        run.progress.line(unclean(known, lost, "not reachable"))
    for host, reason in others.items():
        run.progress.line(f"{host}: {reason} So nothing was changed there.")


def clean(run: Run, known: Inventory, host: str, *, purge: bool) -> None:
    """Take back what a host has of the cluster with it; SlurmfabError if it failed, or something is in use."""
    facts = ask_facts(run.transport, host, with_secrets=False, names=fact_selection(known, host))
    opened = open_again(known, facts)
    if opened:
        change(run, "node logins", host, *opened, proved=True)
    resources = decommission_cleaned(
        purge=purge,
        site_files=known.cluster.site_file_names,
        taken_back=taken_back(known, facts),
        removed=kinds(wanted(known.cluster, host)).removed,
    )
    change(run, "leaving", host, *resources)


def hosts_of_others(run: Run, leaving: tuple[str, ...]) -> dict[str, str]:
    """Hosts that another cluster uses, with reasons, which are left as they are; silent ones are not judged."""
    inventory = run.inventory
    answers = on_each(
        leaving,
        lambda host: ask_facts(
            run.transport, host, with_secrets=False, names=fact_selection(inventory, host), is_new=True
        ),
    )
    facts = {host: fact for host, fact in answers if isinstance(fact, HostFacts)}
    return other_clusters.used_elsewhere(
        inventory.cluster, inventory.lock, facts, other_clusters.identity(inventory.cluster, inventory.lock, {})
    )


def vacate(run: Run, leaving: tuple[str, ...], options: RemoveNodeOptions) -> None:
    """Drain nodes, and wait for, or cancel, their jobs and pending ones for them; SlurmfabError if some are left."""
    # An interrupted run may have left slurmctld stopped, and only slurmctld knows the jobs.
    change(run, "slurmctld", run.controller, Service("slurmctld"))
    pending = pending_for(run, leaving, may_cancel=options.now)
    seen = job_waiting.nodes_and_jobs(run)
    known = tuple(node for node in leaving if node in seen.by_name)
    jobs = job_waiting.jobs_on(seen, known)
    run.confirm(consequences(leaving, options, jobs, pending), f"Remove {fold(leaving)} from the cluster?")
    if known:
        change(run, "drain", run.controller, NodeDrain(known, DRAIN_REASON, stamp()))
    if options.now and (jobs or pending):
        listed = f"{job_waiting.format_jobs(jobs)}{' and ' if jobs and pending else ''}{', '.join(pending)}"
        run.progress.line(f"Cancelling {listed}.")
        ids = tuple(dict.fromkeys((*(job.id for job in jobs), *pending)))
        change(run, "cancel", run.controller, JobsEnded(ids, known, stamp(), options.abandon))
    elif jobs:
        run.progress.line(f"Waiting for {job_waiting.format_jobs(jobs)} on {fold(known)}.")
    if known:
        limit = 0.0 if options.minutes is None else max(options.minutes * 60.0, LEAST_SECONDS)
        job_waiting.wait_until_empty(run, known, limit)
    refuse_busy(run, leaving)


def consequences(
    leaving: tuple[str, ...], options: RemoveNodeOptions, jobs: Sequence[Job], pending: Sequence[str]
) -> str:
    """What a removal does to jobs that run there, and pending ones that ask for the nodes, for the user's decision."""
    names = fold(leaving)
    there = job_waiting.format_jobs(jobs)
    if options.now and (jobs or pending):
        ends = f"{' and '.join(filter(None, (there, ', '.join(pending))))} will be cancelled."
    else:
        ends = f"The end of {there} is waited for." if jobs else "No job runs there."
    packages = "Slurm's packages and the keys" if options.purge else "the munge key and SSH keys"
    return f"{names}: drained, then stopped and removed from all files; {packages} are removed there. {ends}"


def pending_for(run: Run, leaving: tuple[str, ...], *, may_cancel: bool) -> tuple[str, ...]:
    """Pending jobs that name these nodes; SlurmfabError if they may not be cancelled, or a reservation has some."""
    lines = run.transport.call(run.controller, {"op": "node-jobs"})
    found: dict[str, Any] = answer_value(run.controller, lines, "node_jobs")
    wanted = set(leaving)
    reserved = [name for name, nodes in found["reservations"].items() if wanted & members(nodes)]
    if reserved:
        raise SlurmfabError(
            f"{', '.join(reserved)}: this reservation has nodes that are removed. Change or delete it first: "
            f"{shlex.join(commands.delete_reservation(reserved[0]))}. Nothing was changed."
        )
    pending = [job for job in found["pending"] if wanted & members(job["wants"])]
    if pending and not may_cancel:
        listed = ", ".join(f"{job['id']} ({job['user']}, wants {job['wants']})" for job in pending)
        raise SlurmfabError(
            f"Pending jobs ask for these nodes by name and could not start: {listed}. Wait for them, change them "
            "(`scontrol update JobId=ID ReqNodeList=NODES`), or add --now to cancel them. Nothing was changed."
        )
    return tuple(job["id"] for job in pending)


def members(hostlist: str) -> set[str]:
    """The hosts in a hostlist from Slurm; none if it cannot be parsed."""
    try:
        return set(expand(hostlist))
    except HostlistError:
        return set()


def refuse_busy(run: Run, leaving: tuple[str, ...]) -> None:
    """Stop if jobs still run on the nodes. Raises SlurmfabError if jobs still run; the nodes stay drained."""
    busy = [node for node in leaving if node in run.failed_hosts]
    if busy:
        raise SlurmfabError(
            f"{fold(busy)}: jobs still run there, so no node was removed. Run the same command again later, add "
            f"--now to cancel the jobs, or resume the nodes: {FAB} resume {shell_word(busy)}."
        )


def unclean(known: Inventory, hosts: Sequence[str], why: str) -> str:
    """What is left on removed nodes that were not cleaned, and the ways to remove it."""
    keys = dict.fromkeys(key for host in hosts for key in left_on(known.cluster, host))
    also = f", and what the cluster file asked for with {', '.join(keys)}" if keys else ""
    return (
        f"{fold(hosts)}: {why}, so munge key, SSH keys and daemons are still there{also}. When it is "
        "back: systemctl disable --now slurmd munge; rm /etc/munge/munge.key /etc/slurm/slurm.conf. To remove all, "
        f"add it again and remove it: {FAB} add-node, {FAB} remove-node. Whoever is root there has the munge key: "
        f"{FAB} rotate-munge-key gives the others a new one."
    )
