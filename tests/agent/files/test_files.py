"""Files, blocks and directories, in a scratch root."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from local_agent import snapshot
from outcomes import failure

from slurmfab.core.plan.directories import backup_directory, state_directory
from slurmfab.on_hosts.agent.core import replace
from slurmfab.on_hosts.agent.core.resource import Context, Resource, apply
from slurmfab.on_hosts.agent.files.block import Block
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.file import Absent, File


def names(folder: Path) -> list[str]:
    """The names in a directory."""
    return sorted(path.name for path in folder.iterdir())


def converge(resource: Resource, context: Context) -> str:
    """Apply twice and return the first status; the second time nothing may differ."""
    first = apply(resource, context)
    before = snapshot(Path(context.root))
    assert apply(resource, context).status == "ok", first.message
    assert snapshot(Path(context.root)) == before
    return first.status


def test_a_file_when_missing_is_written_with_its_mode(root: Path, context: Context) -> None:
    assert converge(File("/etc/new", "ä\n", mode=0o640), context) == "changed"
    assert (root / "etc/new").read_bytes() == "ä\n".encode()
    assert (root / "etc/new").stat().st_mode & 0o7777 == 0o640


def test_a_file_when_its_content_differs_is_replaced_in_one_step(root: Path, context: Context) -> None:
    path = root / "etc/conf"
    path.write_text("old")
    inode = path.stat().st_ino
    assert converge(File("/etc/conf", "new"), context) == "changed"
    assert path.stat().st_ino != inode
    assert names(root / "etc") == ["conf", "group", "passwd"]


def test_a_file_when_only_its_mode_differs_is_not_rewritten(root: Path, context: Context) -> None:
    path = root / "etc/conf"
    path.write_text("text")
    path.chmod(0o666)
    inode = path.stat().st_ino
    assert converge(File("/etc/conf", "text"), context) == "changed"
    assert (path.stat().st_ino, path.stat().st_mode & 0o7777) == (inode, 0o644)


def test_a_file_when_given_in_base64_holds_the_bytes(root: Path, context: Context) -> None:
    assert converge(File("/etc/key", "AP+A", encoding="base64", secret=True, mode=0o400), context) == "changed"
    assert (root / "etc/key").read_bytes() == b"\x00\xff\x80"


def test_a_file_when_the_old_content_is_not_text_is_compared_by_bytes(root: Path, context: Context) -> None:
    (root / "etc/conf").write_bytes(b"\xff\xfe")
    assert converge(File("/etc/conf", "text"), context) == "changed"


def test_a_file_when_an_interrupted_run_left_a_temporary_file_is_written_and_that_file_is_removed(
    root: Path, context: Context
) -> None:
    (root / "etc/.slurmfab-conf.0123abcd").write_text("half")
    (root / "etc/.slurmfab-conf.d.0123abcd").write_text("another file's")
    converge(File("/etc/conf", "text"), context)
    assert [name for name in names(root / "etc") if name.startswith(".")] == [".slurmfab-conf.d.0123abcd"]


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        (File("/etc/link", "x"), "is a symbolic link to passwd"),
        (File("/etc", "x"), "is not a regular file"),
        (File("/none/conf", "x"), "none is missing"),
        (File("/etc/conf", "x", owner="ghost"), "there is no user ghost"),
        (File("/etc/conf", "x", group="ghost"), "there is no group ghost"),
        (Block("/etc/link", "b", "x"), "is a symbolic link"),
        (Directory("/etc/passwd"), "is not a directory"),
        (Absent("/etc"), "is a directory"),
    ],
)
def test_a_path_that_cannot_be_used_is_named_and_not_changed(
    root: Path, context: Context, resource: Resource, words: str
) -> None:
    (root / "etc/link").symlink_to("passwd")
    before = snapshot(root)
    assert words in failure(resource, context)
    assert snapshot(root) == before


def test_a_file_when_writing_fails_half_way_keeps_the_old_one(root: Path) -> None:
    path = root / "etc/conf"
    path.write_text("old")
    with pytest.raises(TypeError):
        replace.put(str(path), b"new", "no number", 0, 0o644)  # type: ignore[arg-type]
    assert path.read_text() == "old"
    assert names(root / "etc") == ["conf", "group", "passwd"]


def test_a_full_disk_is_reported_with_advice(context: Context) -> None:
    outcome = apply(Refusing("/etc/x"), context)
    assert outcome.message == "No space left on device (/etc/x); free some space on it"


class Refusing(Absent):
    """A resource whose file system is full."""

    def actual(self, context: Context) -> dict[str, object]:  # noqa: ARG002
        raise OSError(28, "No space left on device", self.path)


def test_a_file_that_has_to_be_absent_is_removed(root: Path, context: Context) -> None:
    (root / "etc/link").symlink_to("nowhere")
    assert converge(Absent("/etc/link"), context) == "changed"
    assert not os.path.lexists(root / "etc/link")


def test_a_directory_when_missing_is_made_with_its_parents(root: Path, context: Context) -> None:
    assert converge(Directory("/var/lib/slurm/slurmctld", "slurm", "slurm", 0o700), context) == "changed"
    assert (root / "var/lib/slurm/slurmctld").stat().st_mode & 0o7777 == 0o700
    assert (root / "var/lib").stat().st_mode & 0o7777 == 0o755


def test_a_directory_when_linked_elsewhere_is_used_there(root: Path, context: Context) -> None:
    (root / "disk").mkdir(mode=0o700)
    (root / "spool").symlink_to(root / "disk")
    assert converge(Directory("/spool"), context) == "changed"
    assert (root / "spool").is_symlink()
    assert (root / "disk").stat().st_mode & 0o7777 == 0o755


@pytest.mark.parametrize(
    ("there", "status"),
    [
        pytest.param((), "changed", id="empty"),
        pytest.param(("lost+found",), "changed", id="a new file system"),
        pytest.param(("ann", "zoe", "x-20261121T143200Z.tar"), "changed", id="with a backup"),
        pytest.param(("ann", "zoe", "x.tar"), "failed", id="somebody else's"),
    ],
)
def test_a_directory_with_another_mode_is_changed_if_it_is_empty_or_has_a_mark(
    root: Path, context: Context, there: tuple[str, ...], status: str
) -> None:
    (root / "home").mkdir(mode=0o755)
    for name in there:
        (root / "home" / name).touch()
    for context.dry_run in (True, False):
        outcome = apply(backup_directory("/home"), context)
        assert outcome.status == ("would change" if context.dry_run and status == "changed" else status)
    assert (root / "home").stat().st_mode & 0o7777 == (0o700 if status == "changed" else 0o755)
    assert (status == "changed") != ("contains ann, x.tar, zoe. It would become root:root 0700" in outcome.message)


def test_a_directory_that_is_right_already_is_right_whatever_is_in_it(root: Path, context: Context) -> None:
    (root / "data").mkdir(mode=0o700)
    (root / "data/theirs").touch()
    assert apply(backup_directory("/data"), context).status == "ok"


@pytest.mark.needs_root("only root can give a directory away")
def test_a_directory_of_root_is_given_away_if_it_is_empty_or_a_file_shows_what_it_is(
    root: Path, context: Context
) -> None:
    passwd = root / "etc/passwd"
    passwd.write_text(passwd.read_text().replace("slurm:x:0", "slurm:x:4711"))
    state = root / "state"
    state.mkdir(mode=0o755)
    for name, status in (("", "changed"), ("theirs", "failed"), ("job_state", "changed")):
        os.chown(state, 0, 0)
        if name:
            (state / name).touch()
        assert apply(state_directory("/state", ("slurm", "slurm")), context).status == status
        assert state.stat().st_uid == (4711 if status == "changed" else 0)


@pytest.mark.parametrize("place", ["/state", "/state/spool", "/link", "/link/spool"])
def test_a_directory_when_another_key_has_its_place_there_then_stays_and_both_keys_are_named(
    root: Path, context: Context, place: str
) -> None:
    (root / "state/spool").mkdir(parents=True)
    (root / "link").symlink_to(root / "state")
    (root / "state").chmod(0o755)
    uses = (("SlurmdPidFile", "/run/slurmd.pid"), ("SlurmdSpoolDir", place))
    wanted = Directory("/state", mode=0o700, key="StateSaveLocation", used=uses)
    found = apply(wanted, context)
    assert (found.status, (root / "state").stat().st_mode & 0o777) == ("ok", 0o755)
    assert "StateSaveLocation and SlurmdSpoolDir share it" in found.message


@pytest.mark.parametrize("place", ["/", "/states", "/elsewhere"])
def test_a_directory_when_another_key_has_its_place_elsewhere_then_is_closed(
    root: Path, context: Context, place: str
) -> None:
    (root / "state").mkdir(mode=0o755)
    assert apply(Directory("/state", mode=0o700, used=(("SlurmdSpoolDir", place),)), context).status == "changed"
    assert (root / "state").stat().st_mode & 0o777 == 0o700


def test_a_directory_when_it_is_new_and_another_key_has_its_place_there_then_is_open(
    root: Path, context: Context
) -> None:
    wanted = Directory("/state", mode=0o700, key="StateSaveLocation", used=(("SlurmdSpoolDir", "/state"),))
    assert apply(wanted, context).status == "changed"
    assert (root / "state").stat().st_mode & 0o777 == 0o755


BEFORE = b"127.0.0.1 localhost\r\n# caf\xe9 without newline"
BLOCK = b"# BEGIN slurmfab hosts\n10.0.0.1 n1\n# END slurmfab hosts\n"


def test_a_block_when_new_is_appended_and_the_rest_stays_byte_for_byte(root: Path, context: Context) -> None:
    path = root / "etc/hosts"
    path.write_bytes(BEFORE)
    path.chmod(0o604)
    assert converge(Block("/etc/hosts", "hosts", "10.0.0.1 n1\n"), context) == "changed"
    assert path.read_bytes() == BEFORE + b"\n" + BLOCK
    assert path.stat().st_mode & 0o7777 == 0o604


def test_a_block_when_it_differs_is_replaced_in_its_place(root: Path, context: Context) -> None:
    (root / "etc/hosts").write_bytes(b"first\n" + BLOCK + b"last\n")
    assert converge(Block("/etc/hosts", "hosts", "10.0.0.2 n2"), context) == "changed"
    assert (root / "etc/hosts").read_bytes() == b"first\n" + BLOCK.replace(b"10.0.0.1 n1", b"10.0.0.2 n2") + b"last\n"


def test_a_block_when_empty_is_removed(root: Path, context: Context) -> None:
    (root / "etc/hosts").write_bytes(b"first\n" + BLOCK + b"last\n")
    assert converge(Block("/etc/hosts", "hosts", ""), context) == "changed"
    assert (root / "etc/hosts").read_bytes() == b"first\nlast\n"


def test_a_block_when_its_file_is_missing_makes_it(root: Path, context: Context) -> None:
    assert converge(Block("/etc/known", "keys", "a b\n", mode=0o600), context) == "changed"
    assert (root / "etc/known").stat().st_mode & 0o7777 == 0o600


def test_a_block_when_empty_and_its_file_missing_makes_nothing(root: Path, context: Context) -> None:
    assert apply(Block("/etc/known", "keys", ""), context).status == "ok"
    assert not (root / "etc/known").exists()


@pytest.mark.parametrize("content", ["10.0.0.1 n1\n", ""])
def test_a_block_in_a_file_of_others_when_that_is_not_there_is_right_as_it_is(
    root: Path, context: Context, content: str
) -> None:
    block = Block("/etc/cloud/templates/hosts.debian.tmpl", "hosts", content, strict=True, is_found=True)
    assert apply(block, context).status == "ok"
    assert not (root / "etc/cloud").exists()


@pytest.mark.parametrize(
    ("before", "after"), [(None, "::1 localhost\n"), ("\n", "::1 localhost\n"), ("1 a\n", "1 a\n")]
)
def test_a_file_for_a_block_when_it_is_gone_or_empty_then_begins_with_what_it_has_to_have(
    root: Path, context: Context, before: str | None, after: str
) -> None:
    path = root / "etc/names"
    if before is not None:
        path.write_text(before)
    assert converge(Block("/etc/names", "hosts", "10.0.0.1 n1\n", first="::1 localhost\n"), context) == "changed"
    assert path.read_text() == f"{after}# BEGIN slurmfab hosts\n10.0.0.1 n1\n# END slurmfab hosts\n"


def test_blocks_when_several_share_a_file_do_not_disturb_each_other(context: Context) -> None:
    one, two = Block("/etc/hosts", "hosts", "1\n"), Block("/etc/hosts", "hosts of others", "2\n")
    for block in (one, two):
        apply(block, context)
    assert [apply(block, context).status for block in (one, two)] == ["ok", "ok"]


def test_a_block_when_the_file_has_carriage_returns_takes_newlines_alone_for_line_ends(
    root: Path, context: Context
) -> None:
    path = root / "etc/hosts"
    before = b"a\r# BEGIN slurmfab hosts\rb\r\n# BEGIN slurmfab hosts\r\n"
    path.write_bytes(before + b"old\r\n# END slurmfab hosts\r\nc\rd")
    assert converge(Block("/etc/hosts", "hosts", "10.0.0.1 n1\n"), context) == "changed"
    assert path.read_bytes() == before.replace(b"slurmfab hosts\r\n", b"slurmfab hosts\n") + (
        b"10.0.0.1 n1\n# END slurmfab hosts\nc\rd"
    )


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("a\n# BEGIN slurmfab hosts\nb\n", "2"),
        ("# END slurmfab hosts\n", "1"),
        ("# END slurmfab hosts\n# BEGIN slurmfab hosts\n", "1, 2"),
        (BLOCK.decode() * 2, "1, 3, 4, 6"),
    ],
)
def test_a_block_when_damaged_names_the_lines_to_repair(root: Path, context: Context, text: str, where: str) -> None:
    (root / "etc/hosts").write_text(text)
    assert f"the marker lines are: {where};" in failure(Block("/etc/hosts", "hosts", "x\n"), context)
    assert (root / "etc/hosts").read_text() == text
