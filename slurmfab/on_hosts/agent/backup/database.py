"""A SQL dump of the accounting database in use, writing nothing on the host, and showing no password."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence, Tuple

from slurmfab.on_hosts.agent.backup.pieces import PIECE_BYTES, Sink, compressed
from slurmfab.on_hosts.agent.core.language import SYSTEM_PATH
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.database.slurmdbd_conf import parse_settings

DUMP_OPTIONS = ("--single-transaction", "--quick", "--skip-lock-tables", "--skip-comments", "--hex-blob")
"""For mariadb-dump(1): one consistent snapshot, row by row, without locks that slurmdbd would wait for."""

CLIENT_ENVIRONMENT = {"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}
"""Environment of database clients; without a home directory they read no option file of root."""

END_MARK = b"-- slurmfab: the end\n"  # the last line of a dump, which shows that the dump is complete


def save_database(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Dump slurmdbd's database as SQL, without making users wait; the manifest says no more of this part.

    `request`: `name` of the database; `settings`: path of the slurmdbd.conf with an external server's login, or empty.
    """
    program = find_client("mariadb-dump", "mysqldump")
    with contextlib.ExitStack() as stack:
        options, descriptors = login(stack, context, request.get("settings", ""))
        process = start_client([program, *options, *DUMP_OPTIONS, "--", request["name"]], descriptors)
        stack.callback(process.wait)
        stack.callback(process.kill)
        errors: List[bytes] = []
        listener = threading.Thread(target=lambda: errors.append(process.stderr.read()), daemon=True)
        listener.start()
        with compressed(sink) as file:
            shutil.copyfileobj(process.stdout, file, PIECE_BYTES)
            code = process.wait()
            listener.join(5)
            if code != 0:
                lines = b"".join(errors).decode(errors="replace").strip().splitlines()
                raise ResourceFailed("%s ended with exit code %d: %s" % (program, code, " | ".join(lines[-2:])))
            file.write(END_MARK)
    return {}


def start_client(argv: Sequence[str], descriptors: Tuple[int, ...], output: Optional[IO[bytes]] = None) -> Any:
    """Start a client of the database, which inherits these file descriptors, with pipes for its output.

    `output`: a file for all that it prints, if it is to read SQL from a pipe.
    """
    import subprocess  # not every part needs it

    return subprocess.Popen(
        argv,
        stdin=subprocess.PIPE if output else subprocess.DEVNULL,
        stdout=output or subprocess.PIPE,
        stderr=output or subprocess.PIPE,
        env=CLIENT_ENVIRONMENT,
        pass_fds=descriptors,
        start_new_session=True,
    )


def find_client(*names: str) -> str:
    """The first of these programs that is installed. Raises ResourceFailed if none is installed."""
    found = next((name for name in names if shutil.which(name, path=SYSTEM_PATH)), None)
    if found is None:
        raise ResourceFailed("%s is not installed; its package is mariadb-client" % names[0])
    return found


def login(stack: contextlib.ExitStack, context: Context, settings: str) -> Tuple[List[str], Tuple[int, ...]]:
    """Login options for a database client.

    The password is passed in an anonymous file in memory, which no other process can open. `settings`: path of
    slurmdbd.conf; empty for this host's server, which needs no options. Returns the options, and the file descriptors
    that the client has to inherit. Raises ResourceFailed if slurmdbd.conf cannot be read.
    """
    if not settings:
        return [], ()
    try:
        with open(context.path(settings), "rb") as file:
            found = parse_settings(file.read())
    except OSError as error:
        raise ResourceFailed("%s cannot be read: %s" % (settings, error.strerror)) from error
    port = "port=%s\n" % found["storageport"] if found.get("storageport") else ""
    text = '[client]\nhost="%s"\nuser="%s"\npassword="%s"\n%s' % (
        *(quoted(found.get(key, "")) for key in ("storagehost", "storageuser", "storagepass")),
        port,
    )
    descriptor = option_file(stack, text)
    return ["--defaults-file=/proc/self/fd/%d" % descriptor], (descriptor,)


def option_file(stack: contextlib.ExitStack, text: str) -> int:
    """Make an anonymous option file in memory, and return its file descriptor, which the client has to inherit."""
    descriptor = os.memfd_create("login")
    stack.callback(os.close, descriptor)
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, text.encode())
    return descriptor


def quoted(value: str) -> str:
    """A value for a quoted setting in an option file of MariaDB."""
    return value.replace("\\", "\\\\").replace('"', '\\"')
