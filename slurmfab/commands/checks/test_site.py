"""Checks of the site's own packages and files on hosts."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import deb_files, file_contents
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.site_packages import Wanted
from slurmfab.commands.checks.applies import DoesNotApply, Drifted
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.impact.drift_kinds import CHANGED_FILE
from slurmfab.on_hosts.agent.packages.packages import is_version


def test_packages_of_the_site_are_installed(host: CheckedHost, inventory: Inventory) -> None:
    """the packages of the cluster file are installed"""
    cluster = inventory.cluster
    wanted = cluster.packages.of_host(host.name, cluster.roles(host.name))
    if not wanted:
        raise DoesNotApply("the cluster file has none for this host")
    files = deb_files.read(inventory) if any(one.file for one in wanted) else {}
    wanted = tuple(one._replace(version=files[one.file].version) if one.file else one for one in wanted)
    wrong = [why for one in wanted if (why := wrong_package(host, one))]
    assert not wrong, f"{'; '.join(wrong)}. Repair: {deploy(host.name)}"


def wrong_package(host: CheckedHost, wanted: Wanted) -> str:
    """What is wrong with a package on a host; empty if nothing is."""
    package = host.package(wanted.name)
    if not package.is_installed:
        return f"{wanted.name} is missing"
    if wanted.version and not is_version(package.version, wanted.version):
        return f"{wanted.name} has version {package.version}, not {wanted.version}"
    return ""


def test_files_of_the_site_are_as_the_cluster_file_says(host: CheckedHost, inventory: Inventory) -> None:
    """the site's own files match the cluster file"""
    wanted = wanted_files(inventory, host.name)
    if not wanted:
        raise DoesNotApply("the cluster file has none for this host")
    wrong = [
        f"{path} {'differs from' if host.file(path).exists else 'is missing, unlike in'} the cluster file"
        for path, one in wanted.items()
        if file_on(host, path) != one
    ]
    if wrong:
        raise Drifted(CHANGED_FILE, f"{'; '.join(wrong)}. Repair: {FAB} plan shows the difference, {FAB} deploy")


class Seen(NamedTuple):
    """What is compared of a file."""

    owner: str
    group: str
    mode: int
    digest: str  # SHA-256


def file_on(host: CheckedHost, path: str) -> Seen | None:
    """A file of a host; `None` if it is not there, or a link."""
    file = host.file(path)
    if file.is_symlink or not file.exists:
        return None
    return Seen(file.user, file.group, file.mode, file.sha256sum)


def wanted_files(inventory: Inventory, host: str) -> dict[str, Seen]:
    """The site's own files of a host, by path; InputError if one of them cannot be read here."""
    cluster, found = inventory.cluster, dict[str, Seen]()
    for content in file_contents.read(cluster, inventory.path.parent) if cluster.files else ():
        one = cluster.files[content.path]
        if one.is_on(host, cluster.roles(host)):
            text = file_contents.text_on(cluster, host, content)
            digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
            found[content.path] = Seen(one.owner, one.group, one.bits, digest)
    return found
