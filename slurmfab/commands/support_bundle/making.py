"""`fab support-bundle`: gathers, takes secrets out, writes the archive, and tells what is in it."""

from __future__ import annotations

import gzip
import io
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from slurmfab.base import atomic_file, bounded_file
from slurmfab.base.archive import format_size
from slurmfab.base.errors import BrokenFile, InputError
from slurmfab.base.exit_codes import DONE, LEFT_OUT
from slurmfab.base.program_name import FAB
from slurmfab.base.terminal import columns, table, write
from slurmfab.cluster.inventory import file_contents, loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.support_bundle import contents, gathering
from slurmfab.commands.support_bundle.gathering import Gathered
from slurmfab.commands.support_bundle.redaction import Filter, is_random
from slurmfab.core.engine import passwords, session
from slurmfab.core.engine.run import RunOptions

SUFFIX = ".tar.gz"
OWNER_ONLY = 0o600
DIRECTORY_MODE = 0o700


def place_of_archive(cluster_file: Path, name: str, to: str) -> Path:
    """The path of a new archive, by default beside the cluster file; InputError if taken, or no directory."""
    path = Path(to) if to else cluster_file.with_name(f"{cluster_file.stem}.support")
    if not to or path.is_dir() or to.endswith(os.sep):
        path /= name + SUFFIX
    if os.path.lexists(path):
        raise InputError(f"{path} exists already; nothing was overwritten. Name another file, or a directory.")
    try:
        with atomic_file.refusing(path.parent):
            if to:
                atomic_file.opened(path.parent, DIRECTORY_MODE).close()
            else:
                atomic_file.opened_own(path.parent, cluster_file, DIRECTORY_MODE).close()
        if not os.access(path.parent, os.W_OK):
            raise InputError(f"{path}: you may not write there. Name another directory with --to.")
    except OSError as error:
        raise InputError(f"{path}: no support bundle can be written there: {error.strerror}.") from error
    return path


def write_archive(path: Path, folder: str, files: Mapping[str, str], made: int) -> int:
    """Write the archive, files in one folder with one time, in one step; its size, or InputError."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=made, filename="") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name, text in sorted(files.items()):
            data = text.encode(errors="replace")
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(data), made, OWNER_ONLY
            tar.addfile(member, io.BytesIO(data))
    atomic_file.write(path, packed.getvalue(), atomic_file.OWNER_ONLY)
    return packed.tell()


LEAST = 4  # characters of the shortest line of a file that counts as secret

MOST_KEY_BYTES = 1 << 16

_BODY = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----([^-]*)-----END")


class Known(NamedTuple):
    """Secrets of this machine."""

    values: tuple[bytes, ...]
    unread: dict[str, str]  # what could not be read, and so was not looked for, by its key in the cluster file


def read_secrets(known: Inventory) -> Known:
    """Read the passwords, keys and private files that a cluster file names."""
    cluster, beside = known.cluster, known.path.parent
    sources: dict[str, Callable[[], Iterator[str]]] = {
        "mail.password_file": lambda: iter([passwords.mail_password(cluster.mail, beside)]),
        "power.how.ipmi.password_file": lambda: iter([passwords.power_password(cluster.power, beside)]),
        "database.password_file": lambda: iter([passwords.database_password(cluster.database, beside)]),
        "directory.sssd.password_file": lambda: iter([passwords.directory_password(cluster.directory, beside)]),
        "registry.password_file": lambda: hashes(passwords.registry_users(cluster.registry, beside)),
        "files": lambda: private_lines(cluster, beside),
        "ssh.key": lambda: own_key(cluster),
    }
    values: dict[str, bool] = {}
    unread: dict[str, str] = {}
    for key, source in sources.items():
        try:
            values.update(dict.fromkeys(source(), True))
        except InputError as error:
            unread[key] = str(error)
    return Known(tuple(value.encode(errors="surrogateescape") for value in values if value), unread)


def hashes(text: str) -> Iterator[str]:
    """Yield the hashes in the lines of an htpasswd file."""
    for line in text.splitlines():
        yield line.partition(":")[2]


def private_lines(cluster: Cluster, beside: Path) -> Iterator[str]:
    """Yield lines, and their values, of the site's files that not everybody may read; InputError if unreadable."""
    for content in file_contents.read(cluster, beside):
        if not cluster.files[content.path].is_secret:
            continue
        for line in map(str.strip, content.text.splitlines()):
            value = re.split(r"[=:\s]", line)[-1].strip("\"'")
            yield from (one for one in (line, value) if len(one) >= LEAST and not line.startswith("#"))


