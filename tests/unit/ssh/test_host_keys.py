"""Who vouches for a host's SSH key."""

from __future__ import annotations

import base64
import hmac
import shutil
import subprocess
from pathlib import Path

import paramiko
import pytest
from ssh_keys import ED25519, OTHER, RSA

from slurmfab.errors import HostKeyChanged, HostKeyUnknown
from slurmfab.ssh.host_keys import SIGNATURES, PinnedKey, fingerprint, known_keys, refused_types, spelled


def hashed(name: str) -> str:
    """A name as `ssh-keygen -H` writes it."""
    salt = b"twenty bytes of salt"
    digest = hmac.new(salt, name.encode(), "sha1").digest()
    return f"|1|{base64.b64encode(salt).decode()}|{base64.b64encode(digest).decode()}"


class ShownKey(paramiko.PKey):
    """A key as a host shows it."""

    def __init__(self, kind: str, value: str) -> None:
        self.kind, self.value = kind, value

    def get_name(self) -> str:
        return self.kind

    def get_base64(self) -> str:
        return self.value


def show(policy: PinnedKey, kind: str = "ssh-ed25519", value: str = ED25519) -> PinnedKey:
    policy.missing_host_key(paramiko.SSHClient(), "n1", ShownKey(kind, value))
    return policy


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (f"n1 ssh-ed25519 {ED25519}", ("n1",)),
        (f"n1,10.0.0.1 ssh-ed25519 {ED25519} a comment", ("10.0.0.1",)),
        (f"[n1]:2222 ssh-ed25519 {ED25519}", ("[n1]:2222",)),
        (f"{hashed('n1')} ssh-ed25519 {ED25519}", ("n1",)),
        (f"{hashed('[n1]:2222')} ssh-ed25519 {ED25519}", ("[n1]:2222",)),
    ],
)
def test_a_known_hosts_line_vouches_for_the_host_that_it_names(
    tmp_path: Path, line: str, names: tuple[str, ...]
) -> None:
    (tmp_path / "known_hosts").write_text(f"# a comment\n\n{line}\n")
    assert known_keys(names, [tmp_path / "known_hosts"]) == {"ssh-ed25519": ED25519}
    assert known_keys(["another"], [tmp_path / "known_hosts"]) == {}


@pytest.mark.parametrize(
    "line",
    [
        f"@revoked n1 ssh-ed25519 {ED25519}",
        f"@cert-authority n1 ssh-ed25519 {ED25519}",
        f"#n1 ssh-ed25519 {ED25519}",
        "n1",
        "n1 ssh-ed25519",
        "n1 ssh-ed25519 this-is-no-base64!",
        "n1 ssh-ed25519 AAAA",
        f"n1 ssh-rsa {ED25519}",
        f"|1|damaged ssh-ed25519 {ED25519}",
        f"|1|!!!|!!! ssh-ed25519 {ED25519}",
        f"|1|ä|ö ssh-ed25519 {ED25519}",
        f"n* ssh-ed25519 {ED25519}",
        f"[n1]:2222 ssh-ed25519 {ED25519}",
    ],
)
def test_marked_damaged_and_other_lines_vouch_for_nobody_and_hide_no_good_one(tmp_path: Path, line: str) -> None:
    (tmp_path / "known_hosts").write_text(f"{line}\n")
    assert known_keys(["n1"], [tmp_path / "known_hosts"]) == {}
    (tmp_path / "known_hosts").write_text(f"{line}\nn1 ssh-ed25519 {OTHER}\n")
    assert known_keys(["n1"], [tmp_path / "known_hosts"]) == {"ssh-ed25519": OTHER}


