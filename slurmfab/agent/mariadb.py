"""Talking to a MariaDB or MySQL server: as root to this host's own, and as anybody else to see whether they get in."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, List, Tuple

from slurmfab.agent.resource import ResourceFailed

if TYPE_CHECKING:
    import ctypes

    from slurmfab.agent.resource import Context

LIBRARY = "libmariadb.so.3"
"""What slurmdbd's MySQL plugin talks with; so whoever gets in here gets in there, be it for TLS or a way to log in."""

ROOT_REFUSED = ("ERROR 1045", "ERROR 1698")
NO_ROOT = (
    ". Let its root in without a password through the socket (ALTER USER root@localhost IDENTIFIED VIA unix_socket), "
    "or keep the server to yourself: in the cluster file, database: {host: HOST, external: localhost, ...}"
)

CONNECT_SECONDS, READ_SECONDS = 10, 20
"""How long a server may take to answer."""

OPT_CONNECT_TIMEOUT, OPT_READ_TIMEOUT, OPT_WRITE_TIMEOUT = 0, 11, 12
"""Numbers of `enum mysql_option` (mysql.h)."""

NOT_FOR_YOU, NO_SUCH_DATABASE = 1044, 1049
"""Error numbers of a server that lets one in, but not to that database (mysqld_error.h)."""

LET_IN = (0, NOT_FOR_YOU, NO_SUCH_DATABASE)
"""What is said to those whose name and password are right."""


def is_here() -> bool:
    """Whether the library is installed, and with it what comes along with slurmdbd."""
    try:
        loaded()
    except ResourceFailed:
        return False
    return True


def sql(context: Context, statements: str) -> List[List[str]]:
    """Have this host's own server do something as its root, and return the rows that it answers, in text.

    Args:
        context: the request's context.
        statements: they go through standard input, so no process list shows them.

    Raises:
        ResourceFailed: there is no client, or the server does not answer, or refuses.
    """
    argv = ["mariadb", "--batch", "--raw", "--skip-column-names", "--protocol=socket", "--user=root"]
    done = context.run(argv, statements.encode())
    if done.returncode != 0:
        raise ResourceFailed(refusal(done.stderr.decode(errors="replace")))
    return [line.split("\t") for line in done.stdout.decode(errors="replace").splitlines()]


def refusal(complaints: str) -> str:
    """Why the server did not do as it was told, and what to try where that is known."""
    said = " | ".join(complaints.strip().splitlines()[-2:]) or "the client gave up"
    advice = NO_ROOT if any(number in said for number in ROOT_REFUSED) else ""
    return "MariaDB on this host: %s%s" % (said, advice)


def quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "''")


def identifier(name: str) -> str:
    """A name as SQL quotes it."""
    return "`%s`" % name.replace("`", "``")


def password_hash(password: str) -> str:
    """What a server keeps of a password (mysql_native_password); statements with it show the password to no log."""
    once = hashlib.sha1(password.encode()).digest()  # noqa: S324 - the server's own way, not ours
    return "*" + hashlib.sha1(once).hexdigest().upper()  # noqa: S324


def login(host: str, port: int, user: str, password: str, database: str) -> Tuple[int, str]:
    """Log in at a server, and look whether the database may be used.

    Args:
        host: address, or `localhost` for this host's own socket.
        port: 0 for the usual one.
        user: as whom.
        password: theirs.
        database: its name.

    Returns:
        Number and text of the server's or library's error; 0 and nothing when all is well.

    Raises:
        ResourceFailed: the library is missing.
    """
    library = loaded()
    handle = library.mysql_init(None)
    if not handle:
        raise ResourceFailed("%s has no memory" % LIBRARY)
    try:
        limit(library, handle)
        words = (host.encode(), user.encode(), password.encode(), None, port, None, 0)
        if not library.mysql_real_connect(handle, *words) or library.mysql_select_db(handle, database.encode()):
            return library.mysql_errno(handle), library.mysql_error(handle).decode(errors="replace")
        return 0, ""
    finally:
        library.mysql_close(handle)


def loaded() -> ctypes.CDLL:
    """The library, with the types of the few functions that matter here (mysql.h).

    Raises:
        ResourceFailed: it is not installed, or python3 cannot load any.
    """
    try:
        import ctypes  # noqa: PLC0415 - few requests need it, and a minimal python3 has none

        library = ctypes.CDLL(LIBRARY)
    except (ImportError, OSError) as error:
        raise ResourceFailed(
            "%s cannot be loaded (%s); are slurmdbd and python3 installed?" % (LIBRARY, error)
        ) from error
    text, number, handle = ctypes.c_char_p, ctypes.c_uint, ctypes.c_void_p
    for name, result, arguments in (
        ("mysql_init", handle, [handle]),
        ("mysql_options", ctypes.c_int, [handle, ctypes.c_int, ctypes.c_void_p]),
        ("mysql_real_connect", handle, [handle, text, text, text, text, number, text, ctypes.c_ulong]),
        ("mysql_select_db", ctypes.c_int, [handle, text]),
        ("mysql_errno", number, [handle]),
        ("mysql_error", text, [handle]),
        ("mysql_close", None, [handle]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def limit(library: ctypes.CDLL, handle: int) -> None:
    """Do not wait for ever for a server that says nothing."""
    import ctypes  # noqa: PLC0415

    for option, seconds in (
        (OPT_CONNECT_TIMEOUT, CONNECT_SECONDS),
        (OPT_READ_TIMEOUT, READ_SECONDS),
        (OPT_WRITE_TIMEOUT, READ_SECONDS),
    ):
        library.mysql_options(handle, option, ctypes.byref(ctypes.c_uint(seconds)))
