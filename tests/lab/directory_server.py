"""A real directory for tests: slapd of Debian's package on a lab host, with TLS by an authority made here."""

from __future__ import annotations

import base64
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from lab_cluster import DeployedLab

NAME = "ldap.example.org"
BASE = "dc=example,dc=org"
READER, PASSWORD = f"cn=reader,{BASE}", "a reader's word"
INSTALL = (
    "command -v slapd >/dev/null || { { apt-get -qq update && DEBIAN_FRONTEND=noninteractive "
    "apt-get -qq install --no-install-recommends slapd ldap-utils; } >/tmp/slapd.log 2>&1 || "
    "{ tail -n 5 /tmp/slapd.log; exit 1; }; }; systemctl stop slapd"
)
CONF = f"""\
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/nis.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile /run/slapd/slapd.pid
TLSCertificateFile /etc/ldap/server.pem
TLSCertificateKeyFile /etc/ldap/server.key
database mdb
maxsize 16777216
suffix "{BASE}"
rootdn "gidNumber=0+uidNumber=0,cn=peercred,cn=external,cn=auth"
directory /var/lib/ldap-test
access to attrs=userPassword by anonymous auth by * none
access to * by users read by anonymous auth
"""
TOP = f"""\
dn: {BASE}
objectClass: organization
objectClass: dcObject
o: Example
dc: example

dn: {READER}
objectClass: organizationalRole
objectClass: simpleSecurityObject
cn: reader
userPassword: {PASSWORD}
"""
USER = """
dn: uid={name},{base}
objectClass: inetOrgPerson
objectClass: posixAccount
cn: {name}
sn: {name}
uid: {name}
uidNumber: {uid}
gidNumber: {gid}
homeDirectory: {home}
loginShell: /bin/bash
userPassword: {name} may enter
"""
GROUP = """
dn: cn={name},{base}
objectClass: posixGroup
cn: {name}
gidNumber: {gid}
"""
USERS = {"ann": 5001, "bob": 5002, "eve": 5003, "munge": 5004}
"""By name their UIDs; the last one has the name of a system user, and is seen by no host."""

GROUPS: dict[str, tuple[int, tuple[str, ...]]] = {
    "people": (6000, ()),
    "hpc": (6001, ("ann", "bob")),
    "phys": (6002, ("ann",)),
    "sudo": (6100, ("ann",)),
}
"""By name their GIDs and members; the last one has the name of a system group, and is seen by no host."""
ASKPASS = "/run/askpass"
ENTER = (
    f"printf '#!/bin/sh\\necho \"%s\"\\n' '{{password}}' >{ASKPASS}; chmod 700 {ASKPASS}; "
    f"SSH_ASKPASS={ASKPASS} SSH_ASKPASS_REQUIRE=force setsid -w ssh -F none -o StrictHostKeyChecking=no "
    "-o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o PubkeyAuthentication=no -o NumberOfPasswordPrompts=1 "
    '{user}@{address} {command} 2>&1; echo "exit $?"'
)
"""Logs in with a password, as a person does, and runs a command."""

START = (
    "rm -rf /var/lib/ldap-test && mkdir /var/lib/ldap-test && "
    "slapadd -f /etc/ldap/slapd.conf -l /etc/ldap/test.ldif >/dev/null && "
    "chown -R openldap:openldap /var/lib/ldap-test /etc/ldap/server.key && chmod 600 /etc/ldap/server.key && "
    "printf 'SLAPD_CONF=/etc/ldap/slapd.conf\\nSLAPD_USER=openldap\\nSLAPD_GROUP=openldap\\n"
    'SLAPD_SERVICES="ldap:/// ldaps:/// ldapi:///"\\n\' >/etc/default/slapd && systemctl restart slapd'
)


