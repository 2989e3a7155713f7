"""SELinux's labels of what root writes: by the real libselinux and in real attributes, without a kernel that enforces.

The policy is a small file_contexts(5) about the paths of a test; its words are those of Enterprise Linux's.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core import labels, mounts, replace
from slurmfab.on_hosts.agent.core.applying import apply_timed
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, WOULD_CHANGE, Context, Resource
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.files.selinux_settings import BOOLEAN, SelinuxSettings, has_nfs
from slurmfab.on_hosts.agent.people import home_files

pytestmark = pytest.mark.needs_root("only root may write labels")

RULES = """\
ROOT/.*\tsystem_u:object_r:default_t:s0
ROOT/etc(/.*)?\tsystem_u:object_r:etc_t:s0
ROOT/etc/hosts\t--\tsystem_u:object_r:net_conf_t:s0
ROOT/usr/lib(/.*)?\tsystem_u:object_r:lib_t:s0
ROOT/home/[^/]+\t-d\tsystem_u:object_r:user_home_dir_t:s0
ROOT/home/[^/]+/.+\tsystem_u:object_r:user_home_t:s0
ROOT/home/[^/]+/\\.ssh(/.*)?\tsystem_u:object_r:ssh_home_t:s0
ROOT/tmp/.*\t<<none>>
"""


@pytest.fixture
def selinux(root: Path, monkeypatch: pytest.MonkeyPatch) -> labels.Policy:
    """The policy of a host whose kernel has SELinux, about a scratch root."""
    contexts = root / "file_contexts"
    contexts.write_text(RULES.replace("ROOT", str(root)))
    policy = labels.Policy(str(contexts))
    monkeypatch.setattr(labels, "policy", lambda: policy)
    return policy


def type_at(path: Path) -> str:
    return labels.type_of(os.getxattr(path, labels.ATTRIBUTE, follow_symlinks=False))


def mislabel(path: Path, kind: str = "tmp_t") -> None:
    os.setxattr(path, labels.ATTRIBUTE, f"unconfined_u:object_r:{kind}:s0\0".encode())


def applied(resource: Resource, root: Path, *, dry_run: bool = False) -> tuple[str, list[tuple[str, str, str]]]:
    outcome = apply_timed(resource, Context(str(root), dry_run=dry_run))
    return outcome.status, [(one.name, one.actual, one.wanted) for one in outcome.changes]


@pytest.mark.usefixtures("selinux")
def test_a_file_when_written_by_a_rename_then_it_has_the_label_of_its_own_path(
    root: Path,
) -> None:
    path = root / "etc/hosts"
    replace.put(str(path), b"127.0.0.1 localhost\n", 0, 0, 0o644)
    assert type_at(path) == "net_conf_t"
    replace.put(str(root / "etc/other"), b"", 0, 0, 0o644)
    assert type_at(root / "etc/other") == "etc_t"


@pytest.mark.usefixtures("selinux")
def test_a_link_and_directories_when_made_then_they_have_their_labels(root: Path) -> None:
    replace.put_link(str(root / "usr/lib/slurmfab/now"), "/etc/hosts")
    assert [type_at(root / one) for one in ("usr/lib", "usr/lib/slurmfab", "usr/lib/slurmfab/now")] == ["lib_t"] * 3


@pytest.mark.usefixtures("selinux")
def test_a_label_when_the_policy_has_no_rule_for_the_path_then_none_is_given(
    root: Path,
) -> None:
    for place in ("srv/x", "tmp/x"):
        replace.put(str(root / place), b"", 0, 0, 0o644, make=True)
        with pytest.raises(OSError, match="No data"):
            os.getxattr(root / place, labels.ATTRIBUTE)


@pytest.mark.usefixtures("selinux")
def test_a_right_file_when_its_label_is_wrong_then_a_plan_shows_it_and_a_run_mends_it(
    root: Path,
) -> None:
    hosts = File("/etc/hosts", "x\n")
    assert applied(hosts, root)[0] == CHANGED
    mislabel(root / "etc/hosts")
    difference = [("label of /etc/hosts", "tmp_t", "net_conf_t")]
    assert applied(hosts, root, dry_run=True) == (WOULD_CHANGE, difference)
    assert type_at(root / "etc/hosts") == "tmp_t"
    assert applied(hosts, root) == (CHANGED, difference)
    assert type_at(root / "etc/hosts") == "net_conf_t"
    assert applied(hosts, root) == (OK, [])


@pytest.mark.usefixtures("selinux")
def test_directories_and_programs_when_their_labels_are_wrong_then_they_are_mended(
    root: Path,
) -> None:
    program, directory = Program("/usr/lib/slurmfab/own", (("run.py", "pass\n"),)), Directory("/etc/slurm")
    for one in (program, directory):
        assert applied(one, root)[0] == CHANGED
        assert applied(one, root) == (OK, [])
    mislabel(root / "usr/lib/slurmfab/own/run.py")
    mislabel(root / "etc/slurm")
    assert applied(program, root)[1] == [("label of /usr/lib/slurmfab/own/run.py", "tmp_t", "lib_t")]
    assert applied(directory, root)[1] == [("label of /etc/slurm", "tmp_t", "etc_t")]


@pytest.mark.usefixtures("selinux")
def test_a_label_when_only_its_user_differs_then_it_is_right_as_for_restorecon(
    root: Path,
) -> None:
    assert applied(File("/etc/hosts", "x\n"), root)[0] == CHANGED
    mislabel(root / "etc/hosts", "net_conf_t")
    assert applied(File("/etc/hosts", "x\n"), root) == (OK, [])


@pytest.mark.usefixtures("selinux")
def test_a_file_when_the_mount_keeps_no_labels_then_none_is_missed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert applied(File("/etc/hosts", "x\n"), root)[0] == CHANGED
    mislabel(root / "etc/hosts", "nfs_t")
    device = (root / "etc/hosts").stat().st_dev
    here = f"{os.major(device)}:{os.minor(device)}"
    mounts = root / "mountinfo"
    monkeypatch.setattr(labels, "MOUNTS", str(mounts))
    mounts.write_text(f"1 0 9:9 / / rw - xfs /dev/x rw,seclabel\n2 1 {here} / /home rw - nfs4 server:/home rw\n")
    assert applied(File("/etc/hosts", "x\n"), root) == (OK, [])
    mounts.write_text(f"1 0 {here} / / rw - xfs /dev/x rw,seclabel\n")
    assert applied(File("/etc/hosts", "x\n"), root)[0] == CHANGED


@pytest.mark.usefixtures("selinux")
def test_a_file_with_a_second_name_in_a_directory_of_a_user_when_mislabelled_then_root_leaves_its_label(
    root: Path,
) -> None:
    (root / "etc/secret").write_text("")
    mislabel(root / "etc/secret", "shadow_t")
    home = root / "home/mallory"
    home.mkdir(parents=True)
    home.chmod(0o777)
    os.link(root / "etc/secret", home / "file")
    applied(File("/home/mallory/file", "", mode=0o644), root)
    assert type_at(root / "etc/secret") == "shadow_t"


@pytest.mark.usefixtures("selinux")
def test_a_root_that_may_give_no_labels_when_writing_then_files_are_written_and_mending_fails_with_the_reason(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", "/etc/hosts")

    monkeypatch.setattr(labels, "put", refuse)
    replace.put(str(root / "etc/hosts"), b"x\n", 0, 0, 0o644)
    replace.put_link(str(root / "usr/lib/now"), "/etc/hosts")
    outcome = apply_timed(File("/etc/hosts", "x\n"), Context(str(root)))
    assert outcome.status == FAILED
    assert "Permission denied" in outcome.message


def test_a_host_without_selinux_when_files_are_written_then_they_have_no_labels(root: Path) -> None:
    assert labels.policy() is None
    assert applied(File("/etc/hosts", "x\n"), root)[0] == CHANGED
    assert labels.ATTRIBUTE not in os.listxattr(root / "etc/hosts")
    assert applied(SelinuxSettings((("/home/slurm/.ssh", "ssh_home_t"),)), root) == (OK, [])


def test_a_policy_that_cannot_be_read_when_a_file_is_applied_then_the_reason_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "policy", lambda: labels.Policy("/nowhere/file_contexts"))
    outcome = apply_timed(File("/etc/hosts", "x\n"), Context(str(root)))
    assert outcome.status == FAILED
    assert "SELinux's policy has no readable labels of files" in outcome.message


@pytest.mark.usefixtures("selinux")
def test_a_new_home_when_made_then_it_and_its_keys_have_the_labels_of_homes(root: Path) -> None:
    skeleton, home = root / "etc/skel", root / "home/ada"
    skeleton.mkdir()
    (skeleton / ".profile").write_text("")
    mislabel(skeleton / ".profile", "etc_t")  # copying takes attributes along
    home.parent.mkdir()
    me = (os.getuid(), os.getgid())
    home_files.make_home(me, str(home), ".slurmfab-new", str(skeleton))
    home_files.write_keys(me, str(home), b"ssh-ed25519 AAAA\n", ".slurmfab-keys")
    found = {one: type_at(home / one) for one in (".", ".profile", ".ssh", ".ssh/authorized_keys")}
    assert found == {
        ".": "user_home_dir_t",
        ".profile": "user_home_t",
        ".ssh": "ssh_home_t",
        ".ssh/authorized_keys": "ssh_home_t",
    }


class Host(Context):
    """A host whose policy learns what a recorded semanage and setsebool are told; SELinux's own were never asked."""

    def __init__(self, root: Path, policy: labels.Policy, answers: dict[str, int] | None = None) -> None:
        super().__init__(str(root))
        self.policy, self.answers, self.called = policy, answers or {}, list[str]()

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        self.called.append(" ".join(argv))
        code = self.answers.get(argv[2], 0)
        if argv[0] == "semanage" and code == 0:
            contexts = Path(self.root) / "file_contexts"
            contexts.write_text(f"{contexts.read_text()}{self.root}{argv[-1]}\tsystem_u:object_r:{argv[-2]}:s0\n")
            self.policy.__init__(str(contexts))  # type: ignore[misc]  # as the cleared cache would make a new one
        if argv[0] == "setsebool":
            (Path(self.root) / "sys/fs/selinux/booleans/use_nfs_home_dirs").write_text("1 1\n")
        return subprocess.CompletedProcess(argv, code, b"", b"ValueError: already defined")


