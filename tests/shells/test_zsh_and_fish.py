"""The scripts for zsh and fish in these shells: what they complete."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from shell_on_terminal import SECONDS, Shell, environment, make_place, script, shell_on_terminal

pytestmark = pytest.mark.shells

TAB = "\t"
ZSHRC = """\
PROMPT='#''READY''#'
unset zle_bracketed_paste
unsetopt zle
autoload -Uz compinit && compinit -u -d ./dump
setopt zle
source ./script
fab() { printf '%s\\n' "$@" > words.new; mv words.new words }
"""


@pytest.fixture(scope="module", autouse=True)
def shells() -> None:
    """Fail where a shell is missing."""
    missing = [shell for shell in ("zsh", "fish") if not shutil.which(shell)]
    if missing:
        pytest.fail(f"{' and '.join(missing)}: not installed; make test-packages")


@pytest.fixture(scope="module")
def zsh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    place = make_place(tmp_path_factory.mktemp("zsh"))
    (place / "script").write_text(script(place, "zsh"))
    (place / ".zshrc").write_text(ZSHRC)
    with shell_on_terminal(["zsh", "--no-globalrcs", "-i"], place) as shell:
        yield shell


@pytest.fixture(scope="module")
def fish(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = make_place(tmp_path_factory.mktemp("fish"))
    (place / "script").write_text(script(place, "fish"))
    return place


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (f"fab check-c{TAB}", ["check-cluster"]),
        (f"fab deploy --drain{TAB}", ["deploy", "--drain-first"]),
        (f"fab drain n1,g{TAB}", ["drain", "n1,gpu1"]),
        (f"fab drain --reason 'new disks' g{TAB}", ["drain", "--reason", "new disks", "gpu1"]),
        (f"fab deploy --hosts=g{TAB}", ["deploy", "--hosts=gpu1"]),
        (f"fab restore an{TAB}", ["restore", "an archive.tar"]),
        (f"fab restore --database=an{TAB}", ["restore", "--database=an archive.tar"]),
        (f"fab monitoring-files --output con{TAB}", ["monitoring-files", "--output", "configs/"]),
    ],
)
def test_zsh_when_tab_is_pressed_then_completes(zsh: Shell, keys: str, words: list[str]) -> None:
    assert zsh.words_after(keys) == words


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("fab check-c", ["check-cluster"]),
        ("slurmfab deploy --drain", ["--drain-first"]),
        ("fab drain ", ["gpu1", "n1", "n2"]),
        ("fab drain n1,g", ["n1,gpu1"]),
        ("fab drain --reason 'new disks' g", ["gpu1"]),
        ("fab deploy --hosts=g", ["--hosts=gpu1"]),
        ("fab restore an", ["an archive.tar"]),
        ("fab restore --database=an", ["--database=an archive.tar"]),
        ("fab monitoring-files --output con", ["configs/"]),
    ],
)
def test_fish_when_it_completes_a_line_then_offers_what_fits(fish: Path, line: str, offered: list[str]) -> None:
    code = 'source ./script; complete -C "$argv[1]"'
    said = subprocess.check_output(
        ["fish", "--no-config", "-c", code, line], cwd=fish, env=environment(fish), text=True, timeout=SECONDS
    )
    assert sorted(each.partition("\t")[0] for each in said.splitlines()) == offered
