"""The key `directory`: what it takes, what it refuses, and the files that it names on the deployer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.directory import Directory, Sssd
from slurmfab.core.engine import passwords

LEAST = "servers: ldaps://l.example.org, base: 'dc=example', ca_file: ca.pem"


def load(inner: str, more: str = "unix_users: false\n") -> Directory:
    found = cluster(f"{THREE_HOSTS}{more}directory: {{sssd: {{{inner}}}}}\n").directory
    assert found is not None
    return found


def test_the_least_is_a_server_a_base_and_an_authority() -> None:
    found = load(LEAST).sssd
    assert found.servers == ("ldaps://l.example.org",)
    assert (found.starts_tls, found.groups, found.homes, found.type) == (False, (), "login", "ldap")


@pytest.mark.parametrize(
    ("inner", "reason"),
    [
        (LEAST.replace("ldaps://l.example.org", "l.example.org"), "is not a server such as"),
        (LEAST.replace("ldaps://l.example.org", "'ldaps://a b'"), "is not a server such as"),
        (LEAST.replace("ldaps://l.example.org", "[ldaps://a, ldap://b]"), "either all ldaps:// or all ldap://"),
        (LEAST.replace("'dc=example'", "example"), "not the name of an entry"),
        (LEAST + ", bind_dn: 'cn=x'", "belong together"),
        (LEAST + ", groups: ['a,b']", "not the name of a group"),
        (LEAST + ", options: {ldap_tls_reqcert: never}", "slurmfab writes this line itself"),
        (LEAST + ", options: {ldap_backup_uri: 'ldap://x'}", "servers are named by the key servers"),
        (LEAST + ", options: {override_gid: '27'}", "users have other numbers than those"),
        (LEAST + ", options: {ldap_schema: AD}", "users have other numbers than those"),
        (LEAST + ", options: {ldap_auth_disable_tls_never_use_in_production: 'true'}", "is no option"),
        (LEAST + ', options: {ldap_user_name: "a\\nb"}', "one line of ASCII"),
    ],
)
def test_a_mistake_is_told(inner: str, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        load(inner)


def test_users_come_from_one_place_and_sssd_conf_has_one_content() -> None:
    with pytest.raises(InputError, match="write unix_users: false"):
        load(LEAST, "")
    with pytest.raises(InputError, match="slurmfab writes it for the key directory"):
        load(LEAST, "unix_users: false\nfiles: {/etc/sssd/sssd.conf: {text: x, mode: 0600}}\n")


SSSD = Sssd(servers=("ldaps://l",), base="dc=x", ca_file="ca.pem", bind_dn="cn=r", password_file="secret")


def test_the_password_is_read_from_a_file_that_nobody_else_can_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a word\n")
    secret.chmod(0o600)
    assert passwords.directory_password(Directory(sssd=SSSD), tmp_path) == "a word"
    assert passwords.directory_password(None, tmp_path) == ""
    secret.chmod(0o644)
    with pytest.raises(InputError, match="chmod 600"):
        passwords.directory_password(Directory(sssd=SSSD), tmp_path)


def test_the_authority_is_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ca\.pem cannot be read: No such file"):
        passwords.directory_ca(Directory(sssd=SSSD), tmp_path)
    (tmp_path / "ca.pem").write_text("no certificate\n")
    with pytest.raises(InputError, match="holds no certificate"):
        passwords.directory_ca(Directory(sssd=SSSD), tmp_path)
    made = ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-subj", "/CN=x", "-days", "2"]
    subprocess.run([*made, "-keyout", "key.pem", "-out", "ca.pem"], cwd=tmp_path, check=True, capture_output=True)
    assert passwords.directory_ca(Directory(sssd=SSSD), tmp_path) == (tmp_path / "ca.pem").read_text()
    assert passwords.directory_ca(None, tmp_path) == ""
