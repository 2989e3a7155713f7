"""New UIDs and GIDs for users and their files: a real tree with real owners, and real mounts if run as root."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from outcomes import failure

from slurmfab.on_hosts.agent.core import mounts
from slurmfab.on_hosts.agent.core.mounts import Mount
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.identities.moved_ids import FileSearch, MovedIds, mount_of
from slurmfab.on_hosts.agent.identities.user import Group, User

pytestmark = pytest.mark.needs_root("only root gives files away")

OLD, NEW, OTHER = 70001, 64030, 70077
SLURM = MovedIds("slurm", NEW, NEW)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A scratch root on one file system, with a user slurm that has the old IDs, and another user."""
    for name in ("etc", "home", "var/lib/slurm", "proc/self"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text(
        f"root:x:0:0::/root:/bin/sh\nslurm:x:{OLD}:{OLD}::/var/lib/slurm:/bin/sh\nalice:x:{OTHER}:{OLD}::/home:/bin/sh\n"
    )
    (tmp_path / "etc/group").write_text(f"root:x:0:\nslurm:x:{OLD}:alice\nlab:x:{OTHER}:\n")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    (tmp_path / "proc/self/mountinfo").write_text(f"{mount_of(descriptor)} 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n")
    os.close(descriptor)
    return tmp_path


def make(path: Path, uid: int = OLD, gid: int = OLD, mode: int = 0o640) -> Path:
    """Make a file with this owner, group and mode, in directories of root."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.chown(path, uid, gid)
    path.chmod(mode)
    return path


def owner(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_uid, status.st_gid


def run_process(root: Path, pid: int, name: str, ids: int, cgroup: str) -> None:
    """Make the files of a process below /proc."""
    (root / "proc" / str(pid)).mkdir()
    numbers = "\t".join([str(ids)] * 4)
    (root / f"proc/{pid}/status").write_text(f"Name:\t{name}\nState:\tS (sleeping)\nUid:\t{numbers}\nGid:\t{numbers}\n")
    (root / f"proc/{pid}/cgroup").write_text(f"1:name=systemd:{cgroup}\n0::{cgroup}\n")


def test_files_with_the_old_ids_get_the_new_ones_everywhere_and_the_entries_are_changed_last(
    root: Path,
) -> None:
    files = [make(root / "var/lib/slurm/state"), make(root / "home/alice/odd name\n"), make(root / "etc/slurm.key")]
    os.chown(root / "var/lib/slurm", OLD, OLD)
    outcome = apply(SLURM, Context(str(root)))
    assert outcome.status == "changed", outcome.message
    assert [(change.name, change.actual, change.wanted) for change in outcome.changes] == [
        ("uid", str(OLD), str(NEW)),
        ("gid", str(OLD), str(NEW)),
    ]
    assert outcome.message == "moved 4 files below /etc, /home, /var (local file systems)"
    assert {owner(path) for path in (*files, root / "var/lib/slurm")} == {(NEW, NEW)}
    assert (root / "etc/passwd").read_text().splitlines() == [
        "root:x:0:0::/root:/bin/sh",
        f"slurm:x:{NEW}:{NEW}::/var/lib/slurm:/bin/sh",
        f"alice:x:{OTHER}:{NEW}::/home:/bin/sh",
    ]
    assert (root / "etc/group").read_text() == f"root:x:0:\nslurm:x:{NEW}:alice\nlab:x:{OTHER}:\n"
    assert apply(SLURM, Context(str(root))).status == "ok"


def test_a_dry_run_counts_each_file_once_and_changes_nothing(root: Path) -> None:
    first = make(root / "home/state")
    os.link(first, root / "home/second-name")
    before = {path: owner(path) for path in root.rglob("*")}
    outcome = apply(SLURM, Context(str(root), dry_run=True))
    assert outcome.status == "would change"
    assert outcome.message == "1 file below /home (local file systems), 0 processes"
    assert {path: owner(path) for path in root.rglob("*")} == before


def test_the_daemons_own_processes_do_not_prevent_the_change(root: Path) -> None:
    run_process(root, 7, "slurmctld", OLD, "/system.slice/slurmctld.service")
    run_process(root, 8, "slurmscriptd", OLD, "/system.slice/slurmctld.service/inner")
    run_process(root, 9, "cat", OTHER, "/system.slice/ssh.service")
    resource, context = MovedIds("slurm", NEW, NEW, ("slurmctld",)), Context(str(root))
    assert [str(one) for one in resource.refuse_processes(context, resource.numbers(context))] == [
        "7 (slurmctld)",
        "8 (slurmscriptd)",
    ]


def test_in_a_dry_run_a_group_and_a_user_that_will_get_new_ids_count_as_right(root: Path) -> None:
    context = Context(str(root), dry_run=True)
    group, user = Group("slurm", NEW, moved=True), User("slurm", NEW, "slurm", "/home/slurm", "/bin/sh", moved=True)
    assert apply(group, context).status == "ok"
    assert [change.name for change in apply(user, context).changes] == ["home"]
    assert apply(group, Context(str(root))).status == "failed"


def test_a_file_with_one_old_id_gets_only_that_one_changed(root: Path) -> None:
    mine, theirs, neither = (
        make(root / "home/a", OLD, OTHER),
        make(root / "home/b", OTHER, OLD),
        make(root / "home/c", OTHER, OTHER),
    )
    assert apply(SLURM, Context(str(root))).status == "changed"
    assert (owner(mine), owner(theirs), owner(neither)) == ((NEW, OTHER), (OTHER, NEW), (OTHER, OTHER))


@pytest.mark.parametrize(("uid", "gid", "after"), [(NEW, OLD, (NEW, OLD)), (OLD, NEW, (OLD, NEW))])
def test_a_new_uid_alone_leaves_the_gid_and_the_other_way_round(
    root: Path, uid: int, gid: int, after: tuple[int, int]
) -> None:
    path = make(root / "home/a")
    assert apply(MovedIds("slurm", uid, gid), Context(str(root))).status == "changed"
    assert owner(path) == after
    assert f"slurm:x:{uid}:{gid}:" in (root / "etc/passwd").read_text()


def test_a_user_in_another_primary_group_gets_its_own_and_the_files_of_that_group_stay(root: Path) -> None:
    (root / "etc/passwd").write_text(f"slurm:x:{OLD}:{OTHER}::/:/bin/sh\nalice:x:{OTHER}:{OTHER}::/:/bin/sh\n")
    (root / "etc/group").write_text(f"lab:x:{OTHER}:\n")
    path = make(root / "home/a", OLD, OTHER)
    outcome = apply(SLURM, Context(str(root)))
    assert outcome.status == "changed", outcome.message
    assert owner(path) == (NEW, OTHER)
    assert (root / "etc/passwd").read_text() == f"slurm:x:{NEW}:{NEW}::/:/bin/sh\nalice:x:{OTHER}:{OTHER}::/:/bin/sh\n"


def test_setuid_and_setgid_bits_when_moved_stay(root: Path) -> None:
    program, folder = make(root / "home/program", mode=0o6755), root / "home/folder"
    folder.mkdir()
    os.chown(folder, OLD, OLD)
    folder.chmod(0o2770)
    assert apply(SLURM, Context(str(root))).status == "changed"
    assert (owner(program), stat.S_IMODE(program.stat().st_mode)) == ((NEW, NEW), 0o6755)
    assert (owner(folder), stat.S_IMODE(folder.stat().st_mode)) == ((NEW, NEW), 0o2770)


def test_symbolic_links_when_moved_get_the_new_owner_themselves_and_are_not_followed(
    root: Path, tmp_path: Path
) -> None:
    outside = make(tmp_path / "outside/file") if tmp_path != root else make(root.parent / "outside" / root.name)
    folder = outside.parent
    for name, target in (("file", outside), ("folder", folder), ("dangling", Path("/nowhere"))):
        (root / "home" / name).symlink_to(target)
        os.chown(root / "home" / name, OLD, OLD, follow_symlinks=False)
    os.chown(root / "home/folder", 0, 0, follow_symlinks=False)
    assert apply(SLURM, Context(str(root))).status == "changed"
    assert owner(root / "home/file") == owner(root / "home/dangling") == (NEW, NEW)
    assert owner(root / "home/folder") == (0, 0)
    assert owner(outside) == (OLD, OLD)


def test_special_files_when_moved_are_not_opened(root: Path) -> None:
    os.mkfifo(root / "home/fifo")
    os.mknod(root / "home/null", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
    for name in ("fifo", "null"):
        os.chown(root / "home" / name, OLD, OLD)
    assert apply(SLURM, Context(str(root))).status == "changed"
    assert owner(root / "home/fifo") == owner(root / "home/null") == (NEW, NEW)


def test_a_directory_that_becomes_a_link_during_the_search_is_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    theirs = make(outside / "file")
    make(root / "home/mallory/inner/file")

    class Slow(FileSearch):
        """A search during which Mallory changes files."""

        def consider_files(self, directory: int, mount: Mount, path: str) -> list[str]:
            found = super().consider_files(directory, mount, path)
            if path == "/home/mallory":
                (root / "home/mallory/inner").rename(root / "home/mallory/gone")
                (root / "home/mallory/inner").symlink_to(outside)
            return found

    Slow(Context(str(root)), {OLD: NEW}, {OLD: NEW}, change=True).run()
    assert (root / "home/mallory/inner").is_symlink(), "the files were not changed during the search"
    assert owner(theirs) == (OLD, OLD)


def test_a_file_that_is_replaced_by_another_users_during_the_search_is_not_changed(root: Path) -> None:
    make(root / "home/mallory/file")
    victim = make(root / "home/shadow", OTHER, OTHER, 0o4755)

    class Slow(FileSearch):
        """A search during which Mallory changes files."""

        def visit(self, name: str, directory: int | None, mount: Mount, path: str) -> None:
            if path == "/home/mallory/file":
                (root / "home/mallory/file").unlink()
                os.link(victim, root / "home/mallory/file")
            super().visit(name, directory, mount, path)

    tally = Slow(Context(str(root)), {OLD: NEW}, {OLD: NEW}, change=True).run()
    assert victim.stat().st_nlink == 2, "the files were not changed during the search"
    assert owner(victim) == (OTHER, OTHER)
    assert not tally.seen


def test_a_very_deep_tree_is_searched_to_its_end(root: Path) -> None:
    descriptor = os.open(root / "home", os.O_RDONLY)
    for _ in range(2500):
        os.mkdir("d", dir_fd=descriptor)
        below = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = below
    os.fchown(descriptor, OLD, OLD)
    try:
        assert apply(SLURM, Context(str(root))).status == "changed"
        assert os.fstat(descriptor).st_uid == NEW
    finally:
        os.close(descriptor)
        subprocess.run(["rm", "-rf", root / "home"], check=True)  # too deep for Python's own way


def test_file_systems_of_containers_are_not_changed(root: Path) -> None:
    theirs = make(root / "var/lib/docker/overlay2/1/diff/etc/file")
    assert apply(SLURM, Context(str(root))).message == "moved 0 files (local file systems)"
    assert owner(theirs) == (OLD, OLD)


@pytest.mark.parametrize(
    ("name", "cgroup"),
    [("bash", "/user.slice/user-0.slice/session-1.scope"), ("slurmctld", "/user.slice/user-0.slice/session-1.scope")],
)
def test_processes_of_other_programs_are_named_and_nothing_is_changed(root: Path, name: str, cgroup: str) -> None:
    path = make(root / "home/a")
    run_process(root, 4711, name, OLD, cgroup)
    message = failure(MovedIds("slurm", NEW, NEW, ("slurmctld",)), Context(str(root)))
    assert f"processes run with the number that slurm has here (UID {OLD}" in message
    assert f"4711 ({name}); end them first" in message
    assert owner(path) == (OLD, OLD)


def test_the_manager_of_a_user_who_has_logged_out_is_no_reason_to_refuse(root: Path) -> None:
    slice_of_old = f"/user.slice/user-{OLD}.slice/user@{OLD}.service"
    run_process(root, 4711, "systemd", OLD, f"{slice_of_old}/init.scope")
    resource = MovedIds("slurm", NEW, NEW, ("slurmctld",))
    context = Context(str(root), dry_run=True)
    assert "0 processes" in apply(resource, context).message
    run_process(root, 4712, "podman", OLD, f"{slice_of_old}/app.slice/podman.service")
    assert "4712 (podman); end them first" in apply(resource, context).message


def test_a_daemons_processes_that_do_not_end_when_it_is_stopped_are_named(root: Path) -> None:
    run_process(root, 4711, "slurmctld", OLD, "/system.slice/slurmctld.service")
    outcome = apply(SLURM, Context(str(root)))
    assert "4711 (slurmctld)" in outcome.message


@pytest.mark.parametrize(
    ("file", "line", "told"),
    [
        ("passwd", f"bob:x:{OLD}:0::/:/bin/sh\n", f"shares the UID {OLD} with bob"),
        ("passwd", f"bob:x:{NEW}:0::/:/bin/sh\n", f"would share {NEW}"),
        ("group", f"bobs:x:{OLD}:\n", f"shares the GID {OLD} with bobs"),
    ],
)
def test_an_id_that_other_users_share_is_not_changed(root: Path, file: str, line: str, told: str) -> None:
    with (root / "etc" / file).open("a") as entries:
        entries.write(line)
    path = make(root / "home/a")
    assert told in failure(SLURM, Context(str(root)))
    assert owner(path) == (OLD, OLD)


def test_a_file_that_cannot_be_changed_is_named_and_the_entries_keep_the_old_number(root: Path) -> None:
    fixed, other = make(root / "home/fixed"), make(root / "home/other")
    if subprocess.run(["chattr", "+i", fixed], capture_output=True, check=False).returncode:
        pytest.skip("this file system has no immutable files")
    try:
        outcome = apply(SLURM, Context(str(root)))
    finally:
        subprocess.run(["chattr", "-i", fixed], check=True)
    assert outcome.status == "failed"
    assert "1 file could not get the new number (1 got it): /home/fixed (Operation not permitted)" in outcome.message
    assert f"slurm:x:{OLD}:{OLD}" in (root / "etc/passwd").read_text()
    assert owner(other) == (NEW, NEW)
    assert apply(SLURM, Context(str(root))).message == "moved 1 file below /home (local file systems)"


def test_an_interrupted_change_of_ids_is_completed_by_the_next_run(root: Path) -> None:
    done, left = make(root / "home/done", NEW, NEW), make(root / "home/left")
    assert apply(SLURM, Context(str(root))).message == "moved 1 file below /home (local file systems)"
    assert owner(done) == owner(left) == (NEW, NEW)


@pytest.mark.parametrize(
    ("mountinfo", "told"),
    [
        ("1 1 0:50 / / rw - nfs4 server:/root rw\n", "the root file system of this host is on nfs4"),
        (
            "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /var/lib/slurm rw - nfs4 server:/state rw\n",
            "/var/lib/slurm is on nfs4, where slurmfab changes no files; stop all programs that use it on all hosts, "
            f"then run on one of them: chown -hR --from={OLD} {NEW} /var/lib/slurm; "
            f"chown -hR --from=:{OLD} :{NEW} /var/lib/slurm",
        ),
    ],
)
def test_a_directory_of_the_daemons_on_a_network_file_system_is_refused_with_the_command_to_run(
    root: Path, mountinfo: str, told: str
) -> None:
    os.chown(root / "var/lib/slurm", OLD, OLD)
    (root / "proc/self/mountinfo").write_text(mountinfo)
    assert told in failure(MovedIds("slurm", NEW, NEW, needed=("/var/lib/slurm",)), Context(str(root)))


MOUNTS = """\
1 0 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
2 1 0:5 / /proc rw - proc proc rw
3 1 0:20 / /run rw - tmpfs tmpfs rw
4 1 8:2 / /home rw - xfs /dev/sdb1 rw
5 1 8:2 /alice /srv/alice rw - xfs /dev/sdb1 rw
6 1 8:2 / /srv/read-only ro,relatime - xfs /dev/sdb1 rw
7 1 0:50 / /scratch rw - lustre mds:/scratch rw
8 1 0:51 / /srv/with\\040space rw - fuse.sshfs host: rw
9 1 0:52 / /var/lib/docker/overlay2/x/merged rw - overlay overlay rw
10 1 7:1 / /snap/x ro - squashfs /dev/loop1 ro
11 1 8:3 / /archive ro - ext4 /dev/sdc1 ro
12 1 8:1 /srv/hidden /mnt rw - ext4 /dev/sda1 rw
"""


@pytest.mark.parametrize(
    ("more", "walked"),
    [
        ("", [1, 3, 4, 11]),
        ("13 1 0:53 / /srv/hidden/part rw - nfs server:/x rw\n", [1, 3, 4, 12, 11]),
        ("13 1 0:53 / /srv rw - tmpfs tmpfs rw\n", [1, 3, 4, 13, 12, 11]),
        ("13 4 8:4 / /home rw - ext4 /dev/sdd1 rw\n", [1, 3, 4, 13, 5, 11, 6]),
    ],
    ids=["bind mounts", "hidden below", "hidden above", "mounted over"],
)
def test_local_file_systems_are_searched_once_and_others_never(root: Path, more: str, walked: list[int]) -> None:
    (root / "proc/self/mountinfo").write_text(MOUNTS + more)
    found = mounts.read(str(root / "proc/self/mountinfo"))
    assert sorted(mount.id for mount in mounts.mounts_to_search(found)) == sorted(walked)
    assert "/srv/with space" in [mount.path for mount in found]


@pytest.mark.parametrize(
    "kind",
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "fuse.glusterfs", "fuse.sshfs", "lustre", "beegfs", "gpfs", "9p", "afs"],
)
def test_a_network_file_system_is_not_taken_for_a_local_one(kind: str) -> None:
    assert not Mount(1, "0:50", "/", "/data", kind, read_only=False).is_local


IN_NAMESPACE = """
import json, os, subprocess, sys
from pathlib import Path
from slurmfab.on_hosts.agent.identities.moved_ids import MovedIds
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.identities.moved_ids import FileSearch
root, old, new = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
def sh(*words): subprocess.run(words, check=True)
sh("mount", "--bind", root, root)
for name in ("run", "net", "over", "fixed"):
    (root / name).mkdir()
    sh("mount", "-t", "tmpfs", name, root / name)
    for inner in ("file", "inner/file"):
        path = root / name / inner
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.chown(path, old, old)
    os.chown(root / name, old, old)
(root / "home/bound").mkdir()
(root / "srv").mkdir()
(root / "srv/file").touch()
os.chown(root / "srv/file", old, old)
sh("mount", "--bind", root / "srv", root / "home/bound")
(root / "etc/resolv.conf").touch()
sh("mount", "--bind", root / "net/file", root / "etc/resolv.conf")
sh("mount", "-o", "remount,ro", root / "fixed")
types = {"/net": "nfs4", "/etc/resolv.conf": "nfs4", "/over": "overlay", "/": "ext4"}
lines = []
for line in Path("/proc/self/mountinfo").read_text().splitlines():
    words = line.split()
    if words[4] == str(root) or words[4].startswith(str(root) + "/"):
        words[3:5] = [words[3].partition(str(root))[2] or "/", words[4][len(str(root)):] or "/"]
        kind = words.index("-") + 1
        words[kind] = types.get(words[4], words[kind])
        lines.append(" ".join(words))
(root / "proc/self/mountinfo").write_text("\\n".join(lines) + "\\n")
context = Context(str(root))
counted = str(FileSearch(context, {old: new}, {old: new}, False).run())
outcome = apply(MovedIds("slurm", new, new), context)
names = [name + inner for name in ("run", "net", "over", "fixed") for inner in ("", "/file", "/inner/file")]
names.append("srv/file")
print(json.dumps([counted, outcome.status, outcome.message, {n: (root / n).stat().st_uid for n in names}]))
"""
"""Mount a tmpfs four times, present the second one as NFS and the third one as a container's, and change the IDs."""


def test_real_mounts_are_searched_when_local_named_when_read_only_and_not_crossed_when_on_the_network(
    root: Path,
) -> None:
    argv = ["unshare", "--mount", "--propagation", "private", sys.executable, "-c", IN_NAMESPACE]
    done = subprocess.run([*argv, str(root), str(OLD), str(NEW)], capture_output=True, text=True, check=False)
    if "unshare failed" in done.stderr:
        pytest.skip("this machine gives no mount namespace")
    assert done.returncode == 0, done.stderr
    counted, status, message, owners = json.loads(done.stdout)
    assert counted == "4 files below /run, /srv (local file systems); 3 on read-only /fixed stay"
    assert (status, message) == ("changed", f"moved {counted}")
    assert {name for name, uid in owners.items() if uid == NEW} == {"run", "run/file", "run/inner/file", "srv/file"}
