"""Resources below directories of another user: a link, a hard link and a swap between two steps mislead none."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from hostile_directory import OTHER, give_away, insist, state_of, swapped
from outcomes import failure

from slurmfab.on_hosts.agent.backup import timed_backup
from slurmfab.on_hosts.agent.backup.restored_state import RestoredFiles, RestoredState
from slurmfab.on_hosts.agent.backup.staged_parts import stage, staged
from slurmfab.on_hosts.agent.backup.state import save_files, save_state
from slurmfab.on_hosts.agent.core.resource import (
    CHANGED,
    FAILED,
    OK,
    WOULD_CHANGE,
    Context,
    Resource,
    ResourceFailed,
    apply,
)
from slurmfab.on_hosts.agent.core.safe_paths import UnsafePath, open_folder
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent, File
from slurmfab.on_hosts.agent.files.left_file import LeftFile
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.files.root_log import RootLog
from slurmfab.on_hosts.agent.files.scripts import Scripts
from slurmfab.on_hosts.agent.identities.ssh_key import SshKey, refuse_foreign
from slurmfab.on_hosts.agent.munge.key import MungeKey
from slurmfab.on_hosts.agent.munge.rotation import StagedMungeKey
from slurmfab.on_hosts.agent.slurm.state import SlurmState
from slurmfab.on_hosts.agent.undo import undo_store
from slurmfab.on_hosts.agent.undo.restored_file import Restored

STATE = "/var/lib/slurm/slurmctld"
RUN, BACKUP = "20260101T120000.000000Z-deploy", "ab" * 32
BELOW = f"{STATE}/tool"
AS_ROOT = os.geteuid() == 0
needs_root = pytest.mark.skipif(not AS_ROOT, reason="only root can give files to another user")


@pytest.fixture
def hostile(root: Path, context: Context) -> Context:
    """A scratch root in which slurm is another user, who owns /var/lib/slurm; with a backup and a run to restore."""
    if AS_ROOT:
        for name in ("passwd", "group"):
            text = (root / "etc" / name).read_text().replace(":x:0", f":x:{OTHER}").replace(":0:", f":{OTHER}:")
            (root / "etc" / name).write_text(text.replace(f"root:x:{OTHER}", "root:x:0").replace(f"0:{OTHER}:", "0:0:"))
        let_through(root)
    (root / "var/lib/old").mkdir(parents=True)
    (root / "var/lib/old/job_state").write_text("jobs")
    give_away(root / "var/lib/slurm")
    stage({"do": "begin", "backup": BACKUP}, context)
    part = {"do": "write", "backup": BACKUP, "name": "x.tar.gz", "at": 0, "data": base64.b64encode(PART).decode()}
    stage(part, context)
    folder = root / undo_store.DIRECTORY[1:] / RUN
    folder.mkdir(parents=True)
    (folder / "0").write_text("as before\n")
    entry = {"path": BELOW, "existed": True, "owner": "slurm", "group": "slurm", "mode": "0600", "secret": False}
    undo_store.append(str(folder), {**entry, "blob": "0"})
    return context


def let_through(path: Path) -> None:
    """Let other users pass the directories that pytest has made for the tests of this user."""
    for directory in (path, *path.parents):
        if directory.name.startswith("pytest-of-") or "pytest-of-" in str(directory.parent):
            directory.chmod(0o711)


def packed() -> bytes:
    """A part of a backup with one file."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        info = tarfile.TarInfo("tool")
        info.size, info.mode, info.uid, info.gid = 4, 0o755, OTHER, OTHER
        tar.addfile(info, io.BytesIO(b"mine"))
    return made.getvalue()


PART = packed()
SENT = (staged(BACKUP, "x.tar.gz"), hashlib.sha256(PART).hexdigest())
RESOURCES: tuple[Resource, ...] = (
    Directory(STATE, "slurm", "slurm", 0o700, ("job_state",)),
    File(BELOW, "new\n", "slurm", "slurm", 0o600),
    Block(BELOW, "name", "new\n", "slurm", "slurm", 0o600),
    Absent(BELOW),
    Absent(BELOW, secret=True),
    Program(STATE, (("tool", "new\n"),)),
    Program(STATE, ()),
    Scripts(STATE, (("tool", "new\n"),)),
    Scripts(STATE, ()),
    LeftFile(STATE, "left"),
    MungeKey(BELOW),
    StagedMungeKey(base64.b64encode(bytes(128)).decode(), BELOW),
    Restored(BELOW, RUN),
    RestoredFiles(STATE, *SENT),
    RestoredState(STATE, *SENT, "now"),
    SlurmState(STATE, "/var/lib/old"),
    *((SshKey("slurm", STATE),) if shutil.which("ssh-keygen") else ()),
)
each_resource = pytest.mark.parametrize("resource", RESOURCES, ids=lambda one: f"{one.kind}-{len(repr(one))}")


