"""Command lines for every login shell: each shell that this machine has reads them alike."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from slurmfab.hosts.login_shells import announcement, in_sh, quoted

TEXTS = ("true", "it's", "a\\b", "a\\'b", "!", "x!!y", '$HOME `id` "z" ~ * [a] {b,c}', "", "\\n", "#", "%%", "ä")
SHELLS = [shell for shell in ("sh", "bash", "zsh", "tcsh", "fish") if shutil.which(shell)]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("text", TEXTS)
def test_quoted_text_is_one_word_for_every_login_shell(shell: str, text: str) -> None:
    done = subprocess.run([shell, "-c", f"exec printf %s {quoted(text)}"], capture_output=True, text=True, check=True)
    assert done.stdout == text


@pytest.mark.parametrize("shell", SHELLS)
def test_script_of_several_lines_runs_in_sh_under_every_login_shell(shell: str) -> None:
    script = "if true\nthen printf '%s|' 'a\\b' \"it's!\"; fi\ncat <<'E'\n$HOME\nE"
    done = subprocess.run([shell, "-c", f"exec {in_sh(script)}"], capture_output=True, text=True, check=True)
    assert done.stdout == "a\\b|it's!|$HOME\n"


def test_announcement_prints_the_mark_that_it_does_not_contain_in_both_streams() -> None:
    command = announcement("slurmfab check begins")
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("slurmfab check begins\n", "slurmfab check begins\n")
    assert "slurmfab check begins" not in command
