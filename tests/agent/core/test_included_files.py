"""A configuration file with the files that it includes."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core import included_files
from slurmfab.on_hosts.agent.core.included_files import MOST_LEVELS, conf_bytes, whole

FILES = {
    "/etc/slurm/a.conf": b"A=1\n",
    "/etc/slurm/sub/b.conf": b"B=1\nInclude c.conf\n",
    "/etc/slurm/sub/c.conf": b"C=1",
    "/srv/d.conf": b"D=1\n",
    "/etc/slurm/loop.conf": b"L=1\nInclude loop.conf\n",
    "/etc/slurm/lab.conf": b"N=1\n",
}


def expanded(text: str) -> str:
    return whole("/etc/slurm/slurm.conf", text.encode(), lambda path: FILES.get(path, b""), lambda *_: True).decode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("X=1\n", "X=1\n"),
        ("Include a.conf\nX=1\n", "A=1\nX=1\n"),
        ("INCLUDE\ta.conf # the first\n", "A=1\n"),
        ("Include sub/b.conf\nX=1\n", "B=1\nC=1\nX=1\n"),
        ("Include /srv/d.conf\n", "D=1\n"),
        ("Include gone.conf\n", "Include gone.conf\n"),
        ("#Include a.conf\n", "#Include a.conf\n"),
        ("Included=a.conf\n", "Included=a.conf\n"),
        ("X=1,\\\nInclude a.conf\n", "X=1,\\\nInclude a.conf\n"),
        ("# a comment \\\nInclude a.conf\n", "# a comment \\\nA=1\n"),
        ("ClusterName=LAB\nInclude %c.conf\n", "ClusterName=LAB\nN=1\n"),
        ("Include %c.conf\n", "Include %c.conf\n"),
    ],
)
def test_include_lines_when_read_are_what_they_include(text: str, expected: str) -> None:
    assert expanded(text) == expected


def test_a_file_that_includes_itself_when_read_ends() -> None:
    assert expanded("Include loop.conf\n").count("L=1") == MOST_LEVELS


def test_a_file_of_20_gb_when_included_then_is_not_read_and_is_named(tmp_path: Path) -> None:
    for name in ("huge", "large"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(20 << 30 if name == "huge" else included_files.MOST_BYTES + 1)
    conf = b"ClusterName=lab\nInclude nothing\nInclude huge\nInclude large\nInclude small\n"
    (tmp_path / "small").write_bytes(b"A=1\n")
    began = time.monotonic()
    path = str(tmp_path / "slurm.conf")
    Path(path).write_bytes(conf)
    assert whole(path, conf) == conf.replace(b"Include small\n", b"A=1\n")
    remark = included_files.too_large(path, conf)
    assert f"{tmp_path}/huge is not read, because it has {20 << 30} bytes" in remark
    assert included_files.too_large(path, b"Include small\n") == ""
    assert whole(path, b"Include small\n" + b"\0" * included_files.MOST_BYTES).startswith(b"Include small\n")
    assert time.monotonic() - began < 5


SLURM, ANN = 4711, 4712
SECRET = b"# root:$y$hash\n"


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that everybody can enter, as the way to /etc/slurm is: pytest's own are closed."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def put(path: Path, content: bytes, owner: int, mode: int) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    os.chown(path, owner, -1)
    path.chmod(mode)
    return path


@pytest.mark.needs_root("only root can make files of other users")
@pytest.mark.parametrize(
    ("writer", "named", "is_read"),
    [
        (SLURM, (0, 0o600, 0o755), False),
        (SLURM, (0, 0o644, 0o700), False),  # as a note in /root
        (SLURM, (0, 0o640, 0o755), False),
        (SLURM, (ANN, 0o600, 0o755), False),
        (SLURM, (0, 0o644, 0o755), True),
        (SLURM, (SLURM, 0o600, 0o755), True),
        (0, (0, 0o600, 0o700), True),  # root wrote the line
    ],
)
def test_a_line_when_its_writer_may_not_read_the_file_that_it_names_then_stays_as_it_is(
    place: Path, writer: int, named: tuple[int, int, int], is_read: bool
) -> None:
    owner, mode, directory = named
    file = put(place / "else/file", SECRET, owner, mode)
    file.parent.chmod(directory)
    line = f"Include {file}\n".encode()
    conf = put(place / "slurm/slurm.conf", line, writer, 0o644)
    os.chown(conf.parent, writer, -1)
    assert whole(str(conf), conf.read_bytes()) == (SECRET if is_read else line)


@pytest.mark.needs_root("only root can make files of other users")
@pytest.mark.parametrize(
    ("of_directory", "of_link", "mode", "is_read"),
    [(SLURM, SLURM, 0o600, False), (SLURM, 0, 0o600, False), (SLURM, SLURM, 0o644, True), (0, 0, 0o600, True)],
)
def test_a_file_of_slurms_that_somebody_but_root_has_made_a_link_to_a_closed_one_then_counts_as_empty(
    place: Path, of_directory: int, of_link: int, mode: int, is_read: bool
) -> None:
    named = put(place / "else/file", SECRET, 0, mode)
    conf = place / "slurm/slurm.conf"
    conf.parent.mkdir()
    conf.symlink_to(named)
    os.chown(conf, of_link, -1, follow_symlinks=False)
    os.chown(conf.parent, of_directory, -1)
    assert conf_bytes(str(conf)) == (SECRET if is_read else b"")


@pytest.mark.needs_root("only root can make files of other users")
def test_a_closed_slurm_conf_of_the_slurm_user_is_read(place: Path) -> None:
    for owner in (0, SLURM):
        conf = put(place / f"{owner}/slurm.conf", b"A=1\n", SLURM, 0o600)
        os.chown(conf.parent, owner, -1)
        assert conf_bytes(str(conf)) == b"A=1\n"
