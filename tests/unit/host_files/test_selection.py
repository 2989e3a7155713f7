"""Values of --hosts that name files: what hostlist each stands for."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.host_files.selection import resolved

INVENTORY = "head ansible_host=10.0.0.1\n[gpu]\ng[1:2] ansible_user=admin\n"


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    path = tmp_path / "hosts"
    path.write_text(INVENTORY)
    return path


@pytest.mark.parametrize(
    ("value", "members", "newcomers", "expected"),
    [
        ("@{}", {}, True, "10.0.0.1,admin@g1,admin@g2"),
        ("@{}:gpu", {}, True, "admin@g1,admin@g2"),
        ("n[1-2],@{}:gpu,@{}:gpu", {}, True, "n[1-2],admin@g1,admin@g2"),
        ("@{}", {"ctl": ["10.0.0.1"], "g1": ["10.0.0.2"]}, True, "ctl,g1,admin@g2"),
        ("@{}", {"ctl": ["10.0.0.1"], "g1": []}, False, "ctl,g1,g2"),
    ],
)
def test_a_value_when_it_names_a_file_then_stands_for_its_hosts(
    inventory: Path, value: str, members: dict[str, list[str]], newcomers: bool, expected: str
) -> None:
    assert resolved(value.replace("{}", str(inventory)), members, newcomers=newcomers) == expected


def test_standard_input_when_it_is_a_pipe_then_is_a_list() -> None:
    assert resolved("-", {}, newcomers=True, stdin=io.StringIO("n1 n2\n10.0.0.3 n3\n")) == "n1,n2,10.0.0.3"


def test_standard_input_when_it_is_a_terminal_then_is_refused() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.raises(InputError, match="pipe a list into it"):
        resolved("-", {}, newcomers=True, stdin=Terminal())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("absent", None, "No such file"),
        ("directory", "", "this is a directory"),
        ("program", b"#!/usr/bin/env python3\n", "ansible-inventory -i"),
        ("latin", b"n\xe4\n", "not a text in UTF-8"),
        ("json", b'{"_meta": {}}', "JSON is not read"),
        ("empty", b"# nobody\n", "names no host"),
        ("huge", b"n1 " * (6 << 20), "is not read"),
        ("list.yml", b"- n1\n", "list.yml:1:"),
    ],
)
def test_a_file_when_it_cannot_be_used_then_the_reason_is_told(
    tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    path = tmp_path / name
    if content == "":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError) as refused:
        resolved(f"@{path}", {}, newcomers=True)
    assert words in str(refused.value)


def test_a_file_when_its_name_has_a_colon_then_is_found(tmp_path: Path) -> None:
    (tmp_path / "a:b").write_text("n1\n")
    assert resolved(f"@{tmp_path}/a:b", {}, newcomers=True) == "n1"
