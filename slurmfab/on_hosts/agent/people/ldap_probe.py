"""What keeps a host from asking a directory (LDAP), and which entries have numbers of hosts; asked without SSSD.

SSSD's own messages do not tell the cause, and it does not say whom it leaves out. As a program this asks the servers of
this host's sssd.conf and prints, in JSON, each with what is in the way; with a guard (JSON) on standard input, the
entries that collide instead. It imports the standard library alone, so that a check can send it to a host.
"""

from __future__ import annotations

import re
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Mapping, Tuple

CONF = "/etc/sssd/sssd.conf"
DOMAIN = "domain/directory"
SECONDS = 5.0
MOST_BYTES = 1 << 20
MOST_DROPPED = 64 << 20  # of an entry that is larger, the rest up to here is dropped
PORTS = {"ldap": 389, "ldaps": 636}

START_TLS = b"1.3.6.1.4.1.1466.20037"
CAUSES = {
    1: "it lets nobody search without a name and a password (bind_dn, password_file)",
    8: "it wants another kind of login",
    32: "it has no entry {base} (base)",
    48: "it lets nobody search without a name and a password (bind_dn, password_file)",
    49: "it does not accept the password of {name} (password_file), or has no such entry (bind_dn)",
    50: "{name} may not read {base} (bind_dn, base)",
}
"""What result codes of LDAP mean here (RFC 4511, appendix A)."""


class Refused(Exception):
    """A server's answer that is no success."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(code, words)
        self.code, self.words = code, words


def troubles(conf: str, certificate: str = "") -> Dict[str, str]:
    """By server of a sssd.conf(5), what is in the way; empty texts where nothing is.

    `certificate`: that of the authority (PEM); empty for that of the file which sssd.conf names.
    """
    values = settings(conf)
    return {server: trouble(server, values, certificate) for server in servers(values)}


def settings(conf: str) -> Dict[str, str]:
    """The settings of the domain in a sssd.conf(5)."""
    import configparser  # the deployer loads this module, too, and asks nobody

    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#", ";"), strict=False)
    parser.read_string(conf)
    return dict(parser.items(DOMAIN)) if parser.has_section(DOMAIN) else {}


def servers(values: Mapping[str, str]) -> List[str]:
    """The servers of a domain."""
    return [one for one in map(str.strip, values.get("ldap_uri", "").split(",")) if one]


@contextmanager
def session(server: str, values: Mapping[str, str], certificate: str) -> Iterator[socket.socket]:
    """A connection to a server, encrypted and logged in. Raises OSError if there is none, Refused without a login."""
    import ssl

    name = values.get("ldap_default_bind_dn", "")
    host, port = place(server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # wants a certificate for the server's name
    if certificate:
        context.load_verify_locations(cadata=certificate)
    else:
        context.load_verify_locations(values.get("ldap_tls_cacert", ""))
    with socket.create_connection((host, port), SECONDS) as plain:
        plain.settimeout(SECONDS)
        if server.startswith("ldap:"):
            ask(plain, 1, tlv(0x77, tlv(0x80, START_TLS)))
        with context.wrap_socket(plain, server_hostname=host) as line:
            login = tlv(0x80, values.get("ldap_default_authtok", "").encode() if name else b"")
            ask(line, 2, tlv(0x60, tlv(2, b"\3") + tlv(4, name.encode()) + login))
            yield line


def trouble(server: str, values: Mapping[str, str], certificate: str) -> str:
    """What is in the way of asking a server; empty for nothing. `values`: those of the domain in sssd.conf."""
    import ssl

    base, name = values.get("ldap_search_base", ""), values.get("ldap_default_bind_dn", "")
    try:
        with session(server, values, certificate) as line:
            ask(line, 3, search(base.partition("?")[0]))
    except Refused as refused:
        said = CAUSES.get(refused.code, "it refuses: LDAP error %d" % refused.code)
        words = " (it says: %s)" % refused.words if refused.words else ""
        return said.format(base=base, name=name or "nobody") + words
    except ssl.SSLCertVerificationError as error:
        return "its certificate is not accepted: %s (ca_file, or the server's name)" % error.verify_message
    except (socket.timeout, TimeoutError):
        return "it does not answer within %d s" % SECONDS
    except OSError as error:
        return "it cannot be reached: %s" % error.strerror if error.strerror else str(error)
    return ""


MOST_ENTRIES = 100
SEARCH_SECONDS = 30.0
ANSWER_SECONDS = 2 * SEARCH_SECONDS  # of a whole answer, however slowly it comes
BELOW = ", which is below min_id"
A_NAME = "the name of a host's own or of a package's, or of one whom its groups or rules of sudo name"
OF_HOST = " of this host"
PLAIN = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff][A-Za-z0-9_.@ $\u0080-\U0010ffff-]*")
"""A name that is the same one for a directory, for SSSD and for what asks it, none of which sees its end elsewhere.