@pytest.fixture
def victim(root: Path) -> Path:
    """A directory of root with a program in it that another user wants to own, change or read."""
    made = root / "usr/local/bin"
    made.mkdir(parents=True)
    (made / "tool").write_text("of root\n")
    (made / "tool").chmod(0o600)
    return made


@each_resource
def test_a_link_of_the_directorys_owner_in_place_of_a_directory_is_refused_and_named(
    root: Path, hostile: Context, victim: Path, resource: Resource
) -> None:
    (root / STATE[1:]).symlink_to(victim)
    before = state_of(victim)
    outcome = apply(resource, hostile)
    assert (outcome.status, f"{STATE} is " in outcome.message, "symbolic link" in outcome.message) == (
        FAILED, True, True
    ), outcome.message  # fmt: skip
    assert state_of(victim) == before


@each_resource
def test_a_hard_link_to_a_file_of_root_leaves_that_file_as_it_is(
    root: Path, hostile: Context, victim: Path, resource: Resource
) -> None:
    directory = give_away(root / STATE[1:])
    for name in ("tool", ".slurmfab-tool.0123abcd", "job_state"):
        (directory / name).hardlink_to(victim / "tool")
    if isinstance(resource, SshKey):
        give_away(directory / ".ssh")
        (directory / ".ssh/id_ed25519").hardlink_to(victim / "tool")
    before = state_of(victim)
    outcome = apply(resource, hostile)
    assert state_of(victim) == before, outcome.message
    assert outcome.status == (FAILED if isinstance(resource, SshKey) and AS_ROOT else outcome.status)


@each_resource
def test_a_directory_that_its_owner_swaps_with_a_link_between_two_steps_leads_nowhere_else(
    root: Path, hostile: Context, victim: Path, resource: Resource
) -> None:
    if isinstance(resource, LeftFile) and not AS_ROOT:
        pytest.skip("it acts as the directory's owner, who owns the other one as well unless root gave it away")
    give_away(root / STATE[1:])
    before = state_of(victim)
    with swapped(root / STATE[1:], victim):
        insist(lambda: apply(resource, hostile), (), rounds=25)
    assert state_of(victim) == before


@each_resource
def test_the_same_resources_in_a_directory_that_nobody_swaps_do_their_work(
    root: Path, hostile: Context, resource: Resource
) -> None:
    give_away(root / STATE[1:])
    assert apply(resource, hostile).status in (CHANGED, OK)
    assert apply(resource, hostile).status == OK


def test_a_link_of_root_to_another_disk_goes_on_working(root: Path, context: Context) -> None:
    (root / "disk/slurm").mkdir(parents=True)
    (root / "etc/slurm-llnl").mkdir()
    (root / "etc/slurm").symlink_to("slurm-llnl")
    (root / "var/lib").mkdir(parents=True)
    (root / "var/lib/slurm").symlink_to(root / "disk/slurm")
    for resource in (
        Directory(STATE, "slurm", "slurm", 0o700),
        Directory("/etc/slurm", mode=0o700),
        File("/etc/slurm/slurm.conf", "ClusterName=lab\n"),
        File(BELOW, "new\n"),
    ):
        assert apply(resource, context).status == CHANGED
        assert apply(resource, context).status == OK
    assert (root / "disk/slurm/slurmctld/tool").read_text() == "new\n"
    assert (root / "etc/slurm-llnl/slurm.conf").is_file()


