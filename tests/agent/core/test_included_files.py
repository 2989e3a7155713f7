"""A configuration file with the files that it includes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from slurmfab.on_hosts.agent.core import included_files
from slurmfab.on_hosts.agent.core.included_files import MOST_LEVELS, whole

FILES = {
    "/etc/slurm/a.conf": b"A=1\n",
    "/etc/slurm/sub/b.conf": b"B=1\nInclude c.conf\n",
    "/etc/slurm/sub/c.conf": b"C=1",
    "/srv/d.conf": b"D=1\n",
    "/etc/slurm/loop.conf": b"L=1\nInclude loop.conf\n",
    "/etc/slurm/lab.conf": b"N=1\n",
}


def expanded(text: str) -> str:
    return whole("/etc/slurm/slurm.conf", text.encode(), lambda path: FILES.get(path, b"")).decode()


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
    assert whole(path, conf) == conf.replace(b"Include small\n", b"A=1\n")
    remark = included_files.too_large(path, conf)
    assert f"{tmp_path}/huge is not read, because it has {20 << 30} bytes" in remark
    assert included_files.too_large(path, b"Include small\n") == ""
    assert whole(path, b"Include small\n" + b"\0" * included_files.MOST_BYTES).startswith(b"Include small\n")
    assert time.monotonic() - began < 5
