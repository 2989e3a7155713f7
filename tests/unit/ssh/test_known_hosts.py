"""known_hosts files and files of revoked keys: what they say of a host, compared with OpenSSH itself."""

from __future__ import annotations

import base64
import hmac
import shutil
import subprocess
from pathlib import Path

import pytest
from ssh_keys import ED25519, OTHER, RSA

from slurmfab.hosts.known_hosts import HostKey, KnownHost, fingerprint, is_about, is_revoked, spelled

needs_openssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen to compare with")


def hashed(name: str) -> str:
    """A name as `ssh-keygen -H` writes it."""
    salt = b"twenty bytes of salt"
    digest = hmac.new(salt, name.encode(), "sha1").digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


def keys_in(path: Path, *names: str) -> dict[str, tuple[str, ...]]:
    return KnownHost(names, (str(path),)).keys()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "known_hosts"


FIELDS = [
    "n1", "N1", "n2,n1", "n1,n2", "10.0.0.1", "n*", "n?", "*", "*.org", "*1", "n**1", "?", "n1?", "!n1", "*,!n1",
    "!n1,*", "n*,!n2", "!n?,n1", "!*,n1", "[n1]:2222", "[n1]:*", "[*]:2222", "[n?]:22*", "*:2222", "n[12]", "n1,", ",",
    "n.", "!", "!n2,!n3", "host.example.org", "*.example.*", "10.0.0.*", "fe80::*", "[fe80::1]:2222", hashed("n1"),
    hashed("[n1]:2222"), hashed("n2"), "|1|damaged", "|2|dHdlbnR5IGJ5dGVzIG9mIHNhbHQ=|AAAA",
]  # fmt: skip
NAMES = ["n1", "n2", "n10", "[n1]:2222", "10.0.0.1", "host.example.org", "fe80::1", "[fe80::1]:2222", "other"]


@needs_openssh
@pytest.mark.parametrize("field", FIELDS)
def test_the_names_of_a_line_mean_what_they_mean_to_openssh(path: Path, field: str) -> None:
    path.write_text(f"{field} ssh-ed25519 {ED25519}\n")
    for name in NAMES:
        found = subprocess.run(["ssh-keygen", "-F", name, "-f", path], capture_output=True, text=True, check=False)
        assert is_about(field, [name]) == (ED25519 in found.stdout), name


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (f"n1 ssh-ed25519 {ED25519}", ("n1",)),
        (f"n1,10.0.0.1 ssh-ed25519 {ED25519} a comment", ("10.0.0.1",)),
        (f"  n1\tssh-ed25519  {ED25519}", ("n1",)),
        (f"N1 ssh-ed25519 {ED25519}", ("n1",)),
        (f"n1 ssh-ed25519 {ED25519}", ("N1",)),
        (f"[n1]:2222 ssh-ed25519 {ED25519}", ("[n1]:2222",)),
        (f"n1 ssh-ed25519 {ED25519}", ("[n1]:2222",)),
        (f"n*,!n2 ssh-ed25519 {ED25519}", ("n1",)),
        (f"{hashed('n1')} ssh-ed25519 {ED25519}", ("n1",)),
        (f"{hashed('[n1]:2222')} ssh-ed25519 {ED25519}", ("[n1]:2222",)),
    ],
)
def test_a_known_hosts_line_vouches_for_the_host_that_it_names(path: Path, line: str, names: tuple[str, ...]) -> None:
    path.write_text(f"# a comment\n\n{line}\n")
    assert keys_in(path, *names) == {"ssh-ed25519": (ED25519,)}
    assert keys_in(path, "another") == {}


@pytest.mark.parametrize(
    "line",
    [
        f"@revoked n1 ssh-ed25519 {ED25519}",
        f"@cert-authority n1 ssh-ed25519 {ED25519}",
        f"@unknown n1 ssh-ed25519 {ED25519}",
        f"#n1 ssh-ed25519 {ED25519}",
        "n1",
        "n1 ssh-ed25519",
        "@revoked",
        "n1 ssh-ed25519 this-is-no-base64!",
        "n1 ssh-ed25519 AAAA",
        f"n1 ssh-rsa {ED25519}",
        f"|1|damaged ssh-ed25519 {ED25519}",
        f"|1|!!!|!!! ssh-ed25519 {ED25519}",
        f"|1|ä|ö ssh-ed25519 {ED25519}",
        f"n*,!n1 ssh-ed25519 {ED25519}",
        f"!n1 ssh-ed25519 {ED25519}",
        f"[n1]:2222 ssh-ed25519 {ED25519}",
    ],
)
def test_marked_damaged_and_other_lines_vouch_for_nobody_and_hide_no_good_one(path: Path, line: str) -> None:
    path.write_text(f"{line}\n")
    assert keys_in(path, "n1") == {}
    path.write_text(f"{line}\nn1 ssh-ed25519 {OTHER}\n")
    assert keys_in(path, "n1") == {"ssh-ed25519": (OTHER,)}