@needs_root
@pytest.mark.parametrize("path", ["/home/bob/b", "/home/bob/not/there/b", "/home/all/b"])
def test_a_directory_for_root_alone_that_another_user_could_exchange_is_neither_made_nor_used(
    root: Path, context: Context, path: str
) -> None:
    for name, uid, mode in (("bob", 2001, 0o755), ("all", 0, 0o777)):
        (root / "home" / name).mkdir(parents=True)
        (root / "home" / name).chmod(mode)
        os.chown(root / "home" / name, uid, uid)
    assert "can be exchanged by " in failure(Directory(path, mode=0o700, alone=True), context)
    assert not (root / path[1:]).exists()
    with pytest.raises(ResourceFailed, match="can be exchanged by"):
        timed_backup.make_backup({"directory": made_by_hand(root / path[1:])}, context)
    assert apply(Directory("/srv/b", mode=0o700, alone=True), context).status == CHANGED


def made_by_hand(path: Path) -> str:
    """The path of a directory that is as the timer wants it, but for those above it."""
    path.mkdir(parents=True)
    path.chmod(0o700)
    return str(path)


@needs_root
def test_a_directory_of_root_that_its_neighbour_moved_to_the_state_is_given_to_nobody(
    root: Path, hostile: Context
) -> None:
    spool = root / "var/lib/slurm/slurmd"
    spool.mkdir()
    (spool / "cred_state").write_text("of root")
    spool.rename(root / STATE[1:])
    outcome = apply(Directory(STATE, "slurm", "slurm", 0o700, ("job_state",)), hostile)
    assert (outcome.status, "seems to be in use for something else" in outcome.message) == (FAILED, True)
    assert "contains cred_state" in outcome.message
    assert (root / STATE[1:]).stat().st_uid == 0


@needs_root
def test_a_home_that_is_roots_directory_with_files_is_given_to_nobody(root: Path, hostile: Context) -> None:
    spool = root / "var/lib/slurm/home"
    spool.mkdir()
    (spool / "cred_state").write_text("of root")
    outcome = apply(SshKey("slurm", "/var/lib/slurm/home"), hostile)
    assert (outcome.status, "belongs to root, and nobody can have put it there" in outcome.message) == (FAILED, True)
    assert spool.stat().st_uid == 0


@needs_root
def test_a_home_and_a_state_that_somebody_gave_to_root_become_the_users_again(root: Path, hostile: Context) -> None:
    home, state = root / "var/lib/slurm/home", root / STATE[1:]
    for path in (home / ".ssh", state / "job_state"):
        path.mkdir(parents=True)
        os.chown(path, OTHER, OTHER)
    assert apply(Directory(STATE, "slurm", "slurm", 0o700, ("job_state",)), hostile).status == CHANGED
    with open_folder(str(home)) as folder:
        refuse_foreign(folder, OTHER, (".ssh",))
    home.chmod(0o777)
    with open_folder(str(home)) as folder, pytest.raises(UnsafePath, match="belongs to root"):
        refuse_foreign(folder, OTHER, (".ssh",))


@needs_root
def test_a_saved_state_holds_nothing_that_its_owner_could_not_read(root: Path, hostile: Context, victim: Path) -> None:
    directory = give_away(root / STATE[1:])
    (directory / "clustername").write_text("lab")
    (directory / "clustername").chmod(0o644)
    (directory / "secret").hardlink_to(victim / "tool")
    (directory / "linked").symlink_to(victim / "tool")
    (directory / "hash.1").symlink_to(victim)
    pieces: list[bytes] = []
    save_state({"directory": STATE}, hostile, pieces.append)
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
        assert tar.getnames() == ["clustername"]
    assert (os.geteuid(), os.getegid()) == (0, 0)


def test_saved_files_follow_the_links_of_root_and_of_nobody_else(root: Path, hostile: Context, victim: Path) -> None:
    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/linked").symlink_to(victim / "tool")
    give_away(root / "etc/slurm/theirs")
    (root / "etc/slurm/theirs/linked").symlink_to(victim / "tool")
    (root / "etc/slurm/circle").symlink_to("circle")
    pieces: list[bytes] = []
    assert save_files({"directory": "/etc/slurm"}, hostile, pieces.append) == {"files": 1}
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
        assert tar.getnames() == ["linked"]


def test_a_copy_for_a_rollback_is_not_taken_through_a_link_of_another_user(
    root: Path, hostile: Context, victim: Path
) -> None:
    (root / STATE[1:]).symlink_to(victim)
    hostile.run_id = RUN
    with pytest.raises(ResourceFailed, match="is not followed"):
        undo_store.keep(Absent(BELOW + "2"), hostile, frozenset({"file"}))


LOGS, SPOOL = "/var/log/slurmd", "/var/spool/slurmd"


