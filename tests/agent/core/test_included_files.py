"""A configuration file with the files that it includes."""

from __future__ import annotations

import pytest

from slurmfab.agent.core.included_files import MOST_LEVELS, whole

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
