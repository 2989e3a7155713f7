"""Directories of scripts beside the cluster file: what is taken from them, and what is refused at once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import job_scripts
from slurmfab.cluster.inventory.job_scripts import LARGEST_SCRIPT, MOST_SCRIPTS

BOTH = cluster(THREE_HOSTS + "prolog: prolog.d\nepilog: epilog.d\n")
PROLOG = cluster(THREE_HOSTS + "prolog: prolog.d\n")


def put(place: Path, name: str, content: str | bytes = "#!/bin/sh\ntrue\n") -> None:
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def refusal(place: Path) -> str:
    with pytest.raises(InputError) as refused:
        job_scripts.read(PROLOG, place)
    return str(refused.value)


def test_scripts_are_taken_by_name_in_order_from_beside_the_cluster_file(tmp_path: Path) -> None:
    for name in ("prolog.d/20-b", "prolog.d/10-a.sh", "epilog.d/clean_up"):
        put(tmp_path, name, f"#!/bin/bash\necho {name}\n")
    found = job_scripts.read(BOTH, tmp_path)
    assert [name for name, _ in found["prolog"]] == ["10-a.sh", "20-b"]
    assert found["epilog"] == (("clean_up", "#!/bin/bash\necho epilog.d/clean_up\n"),)


def test_what_editors_and_people_leave_beside_scripts_is_left_out(tmp_path: Path) -> None:
    put(tmp_path, "prolog.d/10-a")
    for name in (".10-a.swp", "10-a~", "10-a.bak", "README", "README.md", "notes.txt", "10-a.orig", "10-a.dpkg-old"):
        put(tmp_path, f"prolog.d/{name}", "no script at all")
    assert [name for name, _ in job_scripts.read(PROLOG, tmp_path)["prolog"]] == ["10-a"]


def test_no_key_is_no_directory_and_an_empty_directory_is_no_scripts(tmp_path: Path) -> None:
    assert job_scripts.read(cluster(), tmp_path) == {}
    (tmp_path / "prolog.d").mkdir()
    assert job_scripts.read(PROLOG, tmp_path) == {"prolog": ()}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("echo hello\n", "its first line names no interpreter, as #!/bin/sh does", id="no-shebang"),
        pytest.param("", "its first line names no interpreter", id="empty"),
        pytest.param("#!/bin/sh\r\ntrue\r\n", "its lines have Windows line ends", id="windows"),
        pytest.param("#!sh\n", "no interpreter by an absolute path", id="relative-interpreter"),
        pytest.param("#!/bin/sh\nif true; then\n", "its shell reports a syntax error: ", id="a-half-sentence"),
        pytest.param("#!/usr/bin/env bash\nfor x in (; do\n", "its shell reports a syntax error: ", id="bash-by-env"),
        pytest.param(b"\x7fELF\x02\x01\x01\xff", "it is not UTF-8 text", id="a-binary"),
        pytest.param(b"#!/bin/sh\n\0", "it is not text", id="zero-bytes"),
        pytest.param("#!/bin/sh\n" + "#" * LARGEST_SCRIPT, "it is larger than 64 KiB", id="large"),
    ],
)
def test_a_script_that_slurmd_could_not_run_is_refused_with_its_name(
    tmp_path: Path, content: str | bytes, words: str
) -> None:
    put(tmp_path, "prolog.d/10-a", content)
    said = refusal(tmp_path)
    assert f"prolog: {tmp_path}/prolog.d/10-a: " in said
    assert words in said
    assert said.endswith("Nothing was changed on any host.")


def test_a_script_when_it_is_parsed_then_it_is_not_run(tmp_path: Path) -> None:
    put(tmp_path, "prolog.d/10-a", f"#!/bin/bash\ntouch {tmp_path}/ran\nx=$(touch {tmp_path}/ran)\n")
    job_scripts.read(PROLOG, tmp_path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("first", ["#!/usr/bin/python3 -E", "#! /usr/bin/env -S python3 -s", "#!/opt/lua/bin/lua"])
def test_other_interpreters_are_left_to_the_hosts(tmp_path: Path, first: str) -> None:
    put(tmp_path, "prolog.d/10-a", f"{first}\nif then (\n")
    assert len(job_scripts.read(PROLOG, tmp_path)["prolog"]) == 1


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    put(tmp_path, "prolog.d/10-a", "true\n")
    put(tmp_path, "prolog.d/two words")
    (tmp_path / "prolog.d/folder").mkdir()
    (tmp_path / "prolog.d/link").symlink_to("/no/such/file")
    said = refusal(tmp_path).splitlines()
    assert [line.rpartition("/")[2].partition(":")[0] for line in said[:-1] if "prolog.d/" in line][1:] == [
        "folder", "link", "two words",
    ]  # fmt: skip
    assert len(said) == 5


def test_a_directory_that_is_missing_is_told_with_its_path(tmp_path: Path) -> None:
    assert f"prolog: the directory {tmp_path}/prolog.d cannot be read: No such file or directory." in refusal(tmp_path)


def test_a_script_that_cannot_be_read_is_told_with_its_path(tmp_path: Path) -> None:
    put(tmp_path, "prolog.d/10-a")
    os.mkfifo(tmp_path / "prolog.d/20-b")
    assert f"{tmp_path}/prolog.d/20-b: it is not a regular file." in refusal(tmp_path)


def test_a_directory_with_too_many_files_is_not_read(tmp_path: Path) -> None:
    for number in range(MOST_SCRIPTS + 1):
        put(tmp_path, f"prolog.d/{number}")
    assert f"has {MOST_SCRIPTS + 1} files" in refusal(tmp_path)
