"""What keeps a host from asking a directory (LDAP), asked without SSSD, whose own messages do not tell the cause.

As a program it asks the servers of this host's sssd.conf and prints, in JSON, each with what is in the way. It imports
the standard library alone, so that a check can send it to a host.
"""

from __future__ import annotations

import socket
from typing import Dict, Tuple

CONF = "/etc/sssd/sssd.conf"
DOMAIN = "domain/directory"
SECONDS = 5.0
MOST_BYTES = 1 << 20
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
    import configparser  # the deployer loads this module, too, and asks nobody

    parser = configparser.RawConfigParser(delimiters=("=",), comment_prefixes=("#", ";"), strict=False)
    parser.read_string(conf)
    values = dict(parser.items(DOMAIN)) if parser.has_section(DOMAIN) else {}
    servers = filter(None, map(str.strip, values.get("ldap_uri", "").split(",")))
    return {server: trouble(server, values, certificate) for server in servers}


def trouble(server: str, values: Dict[str, str], certificate: str) -> str:
    """What is in the way of asking a server; empty for nothing. `values`: those of the domain in sssd.conf."""
    import ssl

    base, name = values.get("ldap_search_base", ""), values.get("ldap_default_bind_dn", "")
    host, port = place(server)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # wants a certificate for the server's name
    try:
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
                ask(line, 3, search(base))
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


def place(server: str) -> Tuple[str, int]:
    """Host and port of a server, such as `ldaps://ldap.example.org`."""
    scheme, _, rest = server.partition("://")
    host, colon, port = rest.rstrip("/").rpartition(":")
    if not colon or not port.isdigit():
        host, port = rest.rstrip("/"), ""
    return host.strip("[]"), int(port or PORTS.get(scheme, 636))


def search(base: str) -> bytes:
    """A search for one entry itself, without its values (RFC 4511, 4.5.1)."""
    limits = tlv(10, b"\0") + tlv(10, b"\0") + tlv(2, b"\1") + tlv(2, b"\5") + tlv(1, b"\0")
    return tlv(0x63, tlv(4, base.encode()) + limits + tlv(0x87, b"objectClass") + tlv(0x30, tlv(4, b"1.1")))


def ask(line: socket.socket, number: int, operation: bytes) -> None:
    """Send an operation and wait for its end. Raises Refused if it is no success, OSError if the answer is none."""
    line.sendall(tlv(0x30, tlv(2, bytes([number])) + operation))
    while True:
        message = element(line)[1]
        _, rest = split(message)  # its number
        tag, content = rest[0], split(rest)[0]
        if tag in (0x61, 0x65, 0x78):  # the result of a login, a search, or another operation
            code, others = split(content)
            words = split(split(others)[1])[0]
            if int.from_bytes(code, "big"):
                raise Refused(int.from_bytes(code, "big"), words.decode(errors="replace").strip("\0 \n"))
            return


def tlv(tag: int, content: bytes) -> bytes:
    """An element of BER."""
    size = len(content)
    length = bytes([size]) if size < 0x80 else b"\x82" + size.to_bytes(2, "big")  # noqa: PLR2004
    return bytes([tag]) + length + content


def split(data: bytes) -> Tuple[bytes, bytes]:
    """The content of the first element, and what comes after it. Raises OSError if there is none."""
    if len(data) < 2 or len(data) < (begin := 2 + (data[1] & 0x7F if data[1] & 0x80 else 0)):  # noqa: PLR2004
        raise OSError("it does not answer as a directory does")
    size = int.from_bytes(data[2:begin], "big") if data[1] & 0x80 else data[1]
    return data[begin : begin + size], data[begin + size :]


def element(line: socket.socket) -> Tuple[int, bytes]:
    """Read an element. Raises OSError if the connection ends, or it is too large."""
    head = exactly(line, 2)
    more = exactly(line, head[1] & 0x7F) if head[1] & 0x80 else b""
    size = int.from_bytes(more, "big") if more else head[1]
    if head[0] != 0x30 or size > MOST_BYTES:  # noqa: PLR2004 - a sequence
        raise OSError("it does not answer as a directory does")
    return head[0], exactly(line, size)


def exactly(line: socket.socket, size: int) -> bytes:
    """Read so many bytes. Raises OSError if the connection ends before."""
    data = b""
    while len(data) < size:
        part = line.recv(size - len(data))
        if not part:
            raise OSError("it ended the connection")
        data += part
    return data


if __name__ == "__main__":
    import json
    import sys

    with open(CONF, encoding="utf-8") as file:
        sys.stdout.write(json.dumps(troubles(file.read())))