def own_key(cluster: Cluster) -> Iterator[str]:
    """Yield the body of the private key by which slurmfab logs in, where the cluster file names it."""
    if not cluster.ssh.key:
        return
    try:
        text = bounded_file.read(Path(cluster.ssh.key).expanduser(), MOST_KEY_BYTES).decode(errors="replace")
    except (OSError, BrokenFile) as error:
        raise InputError(f"{cluster.ssh.key} cannot be read: {error}.") from None
    yield from ("".join(body.split()) for body in _BODY.findall(text))


@dataclass(frozen=True)
class Written:
    """A support bundle."""

    version: int  # of this format: 1
    file: str  # the archive
    bytes: int  # its size
    files: tuple[str, ...]  # the files in it
    missing: Mapping[str, str]  # hosts that did not answer, each with the reason


def make(cluster: str, hosts: str, to: str, output: session.Output) -> int:
    """Make a support bundle of hosts (empty for all), and print what it has; 3 if a host did not answer.

    Raises InputError for other hosts, or an unwritable path.
    """
    known = loading.load_named(cluster)
    wanted = session.select_hosts(known.cluster, hosts, known.path)
    run = session.start(known, "", output, RunOptions("support-bundle"))
    folder = f"{known.cluster.name}-support-{run.started:%Y%m%dT%H%M%SZ}"
    path = place_of_archive(known.path, folder, to)
    with session.ending(run, tells=False):
        gathered = gathering.gather(run, wanted)
        own = read_secrets(known)
        password = run.transport.sudo.known if hasattr(run.transport, "sudo") else ""
    found = contents.files(known, gathered, own.unread)
    files = cleaned(found, gathered, (*own.values, password.encode()), known.cluster.controllers)
    size = write_archive(path, folder, files, int(run.started.timestamp()))
    tell(path, size, files, gathered, output)
    return LEFT_OUT if gathered.missing else DONE


def cleaned(
    files: Mapping[str, str], gathered: Gathered, own: tuple[bytes, ...], controllers: Iterable[str]
) -> dict[str, str]:
    """The files without secrets of hosts and this machine; missing.txt counts what is left out because of that.

    What a host calls a secret is hidden in the texts of that host, so that it makes no others unreadable. Those of this
    machine and of the controllers, and what is random, are hidden everywhere. `controllers`: the cluster's.
    """
    answers = gathered.answers
    trusted = [answers[host] for host in controllers if host in answers]
    everywhere = Filter(
        (*filter(None, own), *(one for answer in trusted for one in answer.secrets)),
        [text for answer in trusted for text in answer.public],
        [Filter(filter(is_random, answer.secrets), answer.public) for answer in answers.values()],
    )
    of_hosts: dict[str, Filter] = {}
    found: dict[str, str] = {}
    left: list[str] = []
    for name, text in files.items():
        host = name.split("/")[1] if name.startswith("hosts/") else ""
        if host and host not in of_hosts:
            of_hosts = {host: Filter(answers[host].secrets, answers[host].public, [everywhere])}
        found[name], lines = (of_hosts[host] if host else everywhere).clean(text)
        if lines:
            left.append(f"{name}: {lines} lines are left out, because most of each is no text that can be read")
    return {**found, "missing.txt": contents.with_lines(found["missing.txt"], left)}


def tell(path: Path, size: int, files: Mapping[str, str], gathered: Gathered, output: session.Output) -> None:
    """Print what the bundle has, and what not; also as JSON, if that was asked for. `size`: its bytes."""
    parts: dict[str, list[int]] = defaultdict(list)
    for name, text in files.items():
        parts[part_of(name)].append(len(text))
    rows = [("part", "files", "size")]
    rows += [(part, str(len(sizes)), format_size(sum(sizes))) for part, sizes in sorted(parts.items())]
    left = sum(len(answer.left) for answer in gathered.answers.values())
    lines = table(rows, columns(output.stream))
    lines += [f"{host}: left out: {reason}" for host, reason in sorted(gathered.missing.items())]
    lines += [f"{left} files are not there or not whole; missing.txt says why."] if left else []
    lines += [
        f"{path}: {format_size(size)}, readable by you alone. No secrets are in it as far as {FAB} knows them; "
        "names of people and hosts, addresses and host keys are."
    ]
    write("\n".join(lines), output.stream)
    output.write_json(Written(1, str(path), size, tuple(sorted(files)), gathered.missing))


def part_of(name: str) -> str:
    """The part of the bundle that a file belongs to: `hosts: logs`, `runs`, or its own name."""
    words = name.split("/")
    return f"hosts: {words[2]}" if words[0] == "hosts" else words[0]
