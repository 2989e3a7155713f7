"""What keeps a host from asking a directory: told with its cause, by a server that speaks TLS and LDAP's answers."""

from __future__ import annotations

import itertools
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.people import ldap_probe
from slurmfab.on_hosts.agent.people.ldap_probe import as_number, encoded, entries, tlv, troubles

SUCCESS = "300c020102 61070a010004000400"
NO_PASSWORD = "300c020102 61070a013104000400"
NO_BASE = "300c020103 65070a012004000400"
FOUND = "300d020103 64080404 64633d78 3000"
DONE = "300c020103 65070a010004000400"
TLS_BEGINS = "300c020101 78070a010004000400"


def made(directory: Path, names: str) -> tuple[str, str]:
    """An authority's certificate, and a file with that of a server with these names and its key."""
    run = lambda *words: subprocess.run(["openssl", *words], cwd=directory, check=True, capture_output=True)  # noqa: E731
    new = ("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2")
    run(*new, "-subj", "/CN=authority", "-keyout", "ca.key", "-out", "ca.pem")
    run(*new, "-subj", "/CN=server", "-addext", f"subjectAltName={names}", "-CA", "ca.pem", "-CAkey", "ca.key",
        "-keyout", "server.key", "-out", "server.pem")  # fmt: skip
    whole = directory / "whole.pem"
    whole.write_text((directory / "server.pem").read_text() + (directory / "server.key").read_text())
    return (directory / "ca.pem").read_text(), str(whole)


class Server(threading.Thread):
    """A server that answers each message with the next of its answers."""

    def __init__(self, certificate: str, answers: list[str], *, starts_tls: bool) -> None:
        super().__init__(daemon=True)
        self.answers, self.starts_tls = [bytes.fromhex(one) for one in answers], starts_tls
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate)
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        self.heard: list[bytes] = []
        self.start()

    def run(self) -> None:
        with self.listening, self.listening.accept()[0] as line:
            line.settimeout(5)
            if self.starts_tls:
                self.heard.append(line.recv(4096))
                line.sendall(self.answers.pop(0))
            try:
                with self.context.wrap_socket(line, server_side=True) as inner:
                    for answer in self.answers:
                        self.heard.append(inner.recv(4096))
                        inner.sendall(answer)
            except OSError:
                return


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    return made(tmp_path_factory.mktemp("good"), "IP:127.0.0.1")


def conf(uri: str, name: str = "cn=r,dc=x") -> str:
    return (
        f"[sssd]\ndomains = directory\n[domain/directory]\nldap_uri = {uri}\nldap_search_base = dc=x\n"
        f"ldap_default_bind_dn = {name}\nldap_default_authtok = a word # here\n"
    )


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("(uid=ann)", "a30a 0403756964 0403616e6e"),
        ("(uid=*)", "8703 756964"),
        ("(!(n<=9))", "a208 a606 04016e 040139"),
        ("(&(a=*)(|(n>=1)(n>=2)))", "a015 870161 a110 a506 04016e 040131 a506 04016e 040132"),
        ("(cn=a*b)", "a40c 0402636e 3006 800161 820162"),
        ("(cn=\\2ax)", "a308 0402636e 04022a78"),
    ],
)
def test_filters_when_sent_are_those_of_the_text(text: str, wanted: str) -> None:
    assert encoded(text) == (bytes.fromhex(wanted), "")


@pytest.mark.parametrize("text", ["", "uid=ann", "(&(a=b)", "(uid"])
def test_a_filter_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(OSError, match="cannot be read"):
        encoded(text)


GUARD: dict[str, Any] = {
    "uid": [(0, 999, "root"), (-1, -1, "")],
    "gid": [(20699, 20699, "a rule of sudo or doas of n1")],
    "names": {"user": [], "group": ["netdev"]},
    "silent": {"user": [], "group": ["sudo", "_chrony"]},
    "prefixes": ["_", "systemd-"],
    "ignored": ["printers"],
    "meant": ["o'brien", "_ours"],
    "searches": {"user": [], "group": [("dc=x", "subtree", "")]},
    "attributes": {"user": {"name": "uid", "uid": "uidNumber", "gid": "gidNumber"},
                   "group": {"name": "cn", "gid": "gidNumber"}},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "number", "told"),
    [
        ("hpc", 20000, ""),
        ("domain users", 20000, ""),
        ("über", 20000, ""),
        ("SUDO\0", 20000, "group SUDO? has a name with characters that mean something else"),
        ("a:b", 20000, "has a name with characters"),
        ("two\nlines", 20000, "group two?lines has a name with characters"),
        (" netdev", 20000, "the name of a host's own"),
        ("NetDev  ", 20000, "the name of a host's own"),
        ("-x", 20000, "has a name with characters"),
        ("_ssh", 20000, "or of a package's"),
        ("_chrony", 20000, ""),
        ("_ours", 20000, ""),
        ("Systemd-Oom", 20000, "or of a package's"),
        ("o'brien", 20000, ""),
        ("printers", 20699, ""),
        ("ops", 20699, "group ops has the GID 20699 of a rule of sudo or doas of n1"),
        ("ops", 27, "group ops has the GID 27 of sudo of this host"),
    ],
)
def test_an_entry_whose_name_or_number_means_another_is_told(
    name: str, number: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ldap_probe, "numbers", lambda path: [(27, 27, "sudo of this host")] if "group" in path else [])
    monkeypatch.setattr(ldap_probe, "entries", lambda *_: [{"cn": [name], "gidnumber": [str(number)]}])
    found = ldap_probe.colliding(None, "group", GUARD)  # type: ignore[arg-type]
    assert len(found) == bool(told), found
    assert told in "".join(found)


