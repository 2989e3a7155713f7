"""Several commands are asked at once, with one deadline, and each answer is bounded."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.user_tools import asking
from slurmfab.on_hosts.programs.user_tools.asking import Question, Silent, Started, ask


def sh(script: str, **env: str) -> Question:
    return Question(("sh", "-c", script), env)


def scontrol(directory: Path, said: str) -> None:
    path = directory / "scontrol"
    path.write_text(f"#!/bin/sh\necho '{said}'\n")
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("question", "code", "text", "trouble"),
    [
        (sh("echo one; echo two"), 0, "one\ntwo\n", ""),
        (sh("echo no >&2; echo never >&2; exit 3"), 3, "", "never"),
        (sh("exit 4"), 4, "", "exit code 4"),
        (sh("kill -9 $$"), -1, "", "exit code -1"),
        (sh("echo $MARK", MARK="x"), 0, "x\n", ""),
        (sh("printf '\\377'"), 0, "\ufffd", ""),
        (sh("cat"), 0, "", ""),
        (Question(("no-such-command",)), asking.NOT_FOUND, "", "no-such-command is not installed"),
    ],
)
def test_an_answer_has_code_text_and_trouble(question: Question, code: int, text: str, trouble: str) -> None:
    assert ask({"one": question}) == {"one": (code, text, trouble)}


def test_all_are_asked_side_by_side(tmp_path: Path) -> None:
    # Each waits for what the other does.
    first, second = tmp_path / "first", tmp_path / "second"
    wait = "while ! test -e %s; do sleep 0.01; done; echo done"
    found = ask({"a": sh(f"touch {first}; {wait % second}"), "b": sh(f"touch {second}; {wait % first}")})
    assert [answer.must for answer in found.values()] == ["done\n", "done\n"]


def test_one_that_does_not_end_is_stopped_and_the_others_are_kept() -> None:
    found = Started({"slow": sh("exec sleep 600"), "quick": sh("echo here")}).answers(seconds=0.5, patience=60)
    assert found == {"slow": (-1, "", "no answer within 0.5 s"), "quick": (0, "here\n", "")}


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ("Slurmctld(primary) at c1 is DOWN", "no slurmctld answers"),
        ("Slurmctld(primary) at c1 is DOWN\nSlurmctld(backup) at c2 is UP", "no answer within 2 s"),
    ],
)
def test_slurm_is_waited_for_only_while_some_slurmctld_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, trouble: str
) -> None:
    scontrol(tmp_path, said)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = Started({"slow": sh("exec sleep 600")}).answers(seconds=2, patience=0.01)
    assert found["slow"].trouble == trouble
    with pytest.raises(Silent, match=trouble):
        _ = found["slow"].must


def test_an_answer_without_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LONGEST", 1 << 20)
    assert ask({"endless": Question(("yes",))})["endless"].trouble == "it printed more than 1048576 bytes"


def test_what_users_set_for_themselves_does_not_change_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SQUEUE_FORMAT", "SINFO_FORMAT", "SLURM_TIME_FORMAT", "SLURM_CLUSTERS"):
        monkeypatch.setenv(name, "odd")
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    shown = ask({"env": Question(("env",))})["env"].text
    assert "odd" not in shown
    assert "LC_ALL=C.UTF-8\n" in shown