SETTINGS = SelinuxSettings((("/var/lib/slurm/home/.ssh", "ssh_home_t"),), ("/home",))
RULE = r"--type ssh_home_t /var/lib/slurm/home/\.ssh(/.*)?"


def mounted(*points: str) -> str:
    """The text of mountinfo. `points`: mount points, each with its file system type."""
    pairs = (point.split() for point in points)
    return "".join(
        f"{number} 1 0:{number} / {path} rw - {kind} source rw\n" for number, (path, kind) in enumerate(pairs)
    )


def enforcing(root: Path, monkeypatch: pytest.MonkeyPatch, value: str = "1", *, semanage: bool = True) -> None:
    """A host with homes on NFS that enforces SELinux, or does not."""
    monkeypatch.setattr(labels.policy, "cache_clear", lambda: None, raising=False)
    (root / "sys/fs/selinux/booleans").mkdir(parents=True)
    (root / "sys/fs/selinux/enforce").write_text(value)
    (root / "sys/fs/selinux/booleans/use_nfs_home_dirs").write_text("0 0\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/mountinfo").write_text(mounted("/home nfs4"))
    if semanage:
        (root / "usr/sbin").mkdir(parents=True)
        (root / "usr/sbin/semanage").write_text("")


@pytest.mark.parametrize("already", [False, True])
def test_the_policy_when_it_does_not_know_slurms_keys_then_it_learns_their_type_and_the_homes(
    root: Path, selinux: labels.Policy, monkeypatch: pytest.MonkeyPatch, already: bool
) -> None:
    enforcing(root, monkeypatch)
    host = Host(root, selinux, {"--add": 1} if already else {})
    outcome = apply_timed(SETTINGS, host)
    assert outcome.status == CHANGED, outcome.message
    told = {one.name: (one.actual, one.wanted) for one in outcome.changes}
    assert told == {"label below /var/lib/slurm/home/.ssh": ("", "ssh_home_t"), BOOLEAN: ("off", "on")}
    added = [f"semanage fcontext --add {RULE}", *([f"semanage fcontext --modify {RULE}"] if already else [])]
    assert host.called == [*added, "setsebool -P use_nfs_home_dirs on"]
    assert apply_timed(SETTINGS, host).status == OK


