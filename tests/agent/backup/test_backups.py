"""Parts of a backup saved and restored below a temporary root."""

from __future__ import annotations

import base64
import contextlib
import gzip
import hashlib
import io
import json
import os
import struct
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_agent import Agent, snapshot
from outcomes import failure

from slurmfab.on_hosts.agent.backup import restored_state, timed_backup
from slurmfab.on_hosts.agent.backup import state as backup_state
from slurmfab.on_hosts.agent.backup.database import END_MARK, login, quoted
from slurmfab.on_hosts.agent.backup.pieces import PIECE_BYTES, compressed
from slurmfab.on_hosts.agent.backup.restored_database import copy
from slurmfab.on_hosts.agent.backup.restored_state import RestoredFiles, RestoredState
from slurmfab.on_hosts.agent.backup.staged_parts import RESTORING, stage, staged
from slurmfab.on_hosts.agent.backup.state import (
    KnownJob,
    begun_at,
    job_id,
    list_time,
    save_files,
    save_state,
    written_jobs,
)
from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed, apply
from slurmfab.on_hosts.agent.files.program import Program

STATE = "/var/lib/slurm/slurmctld"
BACKUP = "ab" * 32
RUNNING = KnownJob("RUNNING", 0.0)


def jobs(next_job_id: int) -> bytes:
    """The beginning of a list of jobs as slurmctld writes it."""
    name = b"PROTOCOL_VERSION\0"
    return struct.pack(">I", len(name)) + name + struct.pack(">HQI", 10752, 1795272422, next_job_id) + b"the jobs"


@pytest.fixture
def state(root: Path) -> Path:
    """A state directory with two jobs' scripts."""
    directory = root / STATE.lstrip("/")
    for job in (6, 17):
        (directory / f"hash.{job % 10}/job.{job}").mkdir(parents=True)
        (directory / f"hash.{job % 10}/job.{job}/script").write_text("#!/bin/sh\n")
    (directory / "job_state").write_bytes(jobs(18))
    (directory / "clustername").write_text("lab|2679")
    for name in ("heartbeat", "node_state.new", ".hidden"):
        (directory / name).write_text("passed over")
    (directory / "link").symlink_to("/etc/passwd")
    return directory


def unpacked(pieces: list[bytes]) -> dict[str, bytes]:
    """The files in a compressed tar."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
        return {one.name: tar.extractfile(one).read() for one in tar}


def brought(context: Context, name: str, content: bytes) -> tuple[str, str]:
    """Stage a part on the host, and return its path and digest."""
    stage({"do": "begin", "backup": BACKUP}, context)
    half = len(content) // 2
    for at, data in ((0, content[:half]), (half, content[half:])):
        step = {"do": "write", "backup": BACKUP, "name": name, "at": at, "data": base64.b64encode(data).decode()}
        stage(step, context)
    return staged(BACKUP, name), hashlib.sha256(content).hexdigest()


def packed(files: dict[str, bytes], mode: int = 0o644) -> bytes:
    """A compressed tar of files."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            info.uid, info.gid = os.getuid(), os.getgid()
            tar.addfile(info, io.BytesIO(content))
    return made.getvalue()


def test_the_state_when_saved_is_all_but_what_is_hidden_half_written_or_elsewhere(
    context: Context, state: Path
) -> None:
    pieces: list[bytes] = []
    told = save_state({"directory": STATE}, context, pieces.append)
    found = unpacked(pieces)
    assert told == {"next_job_id": 18, "jobs": None}
    assert list(found) == ["clustername", "hash.6/job.6/script", "hash.7/job.17/script", "job_state"]
    assert found["job_state"] == (state / "job_state").read_bytes()


def test_the_state_when_it_is_saved_then_it_stays_as_it_is(context: Context, state: Path) -> None:
    before = snapshot(state)
    save_state({"directory": STATE}, context, lambda _: None)
    assert snapshot(state) == before


