"""`fab support-bundle`: gathers, takes secrets out, writes the archive, and tells what is in it."""

from __future__ import annotations

import getpass
import socket
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypedDict

from slurmfab.archive import format_size
from slurmfab.engine import record, session
from slurmfab.engine.run import Run, RunOptions
from slurmfab.exit_codes import DONE, LEFT_OUT
from slurmfab.inventory import loading
from slurmfab.program_name import FAB
from slurmfab.support_bundle import archive, contents, gathering, known_secrets
from slurmfab.support_bundle.gathering import Gathered
from slurmfab.support_bundle.pseudonyms import Pseudonyms
from slurmfab.support_bundle.redaction import Filter
from slurmfab.terminal import columns, table, write

FIRST_UID, LAST_UID = 1000, 59_999
"""UIDs of people (login.defs(5)); others are users of the system."""

VERSION = 1
"""Version of the JSON format."""


class SupportBundleJson(TypedDict):
    """A support bundle.

    Args:
        version: of this format: 1.
        file: the archive.
        bytes: its size.
        files: the files in it.
        missing: hosts that did not answer, each with the reason.
    """

    version: int
    file: str
    bytes: int
    files: list[str]
    missing: dict[str, str]


def make(cluster: str, hosts: str, to: str, output: session.Output, *, is_anonymous: bool) -> int:
    """Make a support bundle, and print what it has.

    Args:
        cluster: path of the cluster file; empty for the default one.
        hosts: hostlist of the hosts whose files are wanted; empty for all.
        to: a directory, or the path of the archive; empty for the directory beside the cluster file.
        output: the output options.
        is_anonymous: whether users, hosts and addresses get other names.

    Returns:
        The exit code: 3 if a host did not answer.

    Raises:
        InputError: a host is not in the cluster, or the archive cannot be written there.
    """
    known = loading.load_named(cluster)
    wanted = session.select_hosts(known.cluster, hosts, known.path)
    run = session.start(known, "", output, RunOptions("support-bundle"))
    title = "cluster" if is_anonymous else known.cluster.name
    folder = f"{title}-support-{run.started:%Y%m%dT%H%M%SZ}"
    path = archive.place(known.path, folder, to)
    try:
        gathered = gathering.gather(run, wanted)
        own = known_secrets.read(known)
        password = run.transport.sudo.known if hasattr(run.transport, "sudo") else ""
    finally:
        run.progress.end()
        run.transport.close()
    found = contents.files(known, gathered, own.unread, is_anonymous=is_anonymous)
    files = cleaned(found, gathered, (*own.values, password.encode()))
    if is_anonymous:
        files = renamed(files, run, gathered)
    size = archive.write(path, folder, files, int(run.started.timestamp()))
    tell(path, size, files, gathered, output)
    return LEFT_OUT if gathered.missing else DONE


def cleaned(files: Mapping[str, str], gathered: Gathered, own: tuple[bytes, ...]) -> dict[str, str]:
    """The files without secrets.

    Args:
        files: texts by name.
        gathered: the answers of the hosts, with their secrets.
        own: the secrets of this machine.
    """
    secrets = (*filter(None, own), *(one for answer in gathered.answers.values() for one in answer.secrets))
    public = [text for answer in gathered.answers.values() for text in answer.public]
    clean = Filter(dict.fromkeys(secrets), public)
    return {name: clean.text(text) for name, text in files.items()}


def renamed(files: Mapping[str, str], run: Run, gathered: Gathered) -> dict[str, str]:
    """The files with other names of users, hosts and addresses, in their own names, too."""
    domains = {domain for answer in gathered.answers.values() for domain in answer.domains}
    own_host = socket.gethostname().partition(".")[0]
    hosts = dict.fromkeys((*run.inventory.cluster.hosts, own_host))
    names = Pseudonyms(hosts, users(run, gathered), domains)
    return {names.text(name): names.text(text) for name, text in files.items()}


def users(run: Run, gathered: Gathered) -> Iterator[str]:
    """Yield the names of the people whom the cluster file, the hosts or the records of runs name."""
    cluster = run.inventory.cluster
    yield from (user.name for user in cluster.users)
    yield from filter(None, (cluster.ssh.user, getpass.getuser()))
    for one in record.load_all(run.inventory.path)[0]:
        yield one.by.partition("@")[0]
    for answer in gathered.answers.values():
        uids = answer.facts.uids if answer.facts else {}
        yield from (name for uid, name in uids.items() if FIRST_UID <= uid <= LAST_UID)


def tell(path: Path, size: int, files: Mapping[str, str], gathered: Gathered, output: session.Output) -> None:
    """Print what the bundle has, and what not; also as JSON, if that was asked for.

    Args:
        path: the archive.
        size: its bytes.
        files: texts by name.
        gathered: the answers of the hosts.
        output: the output options.
    """
    parts: dict[str, list[int]] = defaultdict(list)
    for name, text in files.items():
        parts[part_of(name)].append(len(text))
    rows = [("part", "files", "size")]
    rows += [(part, str(len(sizes)), format_size(sum(sizes))) for part, sizes in sorted(parts.items())]
    left = sum(len(answer.left) for answer in gathered.answers.values())
    lines = table(rows, columns(output.stream))
    lines += [f"{host}: left out: {reason}" for host, reason in sorted(gathered.missing.items())]
    lines += [f"{left} files are not there or not whole; missing.txt says why."] if left else []
    lines += [f"{path}: {format_size(size)}, readable by you alone. No secrets are in it as far as {FAB} knows them."]
    write("\n".join(lines), output.stream)
    values: SupportBundleJson = {
        "version": VERSION, "file": str(path), "bytes": size, "files": sorted(files), "missing": dict(gathered.missing)
    }  # fmt: skip
    output.write_json(values)


def part_of(name: str) -> str:
    """The part of the bundle that a file belongs to: `hosts: logs`, `runs`, or its own name."""
    words = name.split("/")
    return f"hosts: {words[2]}" if words[0] == "hosts" else words[0]