def differs(resource: Resource, context: Context) -> tuple[str, str]:
    """Status and message of a resource that a dry run looks at."""
    context.dry_run = True
    outcome = apply(resource, context)
    context.dry_run = False
    return outcome.status, outcome.message


@needs_root
@pytest.mark.parametrize("kind", ["a symbolic link", "a hard link", "no regular file"])
def test_a_log_of_root_that_another_user_has_replaced_is_removed_once_nobody_else_can_do_so_again(
    hostile: Context, root: Path, victim: Path, kind: str
) -> None:
    log, wanted = root / LOGS[1:] / "slurmd.log", RootLog(f"{LOGS}/slurmd.log")
    log.parent.mkdir(parents=True)
    if kind == "a hard link":
        log.hardlink_to(victim / "tool")
    else:
        log.symlink_to(victim / "tool") if kind == "a symbolic link" else os.mkfifo(log)
        os.lchown(log, OTHER, OTHER)
    os.chown(log.parent, OTHER, OTHER)
    assert differs(wanted, hostile)[0] == WOULD_CHANGE
    refused = apply(wanted, hostile)
    assert (refused.status, f"is {kind}" in refused.message) == (FAILED, True)
    assert os.path.lexists(log)

    os.chown(log.parent, 0, 0)
    removed = apply(wanted, hostile)
    assert (removed.status, f"was {kind}" in removed.message) == (CHANGED, True)
    assert not os.path.lexists(log)
    assert (victim / "tool").read_text() == "of root\n"


@needs_root
def test_a_log_of_root_is_safe_where_nobody_else_can_change_its_name(
    hostile: Context, root: Path, victim: Path
) -> None:
    log = root / LOGS[1:] / "slurmd.log"
    assert differs(RootLog(f"{LOGS}/slurmd.log"), hostile) == (OK, "")
    log.parent.mkdir(parents=True)
    log.symlink_to(victim / "tool")
    assert differs(RootLog(f"{LOGS}/slurmd.log"), hostile) == (OK, "")


@needs_root
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("kind", ["link", "hard link"])
def test_a_directory_in_which_root_works_is_not_taken_over_with_what_another_user_has_put_there(
    hostile: Context, root: Path, victim: Path, kind: str, *, inside: bool
) -> None:
    folder = root / SPOOL[1:]
    there = folder / "job00077" if inside else folder
    there.mkdir(parents=True)
    name = there / "slurm_script"
    name.symlink_to(victim) if kind == "link" else name.hardlink_to(victim / "tool")
    for directory in {folder, there}:
        os.chown(directory, OTHER, OTHER)
    wanted = Directory(SPOOL, "root", "root", 0o755, for_root=True)
    outcome = apply(wanted, hostile)
    assert (outcome.status, f"{name} leads elsewhere" in outcome.message) == (FAILED, True)
    assert folder.stat().st_uid == OTHER
    if not inside:  # nor does it pass where the directory has come back to root meanwhile
        os.chown(folder, 0, 0)
        if kind == "link":
            os.lchown(name, OTHER, OTHER)
        assert differs(wanted, hostile)[0] == FAILED


@needs_root
def test_a_directory_in_which_root_works_is_taken_over_with_files_and_directories_of_jobs(
    hostile: Context, root: Path
) -> None:
    folder = root / SPOOL[1:]
    (folder / "job00077").mkdir(parents=True)
    (folder / "cred_state").write_text("x")
    for path in (folder, folder / "job00077"):
        os.chown(path, OTHER, OTHER)
    assert apply(Directory(SPOOL, "root", "root", 0o755, for_root=True), hostile).status == CHANGED
    assert (folder.stat().st_uid, (folder / "job00077").stat().st_uid) == (0, OTHER)


@needs_root
def test_a_directory_in_which_root_works_differs_and_fails_below_one_of_another_user(
    hostile: Context, root: Path
) -> None:
    wanted = Directory("/var/lib/slurm/slurmd", "root", "root", 0o755, for_root=True)
    (root / "var/lib/slurm/slurmd").mkdir()
    status, _ = differs(wanted, hostile)
    assert status == WOULD_CHANGE
    outcome = apply(wanted, hostile)
    assert (outcome.status, "can put another directory in the place of" in outcome.message) == (FAILED, True)
    assert apply(Directory("/var/lib/slurm", "root", "root", 0o755), hostile).status == CHANGED
    assert apply(wanted, hostile).status == OK