Letters outside of ASCII are: sudo and the kernel compare them byte by byte.
"""

NOT_PLAIN = (
    "a name with characters that mean something else to programs: plain ones have letters, digits, and . _ - @ $"
)
DIGITS = "digits alone, which programs take for a number"
NO_ORDER = (
    "its schema does not say that %s is compared by size (ORDERING), so no numbers can be kept out. Repair: give the "
    "server the nis schema of OpenLDAP 2.5 or later"
)
NO_PARTS = (
    "it does not find characters inside of %s (SUBSTR, or a NUL byte), so no names that are not plain can be kept out. "
    "Repair: name an attribute that has caseIgnoreSubstringsMatch, as cn and uid of OpenLDAP have"
)
NO_CASE = (
    "it tells upper from lower case in %s (EQUALITY), and sudo does not, so SUDO cannot be kept out. Repair: name an "
    "attribute that has caseIgnoreMatch, as cn and uid of OpenLDAP have"
)


def collisions(conf: str, certificate: str, guard: Mapping[str, Any]) -> List[str]:
    """The entries of the directory that have numbers or names which are taken, a line each.

    Args:
        conf: the text of sssd.conf.
        certificate: as for `troubles`.
        guard: by `uid` and `gid`, first, last and owner of the numbers that are taken, besides those of this host (no
            owner: below min_id). By `user` and `group`: `names` that are taken, besides those of this host that are not
            `silent`, in lower case; `searches`, which are
            base, scope and filter; `attributes`, the directory's own for `name`, `uid` and `gid`. `prefixes` of names
            that are taken. `ignored`: names of entries of which nothing is told; `meant`: of those that need not be
            plain.

    Raises:
        OSError: no server can be asked; Refused: or it does not answer such a question.
    """
    values, last = settings(conf), OSError("sssd.conf names no server")
    for server in servers(values):
        try:
            with session(server, values, certificate) as line:
                line.settimeout(SEARCH_SECONDS)
                found = [one for kind in ("user", "group") for one in colliding(line, kind, guard)]
                return sorted(found, key=harm)
        except OSError as error:
            last = error
    raise last


def harm(told: str) -> int:
    """The place of an entry among those that are told: first who would be another, last who is only too low."""
    ends = (NOT_PLAIN, "", A_NAME, DIGITS, BELOW)
    return next((place for place, one in enumerate(ends) if one and told.endswith(one)), 1)


def colliding(line: socket.socket, kind: str, guard: Mapping[str, Any]) -> List[str]:
    """The same for users or for groups."""
    attributes: Dict[str, str] = guard["attributes"][kind]
    files = {"uid": "/etc/passwd", "gid": "/etc/group"}
    own = {what: numbers(path) for what, path in files.items()}
    taken = {what: [*own[what], *guard[what]] for what in ("uid", "gid")}
    here = {whose[: -len(OF_HOST)].lower() for _, _, whose in own["uid" if kind == "user" else "gid"]}
    silent, prefixes = {*guard["silent"][kind]}, (*guard["prefixes"],)
    names = {*guard["names"][kind], *(here - silent)}
    parts = [*map(escaped, sorted(names)), *(one + "*" for one in (*"0123456789", *prefixes))]
    odd, named, ignored = (
        "".join("(%s=%s)" % (attributes["name"], one) for one in some)
        for some in (odd_parts(), parts, map(escaped, guard["ignored"]))
    )
    ranges = [
        (whose, "(&(%s>=%d)(%s<=%d))" % (attributes[what], first, attributes[what], last))
        for what in ("uid", "gid")
        if what in attributes
        for first, last, whose in taken[what]
    ]
    others, below = ("".join(one for whose, one in ranges if (whose != "") is is_taken) for is_taken in (True, False))
    told_of = "(!(|%s))" % ignored if ignored else ""
    number = attributes["uid" if kind == "user" else "gid"]
    found = []
    for base, scope, more in guard["searches"][kind]:
        where = (base, scope)
        there = entries(line, where, "(%s=*)" % number, [attributes["name"]], 1)
        if there and not entries(line, where, "(|(%s>=0)(%s<=-1))" % (number, number), [number], 1):
            raise Refused(0, NO_ORDER % number)
        if there and not entries(line, where, "(&(%s=*)(!(|%s)))" % (number, odd), [number], 1):
            raise Refused(0, NO_PARTS % attributes["name"])
        for one in there[0].get(attributes["name"].lower(), [])[:1] if there else []:
            other = "".join(letter.swapcase() if letter.isascii() else letter for letter in one)
            if not entries(line, where, "(%s=%s)" % (attributes["name"], escaped(other)), [number], 1):
                raise Refused(0, NO_CASE % attributes["name"])
        # One after the other, so that no number of entries of one kind hides those of another.
        texts = ["(&(%s=*)%s%s(|%s))" % (number, more, told_of, one) for one in (odd, named, others, below) if one]
        told = (one for text in texts for one in entries(line, where, text, [*attributes.values()], MOST_ENTRIES))
        for values in told:
            if TOO_LARGE in values:
                found.append("%s %s has more than 1 MiB" % (kind, printable(values[TOO_LARGE][0])))
                continue
            called = values.get(attributes["name"].lower()) or ["?"]
            reasons = taken_numbers(values, attributes, taken)
            is_later = not {*called} & {*guard["meant"]}
            reasons += [
                A_NAME
                for one in map(folded, called)
                if one in names or (is_later and one.startswith(prefixes) and one not in silent)
            ]
            reasons += [NOT_PLAIN for one in called if not PLAIN.fullmatch(one) and one not in guard["meant"]]
            reasons += ["a name of " + DIGITS for one in called if one.isdecimal()]
            if reasons and not {*called} & {*guard["ignored"]}:
                found.append("%s %s has %s" % (kind, printable(called[0]), reasons[0]))
    return [*dict.fromkeys(found)]


def taken_numbers(
    values: Mapping[str, List[str]], attributes: Mapping[str, str], taken: Mapping[str, List[Tuple[int, int, str]]]
) -> List[str]:
    """The numbers of an entry that are taken, each with whose it is."""
    return [
        "the %s %s%s" % (what.upper(), value, " of %s" % whose if whose else BELOW)
        for what in ("uid", "gid")
        for value in (values.get(attributes[what].lower(), []) if what in attributes else [])
        for first, last, whose in taken[what]
        if first <= as_number(value) <= last
    ]


def folded(name: str) -> str:
    """A name as a directory compares it, which takes some letters and numbers of blanks for the same (RFC 4518)."""
    import unicodedata

    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def odd_parts(but: str = "") -> List[str]:
    """Values of filters (RFC 4515) that match each name of ASCII characters that is not plain.

    A NUL byte is the end of a name for SSSD and not for a directory, so `SUDO` and one would be sudo. `but`: characters
    that names may have all the same.
    """
    inside = [one for one in map(chr, range(128)) if not PLAIN.fullmatch("a" + one) and one not in but]
    return ["*%s*" % escaped(one) for one in inside] + ["%s*" % escaped(one) for one in ".-@$" if one not in but]


def escaped(value: str) -> str:
    """A value for a filter, with the two digits of each byte that could mean something there or in sssd.conf."""
    return "".join(
        one if one.isascii() and (one.isalnum() or one in "_.-") else "".join("\\%02x" % byte for byte in one.encode())
        for one in value.encode(errors="replace").decode()
    )


def as_number(value: str) -> int:
    """A number of an entry; one that no host can have is that of root."""
    return int(value) if re.fullmatch("-?[0-9]{1,10}", value) else 0


def printable(name: str) -> str:
    """A name that holds nothing but one word to print."""
    return "".join(one if one.isprintable() else "?" for one in name)[:64]


def numbers(path: str) -> List[Tuple[int, int, str]]:
    """The numbers of this host's own users or groups, each with its name."""
    with open(path, encoding="utf-8", errors="replace") as file:
        fields = [one.split(":") for one in file]
    return [(int(one[2]), int(one[2]), one[0] + OF_HOST) for one in fields if one[2:] and one[2].isdecimal()]