def test_a_job_that_comes_while_the_state_is_saved_then_its_script_is_in_the_copy(
    context: Context, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comes(path: str, known: dict[int, KnownJob]) -> io.BufferedReader | None:
        script = state / "hash.8/job.18/script"
        script.parent.mkdir(parents=True)
        script.write_text("new")
        (state / "job_state").write_bytes(jobs(19))
        return written_jobs(path, known)  # type: ignore[return-value]

    monkeypatch.setattr(backup_state, "written_jobs", comes)
    pieces: list[bytes] = []
    assert save_state({"directory": STATE}, context, pieces.append)["next_job_id"] == 19
    assert unpacked(pieces)["hash.8/job.18/script"] == b"new"


def test_the_newest_job_when_it_is_not_written_down_yet_then_it_is_waited_for(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: (state / "job_state").write_bytes(jobs(19)))
    file = written_jobs(str(state / "job_state"), {18: RUNNING})
    assert file is not None
    with file:
        assert job_id(file) == 19


def test_the_newest_job_when_it_is_never_written_down_then_the_backup_fails(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_state, "WRITTEN_SECONDS", 0.0)
    with pytest.raises(ResourceFailed, match="has not written job 18"):
        written_jobs(str(state / "job_state"), {18: RUNNING})
    assert written_jobs(str(state / "missing"), {}) is None


def test_a_list_that_is_older_than_the_begin_of_a_job_is_not_saved(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = 1795272422
    newer = jobs(18).replace(struct.pack(">Q", written), struct.pack(">Q", written + 1))
    monkeypatch.setattr(time, "sleep", lambda _: (state / "job_state").write_bytes(newer))
    file = written_jobs(str(state / "job_state"), {17: KnownJob("RUNNING", written)})
    assert file is not None
    with file:
        assert list_time(file) == written + 1


def test_a_list_that_stays_as_it_is_has_nothing_to_tell_of_a_job_that_began(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_state, "SAVE_SECONDS", 0.0)
    file = written_jobs(str(state / "job_state"), {17: KnownJob("RUNNING", 1795272422)})
    assert file is not None
    file.close()


@pytest.mark.parametrize(
    ("state_of_job", "stamp", "begun"),
    [("PENDING", "2026-11-21T14:00:00", False), ("RUNNING", "2026-11-21T14:00:00", True), ("RUNNING", "N/A", False)],
)
def test_the_begin_of_a_job_is_known_unless_it_waits(state_of_job: str, stamp: str, *, begun: bool) -> None:
    assert bool(begun_at(state_of_job, stamp)) is begun


def test_a_list_without_jobs_when_slurmctld_knows_none_is_whole(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backup_state, "WRITTEN_SECONDS", 0.0)
    (state / "job_state").write_bytes(jobs(0))
    file = written_jobs(str(state / "job_state"), {})
    assert file is not None
    with file:
        assert job_id(file) == 0


def test_a_list_of_jobs_when_it_is_none_then_that_is_told() -> None:
    for content in (b"", b"\0\0\0\x11short", b"something else altogether"):
        with pytest.raises(ResourceFailed, match="is not a list of jobs"):
            job_id(io.BytesIO(content))


def test_files_when_saved_come_with_what_links_lead_to(root: Path, context: Context) -> None:
    (root / "etc/slurm").mkdir()
    (root / "shared.conf").write_text("shared")
    (root / "etc/slurm/topology.conf").symlink_to(root / "shared.conf")
    (root / "etc/slurm/broken").symlink_to("nowhere")
    pieces: list[bytes] = []
    save_files({"directory": "/etc/slurm"}, context, pieces.append)
    assert unpacked(pieces) == {"topology.conf": b"shared"}


def test_a_large_part_when_an_agent_sends_it_comes_in_small_pieces(root: Path, agent: Agent) -> None:
    (root / "etc/slurm").mkdir()
    content = os.urandom(5 * PIECE_BYTES)
    (root / "etc/slurm/large").write_bytes(content)
    *lines, last = agent.ask({"op": "save", "part": "files", "directory": "/etc/slurm", "root": str(root)})
    pieces = [base64.b64decode(line["piece"]) for line in lines]
    assert max(map(len, pieces)) == PIECE_BYTES
    assert unpacked(pieces) == {"large": content}
    assert last == {"saved": {"files": 1}}


def test_a_part_that_cannot_be_had_when_an_agent_is_asked_then_it_says_why(root: Path, agent: Agent) -> None:
    (answer,) = agent.ask({"op": "save", "part": "state", "directory": STATE, "root": str(root)})
    assert answer["error"] == f"there is no directory {STATE} with slurmctld's state"


def test_the_password_of_a_database_elsewhere_when_it_is_needed_then_it_is_in_no_argument(
    root: Path, context: Context
) -> None:
    text = '# StoragePass=old\nStorageHost=db\nStoragePort=3307\nStorageUser=slurm\nStoragePass=p"w\\d\n'
    (root / "etc/slurmdbd.conf").write_text(text)
    with contextlib.ExitStack() as stack:
        (option,), (descriptor,) = login(stack, context, "/etc/slurmdbd.conf")
        assert option == f"--defaults-file=/proc/self/fd/{descriptor}"
        assert os.fstat(descriptor).st_mode & 0o777 == 0o600
        read = os.pread(descriptor, 1000, 0).decode()
    assert read == '[client]\nhost="db"\nuser="slurm"\npassword="p\\"w\\\\d"\nport=3307\n'
    assert quoted("plain") == "plain"


def test_a_part_when_it_is_brought_to_a_host_then_only_root_may_read_it(root: Path, context: Context) -> None:
    place, _ = brought(context, "state.tar.gz", b"secret state")
    assert (root / place.lstrip("/")).read_bytes() == b"secret state"
    assert (root / place.lstrip("/")).stat().st_mode & 0o777 == 0o600
    assert (root / RESTORING.lstrip("/")).stat().st_mode & 0o777 == 0o700
    stage({"do": "begin", "backup": "cd" * 32}, context)
    assert not (root / place.lstrip("/")).exists()
    stage({"do": "clear", "backup": BACKUP}, context)
    assert not (root / RESTORING.lstrip("/")).exists()


@pytest.mark.parametrize(("backup", "name"), [("..", "state"), (BACKUP, "../passwd"), (BACKUP, "a/b"), ("", "state")])
def test_a_part_with_a_name_that_leads_elsewhere_when_it_is_brought_then_it_is_refused(
    root: Path, context: Context, backup: str, name: str
) -> None:
    before = snapshot(root)
    with pytest.raises(ResourceFailed):
        stage({"do": "write", "backup": backup, "name": name, "at": 0, "data": ""}, context)
    assert snapshot(root) == before


def test_the_state_when_restored_is_the_slurm_users_alone_and_what_was_there_is_kept(
    context: Context, state: Path
) -> None:
    (state / ".hidden").unlink()
    files = {"clustername": b"lab|1", "job_state": jobs(7), "hash.6/job.6/script": b"#!/bin/sh\n"}
    wanted = RestoredState(STATE, *brought(context, "state.tar.gz", packed(files)), "20261121T150000Z")
    outcome = apply(wanted, context)
    assert (outcome.status, outcome.message) == ("changed", "")
    there = {path: path.stat().st_mode & 0o777 for path in state.rglob("*") if ".before" not in str(path)}
    assert {str(path.relative_to(state)) for path in there if path.is_file()} == {*files}
    assert all(mode & 0o077 == 0 for mode in there.values())
    before = state / ".before-restore-20261121T150000Z"
    assert (before / "job_state").read_bytes() == jobs(18)
    (state / "job_state").write_bytes(jobs(8))
    assert apply(wanted, context).status == "ok"
    assert (state / "job_state").read_bytes() == jobs(8)


@pytest.mark.parametrize(
    "content",
    [b"no tar", *(packed({name: b""}) for name in ("../evil", "a/../../evil", "/evil"))],
    ids=("no tar", "above", "above by a way", "elsewhere"),
)
def test_a_state_that_is_damaged_or_leads_elsewhere_when_restored_then_the_state_is_as_before(
    context: Context, state: Path, content: bytes
) -> None:
    before = snapshot(state)
    assert "backup" in failure(RestoredState(STATE, *brought(context, "state.tar.gz", content), "now"), context)
    assert snapshot(state) == before


def tar_of(*members: tuple[tarfile.TarInfo, bytes], shape: int = tarfile.PAX_FORMAT) -> bytes:
    """A compressed tar of any members."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", format=shape) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return target.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, **fields: Any) -> tarfile.TarInfo:
    """The header of a member of a tar."""
    info = tarfile.TarInfo(name)
    info.type = kind
    for field, value in fields.items():
        setattr(info, field, value)
    return info


HOSTILE = {
    "a link": tar_of((member("job_state", tarfile.SYMTYPE, linkname="/etc/shadow"), b"")),
    "a hard link": tar_of((member("job_state", tarfile.LNKTYPE, linkname="/etc/shadow"), b"")),
    "a device": tar_of((member("job_state", tarfile.CHRTYPE, devmajor=1, devminor=1), b"")),
    "a pipe": tar_of((member("job_state", tarfile.FIFOTYPE), b"")),
    "a directory": tar_of((member("hash.1", tarfile.DIRTYPE), b"")),
    "a sparse file": tar_of(
        (member("job_state", pax_headers={"GNU.sparse.map": "0,0", "GNU.sparse.size": "999999999999"}), b"")
    ),
    "an old sparse file": tar_of((member("job_state", tarfile.GNUTYPE_SPARSE), b""), shape=tarfile.GNU_FORMAT),
    "a sparse file with a long map": tar_of((
        member("job_state", size=1 << 20, pax_headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),
        b"99999999\n" + b"1\n" * (1 << 19),
    )),
    "a long extended header": tar_of((member("job_state", pax_headers={"comment": "x" * 1_000_000}), b"")),
    "a long name": tar_of((member("x" * 1_000_000), b""), shape=tarfile.GNU_FORMAT),
    "a deep path": tar_of((member("x/" * 1000 + "x"), b"")),
    "one file too many": tar_of(*((member(f"hash.1/job.{number}/script"), b"") for number in range(6))),
}  # fmt: skip


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_state_that_is_no_state_when_restored_then_the_state_is_as_before_and_memory_stays_free(
    context: Context, state: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restored_state, "MOST_STATE_FILES", 5)
    before = snapshot(state)
    outcome = apply(RestoredState(STATE, *brought(context, "state.tar.gz", content), "now"), context)
    assert (outcome.status, "the backup" in outcome.message) == ("failed", True), outcome.message
    assert snapshot(state) == before


def test_a_state_that_would_fill_the_disk_when_restored_then_the_state_is_as_before(
    context: Context, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restored_state, "MARGIN", 1 << 62)
    before = snapshot(state)
    content = packed({"job_state": jobs(7)})
    outcome = apply(RestoredState(STATE, *brought(context, "state.tar.gz", content), "now"), context)
    assert (outcome.status, "the disk is too full" in outcome.message) == ("failed", True)
    assert snapshot(state) == before


def test_a_part_that_did_not_come_whole_when_restored_then_nothing_is_replaced(context: Context, state: Path) -> None:
    place, _ = brought(context, "state.tar.gz", packed({"job_state": jobs(7)}))
    outcome = apply(RestoredState(STATE, place, "0" * 64, "now"), context)
    assert (outcome.status, "differs from what was sent" in outcome.message) == ("failed", True)
    assert (state / "job_state").read_bytes() == jobs(18)


def test_files_when_restored_are_those_that_are_missing_but_for_slurmfabs_own(root: Path, context: Context) -> None:
    (root / "etc/slurm").mkdir()
    (root / "etc/slurm/topology.conf").write_text("newer")
    files = dict.fromkeys(("slurm.conf", "topology.conf", "plugins/lua.conf"), b"old")
    wanted = RestoredFiles("/etc/slurm", *brought(context, "etc-slurm.tar.gz", packed(files)), ("slurm.conf",))
    assert apply(wanted, context).status == "changed"
    assert (root / "etc/slurm/topology.conf").read_text() == "newer"
    assert (root / "etc/slurm/plugins/lua.conf").read_text() == "old"
    assert not (root / "etc/slurm/slurm.conf").exists()
    assert apply(wanted, context).status == "ok"


def test_a_directory_that_is_a_link_when_files_are_restored_then_nothing_is_written_behind_it(
    root: Path, context: Context
) -> None:
    (root / "etc/slurm").mkdir()
    (root / "elsewhere").mkdir()
    (root / "etc/slurm/plugins").symlink_to(root / "elsewhere")
    content = packed({"plugins/lua.conf": b"old"})
    outcome = apply(RestoredFiles("/etc/slurm", *brought(context, "etc-slurm.tar.gz", content)), context)
    assert (outcome.status, "leads through a symbolic link" in outcome.message) == ("failed", True)
    assert list((root / "elsewhere").iterdir()) == []


def test_the_end_of_a_dump_when_it_is_copied_is_told() -> None:
    target = io.BytesIO()
    assert copy(io.BytesIO(b"x" * 3_000_000 + END_MARK), target, 1 << 22) == END_MARK
    assert len(target.getvalue()) == 3_000_000 + len(END_MARK)
    assert copy(io.BytesIO(b"cut off"), io.BytesIO(), 1 << 22) == b"cut off"


def test_a_program_when_it_is_wanted_has_just_its_files_and_without_any_is_gone(root: Path, context: Context) -> None:
    wanted = Program("/usr/lib/ours", (("run.py", "pass\n"), ("package/__init__.py", "")))
    assert apply(wanted, context).status == "changed"
    (root / "usr/lib/ours/stray.py").write_text("")
    (root / "usr/lib/ours/run.py").write_text("edited")
    assert apply(wanted, context).status == "changed"
    assert apply(wanted, context).status == "ok"
    assert not (root / "usr/lib/ours/stray.py").exists()
    assert apply(Program("/usr/lib/ours", ()), context).status == "changed"
    assert not (root / "usr/lib/ours").exists()
    assert apply(Program("/usr/lib/ours", ()), context).status == "ok"


@pytest.fixture
def timed(root: Path, state: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Runs the timer's backup, which keeps two files."""
    (root / "etc/slurm").mkdir()
    (root / "etc/munge.key").write_bytes(b"k" * 128)
    (root / "saved").mkdir(mode=0o700)
    settings = {
        "cluster": "lab",
        "directory": str(root / "saved"),
        "keep": 2,
        "files": str(root / "etc/slurm"),
        "state": str(state),
        "key": str(root / "etc/munge.key"),
    }
    (root / "settings.json").write_text(json.dumps(settings))
    monkeypatch.setattr(timed_backup, "version", lambda _: "24.11.5")
    monkeypatch.setattr(os, "umask", lambda _: 0o022)
    return lambda: timed_backup.main(str(root / "settings.json"))


def test_backups_by_a_timer_when_there_are_more_than_are_kept_then_the_oldest_of_this_host_go(
    root: Path, timed: Callable[[], int]
) -> None:
    host = os.uname().nodename.split(".")[0]
    old = [root / f"saved/lab-{host}-2026010{day}T000000Z.tar" for day in (1, 2)]
    others = [root / "saved/lab-20260101T000000Z.tar", root / "saved/notes"]
    for path in (*old, *others):
        path.write_text("")
    assert timed() == 0
    assert not old[0].exists()
    assert all(path.exists() for path in (old[1], *others))
    assert len(list((root / "saved").iterdir())) == 4


def test_a_backup_by_a_timer_when_it_fails_then_nothing_is_left_and_the_exit_code_tells(
    root: Path, timed: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "etc/munge.key").unlink()
    assert timed() == 1
    assert list((root / "saved").iterdir()) == []
    assert "The backup failed and was removed" in capsys.readouterr().err


def test_a_backup_by_a_timer_when_others_may_look_into_its_directory_then_it_is_refused(
    root: Path, timed: Callable[[], int], capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "saved").chmod(0o755)
    assert timed() == 1
    assert "chmod 700" in capsys.readouterr().err


def test_a_dump_when_it_is_read_again_is_text_that_gzip_knows() -> None:
    pieces: list[bytes] = []
    with compressed(pieces.append) as file:
        file.write(b"select 1;\n" * 10)
    assert gzip.decompress(b"".join(pieces)) == b"select 1;\n" * 10