def test_a_host_has_one_key_of_each_type_the_first_files_first(tmp_path: Path) -> None:
    (tmp_path / "own").write_text(f"n1 ssh-ed25519 {ED25519}\n")
    (tmp_path / "systems").write_text(f"n1 ssh-ed25519 {OTHER}\nn1 ssh-rsa {RSA}\n")
    files = [tmp_path / "none", tmp_path / "own", tmp_path / "systems"]
    assert known_keys(["n1"], files) == {"ssh-ed25519": ED25519, "ssh-rsa": RSA}


def test_bytes_that_are_no_text_in_known_hosts_do_no_harm(tmp_path: Path) -> None:
    (tmp_path / "known_hosts").write_bytes(b"\xff\xfe x y\n" + f"n1 ssh-ed25519 {ED25519}\n".encode())
    assert known_keys(["n1"], [tmp_path / "known_hosts"]) == {"ssh-ed25519": ED25519}


def test_known_hosts_spells_a_port_only_when_it_is_not_the_usual_one() -> None:
    assert spelled("n1", 22) == "n1"
    assert spelled("n1", 2222) == "[n1]:2222"


def test_the_pinned_key_is_let_in_and_remembered() -> None:
    assert show(PinnedKey("n1", {"ssh-ed25519": ED25519})).shown == ("ssh-ed25519", ED25519)


def test_an_unknown_key_is_refused_with_its_fingerprint_and_the_flag() -> None:
    policy = PinnedKey("n1", {})
    with pytest.raises(HostKeyUnknown) as unknown:
        show(policy)
    assert policy.shown == ("ssh-ed25519", ED25519)
    assert (unknown.value.host, unknown.value.key) == ("n1", ED25519)
    assert fingerprint(ED25519) in str(unknown.value)
    assert "--accept-new-host-keys" in str(unknown.value)


def test_an_unknown_key_is_let_in_when_the_user_said_so() -> None:
    assert show(PinnedKey("n1", {}, accept_new=True)).shown == ("ssh-ed25519", ED25519)


@pytest.mark.parametrize("accept_new", [False, True])
def test_another_key_than_the_pinned_one_is_refused_whatever_the_user_said(accept_new: bool) -> None:
    with pytest.raises(HostKeyChanged) as changed:
        show(PinnedKey("n1", {"ssh-ed25519": OTHER}, accept_new=accept_new))
    assert fingerprint(ED25519) in str(changed.value)
    assert fingerprint(OTHER) in str(changed.value)


@pytest.mark.parametrize("accept_new", [False, True])
def test_a_key_of_another_type_than_the_pinned_ones_is_not_believed(accept_new: bool) -> None:
    with pytest.raises(HostKeyUnknown):
        show(PinnedKey("n1", {"ssh-rsa": RSA}, accept_new=accept_new))


def test_a_fingerprint_is_what_openssh_prints(tmp_path: Path) -> None:
    if shutil.which("ssh-keygen") is None:
        pytest.skip("there is no ssh-keygen on this machine to compare with")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    printed = subprocess.run(
        ["ssh-keygen", "-lf", tmp_path / "key.pub"], check=True, capture_output=True, text=True
    ).stdout
    assert fingerprint((tmp_path / "key.pub").read_text().split()[1]) == printed.split()[1]


def test_signatures_are_those_that_the_library_prefers() -> None:
    assert vars(paramiko.Transport)["_preferred_keys"] == SIGNATURES


@pytest.mark.parametrize(
    ("pinned", "left"),
    [
        ({}, list(SIGNATURES)),
        ({"ssh-ed25519": ED25519}, ["ssh-ed25519"]),
        ({"ssh-rsa": RSA}, ["rsa-sha2-512", "rsa-sha2-256"]),
        ({"ssh-rsa": RSA, "ssh-ed25519": ED25519}, ["ssh-ed25519", "rsa-sha2-512", "rsa-sha2-256"]),
    ],
)
def test_a_host_is_made_to_show_a_key_of_a_pinned_type(pinned: dict[str, str], left: list[str]) -> None:
    assert [name for name in SIGNATURES if name not in refused_types(pinned)] == left
