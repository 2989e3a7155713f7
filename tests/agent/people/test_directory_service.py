"""SSSD's settings on a host: written under the guard of logins, asked before, taken back; PAM's command is noted."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core.host_paths import SSSD_CONF
from slurmfab.on_hosts.agent.core.resource import CHANGED, OK, Context, apply
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.people import ldap_probe
from slurmfab.on_hosts.agent.people.directory_service import (
    CA,
    CACHES,
    HOMES_FILE,
    HOMES_LINE,
    NSSWITCH,
    OF,
    DirectoryService,
    homes_text,
)
from slurmfab.on_hosts.agent.services import login_guard
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard

OWN = (OwnedFile(CA, "CA\n"), OwnedFile(SSSD_CONF, "[domain/directory]\nldap_uri =\n", mode=0o600, secret=True))
HERE = DirectoryService(OF, (*OWN, OwnedFile(HOMES_FILE, homes_text(["/home"]))))
GONE = DirectoryService(OF, ())
SWITCH = "passwd:         files systemd\ngroup:          files systemd sss\nhosts: files dns\n"


class Host(Context):
    """A scratch root whose PAM is made by a note of what pam-auth-update would do."""

    is_edited = False

    def run(self, argv: Sequence[str], *rest: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[0] in ("systemctl", "systemd-run", "sss_cache"):
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        if "pam-auth-update" in argv:
            enabled = argv[argv.index("--enable") + 1 :] if "--enable" in argv else ["sss"]
            if not self.is_edited:
                self.write_pam("slurmfab-homes" in enabled)
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        return super().run(argv, *rest, **more)

    def write_pam(self, has_homes: bool) -> None:
        for name in ("account", "auth", "session"):
            lines = homes_text(["/home"]).partition("Session:\n")[2].splitlines() if has_homes else []
            more = "".join(f"session{line}\n" for line in lines) if name == "session" else ""
            Path(self.path(f"/etc/pam.d/common-{name}")).write_text(f"{name} sufficient pam_sss.so\n{more}")

    def text(self, path: str) -> str:
        return Path(self.path(path)).read_text()


@pytest.fixture
def host(root: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(ldap_probe, "troubles", lambda *_: {"ldaps://a": "", "ldaps://b": "it is down"})
    for folder in (
        "etc/pam.d",
        "etc/sssd",
        "var/lib/slurmfab",
        "var/lib/sss/db",
        "var/lib/pam",
        "usr/share/pam-configs",
    ):
        (root / folder).mkdir(parents=True)
    for name in ("account", "auth", "session"):
        (root / f"etc/pam.d/common-{name}").write_text(f"{name} required pam_unix.so\n")
    (root / "etc/nsswitch.conf").write_text(SWITCH)
    return Host(str(root))


def test_a_directory_that_comes_and_goes_leaves_nothing(host: Host) -> None:
    outcome = apply(HERE, host)
    assert (outcome.status, outcome.message) == (CHANGED, "ldaps://b: it is down")
    assert apply(HERE, host).status == OK
    assert Path(host.path(SSSD_CONF)).stat().st_mode & 0o777 == 0o600
    assert host.text(NSSWITCH).startswith("passwd:         files systemd sss\ngroup:          files systemd sss\nhosts")
    assert HOMES_LINE in host.text("/etc/pam.d/common-session")
    apply(LoginGuard(proved=True), host)
    for cache in CACHES:
        Path(host.path(cache)).write_text("hashes")
    assert apply(GONE, host).status == CHANGED
    assert apply(GONE, host).status == OK
    assert not any(os.path.lexists(host.path(path)) for path in (SSSD_CONF, CA, HOMES_FILE, *CACHES))
    assert HOMES_LINE not in host.text("/etc/pam.d/common-session")


def test_the_unit_of_debian_13_may_let_group_root_read_the_settings(host: Host) -> None:
    apply(HERE, host)
    apply(LoginGuard(proved=True), host)
    Path(host.path(SSSD_CONF)).chmod(0o640)
    assert apply(HERE, host).status == OK
    Path(host.path(SSSD_CONF)).chmod(0o644)
    assert apply(HERE, host).status == CHANGED


@pytest.mark.needs_root("only root gives files to groups")
def test_the_unit_of_ubuntu_26_04_may_give_the_files_to_its_group(host: Host) -> None:
    with Path(host.path("/etc/group")).open("a") as file:
        file.write("sssd:x:4711:\n")
    apply(HERE, host)
    apply(LoginGuard(proved=True), host)
    for path, mode in ((SSSD_CONF, 0o640), (CA, 0o644)):
        os.chown(host.path(path), -1, 4711)
        Path(host.path(path)).chmod(mode)
    assert apply(HERE, host).status == OK
    Path(host.path(SSSD_CONF)).chmod(0o660)
    assert apply(HERE, host).status == CHANGED


def test_nothing_is_changed_when_no_server_can_be_asked(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ldap_probe, "troubles", lambda *_: {"ldaps://a": "its certificate is not accepted: x"})
    assert "ldaps://a: its certificate is not accepted: x. Nothing was changed" in failure(HERE, host)
    assert not Path(host.path(SSSD_CONF)).exists()
    assert host.text(NSSWITCH) == SWITCH


def test_settings_stay_out_of_use_when_another_login_fails(host: Host) -> None:
    apply(HERE, host)
    apply(LoginGuard(proved=False), host)
    assert "[domain" not in host.text(SSSD_CONF)
    assert host.text(NSSWITCH) == SWITCH
    assert apply(HERE, host).status == CHANGED, "the next run tries again"


def test_a_pam_that_somebody_edits_by_hand_is_told_and_all_is_as_before(host: Host) -> None:
    host.is_edited = True
    assert "PAM asks SSSD, homes at first login: it is not so, because somebody has edited" in failure(HERE, host)
    assert host.text(NSSWITCH) == SWITCH
    assert not login_guard.is_armed(host)
