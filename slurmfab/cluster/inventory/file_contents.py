"""The contents of the site's own files on hosts (key `files`), templates filled in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile, InputError, refuse
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.files_on_hosts import LARGEST_FILE, LARGEST_SUM, FileOnHosts
from slurmfab.cluster.inventory.named_path import named


class Content(NamedTuple):
    """The content of one of these files, before a template is filled in."""

    path: str
    text: str  # the content; bytes that are not UTF-8 are surrogates


def read(cluster: Cluster, beside: Path) -> tuple[Content, ...]:
    """Read the files that a cluster file names, sorted by path; InputError has a line for each mistake."""
    found: list[Content] = []
    complaints: list[str] = []
    for path, one in sorted(cluster.files.items()):
        try:
            found.append(Content(path, _content(one, beside)))
        except InputError as error:
            complaints.append(f"files.{path}: {error}")
    complaints += _too_much(found)
    refuse(complaints)
    return tuple(found)


def read_whole(cluster: Cluster, beside: Path) -> tuple[Content, ...]:
    """Read the files that a cluster file names, and try its templates; InputError has a line for each mistake."""
    found, complaints = read(cluster, beside), list[str]()
    for content in found:
        one = cluster.files[content.path]
        try:
            for host in cluster.hosts if one.template else ():
                if one.is_on(host, cluster.roles(host)):
                    text_on(cluster, host, content)
        except InputError as error:
            complaints.append(f"files.{content.path}: {error}")
    refuse(complaints)
    return found


def text_on(cluster: Cluster, host: str, content: Content) -> str:
    """The text of a file on one host; a template is filled in. Raises InputError if the template is wrong."""
    if not cluster.files[content.path].template:
        return content.text
    from slurmfab.cluster.inventory import site_templates  # Jinja2 takes long to load, and few files are templates

    try:
        return site_templates.fill(content.text, values(cluster, host))
    except InputError as error:
        source = cluster.files[content.path].source
        raise InputError(f"{source}, {error}" if source else str(error)) from None


def values(cluster: Cluster, host: str) -> Mapping[str, Any]:
    """The values that templates can use on a host."""
    return {
        "cluster": cluster.name,
        "controllers": cluster.controllers,
        "database": cluster.database.host if cluster.database else "",
        "login": cluster.login,
        "compute": cluster.compute_nodes,
        "hosts": cluster.hosts,
        "partitions": tuple(partition.name for partition in cluster.partitions),
        "addresses": {**{name: name for name in cluster.hosts}, **cluster.addresses},
        "host": host,
        "address": cluster.addresses.get(host) or host,
        "roles": cluster.roles(host),
    }


def _content(one: FileOnHosts, beside: Path) -> str:
    """The content of a file. Raises InputError if it cannot be read, and why."""
    if one.source is None:
        return one.text or ""
    path = named(beside, one.source)
    try:
        return bounded_file.read(path, LARGEST_FILE).decode("utf-8", "surrogateescape")
    except BrokenFile:
        raise InputError(f"{path} is not a regular file of at most {LARGEST_FILE >> 10} KiB.") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}.") from None


def _too_much(files: list[Content]) -> Iterator[str]:
    """Yield a complaint if the files together are too large."""
    size = sum(len(one.text) for one in files)
    if size > LARGEST_SUM:
        yield f"files: they have {size >> 10} KiB together; at most {LARGEST_SUM >> 10} KiB are allowed."
