"""Sending packages in files beside the cluster file to the hosts that lack them, where no bundle has them.

They go over the SSH connections that are open already, in pieces that are read when they are sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from slurmfab.base.errors import AgentFailed
from slurmfab.cluster.inventory.deb_files import DebFile
from slurmfab.commands.bundle.selection import lacking
from slurmfab.commands.bundle.sending import PIECE_BYTES, PackageFile, SentBytes, request_step, send_file, send_to_each
from slurmfab.core.plan.phases.packages import own, wanted
from slurmfab.core.plan.phases.slurm_source import in_files
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.packages.bundle_place import digest_of
from slurmfab.on_hosts.agent.packages.packages import Packages

if TYPE_CHECKING:
    from slurmfab.core.engine.run import Run
    from slurmfab.core.plan.plan_input import PlanInput

Files = tuple[tuple[DebFile, str], ...]  # packages, each with the SHA-256 of its file


def refusals(plan_input: PlanInput, hosts: Iterable[str]) -> dict[str, str]:
    """The hosts, if they have facts, that lack a package whose file is for another architecture, and why."""
    reasons = {}
    for host in hosts:
        there = plan_input.facts[host].architecture if host in plan_input.facts else ""
        wrong = [one for one in needed(plan_input, host) if there and not one.is_for(there)]
        if wrong:
            reasons[host] = (
                f"{wrong[0].path} is for {wrong[0].architecture}, and the host is {there}. Give it one of its own: "
                "groups under packages. Nothing was changed there."
            )
    return reasons


def needed(plan_input: PlanInput, host: str) -> tuple[DebFile, ...]:
    """The packages in files that a host lacks, or has in another version; empty without facts of it."""
    if host not in plan_input.facts:
        return ()
    absent = set(lacking(plan_input, host))
    files = plan_input.deb_files
    return (
        *(files[one.file] for one in own(plan_input, host) if one.file in files and one.name in absent),
        *(one for one in in_files(plan_input, host, wanted(plan_input, host)) if one.name in absent),
    )


def deliver(
    run: Run, plan_input: PlanInput, resources: Mapping[str, tuple[Resource, ...]]
) -> dict[str, tuple[Resource, ...]]:
    """Send packages to the hosts that lack some, before a phase installs them.

    `resources`: the resources of the phase, by host. Returns the resources by host, whose packages are installed from
    the files that were sent. Raises InputError if a file cannot be read any more.
    """
    wanted = {host: needed(plan_input, host) for host in resources}
    digests = {path: one.digest() for path, one in {one.path: one for some in wanted.values() for one in some}.items()}
    needing = {host: tuple((one, digests[one.path]) for one in files) for host, files in wanted.items() if files}
    if needing:
        send_to_each(run, needing, lambda host, sent: send_to_host(run, host, needing[host], sent))
    return {
        host: tuple(from_files(one, needing.get(host, ())) for one in given)
        for host, given in resources.items()
        if host not in run.failed_hosts
    }


def from_files(resource: Resource, files: Files) -> Resource:
    """A resource that installs these packages from their files; resources of other kinds are unchanged."""
    if not isinstance(resource, Packages) or not files:
        return resource
    return replace(resource, files=tuple((one.name, one.file_name, sha256) for one, sha256 in files))


def send_to_host(run: Run, host: str, files: Files, sent: SentBytes) -> None:
    """Send a host the files that it lacks; HostError of the host, InputError if a file is unreadable now."""
    digest = digest_of((one.file_name, sha256) for one, sha256 in files)
    names = {one.file_name: sha256 for one, sha256 in files}
    sizes = [sum(one.size for one, _ in files), sum(one.installed_bytes for one, _ in files)]
    answer = request_step(run, host, digest, {"do": "begin-files", "files": names, "bytes": sizes})
    by_name = {one.file_name: (one, sha256) for one, sha256 in files}
    for name in answer["lacking"]:
        if name not in by_name:
            raise AgentFailed(host, f"it asks for {name!r:.80}, which is not for it. This is a bug; please report it.")
        one, sha256 = by_name[name]
        send_file(run, host, digest, PackageFile(name, one.size, sha256, one.pieces(PIECE_BYTES)), sent)
