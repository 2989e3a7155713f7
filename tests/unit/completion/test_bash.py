"""The script for bash in a real bash: with which words a command runs after a TAB."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from shell_on_terminal import Shell, make_place, script, shell_on_terminal

ALL = "\x1b*"
"""The keys for readline's insert-completions: all that fits instead of the word."""

TAB = "\t"
RC = """\
PS1='#''READY''#'
bind 'set enable-bracketed-paste off'
bind 'set bell-style none'
source ./script
fab() { printf '%s\\n' "$@" > words.new; mv words.new words; }
"""


@pytest.fixture(scope="module")
def bash(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    place = make_place(tmp_path_factory.mktemp("bash"))
    (place / "script").write_text(script(place, "bash"))
    (place / "rc").write_text(RC)
    with shell_on_terminal(["bash", "--rcfile", "rc", "-i"], place) as shell:
        yield shell


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (f"fab check-c{TAB}", ["check-cluster"]),
        (f"fab deploy --drain{TAB}", ["deploy", "--drain-first"]),
        (f"fab drain n{ALL}", ["drain", "n1", "n2"]),
        (f"fab drain n1,g{TAB}", ["drain", "n1,gpu1"]),
        (f"fab drain 'n1,g{TAB}", ["drain", "n1,gpu1"]),
        (f"fab drain --reason 'new disks' g{TAB}", ["drain", "--reason", "new disks", "gpu1"]),
        (f"fab deploy --hosts=g{TAB}", ["deploy", "--hosts=gpu1"]),
        (f"fab check-cluster --only munge,clo{TAB}", ["check-cluster", "--only", "munge,clock"]),
        (f"fab remove-user {TAB}", ["remove-user", "ann"]),
        (f"fab restore an{TAB}", ["restore", "an archive.tar"]),
        (f"cd . && fab restore --database=an{TAB}", ["restore", "--database=an archive.tar"]),
        (f"fab restore --database 'an a{TAB}", ["restore", "--database", "an archive.tar"]),
        (f"fab restore --database an\\ a{TAB}", ["restore", "--database", "an archive.tar"]),
        (f"fab monitoring-files --output con{TAB}", ["monitoring-files", "--output", "configs/"]),
    ],
)
def test_a_command_line_when_tab_is_pressed_then_is_completed(bash: Shell, keys: str, words: list[str]) -> None:
    assert bash.words_after(keys) == words


def test_the_script_when_slurmfab_is_not_on_the_search_path_then_finds_it_where_it_was(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    (place / "script").write_text(script(place, "bash"))
    (place / "rc").write_text(RC)
    with shell_on_terminal(["bash", "--rcfile", "rc", "-i"], place, "/usr/bin:/bin") as shell:
        assert shell.words_after(f"fab remove-user {TAB}") == ["remove-user", "ann"]