@pytest.mark.usefixtures("selinux")
def test_a_host_without_semanage_when_it_enforces_then_it_fails_with_the_package(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enforcing(root, monkeypatch, semanage=False)
    monkeypatch.setattr("slurmfab.on_hosts.agent.core.resource.SYSTEM_PATH", str(root))
    outcome = apply_timed(SETTINGS, Context(str(root)))
    assert outcome.status == FAILED
    assert outcome.message.endswith("Repair: dnf install policycoreutils-python-utils")


@pytest.mark.usefixtures("selinux")
def test_a_host_without_semanage_when_it_is_permissive_then_that_is_a_remark(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enforcing(root, monkeypatch, "0", semanage=False)
    outcome = apply_timed(SelinuxSettings(SETTINGS.types), Context(str(root)))
    assert outcome.status == OK
    assert "policycoreutils-python-utils" in outcome.message


@pytest.mark.parametrize(
    ("points", "is_nfs"),
    [
        (("/ xfs", "/home nfs4"), True),
        (("/home/ada nfs",), True),
        (("/ nfs", "/home xfs"), False),
        (("/ nfs",), True),
        (("/homes nfs", "/ xfs"), False),
        ((), False),
    ],
)
def test_homes_when_on_nfs_then_that_is_seen_by_the_mounts(points: tuple[str, ...], is_nfs: bool) -> None:
    assert has_nfs(mounts.parse(mounted(*points)), ("/home",)) == is_nfs