TOO_LARGE = ""  # in place of the attributes of an entry that is too large: its DN
SCOPES = {"base": b"\0", "onelevel": b"\1", "one": b"\1"}


def entries(
    line: socket.socket, where: Tuple[str, str], text: str, attributes: List[str], most: int
) -> List[Dict[str, List[str]]]:
    """The values of the first entries that a filter (RFC 4515) finds below a base, by attribute in lower case."""
    base, scope = where
    limits = tlv(10, SCOPES.get(scope, b"\2")) + tlv(10, b"\0") + tlv(2, bytes([most])) + tlv(2, b"\x1e")
    wanted, rest = encoded(text)
    if rest:
        raise OSError("the filter of a search base cannot be read: %s" % rest)
    named = tlv(0x30, b"".join(tlv(4, one.encode()) for one in attributes))
    found: List[Dict[str, List[str]]] = []
    try:
        ask(line, 4, tlv(0x63, tlv(4, base.encode()) + limits + tlv(1, b"\0") + wanted + named), found)
    except Refused as refused:
        if refused.code not in (4, 11):  # more entries than asked for, or than the server shows
            raise
    return found


def encoded(text: str) -> Tuple[bytes, str]:
    """The first filter of a text (RFC 4515) as RFC 4511 has it, and the rest of the text. Raises OSError for none."""
    if text[:1] != "(":
        raise OSError("the filter of a search base cannot be read: %s" % text)
    if text[1:2] in ("&", "|", "!"):
        tag, rest, parts = {"&": 0xA0, "|": 0xA1, "!": 0xA2}[text[1]], text[2:], b""
        while rest[:1] == "(":
            part, rest = encoded(rest)
            parts += part
        if rest[:1] != ")":
            raise OSError("the filter of a search base cannot be read: %s" % text)
        return tlv(tag, parts), rest[1:]
    inner, end, rest = text[1:].partition(")")
    name, sign, value = inner.partition("=")
    if not (end and sign):
        raise OSError("the filter of a search base cannot be read: %s" % text)
    tag = {">": 0xA5, "<": 0xA6, "~": 0xA8}.get(name[-1:], 0xA3)
    attribute = tlv(4, name.rstrip("<>~").strip().encode())
    if tag == 0xA3 and value == "*":  # noqa: PLR2004
        return tlv(0x87, name.strip().encode()), rest
    if tag == 0xA3 and "*" in value:  # noqa: PLR2004
        first, *others, last = value.split("*")
        pieces = [(0x80, first), *((0x81, one) for one in others), (0x82, last)]
        return tlv(
            0xA4, attribute + tlv(0x30, b"".join(tlv(one, plain(piece)) for one, piece in pieces if piece))
        ), rest
    return tlv(tag, attribute + tlv(4, plain(value))), rest