@dataclass(frozen=True)
class DirectoryServer:
    """A directory on a lab host, which the others know by the name `NAME`.

    Args:
        lab: the lab.
        host: the host with slapd.
    """

    lab: DeployedLab
    host: str

    def change(self, ldif: str) -> None:
        """Change entries, as root of the host."""
        self.lab.on(self.host, f"ldapmodify -Q -Y EXTERNAL -H ldapi:/// >/dev/null <<'END'\n{ldif}\nEND")

    def add(self, *entries: str) -> None:
        """Add entries, as LDIF."""
        self.lab.on(self.host, f"ldapadd -Q -Y EXTERNAL -H ldapi:/// >/dev/null <<'END'\n{''.join(entries)}\nEND")

    def remove(self, *names: str) -> None:
        """Remove entries by the first part of their names, such as `uid=ann`."""
        self.lab.on(self.host, f"ldapdelete -Q -Y EXTERNAL -H ldapi:/// {' '.join(f'{one},{BASE}' for one in names)}")

    def members(self, group: str, *names: str) -> None:
        """Let a group have these members and no others."""
        values = "".join(f"memberUid:: {base64.b64encode(name.encode()).decode()}\n" for name in names)
        self.change(f"dn: cn={group},{BASE}\nchangetype: modify\nreplace: memberUid\n{values}")

    def stop(self) -> None:
        self.lab.on(self.host, "systemctl stop slapd")

    def start(self) -> None:
        self.lab.on(self.host, "systemctl start slapd")


def keys(scheme: str = "ldaps", more: str = ", min_id: 5000") -> str:
    """What a cluster file says of it. `more`: further keys of `directory.sssd`, each begun by a comma."""
    return (
        "unix_users: false\ndirectory:\n"
        f"  sssd: {{servers: '{scheme}://{NAME}', base: '{BASE}', ca_file: directory-ca.pem, bind_dn: '{READER}', "
        f"password_file: directory.password, groups: hpc{more}}}\n"
    )


def serve(lab: DeployedLab, host: str) -> DirectoryServer:
    """Set a directory up on a host, and write beside the cluster file what that names."""
    beside = lab.inventory_path.parent
    made(beside)
    (beside / "directory.password").write_text(f"{PASSWORD}\n")
    (beside / "directory.password").chmod(0o600)
    files = {
        "/etc/ldap/slapd.conf": CONF,
        "/etc/ldap/test.ldif": TOP + "".join(entries()),
        "/etc/ldap/server.pem": (beside / "server.pem").read_text(),
        "/etc/ldap/server.key": (beside / "server.key").read_text(),
    }
    lab.on(host, INSTALL)
    for path, text in files.items():
        lab.on(host, f"cat >{path} <<'END'\n{text}\nEND")
    lab.on(host, START)
    for one in lab.lab.hosts:
        lab.on(one.name, f"echo '{lab.lab.host(host).address} {NAME}' >>/etc/hosts")
    return DirectoryServer(lab, host)


def enter(lab: DeployedLab, user: str, here: str, host: str, command: str) -> str:
    """What is printed where a user logs in from one host to another with her password, and runs a command there."""
    address = lab.lab.host(host).address
    words = {"password": f"{user} may enter", "user": user, "address": address, "command": shlex.quote(command)}
    return lab.on(here, ENTER.format(**words))


def entries() -> list[str]:
    """The users and groups, as LDIF."""
    users = [user(name, uid) for name, uid in USERS.items()]
    return [*users, *(group(name, gid, *members) for name, (gid, members) in GROUPS.items())]


def user(name: str, uid: int, gid: int = 6000, home: str = "") -> str:
    """The entry of a user, as LDIF."""
    return USER.format(name=name, uid=uid, gid=gid, home=home or f"/home/{name}", base=BASE)


def group(name: str, gid: int, *members: str) -> str:
    """The entry of a group, as LDIF."""
    return GROUP.format(name=name, gid=gid, base=BASE) + "".join(f"memberUid: {one}\n" for one in members)


def made(directory: Path, name: str = NAME, authority: str = "directory-ca") -> None:
    """Make an authority, and a server's certificate by it: `AUTHORITY.pem`, `server.pem` and `server.key`."""
    new = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "9"]
    own = ["-subj", f"/CN={authority}", "-keyout", f"{authority}.key", "-out", f"{authority}.pem"]
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=CA:FALSE"]
    by = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-keyout", "server.key", "-out", "server.pem"]
    for words in ([*new, *own], [*new, *subject, *by]):
        subprocess.run(words, cwd=directory, check=True, capture_output=True)
