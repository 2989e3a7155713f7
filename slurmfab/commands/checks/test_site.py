"""Checks of the site's own packages and files on hosts."""

from __future__ import annotations

import hashlib

from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory import deb_files, file_contents
from slurmfab.cluster.inventory.files_on_hosts import FileOnHosts
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.checks.applies import DoesNotApply
from slurmfab.commands.checks.drifted import Drifted
from slurmfab.commands.checks.hosts import CheckedHost
from slurmfab.commands.checks.wanted import deploy
from slurmfab.core.impact.drift_kinds import CHANGED_FILE
from slurmfab.on_hosts.agent.packages.installed_packages import is_version


def test_packages_of_the_site_are_installed(host: CheckedHost, inventory: Inventory) -> None:
    """the packages of the cluster file are installed"""
    cluster = inventory.cluster
    wanted = cluster.packages.of_host(host.name, cluster.roles(host.name))
    if not wanted:
        raise DoesNotApply("the cluster file has none for this host")
    files = deb_files.read(inventory) if any(one.file for one in wanted) else {}
    wanted = tuple(one._replace(version=files[one.file].version) if one.file else one for one in wanted)
    names = " ".join(one.name for one in wanted)
    answer = host.as_found.ask(
        f"dpkg-query --show --showformat '${{db:Status-Status}} ${{Package}} ${{Version}}\\n' {names} 2>/dev/null; :"
    )
    lines = (line.split() for line in answer.splitlines())
    there = {name: version for state, name, version in lines if state == "installed"}
    wrong = [
        f"{one.name} has version {there[one.name]}, not {one.version}"
        if one.name in there
        else f"{one.name} is missing"
        for one in wanted
        if one.name not in there or (one.version and not is_version(there[one.name], one.version))
    ]
    assert not wrong, f"{'; '.join(wrong)}. Repair: {deploy(host.name)}"


def test_files_of_the_site_are_as_the_cluster_file_says(host: CheckedHost, inventory: Inventory) -> None:
    """the site's own files match the cluster file"""
    wanted = wanted_files(inventory, host.name)
    if not wanted:
        raise DoesNotApply("the cluster file has none for this host")
    paths = " ".join(wanted)
    answer = host.as_found.ask(
        f"stat -c '%n %U:%G 0%a' {paths} 2>/dev/null; sha256sum {paths} 2>/dev/null | awk '{{print $2, $1}}'; :"
    )
    there = set(answer.splitlines())
    wrong = [
        f"{path} {'differs from' if any(line.startswith(f'{path} ') for line in there) else 'is missing, unlike in'} "
        "the cluster file"
        for path, lines in wanted.items()
        if not lines <= there
    ]
    if wrong:
        raise Drifted(CHANGED_FILE, f"{'; '.join(wrong)}. Repair: {FAB} plan shows the difference, {FAB} deploy")


def wanted_files(inventory: Inventory, host: str) -> dict[str, set[str]]:
    """By path, the two lines that describe a file of a host: its owner and mode, and its SHA-256.

    Raises:
        InputError: one of the files cannot be read here.
    """
    cluster, found = inventory.cluster, dict[str, set[str]]()
    for content in file_contents.read(cluster, inventory.path.parent) if cluster.files else ():
        one = cluster.files[content.path]
        if one.is_on(host, cluster.roles(host)):
            text = file_contents.text_on(cluster, host, content)
            digest = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
            found[content.path] = {f"{content.path} {access(one)}", f"{content.path} {digest}"}
    return found


def access(one: FileOnHosts) -> str:
    """Owner, group and mode of a file as `stat` prints them."""
    return f"{one.owner}:{one.group} 0{one.bits:o}"