def plain(value: str) -> bytes:
    """The bytes of a value in a filter, in which a backslash and two digits stand for one."""
    first, *others = value.split("\\")
    return first.encode() + b"".join(bytes([int(one[:2], 16)]) + one[2:].encode() for one in others)


def place(server: str) -> Tuple[str, int]:
    """Host and port of a server, such as `ldaps://ldap.example.org`."""
    scheme, _, rest = server.partition("://")
    host, colon, port = rest.rstrip("/").rpartition(":")
    if not colon or not port.isdecimal():
        host, port = rest.rstrip("/"), ""
    return host.strip("[]"), int(port or PORTS.get(scheme, 636))


def search(base: str) -> bytes:
    """A search for one entry itself, without its values (RFC 4511, 4.5.1)."""
    limits = tlv(10, b"\0") + tlv(10, b"\0") + tlv(2, b"\1") + tlv(2, b"\5") + tlv(1, b"\0")
    return tlv(0x63, tlv(4, base.encode()) + limits + tlv(0x87, b"objectClass") + tlv(0x30, tlv(4, b"1.1")))


def ask(line: socket.socket, number: int, operation: bytes, found: "List[Dict[str, List[str]]] | None" = None) -> None:
    """Send an operation and wait for its end; entries that come before it join `found`.

    Raises Refused if it is no success, OSError if the answer is none, or has no end.
    """
    line.sendall(tlv(0x30, tlv(2, bytes([number])) + operation))
    until, size = time.monotonic() + ANSWER_SECONDS, 0
    while True:
        message, is_cut = element(line, until)
        size += len(message)
        if size > MOST_DROPPED or len(found or ()) > MOST_ENTRIES:
            raise OSError("its answer has more entries than were asked for")
        _, rest = split(message)  # its number
        tag, content = rest[0], split(rest)[0]
        if tag == 0x64 and found is not None:  # noqa: PLR2004 - an entry: its name, and its attributes with their values
            dn, others = split(content)
            found.append({TOO_LARGE: [dn.decode(errors="replace")]} if is_cut else {})
            attributes = b"" if is_cut else split(others)[0]
            while attributes:
                attribute, attributes = split(attributes)
                name, values = split(attribute)
                some: List[str] = []
                values = split(values)[0]
                while values:
                    value, values = split(values)
                    some.append(value.decode(errors="replace"))
                found[-1][name.decode(errors="replace").lower()] = some
        if tag in (0x61, 0x65, 0x78):  # the result of a login, a search, or another operation
            code, others = split(content)
            words = split(split(others)[1])[0]
            if int.from_bytes(code, "big"):
                raise Refused(int.from_bytes(code, "big"), words.decode(errors="replace").strip("\0 \n"))
            return


