"""The accounting database as a text of SQL, read while slurmdbd works with it.

Nothing is written on the host, and a password is in no argument, no variable and no file that others could open.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from slurmfab.agent.backup_pieces import PIECE, Sink, compressed
from slurmfab.agent.resource import SYSTEM_PATH, Context, ResourceFailed

DUMP = ("--single-transaction", "--quick", "--skip-lock-tables", "--skip-comments", "--hex-blob")
"""mariadb-dump(1): one view of the database, row by row, and no lock that slurmdbd would have to wait for."""

END = b"-- slurmfab: the end\n"
"""The last line of a dump, by which one that was cut off is told from a whole one."""


def save_database(request: Mapping[str, Any], context: Context, sink: Sink) -> Dict[str, Any]:
    """Save the database of slurmdbd, as a text of SQL; nobody who uses it has to wait.

    Args:
        request: `name`: of the database. `settings`: for one on another server, the slurmdbd.conf that says how to log
            in; empty for the one of this host, where root needs no password.
        context: knows where files are.
        sink: takes the text, compressed.

    Raises:
        ResourceFailed: it cannot be read.
    """
    program = client("mariadb-dump", "mysqldump")
    with contextlib.ExitStack() as stack:
        options, descriptors = login(stack, context, request.get("settings", ""))
        process = started([program, *options, *DUMP, "--", request["name"]], descriptors)
        stack.callback(process.wait)
        stack.callback(process.kill)
        words: List[bytes] = []
        listener = threading.Thread(target=lambda: words.append(process.stderr.read()), daemon=True)
        listener.start()
        with compressed(sink) as file:
            shutil.copyfileobj(process.stdout, file, PIECE)
            code = process.wait()
            listener.join(5)
            if code != 0:
                said = b"".join(words).decode(errors="replace").strip().splitlines()
                raise ResourceFailed("%s ended with exit code %d: %s" % (program, code, " | ".join(said[-2:])))
            file.write(END)
    return {}


def started(argv: Sequence[str], descriptors: Tuple[int, ...]) -> Any:
    """A running program that inherits these descriptors and whose output can be read."""
    import subprocess  # noqa: PLC0415 - not every part needs it

    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": SYSTEM_PATH, "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"},
        pass_fds=descriptors,
        start_new_session=True,
    )


def client(*names: str) -> str:
    """The first of these programs that is installed.

    Raises:
        ResourceFailed: none is.
    """
    found = next((name for name in names if shutil.which(name, path=SYSTEM_PATH)), None)
    if found is None:
        raise ResourceFailed("%s is not installed; its package is mariadb-client" % names[0])
    return found


def login(stack: contextlib.ExitStack, context: Context, settings: str) -> Tuple[List[str], Tuple[int, ...]]:
    """The options of a database client, and the descriptors that it inherits for them.

    The password is in a file in memory that nobody else can open.
    """
    if not settings:
        return [], ()
    said = slurmdbd_settings(context.path(settings))
    port = "port=%s\n" % said["storageport"] if said.get("storageport") else ""
    text = '[client]\nhost="%s"\nuser="%s"\npassword="%s"\n%s' % (
        *(quoted(said.get(key, "")) for key in ("storagehost", "storageuser", "storagepass")),
        port,
    )
    descriptor = os.memfd_create("login")
    stack.callback(os.close, descriptor)
    os.fchmod(descriptor, 0o600)
    os.write(descriptor, text.encode())
    return ["--defaults-file=/proc/self/fd/%d" % descriptor], (descriptor,)


def quoted(value: str) -> str:
    """A value for between the quotes of an option file of MariaDB's."""
    return value.replace("\\", "\\\\").replace('"', '\\"')


def slurmdbd_settings(path: str) -> Dict[str, str]:
    """The settings of a slurmdbd.conf, by their names in lower case.

    Raises:
        ResourceFailed: it cannot be read.
    """
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = [line.strip().partition("=") for line in file if not line.lstrip().startswith("#")]
    except OSError as error:
        raise ResourceFailed("%s cannot be read: %s" % (path, error.strerror)) from error
    return {key.strip().lower(): value.strip().strip('"') for key, _, value in lines if value}
