"""Archives on the deployer: valid or refused, whatever was changed in them."""

from __future__ import annotations

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from saved_archives import ABOUT, PARTS, archive, compressed_tar

from slurmfab.base.errors import InputError
from slurmfab.commands.backup.archive import all_in, description, joined, make_directory, verified
from slurmfab.on_hosts.agent.backup.archive import (
    BLOCK,
    DATABASE,
    KEY,
    MANIFEST,
    STATE,
    UNFINISHED,
    Archive,
    header,
    sweep,
)


def member(name: str, **more: object) -> tarfile.TarInfo:
    """A member of a tar that no honest backup has."""
    info = tarfile.TarInfo(name)
    for key, value in more.items():
        setattr(info, key, value)
    return info


def test_a_valid_backup_has_the_values_of_its_manifest(tmp_path: Path) -> None:
    backup = verified(archive(tmp_path))
    assert (backup.cluster, backup.slurm, backup.next_job_id) == ("lab", "24.11.5", 18)
    assert backup.jobs == {16, 17}
    assert set(backup.parts) == set(PARTS)
    assert all(backup.read(name) == content for name, content in PARTS.items())


def test_an_archive_is_a_plain_tar_for_other_programs(tmp_path: Path) -> None:
    with tarfile.open(archive(tmp_path)) as tar:
        assert tar.getnames() == [*PARTS, MANIFEST]
        key = tar.extractfile(KEY)
        assert key is not None
        assert key.read() == PARTS[KEY]


def test_an_archive_with_a_changed_byte_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path)
    whole = path.read_bytes()
    with tarfile.open(path) as tar:
        places = [one.offset_data + one.size // 2 for one in tar if one.name != MANIFEST]
    for place in places:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InputError, match="content does not match the manifest: "):
            verified(path)


@pytest.mark.parametrize("size", [0, 1, BLOCK, 3 * BLOCK + 7])
def test_an_incomplete_archive_is_refused(tmp_path: Path, size: int) -> None:
    path = archive(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(InputError, match="Nothing was changed; take another backup"):
        verified(path)


def test_an_archive_without_a_manifest_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path)
    whole = path.read_bytes()
    with tarfile.open(path) as tar:
        start = tar.getmember(MANIFEST).offset
    path.write_bytes(whole[:start] + bytes(2 * BLOCK))
    with pytest.raises(InputError, match="there is no manifest"):
        verified(path)


@pytest.mark.parametrize(
    "info",
    [
        member("../../etc/cron.d/evil"),
        member("/etc/cron.d/evil"),
        member("hash.1/../../../evil"),
        member("link", type=tarfile.SYMTYPE, linkname="/etc/shadow"),
        member("hard", type=tarfile.LNKTYPE, linkname="job_state"),
        member("device", type=tarfile.CHRTYPE, devmajor=1, devminor=3),
        member("pipe", type=tarfile.FIFOTYPE),
        member("a//b"),
    ],
    ids=lambda info: info.name,
)
def test_an_archive_with_links_devices_or_outside_paths_is_refused(tmp_path: Path, info: tarfile.TarInfo) -> None:
    path = archive(tmp_path, {**PARTS, STATE: compressed_tar({"job_state": b"jobs"}, info)})
    with pytest.raises(InputError, match="which is not restored"):
        verified(path)


@pytest.mark.parametrize("name", ["other", "../munge.key", KEY])
def test_an_archive_with_unexpected_parts_is_refused(tmp_path: Path, name: str) -> None:
    made = Archive(str(tmp_path), "lab")
    for part, content in PARTS.items():
        made.add(part, content)
    made.begin()
    made.end(name)
    with pytest.raises(InputError, match="does not belong into it"):
        verified(Path(made.finish(ABOUT)))


def test_an_archive_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "new.tar"
    text = json.dumps({**ABOUT, "format": 2, "parts": {}}).encode()
    info = tarfile.TarInfo(MANIFEST)
    info.size = len(text)
    with tarfile.open(path, "w") as tar:
        tar.addfile(info, io.BytesIO(text))
    with pytest.raises(InputError, match="made by a newer slurmfab"):
        verified(path)


def test_a_file_that_is_missing_or_not_an_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no tar\n" * 1000)
    for name in ("text", "missing", "."):
        with pytest.raises(InputError):
            verified(tmp_path / name)


def test_an_unfinished_archive_is_private_and_has_a_temporary_name(tmp_path: Path) -> None:
    made = Archive(str(tmp_path), "lab")
    made.begin()
    made.write(b"secret")
    (there,) = tmp_path.iterdir()
    assert there.name.startswith(UNFINISHED)
    assert there.stat().st_mode & 0o777 == 0o600
    assert all_in(tmp_path) == ()
    made.abandon()
    assert list(tmp_path.iterdir()) == []