def tlv(tag: int, content: bytes) -> bytes:
    """An element of BER."""
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x83" + size.to_bytes(3, "big")  # noqa: PLR2004
    return bytes([tag]) + length + content


def split(data: bytes) -> Tuple[bytes, bytes]:
    """The content of the first element, and what comes after it. Raises OSError if there is none."""
    if len(data) < 2 or len(data) < (begin := 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)):  # noqa: PLR2004
        raise OSError("it does not answer as a directory does")
    size = int.from_bytes(data[2:begin], "big") if data[1] & 0x80 else data[1]
    return data[begin : begin + size], data[begin + size :]


def element(line: socket.socket, until: float) -> Tuple[bytes, bool]:
    """The content of an element, and whether only its beginning; OSError if the connection ends, or it is endless.

    `until`: when the element has to be there, on the clock of `time.monotonic`.
    """
    head = exactly(line, 2, until)
    more = exactly(line, head[1] & 0x7F, until) if head[1] & 0x80 else b""
    size = int.from_bytes(more, "big") if more else head[1]
    if head[0] != 0x30 or size > MOST_DROPPED:  # noqa: PLR2004 - a sequence
        raise OSError("it does not answer as a directory does")
    content = exactly(line, min(size, MOST_BYTES), until)
    for begin in range(MOST_BYTES, size, MOST_BYTES):
        exactly(line, min(size - begin, MOST_BYTES), until)
    return content, size > MOST_BYTES


def exactly(line: socket.socket, size: int, until: float) -> bytes:
    """Read so many bytes. Raises OSError if the connection ends before, or they are not there in time."""
    data = b""
    while len(data) < size:
        if time.monotonic() > until:
            raise socket.timeout
        part = line.recv(size - len(data))
        if not part:
            raise OSError("it ended the connection")
        data += part
    return data


SOME_UNKNOWN = 2  # the exit code of getent(1) where not all is known


def seen(guard: Mapping[str, Any]) -> List[str]:
    """The users and groups of SSSD on this host that have a number of its own; SSSD is not to show any."""
    told = []
    for what, path, database in (("UID", "/etc/passwd", "passwd"), ("GID", "/etc/group", "group")):
        known = [*guard[what.lower()], *numbers(path)]
        named = {str(first): whose for first, _, whose in known if whose and first >= 0}
        for begin in range(0, len(named), 200):
            asked = ["getent", "-s", "sss", database, "--", *[*named][begin : begin + 200]]
            done = subprocess.run(asked, stdout=subprocess.PIPE, check=False, timeout=SEARCH_SECONDS)
            if done.returncode not in (0, SOME_UNKNOWN):
                raise OSError("getent -s sss %s ends with %d" % (database, done.returncode))
            rows = [one.split(":") for one in done.stdout.decode(errors="replace").split("\n")]
            told += ["%s has the %s %s of %s" % (printable(one[0]), what, one[2], named[one[2]])
                     for one in rows if one[2:] and one[2] in named]  # fmt: skip
    return told


if __name__ == "__main__":
    import json
    import sys

    with open(CONF, encoding="utf-8") as file:
        text = file.read()
    asked = sys.stdin.read()
    if not asked:
        sys.stdout.write(json.dumps(troubles(text)))
    else:
        answer: Dict[str, Any] = {"entries": [], "seen": [], "trouble": ""}
        try:
            answer["seen"] = seen(json.loads(asked))
            answer["entries"] = collisions(text, "", json.loads(asked)) if json.loads(asked)["searches"] else []
        except (OSError, Refused) as error:
            answer["trouble"] = str(error.args[-1] if error.args else error)
        sys.stdout.write(json.dumps(answer))
