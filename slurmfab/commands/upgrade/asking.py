"""Asks the hosts what an upgrade is planned from: each what it has, and what apt offers it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from slurmfab.base.errors import SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.base.program_name import FAB
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import repository_key
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.slurm_packages import AptRepository, DnfRepository, OtherSuite, SlurmPackages
from slurmfab.cluster.slurm import platform
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.upgrade.asked import Asked, HostState, Offer, host_state, offer
from slurmfab.core.engine import requests
from slurmfab.core.engine.job_waiting import nodes_and_jobs
from slurmfab.core.engine.run import Run
from slurmfab.core.plan.hand_made_files import is_hand_made
from slurmfab.core.plan.phases import slurm_source
from slurmfab.hosts.fan_out import on_each
from slurmfab.hosts.session import answer_value
from slurmfab.on_hosts.agent.database.slurmdbd_conf import PATH as SLURMDBD_CONF

DATABASE = "/var/lib/mysql"
"""The database server's directory, whose room matters."""


def ask(run: Run, target: SlurmPackages, version: str, suite: str) -> Asked:
    """Ask the hosts of a run; nothing is changed.

    `version`: the version that hosts are asked for; empty for any of the suite. `suite`: the suite that was named;
    empty for none. Raises SlurmfabError if the controller or the database's host does not answer, or nothing is
    deployed there.
    """
    facts = requests.gather(run, run.hosts, may_prepare=False)
    cluster = run.inventory.cluster
    controller = facts[run.controller]
    if not controller.slurm_conf:
        raise SlurmfabError(f"{run.controller}: nothing is deployed there yet. First: {FAB} deploy.")
    state = parse(controller.slurm_conf).settings.get("statesavelocation", cluster.state_directory)
    hosts = ask_hosts(run, facts, state)
    offered = offers(run, hosts, target, version)
    return Asked(
        cluster,
        target,
        version,
        suite,
        hosts,
        offered,
        controller.slurm_conf,
        controller.cgroup_conf,
        is_hand_made(controller.slurm_conf),
        {host: str(error).removeprefix(f"{host}: ") for host, error in run.failed_hosts.items()},
        facts,
        run.inventory.lock.upgrade is not None,
        out_of_service(run),
    )


def out_of_service(run: Run) -> dict[str, str]:
    """State and reason of each node on which Slurm starts no jobs; nothing where slurmctld cannot be asked."""
    try:
        slurm = nodes_and_jobs(run)
    except SlurmfabError:
        return {}
    out = [(node.name, node.state) for node in slurm.nodes if not node.state.is_in_service]
    return {name: f"{state.description}{f' ({state.reason})' if state.reason else ''}" for name, state in out}


def ask_hosts(run: Run, facts: Mapping[str, HostFacts], state: str) -> dict[str, HostState]:
    """What each host has, in the file's order; SlurmfabError without controller or database host."""
    run.progress.begin("reading versions", tuple(facts))
    hosts: dict[str, HostState] = {}
    for host, answer in on_each(facts, lambda host: ask_host(run, facts[host], state)):
        if isinstance(answer, SlurmfabError):
            run.exclude(host, answer)
        else:
            hosts[host] = answer
            run.progress.host_done(host)
    run.require_controller()
    cluster = run.inventory.cluster
    missing = [host for host in cluster.database_hosts if host not in hosts]
    if missing:
        raise SlurmfabError(f"{missing[0]} has the accounting database, and did not answer. Nothing was changed.")
    return {host: hosts[host] for host in cluster.hosts if host in hosts}


def place_of(cluster: Cluster, host: str) -> dict[str, Any]:
    """Where Slurm's packages are on a host, for the agent."""
    kind = platform.wanted(cluster, host)
    return {
        "manager": kind.manager.name,
        "names": kind.slurm_packages,
        "plugins": [f"{kind.libraries}/{kind.plugin_directory}"],
        "programs": kind.programs,
    }