def test_two_archives_with_the_same_name_are_both_kept(tmp_path: Path) -> None:
    assert [archive(tmp_path).name for _ in range(2)] == ["lab-20261121T143200Z.tar", "lab-20261121T143200Z-2.tar"]
    assert len(all_in(tmp_path)) == 2


def test_files_of_killed_writers_are_removed_and_unfinished_archives_are_kept(tmp_path: Path) -> None:
    (tmp_path / f"{UNFINISHED}old").write_bytes(b"half")
    made = Archive(str(tmp_path), "lab")
    sweep(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == [Path(made.new).name]
    made.abandon()


def test_a_dropped_part_is_not_in_the_archive(tmp_path: Path) -> None:
    made = Archive(str(tmp_path), "lab")
    made.add(KEY, PARTS[KEY])
    made.begin()
    made.write(b"half of a database")
    made.drop()
    assert set(verified(Path(made.finish(ABOUT))).parts) == {KEY}


def test_the_header_of_a_part_of_many_gigabytes_is_one_block() -> None:
    block = header("database.sql.gz", 70 * 2**30, 0)
    assert len(block) == BLOCK
    assert tarfile.TarInfo.frombuf(block, "utf-8", "strict").size == 70 * 2**30


def test_the_directory_for_backups_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "cluster.backups").mkdir(mode=0o755)
    assert make_directory(tmp_path / "cluster.yaml").stat().st_mode & 0o777 == 0o700


def test_a_description_lists_parts_and_missing_parts(tmp_path: Path) -> None:
    parts = {name: content for name, content in PARTS.items() if name != "database.sql.gz"}
    path = archive(tmp_path, parts, left_out={"database.sql.gz": "it is on db.example.org"})
    told = description(verified(path))
    assert "the last job is 17, 2 not ended" in told
    assert "munge key (128 bytes)" in told
    assert "not in it: accounting database: it is on db.example.org" in told


def test_joined_archives_have_the_database_of_the_second(tmp_path: Path) -> None:
    state = {name: content for name, content in PARTS.items() if name != DATABASE}
    one = verified(archive(tmp_path, state))
    two = verified(archive(tmp_path, {DATABASE: b"tables"}))
    both = joined(one, two)
    assert (both.read(DATABASE), both.read(KEY)) == (b"tables", PARTS[KEY])
    assert both.digest not in (one.digest, two.digest)


@pytest.mark.parametrize(
    ("differing", "words"),
    [
        ({"cluster": "other"}, "are of different clusters: lab and other"),
        ({"slurm": "25.05.1"}, "are of different versions of Slurm: 24.11.5 and 25.05.1"),
        ({"parts": {KEY: b"k"}}, "holds no accounting database"),
    ],
)
def test_archives_of_different_clusters_or_versions_are_not_joined(
    tmp_path: Path, differing: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        joined(verified(archive(tmp_path)), verified(archive(tmp_path, **{"parts": PARTS, **differing})))


@pytest.mark.parametrize(
    "hostile",
    [
        member(KEY, type=tarfile.SYMTYPE, linkname="/etc/shadow"),
        member(KEY, type=tarfile.GNUTYPE_SPARSE),
        member(KEY, pax_headers={"comment": "x" * 1_000_000}),
        member(KEY, pax_headers={"GNU.sparse.map": "0,0", "GNU.sparse.size": "999999999999"}),
        member("../" + KEY),
        member("/" + KEY),
        member("x" * 1_000_000),
    ],
    ids=["link", "sparse", "long header", "sparse by header", "above", "absolute", "long name"],
)
def test_a_hostile_member_is_refused_before_it_takes_memory(tmp_path: Path, hostile: tarfile.TarInfo) -> None:
    path = tmp_path / "hostile.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(hostile)
    with pytest.raises(InputError, match="Nothing was changed"):
        verified(path)


def test_a_manifest_that_is_nested_deeply_is_refused(tmp_path: Path) -> None:
    content = b"[" * 1_000_000
    path = tmp_path / "deep.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(member(MANIFEST, size=len(content)), io.BytesIO(content))
    with pytest.raises(InputError, match="Nothing was changed"):
        verified(path)


@pytest.mark.needs_root("only root can give directories to other users")
def test_a_directory_of_backups_that_somebody_else_made_beforehand_is_refused(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").touch()
    (tmp_path / "cluster.backups").mkdir()
    os.chown(tmp_path / "cluster.backups", 4242, 4242)
    with pytest.raises(
        InputError, match=r"cluster\.backups belongs to another user \(UID 4242\), so nothing is written there"
    ):
        make_directory(tmp_path / "cluster.yaml")
