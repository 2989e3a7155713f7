"""First contact: discovers hosts, writes a cluster file and a lock for them, and deploys."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from slurmfab.base import interrupts
from slurmfab.base.errors import HostError, IdConflict, InputError, PythonMissing, SlurmfabError
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.hostlist import expand_endpoints, fold
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import agrees, can_ask, columns, table, write
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import fabfile, loading, system_ids
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm import platform
from slurmfab.commands.nodes import discovery, existing_cluster, membership
from slurmfab.commands.nodes.discovery import DiscoveredHost
from slurmfab.commands.nodes.existing_cluster import Founding
from slurmfab.core.engine import commands, session
from slurmfab.core.engine.report import failures
from slurmfab.core.engine.run import RunOptions
from slurmfab.core.engine.session import Output
from slurmfab.core.engine.summary import after_new_nodes, command_for
from slurmfab.core.impact.approvals import DeployOptions
from slurmfab.core.plan.preflight import other_clusters

if TYPE_CHECKING:
    from slurmfab.cluster.inventory.cluster import Cluster
    from slurmfab.commands.nodes.discovery import DiscoveredHost


HEADER = ("hosts", "role", "address", "system", "hardware", "there already")
MIB_PER_GIB = 1024
INDENT = "  "


def summary_lines(
    cluster: Cluster,
    hosts: Mapping[str, DiscoveredHost],
    without_python: Sequence[str],
    width: int,
    *,
    exists: bool,
    moving: bool = False,
) -> list[str]:
    """The lines of the summary: a table of the hosts, IDs, and packages to install.

    `without_python`: as typed. `exists`: the hosts form this cluster already. `moving`: other IDs for slurm and munge
    are allowed. Users that conflict with needed ones are told; a deployment leaves out a host that alone is to blame.
    """
    facts = {name: host.facts for name, host in hosts.items()}
    try:
        ids = system_ids.choose(facts, cluster.ids, {}, controller=cluster.controller, moving=moving)
        users = ", ".join(f"{user} {ids[f'{user}.uid']}:{ids[f'{user}.gid']}" for user in ("slurm", "munge"))
    except IdConflict as error:
        users = str(error)
    title = f"The cluster {cluster.name} is there already:" if exists else f"The new cluster {cluster.name}:"
    lines = ["", title, *(f"{INDENT}{line}" for line in table(rows(cluster, hosts), max(0, width - len(INDENT)))), ""]
    lines += [
        f"Users: {users}",
        *(f"Packages to install on {fold(names)}: {', '.join(missing)}" for missing, names in lacking(cluster, facts)),
    ]
    if without_python:
        lines.append(f"No python3 yet: {fold(without_python)}; it is installed first, and they are compute nodes then.")
    return lines


def rows(cluster: Cluster, hosts: Mapping[str, DiscoveredHost]) -> list[tuple[str, ...]]:
    """The table: a row for all hosts with the same role, system, hardware and software."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name in cluster.hosts:
        key = (
            role(cluster, name),
            system(hosts[name].facts),
            hardware(hosts[name].facts),
            slurm_text(hosts[name].facts),
        )
        groups.setdefault(key, []).append(name)
    return [
        HEADER,
        *(
            (fold(names), part, fold(hosts[name].address for name in names), *rest)
            for (part, *rest), names in groups.items()
        ),
    ]


def role(cluster: Cluster, name: str) -> str:
    """What a host does in the cluster."""
    parts = (("controller", name in cluster.controllers), ("compute", name in cluster.compute_nodes))
    return " and ".join(part for part, is_one in parts if is_one)


def system(facts: HostFacts) -> str:
    """The distribution of a host."""
    return " ".join(filter(None, (facts.os_id, facts.codename, facts.architecture)))


def hardware(facts: HostFacts) -> str:
    """CPUs, memory and GPUs of a host."""
    parts = []
    if facts.hardware:
        parts = [f"{facts.hardware.CPUs} CPUs", f"{facts.hardware.RealMemory / MIB_PER_GIB:.0f} GiB"]
    if facts.gpus:
        parts.append(f"{len(facts.gpus)} GPU{'s' if len(facts.gpus) > 1 else ''}")
    return ", ".join(parts)


def slurm_text(facts: HostFacts) -> str:
    """What a host has of Slurm already."""
    installed = next((facts.packages[name] for name in ("slurmctld", "slurmd") if name in facts.packages), "")
    parts = [f"Slurm {installed}"] if installed else []
    parts += [f"{', '.join(facts.slurm_use.daemons)} running"] if facts.slurm_use.daemons else []
    count = len(facts.slurm_use.jobs)
    parts += [f"{count} job{'s' if count != 1 else ''}"] if count else []
    return "; ".join(parts) or "nothing of Slurm"


