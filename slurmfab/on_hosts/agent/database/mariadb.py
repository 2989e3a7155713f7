"""Access to a MariaDB or MySQL server: as root on this host, and as any user to test a login."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, List, Tuple

from slurmfab.on_hosts.agent.core.resource import ResourceFailed

if TYPE_CHECKING:
    import ctypes

    from slurmfab.on_hosts.agent.core.resource import Context

LIBRARY = "libmariadb.so.3"
"""The library that slurmdbd's MySQL plugin uses, so that a login that works here works for slurmdbd."""

ROOT_REFUSED = ("ERROR 1045", "ERROR 1698")
NO_ROOT = (
    ". Allow its root user to log in through the socket without a password (ALTER USER root@localhost IDENTIFIED VIA "
    "unix_socket), or manage the server yourself: in the cluster file, database: {host: HOST, external: localhost, ...}"
)

CONNECT_SECONDS, READ_SECONDS = 10, 20  # time that a server gets to accept a connection, and to answer
OPT_CONNECT_TIMEOUT, OPT_READ_TIMEOUT, OPT_WRITE_TIMEOUT = 0, 11, 12  # numbers of `enum mysql_option` (mysql.h)

ACCESS_DENIED, NO_SUCH_DATABASE = 1044, 1049
"""Error numbers after a valid login to a database that is not allowed, or does not exist (mysqld_error.h)."""

LOGIN_ACCEPTED = (0, ACCESS_DENIED, NO_SUCH_DATABASE)  # error numbers for which user and password are right


def is_installed() -> bool:
    """Whether the library can be loaded; it comes with slurmdbd's packages."""
    try:
        load_library()
    except ResourceFailed:
        return False
    return True


def sql(context: Context, statements: str, seconds: float = 60.0) -> List[List[str]]:
    """Run statements by standard input as root on this host's server: rows of texts.

    Raises ResourceFailed if there is no client, or the server refuses, or does not answer in time.
    """
    argv = ["mariadb", "--batch", "--raw", "--skip-column-names", "--protocol=socket", "--user=root"]
    done = context.run(argv, statements.encode(), seconds)
    if done.returncode != 0:
        raise ResourceFailed(explain_error(done.stderr.decode(errors="replace")))
    return [line.split("\t") for line in done.stdout.decode(errors="replace").splitlines()]


def explain_error(errors: str) -> str:
    """The server's error in one line, with advice where the cause is known."""
    text = " | ".join(errors.strip().splitlines()[-2:]) or "the client failed without an error message"
    advice = NO_ROOT if any(number in text for number in ROOT_REFUSED) else ""
    return "MariaDB on this host: %s%s" % (text, advice)


def quoted(text: str) -> str:
    """A text as an SQL literal."""
    return "'%s'" % text.replace("\\", "\\\\").replace("'", "''")


def identifier(name: str) -> str:
    """A name as an SQL identifier."""
    return "`%s`" % name.replace("`", "``")


def password_hash(password: str) -> str:
    """The hash that a server stores for a password (mysql_native_password), so that no log gets the password itself."""
    once = hashlib.sha1(password.encode()).digest()  # noqa: S324 - the server's own way, not ours
    return "*" + hashlib.sha1(once).hexdigest().upper()  # noqa: S324


def login(host: str, port: int, user: str, password: str, database: str) -> Tuple[int, str]:
    """Log in to a server (`localhost`: by socket; port 0: default) and a database; number and text of the error, or 0.

    Raises ResourceFailed if the library is missing.
    """
    return ask(host, port, user, password, database)[:2]


def ask(host: str, port: int, user: str, password: str, database: str, *, statement: str = "") -> Tuple[int, str, str]:
    """The same with a statement, and the first value that it gives; empty if there is none."""
    library = load_library()
    handle = library.mysql_init(None)
    if not handle:
        raise ResourceFailed("%s: out of memory" % LIBRARY)
    try:
        set_timeouts(library, handle)
        arguments = (host.encode(), user.encode(), password.encode(), None, port, None, 0)
        if (
            not library.mysql_real_connect(handle, *arguments)
            or library.mysql_select_db(handle, database.encode())
            or (statement and library.mysql_query(handle, statement.encode()))
        ):
            return library.mysql_errno(handle), library.mysql_error(handle).decode(errors="replace"), ""
        rows = library.mysql_store_result(handle) if statement else None
        if not rows:
            return 0, "", ""
        row = library.mysql_fetch_row(rows)
        found = (row[0] or b"").decode(errors="replace") if row else ""
        library.mysql_free_result(rows)
        return 0, "", found
    finally:
        library.mysql_close(handle)


def load_library() -> ctypes.CDLL:
    """The library with the types used here (mysql.h); ResourceFailed if it or python3's loader is missing."""
    try:
        import ctypes  # few requests need it, and a minimal python3 has none

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
        ("mysql_query", ctypes.c_int, [handle, text]),
        ("mysql_store_result", handle, [handle]),
        ("mysql_fetch_row", ctypes.POINTER(text), [handle]),
        ("mysql_free_result", None, [handle]),
        ("mysql_close", None, [handle]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


def set_timeouts(library: ctypes.CDLL, handle: int) -> None:
    """Set timeouts, so that a server that does not answer cannot block the agent."""
    import ctypes

    for option, seconds in (
        (OPT_CONNECT_TIMEOUT, CONNECT_SECONDS),
        (OPT_READ_TIMEOUT, READ_SECONDS),
        (OPT_WRITE_TIMEOUT, READ_SECONDS),
    ):
        library.mysql_options(handle, option, ctypes.byref(ctypes.c_uint(seconds)))
