"""The certificate of a server of the cluster's own, and the authority that signs it; both are made on its host."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from typing import ClassVar, Dict, Tuple

from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.host_paths import REGISTRY
from slurmfab.on_hosts.agent.core.resource import Context, Resource, ResourceFailed, State
from slurmfab.on_hosts.agent.core.safe_paths import open_folder, remove_empty
from slurmfab.on_hosts.agent.identities.users_and_groups import access_text, gid_of

AUTHORITY_DAYS, DAYS = 30 * 365, 2 * 365
RENEWED = 60  # days before its end at which a certificate is made anew

YES, ENOUGH = "yes", "in %d days or more" % RENEWED
VALID, NAMES, ENDS, BOUNDS = "signed by its authority", "names", "ends", "its authority vouches for"
KNOWN = "its authority is the one that hosts know"
TITLE = "authority of %s on %s"  # of what, and where
MISSING = "missing"
KEY = ("openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256")
CONFIGURATION = """\
[req]
distinguished_name = name
x509_extensions = extensions
prompt = no
[name]
CN = {title}
[extensions]
subjectKeyIdentifier = hash
{extensions}"""
OF_AUTHORITY = """\
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
extendedKeyUsage = serverAuth
nameConstraints = critical, %s
"""
"""Hosts trust a registry's authority in the system's own store, so it can vouch for that alone (RFC 5280, 4.2.1.10)."""

EVERY_ADDRESS = ("excluded;IP:0.0.0.0/0.0.0.0", "excluded;IP:::/::")
"""What an authority says that vouches for names alone: one that says nothing of addresses vouches for all of them."""

OF_SERVER = """\
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
authorityKeyIdentifier = keyid
subjectAltName = %s
"""


class ServerCertificate(Resource):
    """A certificate for these names, which does not end soon, signed by an authority for this server alone.

    Neither of the two keys ever leaves the host. The authority is kept while its certificate lasts and the names
    stay, so that what other hosts trust stays the same when the server's certificate is renewed.
    """

    kind: ClassVar[str] = "server-certificate"
    named_by: ClassVar[str] = "what"
    certified: Tuple[str, ...]  # names and IP addresses of the server, sorted; empty if there is to be none
    group: str = "root"  # the group that may read the server's key
    directory: str = REGISTRY  # where the files are, and no others
    what: str = "images"  # what the server has, for the certificates' titles
    # SHA-256 of the authority's certificate that other hosts trust, with the option that makes another one; and of the
    # one that this host tells of and the deployer does not take; each empty for none
    known: str = ""
    allow: str = ""
    refused: str = ""

    @property
    def authority(self) -> str:
        """Path of the authority's key and certificate."""
        return self.directory + "/authority.pem"

    @property
    def ca(self) -> str:
        """Path of the authority's certificate, which everybody may have."""
        return self.directory + "/ca.crt"

    @property
    def certificate(self) -> str:
        """Path of the server's key and certificate."""
        return self.directory + "/server.pem"

    def access(self) -> Dict[str, Tuple[str, int]]:
        """Group and mode of each file by its path."""
        return {self.authority: ("root", 0o600), self.ca: ("root", 0o644), self.certificate: (self.group, 0o640)}

    def touches(self, differing: frozenset[str]) -> Tuple[str, ...]:  # noqa: ARG002
        """All three files."""
        return tuple(self.access())

    def holds_secret(self, path: str) -> bool:
        """Whether a file has a key."""
        return path != self.ca

    def wanted(self, context: Context) -> State:  # noqa: ARG002
        """A valid certificate with these names, and files that only those may read who have to; or no file."""
        if not self.certified:
            return dict.fromkeys(self.access())
        access = {path: "root:%s %04o" % one for path, one in self.access().items()}
        names = " ".join(self.certified)
        return {VALID: YES, NAMES: names, ENDS: ENOUGH, BOUNDS: names, KNOWN: YES, **access}

    def actual(self, context: Context) -> State:
        """The same as found; ResourceFailed without openssl, or if no regular file has the place of one."""
        state: Dict[str, str] = {}
        for path, (group, _) in self.access().items():
            status = replace.regular(context.path(path))
            if status is not None:
                state[path] = access_text(context, status, "root", group)
        if not self.certified:
            return state
        return {**state, **certified(context, self)} if len(state) == len(self.access()) else {VALID: MISSING}

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        """Make what is missing, invalid or ending, or remove all; ResourceFailed if openssl or group fail."""
        if not self.certified:
            remove(context, self.directory, self.access())
            return
        gid = gid_of(context, self.group)
        if differing & {VALID, NAMES, ENDS, BOUNDS, KNOWN}:
            self.make(context, gid)
        for path, (_, mode) in self.access().items():
            replace.change_access(context.path(path), 0, gid if path == self.certificate else 0, mode)

    @property
    def of_authority(self) -> str:
        """The authority's configuration of `openssl req`."""
        title = TITLE % (self.what, self.certified[-1])
        return configuration(title, OF_AUTHORITY % allowed(self.certified))

    @property
    def of_server(self) -> str:
        """The server's configuration of `openssl req`."""
        names = ", ".join("%s:%s" % ("IP" if is_address(one) else "DNS", one) for one in self.certified)
        return configuration("%s on %s" % (self.what, self.certified[-1]), OF_SERVER % names)

    def make(self, context: Context, gid: int) -> None:
        """Make the server's certificate, and before it the authority if there is none that lasts as long."""
        open_folder(context.path(self.directory), make=True).close()
        own = digest(public(context, self.authority))
        vouches = bounds(context, self.authority) == " ".join(self.certified) and own != self.refused
        if not vouches or not lasts(context, self.authority, DAYS) or self.known not in ("", own):
            if self.known:
                raise ResourceFailed(
                    "the authority that other hosts trust is not in %s any more. If this host was reinstalled, have "
                    "another one made: %s; if not, see who has changed it" % (self.authority, self.allow)
                )
            made = signed(context, self.of_authority, AUTHORITY_DAYS)
            replace.put(context.path(self.authority), made[0] + made[1], 0, 0, 0o600)
        replace.put(context.path(self.ca), public(context, self.authority), 0, 0, 0o644)
        made = signed(context, self.of_server, DAYS, by=self.authority)
        replace.put(context.path(self.certificate), made[0] + made[1], 0, gid, 0o640)