def test_many_entries_of_one_kind_hide_none_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_line: object, _where: object, text: str, _: object, most: int) -> list[dict[str, list[str]]]:
        low = [{"cn": [f"low{one}"], "gidnumber": ["500"]} for one in range(200)] if "gidNumber<=999" in text else []
        odd = [{"cn": ["SUDO\0"], "gidnumber": ["20000"]}] if r"*\00*" in text else []
        return (low + odd or [{"cn": ["hpc"]}])[:most]

    monkeypatch.setattr(ldap_probe, "numbers", lambda _: [])
    monkeypatch.setattr(ldap_probe, "entries", answer)
    found = ldap_probe.colliding(None, "group", {**GUARD, "gid": [(0, 999, "")]})  # type: ignore[arg-type]
    assert sum(one.endswith(ldap_probe.BELOW) for one in found) == ldap_probe.MOST_ENTRIES
    assert any(one.startswith("group SUDO? has") for one in found)


@pytest.mark.parametrize(
    ("asked", "told"),
    [(r"*\00*", "it does not find characters inside of cn"), ("=HPC", "tells upper from lower case in cn")],
)
def test_a_server_that_finds_no_parts_of_names_or_tells_cases_of_letters_apart_is_refused(
    asked: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_line: object, _where: object, text: str, *_: object) -> list[dict[str, list[str]]]:
        return [] if asked in text else [{"cn": ["hpc"], "gidnumber": ["20000"]}]

    monkeypatch.setattr(ldap_probe, "numbers", lambda _: [])
    monkeypatch.setattr(ldap_probe, "entries", answer)
    with pytest.raises(ldap_probe.Refused) as refused:
        ldap_probe.colliding(None, "group", GUARD)  # type: ignore[arg-type]
    assert told in refused.value.words


class Line:
    """A connection that answers with these bytes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    def sendall(self, _: bytes) -> None:
        """Whatever is asked."""

    def recv(self, size: int) -> bytes:
        part, self.answer = self.answer[:size], self.answer[size:]
        return part


def message(tag: int, content: bytes) -> bytes:
    return tlv(0x30, tlv(2, b"\4") + tlv(tag, content))


def test_an_entry_that_is_too_large_to_read_is_told_and_hides_none_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    large = tlv(4, b"cn") + tlv(0x31, tlv(4, b"x" * (3 << 20)))
    other = tlv(4, b"cn") + tlv(0x31, tlv(4, b"SUDO\0")), tlv(4, b"gidNumber") + tlv(0x31, tlv(4, b"20000"))
    found = message(0x64, tlv(4, b"cn=large,dc=x") + tlv(0x30, tlv(0x30, large)))
    found += message(0x64, tlv(4, b"cn=other,dc=x") + tlv(0x30, b"".join(tlv(0x30, one) for one in other)))
    line = Line(found + message(0x65, tlv(10, b"\0") + tlv(4, b"") + tlv(4, b"")))
    rows = entries(line, ("dc=x", "subtree"), "(cn=*)", ["cn"], 10)  # type: ignore[arg-type]
    assert rows == [{ldap_probe.TOO_LARGE: ["cn=large,dc=x"]}, {"cn": ["SUDO\0"], "gidnumber": ["20000"]}]
    monkeypatch.setattr(ldap_probe, "numbers", lambda _: [])
    monkeypatch.setattr(ldap_probe, "entries", lambda *_: rows)
    told = ldap_probe.colliding(None, "group", GUARD)  # type: ignore[arg-type]
    assert [one.partition(" has ")[0] for one in told] == ["group cn=large,dc=x", "group SUDO?"]


SMALL = message(0x64, tlv(4, b"cn=x,dc=x") + tlv(0x30, b""))


def test_an_answer_without_end_is_refused_before_it_takes_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap_probe, "MOST_DROPPED", 4 << 20)
    with pytest.raises(OSError, match="more entries than were asked for"):
        entries(Line(SMALL * 200), ("dc=x", "subtree"), "(cn=*)", ["cn"], 10)  # type: ignore[arg-type]
    large = message(0x64, tlv(4, b"cn=x,dc=x") + tlv(0x30, tlv(0x30, tlv(4, b"cn") + tlv(0x31, tlv(4, b"x" * 999999)))))
    with pytest.raises(OSError, match="more entries than were asked for"):
        entries(Line(large * 8), ("dc=x", "subtree"), "(cn=*)", ["cn"], 10)  # type: ignore[arg-type]


def test_an_answer_that_comes_ever_more_slowly_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap_probe.time, "monotonic", itertools.count(0, 20).__next__)
    with pytest.raises(socket.timeout):
        entries(Line(SMALL * 50), ("dc=x", "subtree"), "(cn=*)", ["cn"], 10)  # type: ignore[arg-type]


GETENT = """\
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
        -s) shift 2 ;;
        --) shift; break ;;
        -*) echo "getent: invalid option" >&2; exit 64 ;;
        *) base=$1; shift ;;
    esac