def test_a_line_that_excludes_one_name_of_a_host_does_not_vouch_for_it_by_another(path: Path) -> None:
    path.write_text(f"*,!n1 ssh-ed25519 {ED25519}\n")
    assert keys_in(path, "n1", "10.0.0.1") == {}
    assert keys_in(path, "n2", "10.0.0.2") == {"ssh-ed25519": (ED25519,)}


def test_a_host_has_all_keys_of_all_files_the_first_files_first(tmp_path: Path) -> None:
    (tmp_path / "own").write_text(f"n1 ssh-ed25519 {ED25519}\nn* ssh-ed25519 {ED25519}\n")
    (tmp_path / "systems").write_text(f"n1 ssh-ed25519 {OTHER}\nn1 ssh-rsa {RSA}\n")
    files = tuple(str(tmp_path / name) for name in ("none", "own", "systems"))
    assert KnownHost(("n1",), files).keys() == {"ssh-ed25519": (ED25519, OTHER), "ssh-rsa": (RSA,)}


def test_a_key_that_any_file_revokes_is_not_known_by_another(tmp_path: Path) -> None:
    (tmp_path / "own").write_text(f"n1 ssh-ed25519 {ED25519}\nn1 ssh-ed25519 {OTHER}\n")
    (tmp_path / "systems").write_text(f"@revoked * ssh-ed25519 {ED25519}\n")
    host = KnownHost(("n1",), (str(tmp_path / "own"), str(tmp_path / "systems")))
    assert host.keys() == {"ssh-ed25519": (OTHER,)}
    assert host.revoked_in(HostKey("ssh-ed25519", ED25519)) == str(tmp_path / "systems")
    assert host.revoked_in(HostKey("ssh-ed25519", OTHER)) == ""


def test_a_key_of_another_port_is_tried_only_without_an_entry_for_the_port(path: Path) -> None:
    path.write_text(f"n1 ssh-ed25519 {ED25519}\n[n1]:2222 ssh-ed25519 {OTHER}\n")
    assert keys_in(path, "[n1]:2222") == {"ssh-ed25519": (OTHER,)}
    assert keys_in(path, "[n1]:2223") == {"ssh-ed25519": (ED25519,)}


def test_a_file_that_changes_is_read_again(path: Path) -> None:
    path.write_text(f"n1 ssh-ed25519 {ED25519}\n")
    assert keys_in(path, "n1") == {"ssh-ed25519": (ED25519,)}
    path.write_text(f"@revoked n1 ssh-ed25519 {ED25519}\n")
    assert keys_in(path, "n1") == {}


def test_bytes_that_are_no_text_in_known_hosts_do_no_harm(path: Path) -> None:
    path.write_bytes(b"\xff\xfe x y\n" + f"n1 ssh-ed25519 {ED25519}\n".encode())
    assert keys_in(path, "n1") == {"ssh-ed25519": (ED25519,)}


def test_known_hosts_spells_a_port_only_when_it_is_not_the_usual_one() -> None:
    assert spelled("n1", 22) == "n1"
    assert spelled("n1", 2222) == "[n1]:2222"


@needs_openssh
@pytest.mark.parametrize("form", ["keys", "key revocation list"])
def test_a_file_of_revoked_keys_says_what_openssh_says(tmp_path: Path, form: str) -> None:
    for name in ("stolen", "good"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / name], check=True)
    file = tmp_path / "revoked"
    if form == "keys":
        file.write_bytes(b"# lost in June\n\n" + (tmp_path / "stolen.pub").read_bytes())
    else:
        subprocess.run(["ssh-keygen", "-q", "-k", "-f", file, tmp_path / "stolen.pub"], check=True)
    for name, revoked in (("stolen", True), ("good", False)):
        key = HostKey(*(tmp_path / f"{name}.pub").read_text().split()[:2])
        assert is_revoked(file, key) == revoked
        if form != "keys":
            argv = ["ssh-keygen", "-Q", "-f", file, tmp_path / f"{name}.pub"]
            assert (subprocess.run(argv, capture_output=True, check=False).returncode != 0) == revoked


def test_a_file_of_revoked_keys_that_cannot_be_read_revokes_all_keys(tmp_path: Path) -> None:
    host = KnownHost(("n1",), (), (str(tmp_path / "missing"),))
    assert host.revoked_in(HostKey("ssh-ed25519", ED25519)) == str(tmp_path / "missing")


def test_a_fingerprint_is_what_openssh_prints(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen on this machine to compare with")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    printed = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], check=True, capture_output=True, text=True
    ).stdout
    assert fingerprint((tmp_path / "key.pub").read_text().split()[1]) == printed.split()[1]
