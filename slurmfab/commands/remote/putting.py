"""`fab put`: a file to many hosts at once, whole or not at all."""

from __future__ import annotations

import base64
import posixpath
import re
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from slurmfab.base import bounded_file
from slurmfab.base.errors import BrokenFile, HostError, InputError, SlurmfabError, Unreachable
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.base.folding import fold_lines
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.json_output import shows
from slurmfab.base.terminal import write
from slurmfab.cluster.inventory import loading
from slurmfab.commands.remote.running import Where, reaching
from slurmfab.core.engine import session
from slurmfab.core.engine.actor import who
from slurmfab.core.engine.requests import outcomes_of
from slurmfab.core.status import selection
from slurmfab.hosts.fan_out import FAN_OUT, on_each
from slurmfab.on_hosts.agent.core.resource import FAILED, as_request
from slurmfab.on_hosts.agent.files.file import File

MOST_BYTES = 32 << 20  # the largest file; hosts compare it with theirs, and read no more than twice as much
MOST_UNDER_WAY = 512 << 20  # the most bytes that are on their way at once, which bounds how many hosts get them
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\$?|[0-9]{1,10}")
MODE = re.compile(r"[0-7]{3,4}")


@dataclass(frozen=True)
class Access:
    """Owner, group and mode of a file, as they were given; empty for root, and for the mode of the file here."""

    owner: str = ""
    group: str = ""
    mode: str = ""


@shows("host", "status", "error")
@dataclass(frozen=True)
class HostGot:
    """A host, and whether it has the file."""

    host: str  # its name
    status: str  # `ok` where it was there already, `changed`, `failed`, or `unreachable`
    error: str  # why it does not have it; empty if it has


@shows("version", "cluster", "file", "destination", "exit_code", "hosts")
@dataclass(frozen=True)
class PutOnHosts:
    """A file on many hosts."""

    version: ClassVar[int] = 1  # of this format: 1
    cluster: str  # its name
    file: str  # the file here
    destination: str  # its path on hosts
    hosts: tuple[HostGot, ...]  # in the order of the cluster

    @property
    def exit_code(self) -> int:
        """1 if a host that answered does not have the file, else 3 if a host could not be reached, else 0."""
        statuses = {one.status for one in self.hosts}
        return FAILURE if FAILED in statuses else LEFT_OUT if "unreachable" in statuses else DONE


def put(cluster: str, file: str, destination: str, access: Access, output: session.Output, *, where: Where) -> int:
    """Put a file on hosts, show which had it, and return the exit code. Raises InputError for what cannot be put."""
    wanted = resource_for(file, destination, access)
    known = loading.load_named(cluster)
    request = {"op": "apply", "dry_run": False, "who": f"{who()}, fab put", "resources": [as_request(wanted)]}
    found: dict[str, HostGot] = {}
    with reaching(known, output) as transport:
        hosts = selection.chosen(known, *where, nodes=lambda: selection.ask_nodes(known, transport))
        at_once = max(1, min(FAN_OUT, MOST_UNDER_WAY // max(1, 2 * len(wanted.content))))

        def on_host(host: str) -> HostGot:
            try:
                (outcome,) = outcomes_of(host, transport.call(host, request), (wanted,))
            except HostError as error:
                return HostGot(host, "unreachable" if isinstance(error, Unreachable) else FAILED, error.reason)
            finally:
                transport.forget(host)
            return HostGot(host, outcome.status, outcome.message if outcome.status == FAILED else "")

        for host, outcome in on_each(hosts, on_host, at_once):
            if isinstance(outcome, SlurmfabError):
                raise outcome
            found[host] = outcome
    done = PutOnHosts(known.cluster.name, file, destination, tuple(found[host] for host in hosts))
    show(done.hosts, destination, output)
    output.write_json(done)
    return done.exit_code


def resource_for(file: str, destination: str, access: Access) -> File:
    """The file as hosts are to have it. Raises InputError if the file or what was said about it is unfit."""
    path = Path(file).expanduser()
    try:
        content, status = bounded_file.read(path, MOST_BYTES), path.stat()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}.") from None
    except BrokenFile as error:
        raise InputError(f"{error} Larger files go by rsync with `fab ssh-config`.") from None
    target = posixpath.join(destination, path.name) if destination.endswith("/") else destination
    if not target.startswith("/") or posixpath.normpath(target) != target or not target.isprintable():
        raise InputError(f"{destination}: give an absolute path without . and .. (with / at its end, a directory).")
    mode = access.mode or f"{stat.S_IMODE(status.st_mode):04o}"
    if not MODE.fullmatch(mode):
        raise InputError(f"--mode {mode}: this is no mode. Write it in octal digits, such as 0644.")
    for option, name in (("--owner", access.owner), ("--group", access.group)):
        if name and not NAME.fullmatch(name):
            raise InputError(f"{option} {name}: this is no name of a user or a group.")
    return File(
        path=target,
        content=base64.b64encode(content).decode(),
        encoding="base64",
        owner=access.owner or "root",
        group=access.group or "root",
        mode=int(mode, 8),
    )


def show(hosts: Sequence[HostGot], destination: str, output: session.Output) -> None:
    """Print which hosts have got the file, and why others have not."""
    for status, same in grouped((one.status, one.host) for one in hosts if not one.error).items():
        write(f"{fold(same)}: {destination} {'was there already' if status == 'ok' else status}", output.stream)
    for line in fold_lines((one.host, one.error) for one in hosts if one.error):
        write(line, sys.stderr)