def ask_host(run: Run, facts: HostFacts, state: str) -> HostState:
    """Ask one host what it has. Raises HostError if it does not answer, or its answer was refused."""
    cluster, host = run.inventory.cluster, facts.name
    archives = platform.wanted(cluster, host).manager.archives
    request: dict[str, Any] = {"op": "upgrade", **place_of(cluster, host), "paths": [archives]}
    if host in cluster.controllers:
        request |= {"state": state, "jobs": host == run.controller}
    if cluster.database and host in cluster.database_hosts:
        request |= {"database": cluster.database.name, "paths": [archives, DATABASE]}
        request |= {"settings": SLURMDBD_CONF} if cluster.database.external else {}
    answer = answer_value(host, run.transport.call(host, request), "upgrade")
    return host_state(release_of(facts), answer)


def release_of(facts: HostFacts) -> str:
    """The release and architecture of a host, by which hosts get the same packages."""
    return f"{facts.codename or facts.os_id} {facts.architecture}"


def offers(run: Run, hosts: Mapping[str, HostState], target: SlurmPackages, version: str) -> dict[str, Offer]:
    """What apt would install on each host with Slurm's packages: as it says itself, since root would install it there.

    Of hosts with equal packages, one fetches the new ones to see their plugins. `target`: the key `slurm` as the
    upgrade would leave it. Raises InputError if a named file cannot be used.
    """
    alike = grouped(((state.release, state.digest), host) for host, state in hosts.items() if state.packages)
    fetch = {some[0] for some in alike.values()}
    wanted = replace(run.inventory, cluster=run.inventory.cluster.with_slurm(target))
    asked = [host for host, state in hosts.items() if state.packages]
    requests_by_host = {
        host: {**offer_request(wanted, host, version), **({} if host in fetch else {"plugins": []})} for host in asked
    }
    run.progress.begin(f"asking {managers(wanted.cluster, asked)}", tuple(asked))
    found: dict[str, Offer] = {}
    for host, answer in on_each(asked, lambda host: ask_offer(run, host, requests_by_host[host])):
        found[host] = Offer(trouble=str(answer)) if isinstance(answer, SlurmfabError) else answer
        run.progress.host_done(host)
    return {host: found[host] for host in asked if host in found}


def managers(cluster: Cluster, hosts: Iterable[str]) -> str:
    """The names of the package managers of hosts, for people."""
    return " and ".join(sorted({platform.wanted(cluster, host).manager.name for host in hosts}))


def offer_request(wanted: Inventory, host: str, version: str) -> dict[str, Any]:
    """What a host is asked: what its package manager would install.

    `wanted`: with the cluster as the upgrade leaves it. `version`: for hosts with the cluster's packages.
    """
    slurm = wanted.cluster.slurm_of(host)
    version = version if slurm == wanted.cluster.slurm else slurm.version or version
    return {"op": "upgrade-offer", **place_of(wanted.cluster, host), "version": version, **source_of(wanted, host)}


def ask_offer(run: Run, host: str, request: Mapping[str, Any]) -> Offer:
    """Ask one host what apt would install. Raises HostError if it does not answer, or its answer was refused."""
    return offer(answer_value(host, run.transport.call(host, request), "upgrade_offer"))


def source_of(wanted: Inventory, host: str) -> dict[str, str]:
    """The packages' source for the agent; empty for the host's own, InputError if its key file cannot be used."""
    slurm = wanted.cluster.slurm_of(host)
    source = slurm.source
    if isinstance(source, OtherSuite):
        return {"suite": source.suite}
    if isinstance(source, DnfRepository):
        return slurm_source.asked_of_dnf(slurm, repository_key.read(wanted))
    if isinstance(source, AptRepository):
        lines = ["Types: deb", f"URIs: {' '.join(source.uris)}", f"Suites: {' '.join(source.suites)}"]
        lines += [f"Components: {' '.join(source.components)}"] if source.components else []
        return {"stanza": "\n".join(lines), "key": repository_key.read(wanted)[source.key]}
    return {}
