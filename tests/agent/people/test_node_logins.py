"""sshd's PAM lines for nodes that users enter with a job only: written, guarded, kept or taken back, and removed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from sshd_pam import AUTHSELECTS, COMMON, DEBIANS, ENTERPRISE_LINUXS

from slurmfab.on_hosts.agent.core.host_lock import Lock
from slurmfab.on_hosts.agent.core.lock_taking import take_lock
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.people import node_logins
from slurmfab.on_hosts.agent.people.node_logins import ACCOUNT, EXEMPT, LOGIN_FILES, RECORD, SESSION, SSHD, NodeLogins
from slurmfab.on_hosts.agent.services import login_guard
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard
from slurmfab.on_hosts.agent.undo import undo_store
from slurmfab.on_hosts.agent.undo.restored_file import EarlierLogins

CLOSED = NodeLogins(("root", "slurm"))
OPEN = NodeLogins(())
RUN, BACK = "20261121T100000.000000Z-deploy", "20261121T110000.000000Z-rollback"


class Host(Context):
    """A scratch root with sshd's PAM files, on which systemd's programs only note that they were called."""

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.keep = undo_store.keep
        self.programs: list[str] = []
        self.put(SSHD, DEBIANS)
        self.put(node_logins.COMMON_SESSION, COMMON)
        for module in ("slurm_adopt", "nologin", "loginuid", "limits", "unix"):
            self.put(f"/usr/lib/x86_64-linux-gnu/security/pam_{module}.so", "")

    def put(self, path: str, text: str) -> None:
        Path(self.path(path)).parent.mkdir(parents=True, exist_ok=True)
        Path(self.path(path)).write_text(text)

    def text(self, path: str) -> str:
        return Path(self.path(path)).read_text() if Path(self.path(path)).exists() else ""

    def run(self, argv: Sequence[str], *rest: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[0] in ("systemctl", "systemd-run"):
            self.programs.append(argv[0])
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        return super().run(argv, *rest, **more)


@pytest.fixture
def host(root: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.delenv("SUDO_USER", raising=False)
    return Host(str(root))


def test_a_node_with_authselects_files_when_closed_then_they_stay_and_sshd_includes_slurmfabs_lines(host: Host) -> None:
    host.put(SSHD, ENTERPRISE_LINUXS)
    host.put(node_logins.PASSWORD_AUTH, AUTHSELECTS)
    for module in ("sepermit", "selinux", "namespace"):
        host.put(f"/usr/lib64/security/pam_{module}.so", "")
    assert apply(CLOSED, host).status == CHANGED
    assert apply(CLOSED, host).status == OK
    lines = host.text(SSHD).splitlines()
    ours, theirs = (
        lines.index("account substack slurmfab-account"),
        lines.index("account    include      password-auth"),
    )
    assert ours < theirs
    assert "# in place of: session    include      password-auth" in lines
    assert lines[lines.index("session include slurmfab-session") + 1 :][1:] == ["session    include      postlogin"]
    assert host.text(node_logins.PASSWORD_AUTH) == AUTHSELECTS
    assert "user ingroup wheel" in host.text(ACCOUNT)
    session = host.text(SESSION).splitlines()
    assert [line.split()[-1] for line in session if not line.startswith("#")] == [
        "revoke", "pam_limits.so", f"file={EXEMPT}", "wheel", "pam_systemd.so", "use_uid", "pam_unix.so",
    ]  # fmt: skip
    assert apply(OPEN, host).status == CHANGED
    assert host.text(SSHD) == ENTERPRISE_LINUXS


def test_lines_that_authselect_changes_when_deployed_again_then_slurmfabs_follow(host: Host) -> None:
    host.put(SSHD, ENTERPRISE_LINUXS)
    host.put(node_logins.PASSWORD_AUTH, AUTHSELECTS)
    assert apply(CLOSED, host).status == CHANGED
    assert apply(LoginGuard(proved=True), host).status == CHANGED
    host.put(node_logins.PASSWORD_AUTH, AUTHSELECTS + "session     optional      pam_oddjob_mkhomedir.so\n")
    assert apply(CLOSED, host).status == CHANGED
    assert "pam_oddjob_mkhomedir.so" in host.text(SESSION)


def test_a_node_that_is_closed_then_opened_has_the_bytes_of_before(host: Host) -> None:
    assert apply(CLOSED, host).status == CHANGED
    assert apply(CLOSED, host).status == OK
    assert all(host.text(path) for path in (EXEMPT, ACCOUNT, SESSION, RECORD))
    assert apply(OPEN, host).status == CHANGED
    assert host.text(SSHD) == DEBIANS
    assert not any(host.text(path) for path in (EXEMPT, ACCOUNT, SESSION, RECORD))
    assert apply(OPEN, host).status == OK


def test_users_are_judged_before_common_account_and_keep_their_sessions_out_of_pam_systemd(host: Host) -> None:
    apply(CLOSED, host)
    lines = host.text(SSHD).splitlines()
    assert lines.index("account substack slurmfab-account") < lines.index("@include common-account")
    assert ("@include slurmfab-session" in lines, "@include common-session" in lines) == (True, False)
    first, second, *others, listed, sudoers, systemd = host.text(SESSION).splitlines()[1:]
    assert [first, second, *others, systemd] == COMMON.splitlines()
    assert (" default=ignore] pam_listfile.so " in listed, " default=1] pam_succeed_if.so " in sudoers) == (True, True)


def test_the_list_has_the_cluster_files_users_and_everybody_who_has_deployed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "bob")
    apply(CLOSED, host)
    monkeypatch.setenv("SUDO_USER", "ann")
    apply(NodeLogins(("ann", "root", "slurm")), host)
    monkeypatch.delenv("SUDO_USER")
    assert apply(CLOSED, host).status == CHANGED
    assert host.text(EXEMPT).splitlines() == ["root", "slurm", node_logins.DEPLOYERS, "ann", "bob"]


def test_another_nodename_is_told_to_the_module(host: Host) -> None:
    apply(NodeLogins(("root",), "cn01"), host)
    assert "action_adopt_failure=deny nodename=cn01\n" in host.text(ACCOUNT)


@pytest.mark.parametrize(
    ("path", "text", "says"),
    [
        (SSHD, DEBIANS + "account required pam_slurm_adopt.so\n", "that slurmfab did not write"),
        (SSHD, DEBIANS + "# END slurmfab logins\n", "are damaged (8)"),
        (SSHD, "", "openssh-server"),
        ("/usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so", None, "libpam-slurm-adopt"),
    ],
)
def test_what_would_let_nobody_in_is_refused_and_nothing_changed(
    host: Host, path: str, text: str | None, says: str
) -> None:
    Path(host.path(path)).unlink()
    if text is not None:
        host.put(path, text)
    before = host.text(SSHD)
    outcome = apply(CLOSED, host)
    assert (outcome.status, says in outcome.message) == (FAILED, True)
    assert (host.text(SSHD), host.text(EXEMPT)) == (before, "")


@pytest.mark.parametrize(("proved", "is_kept"), [(True, True), (False, False)])
def test_a_guarded_change_is_kept_when_it_is_proved_and_else_taken_back(
    host: Host, *, proved: bool, is_kept: bool
) -> None:
    apply(CLOSED, host)
    assert "systemd-run" in host.programs
    assert apply(LoginGuard(proved), host).status == CHANGED
    assert (host.text(SSHD) != DEBIANS) == is_kept
    assert left_of_the_guard(host) == []
    assert apply(LoginGuard(proved), host).status == OK
    assert (apply(CLOSED, host).status == OK) == is_kept


def left_of_the_guard(host: Host) -> list[str]:
    """What the host has of a guard."""
    paths = (login_guard.EARLIER, login_guard.NEW, login_guard.DONE, login_guard.BOOT_FILE, login_guard.BOOT_LINK)
    return [path for path in paths if os.path.lexists(host.path(path))]


def boot(host: Host) -> int:
    """What systemd runs at boot while there is a guard; its exit code."""
    if not Path(host.path(login_guard.BOOT_LINK)).resolve().exists():
        return -1
    (command,) = re.findall(r"^ExecStart=(.*)$", host.text(login_guard.BOOT_FILE), re.MULTILINE)
    words = [word.replace("$$", "$").replace("%%", "%") for word in shlex.split(command)]
    assert words[-2:] == [login_guard.EARLIER, "/"]
    return subprocess.run([*words[:-2], host.path(login_guard.EARLIER), host.root], check=False).returncode


def test_a_host_that_went_down_before_the_proof_takes_the_change_back_at_boot(host: Host) -> None:
    apply(CLOSED, host)
    assert Path(host.path(login_guard.EARLIER)).stat().st_mode & 0o777 == 0o700
    assert boot(host) == 0
    assert (host.text(SSHD), left_of_the_guard(host)) == (DEBIANS, [])
    assert apply(CLOSED, host).status == CHANGED


def test_a_proved_change_stays_at_boot_wherever_the_end_of_the_guard_was_cut_off(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply(CLOSED, host)
    closed = host.text(SSHD)
    with monkeypatch.context() as patch:
        patch.setattr(login_guard.replace, "unlink", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            apply(LoginGuard(proved=True), host)
    assert not login_guard.is_armed(host), "systemd would take it back at boot"
    assert apply(LoginGuard(proved=False), host).status == CHANGED
    assert (host.text(SSHD), left_of_the_guard(host)) == (closed, [])


def test_a_removal_that_is_taken_back_is_remembered_as_slurmfabs(host: Host) -> None:
    apply(CLOSED, host)
    apply(LoginGuard(proved=True), host)
    texts = [host.text(path) for path in LOGIN_FILES]
    apply(OPEN, host)
    assert host.text(RECORD) == ""
    assert boot(host) == 0
    assert [host.text(path) for path in LOGIN_FILES] == texts


def test_a_rolled_back_change_of_logins_is_guarded_as_well(host: Host) -> None:
    host.run_id = RUN
    apply(CLOSED, host)
    apply(LoginGuard(proved=True), host)
    closed = [host.text(path) for path in LOGIN_FILES]
    host.run_id = BACK
    back = EarlierLogins(SSHD, tuple((path, RUN) for path in LOGIN_FILES))
    assert apply(back, host).status == CHANGED
    assert (host.text(SSHD), login_guard.is_armed(host)) == (DEBIANS, True)
    apply(LoginGuard(proved=False), host)
    assert [host.text(path) for path in LOGIN_FILES] == closed
    assert apply(back, host).status == CHANGED
    apply(LoginGuard(proved=True), host)
    assert [host.text(path) for path in LOGIN_FILES] == [DEBIANS, "", "", "", ""]
    assert apply(back, host).status == OK


def test_earlier_lines_of_a_module_that_is_gone_are_refused_and_nothing_changed(host: Host) -> None:
    apply(CLOSED, host)
    apply(LoginGuard(proved=True), host)
    host.run_id = RUN
    apply(OPEN, host)
    apply(LoginGuard(proved=True), host)
    Path(host.path("/usr/lib/x86_64-linux-gnu/security/pam_slurm_adopt.so")).unlink()
    outcome = apply(EarlierLogins(SSHD, tuple((path, RUN) for path in LOGIN_FILES)), host)
    assert (outcome.status, "needs pam_slurm_adopt.so" in outcome.message) == (FAILED, True)
    assert (host.text(SSHD), left_of_the_guard(host)) == (DEBIANS, [])


def test_a_change_that_fails_half_way_is_taken_back(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def put(context: Context, path: str, text: str | None) -> None:
        original(context, path, text)
        if path == SSHD:
            raise ResourceFailed("the disk is full")

    original = node_logins.put
    monkeypatch.setattr(node_logins, "put", put)
    assert apply(CLOSED, host).status == FAILED
    assert host.text(SSHD) == DEBIANS


def test_a_run_that_ends_without_proof_has_its_change_taken_back_by_the_host(host: Host, tmp_path: Path) -> None:
    lock = Lock()
    take_lock(lock, str(tmp_path / "lock"), "ann, fab deploy", print)
    apply(CLOSED, host)
    places: Mapping[int, str] = {1: host.path(login_guard.EARLIER), 2: host.path("/"), 3: str(tmp_path / "lock")}
    script = ["sh", "-c", login_guard.WAIT + login_guard.RESTORE, "sh", *places.values()]
    with subprocess.Popen(script) as guard:
        with pytest.raises(subprocess.TimeoutExpired):
            guard.wait(0.3)
        assert host.text(SSHD) != DEBIANS
        os.close(lock.descriptor or 0)
        assert guard.wait(60) == 0
    assert (host.text(SSHD), login_guard.is_armed(host)) == (DEBIANS, False)