def lacking(cluster: Cluster, facts: Mapping[str, HostFacts]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Packages that hosts lack, with the hosts."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for name, fact in facts.items():
        wanted = {
            package
            for part, names in (("controller", cluster.controllers), ("compute", cluster.compute_nodes))
            if name in names
            for package in platform.wanted(cluster, name).packages(part)
        }
        missing = tuple(sorted(wanted - fact.packages.keys()))
        if missing:
            groups.setdefault(missing, []).append(name)
    return list(groups.items())


@dataclass(frozen=True)
class Introduction:
    """What first contact has found out, before anything is written or changed."""

    known: Inventory  # the new cluster, which has no files yet
    text: str
    founding: Founding  # which cluster it is, and whether it exists already
    discovered: discovery.Discovery  # the hosts that answered, and the errors of the others


def deploy(cluster: str, options: DeployOptions, connection_options: ConnectionOptions, output: Output) -> int:
    """Discover hosts, write the cluster file, and deploy; on a terminal, show what is there and ask before.

    Returns 3 if some hosts did not answer. Raises SlurmfabError after a no, or if the controller did not answer.
    """
    commands.refuse_wrong_options(options)
    path = loading.named_path(cluster)
    asks = not options.yes and can_ask()
    met = introduce(path, options, connection_options, output, agrees_to_python if asks else install_python)
    if asks:
        write(summary_text(met, options, sys.stderr), sys.stderr)
        if not agrees(f"Write {path}, and deploy to these hosts? [y/N] "):
            raise SlurmfabError("Nothing was written.")
    return found_and_deploy(met, options, connection_options, output)


def found_and_deploy(
    met: Introduction, options: DeployOptions, connection_options: ConnectionOptions, output: Output
) -> int:
    """Write the files of a new cluster, and deploy it. `options`: the changes that the user allows."""
    known, path = membership.write_new_cluster(met.known, met.text), met.known.path
    interrupts.going_on = f"Run {command_for('deploy', path)} to go on"
    not_met = {host: error.reason for host, error in met.discovered.failed_hosts.items()}
    run_options = RunOptions("deploy", options.approvals, not_met=not_met)
    accept_new = connection_options.accept_new
    run = session.start(known, "", output, run_options, password=met.discovered.password, accept_new=accept_new)
    run.before_change()  # from now on there is a first deployment that may be left unfinished
    wrote = f"Wrote {path}: {known.cluster.controller} is the controller, {fold(known.cluster.compute_nodes)} compute."
    for line in filter(None, (met.founding.notice, wrote, fabfile.provide(path))):
        run.progress.line(line)
    code = session.perform(run, output, commands.deploy_and_accept)
    if not_met:
        names = fold(not_met)
        write(
            f"Not in {path}, because they did not answer: {names}. Later: {FAB} add-node {shlex.quote(names)}.",
            sys.stderr,
        )
    if code == DONE or (code == LEFT_OUT and not_met):
        write(after_new_nodes(path), output.stream)
    return code


def preview(
    cluster: str, options: DeployOptions, save: str, connection_options: ConnectionOptions, output: Output
) -> int:
    """Show what a first contact would write and do, changing nothing; 4 if there is something to do.

    Raises InputError for `--save`, which needs a cluster file.
    """
    if save:
        raise InputError("--save needs a cluster file, and there is none yet; this plan is made anew by deploy.")
    path = loading.named_path(cluster)
    met = introduce(path, options, connection_options, output, leave_python)
    file = "\n".join(f"    {line}".rstrip() for line in met.text.splitlines())
    write(
        f"{summary_text(met, options, output.stream)}\n\nThe first contact would write {path}:\n\n{file}\n",
        output.stream,
    )
    run_options, accept_new = RunOptions("plan", options.approvals), connection_options.accept_new
    password = met.discovered.password
    run = session.start(met.known, "", output, run_options, password=password, accept_new=accept_new)
    code = commands.show_plan(run, output).exit_code
    write(f"Nothing was written. Next: the same with {FAB} deploy.", output.stream)
    return code


def introduce(
    path: Path,
    options: DeployOptions,
    connection_options: ConnectionOptions,
    output: Output,
    may_install: Callable[[Sequence[str]], bool],
) -> Introduction:
    """Discover hosts, and decide which cluster they form, or the first will control; nothing is written.

    `may_install`: says whether given hosts get python3. Raises SlurmfabError for another cluster's hosts, or silence.
    """
    if options.only:
        raise InputError(f"--only needs a cluster file, and there is no {path} yet; a first contact has all phases.")
    ssh = membership.first_ssh(options.hosts, connection_options)
    progress, name, allowed = output.progress(), connection_options.name, options.approvals.allowed
    with progress.during("discovering", map(discovery.text_of, expand_endpoints(options.hosts))):
        discovered = discovery.discover(
            options.hosts,
            ssh,
            accept_new=connection_options.accept_new,
            ask_password=output.asker(),
            progress=progress.line,
            refuse=lambda failed: refuse_without_controller(options.hosts, failed),
            judge=lambda facts: judge(facts, {}, name, allowed),
            may_install=may_install,
        )
    for line in failures((), discovered.lost_hosts):
        progress.line(line)
    if discovered.without_python and len(discovered.discovered_hosts) == 1:
        raise SlurmfabError(
            f"{fold(discovered.without_python)}: no python3, which the first contact installs; before that, nothing "
            "more can be shown. Nothing was written or changed."
        )
    founding, members = cluster_and_hosts(discovered.discovered_hosts, name, allowed)
    known, text = membership.new_cluster(
        path, founding.name, ssh, members, controller_computes=connection_options.controller_computes
    )
    return Introduction(known, text, founding, discovered)


def summary_text(met: Introduction, options: DeployOptions, out: TextIO) -> str:
    """The hosts and what is there, for the user's decision. `out`: where it will be shown."""
    return "\n".join(
        summary_lines(
            met.known.cluster,
            {one.name: one for one in met.discovered.discovered_hosts},
            met.discovered.without_python,
            columns(out),
            exists=met.founding.exists,
            moving=options.approvals.move_ids,
        )
    )


def install_python(bare: Sequence[str]) -> bool:  # noqa: ARG001 - the same on all hosts
    """Install python3 without a question, as where there is no terminal."""
    return True


def leave_python(bare: Sequence[str]) -> bool:  # noqa: ARG001 - the same on all hosts
    """Install nothing, as for a preview."""
    return False


def agrees_to_python(bare: Sequence[str]) -> bool:
    """Ask whether python3 is installed on hosts that lack it. Raises SlurmfabError if the user said no."""
    if not agrees(f"{fold(bare)}: no python3. Install it there, to find out what these hosts are? [y/N] "):
        raise SlurmfabError("Nothing was written or changed.")
    return True


def cluster_and_hosts(
    hosts: Sequence[DiscoveredHost], name: str, allowed: Collection[str]
) -> tuple[Founding, tuple[DiscoveredHost, ...]]:
    """First contact's cluster and its hosts, controller first; InputError if another's, or this has more."""
    facts = {one.name: one.facts for one in hosts}
    founding = judge(facts, {one.name: one.address for one in hosts}, name, allowed)
    existing_cluster.refuse_losing(founding, facts)
    return founding, tuple(sorted(hosts, key=lambda one: one.name != founding.controller))


def judge(
    facts: Mapping[str, HostFacts], addresses: Mapping[str, str], name: str, allowed: Collection[str]
) -> Founding:
    """The cluster that first contact makes or goes on with, if its hosts belong to no other.

    `facts`: the facts of the hosts that answered, in the order in which the user named them. `addresses`: their
    addresses, as far as known. Raises InputError if a host belongs to another cluster; nothing was changed.
    """
    founding = existing_cluster.choose(facts, addresses, name)
    other_clusters.refuse_others(founding.identity, facts, allowed)
    return founding


def refuse_without_controller(hosts: str, failed: Mapping[str, HostError]) -> None:
    """Stop, by SlurmfabError, if the host that would be the controller did not answer."""
    first = discovery.text_of(expand_endpoints(hosts)[0])
    if first in failed:
        if isinstance(failed[first], PythonMissing):
            raise SlurmfabError(
                f"{first} has no python3, which the first contact installs; before that, nothing more can be shown. "
                "Nothing was written or changed."
            )
        raise SlurmfabError(
            f"{failed[first]}\n{first} would be the controller, so nothing was written or changed. "
            "Fix this, or put another host first."
        )


def refuse_incomplete(failed: Mapping[str, HostError]) -> None:
    """Stop if any host did not answer. Raises SlurmfabError if a host did not answer; the message has the reasons."""
    if failed:
        raise SlurmfabError("\n".join([*failures((), failed), "Nothing was changed."]))