def certified(context: Context, one: ServerCertificate) -> Dict[str, str]:
    """What a server's certificate is valid for, and until when."""
    path = context.path(one.certificate)
    shown = context.run(["openssl", "x509", "-in", path, "-noout", "-enddate", "-ext", "subjectAltName"])
    verified = context.run(["openssl", "verify", "-CAfile", context.path(one.ca), path])
    same = context.run(["openssl", "verify", "-CAfile", context.path(one.authority), path])
    told, own = replace.read(context.path(one.ca)), public(context, one.authority)
    is_known = told == own and digest(own) != one.refused and one.known in ("", digest(own))
    lines = [line.strip() for line in shown.stdout.decode(errors="replace").splitlines()]
    end = next((line[len("notAfter=") :] for line in lines if line.startswith("notAfter=")), "unknown")
    return {
        VALID: YES if verified.returncode == same.returncode == 0 else "no",
        NAMES: " ".join(sorted(plain(name) for name in (lines or [""])[-1].split(", "))),
        ENDS: ENOUGH if lasts(context, one.certificate, RENEWED) else end,
        BOUNDS: bounds(context, one.authority),
        KNOWN: YES if is_known else "no",
    }


def public(context: Context, authority: str) -> bytes:
    """The certificate in an authority's file, as everybody may have it; empty if there is none."""
    return context.run(["openssl", "x509", "-in", context.path(authority)]).stdout


def digest(certificate: bytes) -> str:
    """The SHA-256 of a certificate's text."""
    return hashlib.sha256(certificate).hexdigest()


def allowed(names: Tuple[str, ...]) -> str:
    """The value of nameConstraints for an authority that vouches for these names and addresses alone."""
    bits = {4: "255.255.255.255", 6: ":".join(["ffff"] * 8)}
    addresses = [one for one in names if is_address(one)]
    found = ["permitted;DNS:%s" % one for one in names if one not in addresses]
    found += ["permitted;IP:%s/%s" % (one, bits[6 if ":" in one else 4]) for one in addresses]
    return ", ".join((*found, *(() if addresses else EVERY_ADDRESS)))


def bounds(context: Context, authority: str) -> str:
    """The names and addresses that an authority vouches for; `everything` without bounds. `authority`: its path."""
    argv = ["openssl", "x509", "-in", context.path(authority), "-noout", "-ext", "nameConstraints"]
    shown = context.run(argv).stdout.decode(errors="replace").partition("Excluded:")[0]
    lines = (line.strip().replace("IP:", "IP Address:").partition("/")[0] for line in shown.splitlines())
    return " ".join(sorted(plain(line) for line in lines if line.startswith(("DNS:", "IP ")))) or "everything"


def lasts(context: Context, path: str, days: int) -> bool:
    """Whether a certificate is there, and valid for this many days from now on."""
    argv = ["openssl", "x509", "-in", context.path(path), "-noout", "-checkend", str(days * 24 * 3600)]
    return context.run(argv).returncode == 0


def signed(context: Context, settings: str, days: int, by: str = "") -> Tuple[bytes, bytes]:
    """A new key and certificate by a configuration of `openssl req` alone, for so many days.

    `by`: file with the signing authority; empty for an authority itself. Raises ResourceFailed if openssl fails.
    """
    directory = tempfile.mkdtemp(prefix="slurmfab-certificate-", dir=memory(context))
    try:
        key = context.must(KEY).encode()
        place = os.path.join(directory, "key")
        replace.write(place, key, -1, -1, 0o600)
        signer = ["-CA", context.path(by), "-CAkey", context.path(by)] if by else []
        argv = ["openssl", "req", "-x509", "-config", "/dev/stdin", "-key", place, "-days", str(days), *signer]
        return key, context.must(argv, settings.encode()).encode()
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def memory(context: Context) -> str:
    """A directory in memory that only root can write to; in a scratch root, which is for tests, the root itself."""
    path = context.path("/run")
    return path if os.path.isdir(path) else context.root


def configuration(title: str, extensions: str) -> str:
    """The configuration of `openssl req` for a certificate with this title; a common name has 64 characters at most."""
    return CONFIGURATION.format(title=title[:64], extensions=extensions)


def plain(entry: str) -> str:
    """A name or an address as `openssl x509` prints it, in the spelling of the cluster file.

    >>> plain("DNS:ctl"), plain("IP Address:FD00:0:0:0:0:0:0:1")
    ('ctl', 'fd00::1')
    """
    import ipaddress  # few hosts have a registry

    kind, _, value = entry.partition(":")
    try:
        return str(ipaddress.ip_address(value)) if kind == "IP Address" else value
    except ValueError:
        return value


def is_address(text: str) -> bool:
    """Whether a name of a server is an IP address."""
    return ":" in text or text.replace(".", "").isdecimal()


def remove(context: Context, directory: str, paths: Dict[str, Tuple[str, int]]) -> None:
    """Remove these files, and their directory once it is empty. Raises ResourceFailed if it is no directory."""
    for path in paths:
        replace.unlink(context.path(path))
    try:
        remove_empty(context.path(directory))
    except OSError as error:
        raise ResourceFailed("%s cannot be removed: %s" % (directory, error)) from error