done
[ "$base" = group ] || exit 2
for one; do [ "$one" != 20050 ] || echo "zora:*:20050:"; done
exit 2
"""


def test_what_sssd_shows_when_it_has_a_number_of_the_hosts_then_is_told_also_beside_numbers_of_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "getent").write_text(GETENT)
    (tmp_path / "getent").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(ldap_probe, "numbers", lambda _: [])
    taken = [(-1, -1, ""), (20050, 20050, "proj of n1")]
    assert ldap_probe.seen({"uid": [(-1, -1, "")], "gid": taken}) == ["zora has the GID 20050 of proj of n1"]
    (tmp_path / "getent").write_text("#!/bin/sh\nexit 64\n")
    with pytest.raises(OSError, match="ends with 64"):
        ldap_probe.seen({"uid": [], "gid": taken})


def test_numbers_that_no_host_can_have_are_taken_for_roots() -> None:
    assert [as_number(one) for one in ("12", "-1", "", "12x", "0x1f", "²", "--5", "9" * 5000)] == [
        *(12, -1, 0, 0, 0, 0, 0, 0)
    ]


@pytest.mark.parametrize("scheme", ["ldaps", "ldap"])
def test_a_server_that_answers_is_in_order(certificates: tuple[str, str], scheme: str) -> None:
    authority, own = certificates
    begins = [TLS_BEGINS] if scheme == "ldap" else []
    server = Server(own, [*begins, SUCCESS, FOUND + DONE], starts_tls=scheme == "ldap")
    uri = f"{scheme}://127.0.0.1:{server.port}"
    assert troubles(conf(uri), authority) == {uri: ""}
    assert b"a word # here" in server.heard[-2]
    assert b"a word" not in server.heard[0] or scheme == "ldaps"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([NO_PASSWORD], "does not accept the password of cn=r,dc=x (password_file)"),
        ([SUCCESS, NO_BASE], "it has no entry dc=x (base)"),
        (["485454502f312e31"], "it does not answer as a directory does"),
    ],
)
def test_a_refusal_is_told_with_the_key_that_is_wrong(
    certificates: tuple[str, str], answers: list[str], told: str
) -> None:
    server = Server(certificates[1], answers, starts_tls=False)
    uri = f"ldaps://127.0.0.1:{server.port}"
    assert told in troubles(conf(uri), certificates[0])[uri]


def test_another_authority_another_name_and_no_server_are_told(certificates: tuple[str, str], tmp_path: Path) -> None:
    server = Server(certificates[1], [], starts_tls=False)
    other, misnamed = made(tmp_path, "DNS:other.example.org")
    uri = f"ldaps://127.0.0.1:{server.port}"
    assert "its certificate is not accepted: " in troubles(conf(uri), other)[uri]
    server = Server(misnamed, [], starts_tls=False)
    uri = f"ldaps://127.0.0.1:{server.port}"
    assert "127.0.0.1" in troubles(conf(uri), other)[uri]
    with socket.create_server(("127.0.0.1", 0)) as closed:
        uri = f"ldaps://127.0.0.1:{closed.getsockname()[1]}"
    assert troubles(conf(uri), other)[uri] == "it cannot be reached: Connection refused"


def test_a_file_without_the_domain_has_no_servers() -> None:
    assert troubles("# nothing\n") == {}
