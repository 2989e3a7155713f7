"""Every task by `fab` and by `slurmfab`: the same help, the same refusals, the same exit codes."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from both_programs import FAB, SLURMFAB, Ended, call

from slurmfab.cli.tasks import TASKS
from slurmfab.cluster.inventory.fabfile import TEXT

WRONG = {
    "init": ["--name", "a b", "--yes"],
    "lab-up": ["--nodes", "many"],
    "lab-down": ["--name", "../etc"],
    "lab-off": ["n1", "--name", "../etc"],
    "lab-on": ["n1", "--name", "../etc"],
    "completion": ["tcsh"],
    "rehearse": ["--", "status"],
    "doctor": ["--json", "/"],
    "history": ["--run", "last"],
    "schema": ["--slurm", "1"],
}
"""Words that a task refuses; others need a cluster file, and there is none."""

NEVER_WRONG = ("help", "phases")
WORDS = {"file": "a.tar", "hosts": "n1", "host": "n1", "name": "ann", "target": "n1", "shell": "bash"}


def refused(task: str) -> list[str]:
    """A command line that the task refuses."""
    needed = [WORDS.get(one.name, "word") for one in TASKS[task].words if task not in WRONG]
    return [task, *needed, *WRONG.get(task, ())]


LINES = [[task, "--help"] for task in TASKS if task[0] in "dlr"] + [
    refused(task) for task in TASKS if task != "lab-status"
]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[tuple[str, ...], Ended]]:
    """How each command line ends, by program."""
    place = tmp_path_factory.mktemp("place")
    (place / "fabfile.py").write_text(TEXT)
    environment = {**os.environ, "HOME": str(place), "SLURMFAB_CLUSTER": "", "COLUMNS": "80"}
    return {
        name: dict(zip(map(tuple, LINES), call(name, LINES, place, environment), strict=True))
        for name in (FAB, SLURMFAB)
    }


def by_fab(text: str) -> str:
    """The text with the name `fab`, without the labs that are up and the room that is free at the moment."""
    return re.sub(r"known: [^)]*|[\d.]+ GiB free", "", text.replace("slurmfab", "fab"))


@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_a_task_when_called_by_either_program_then_says_the_same_and_ends_the_same(
    ended: dict[str, dict[tuple[str, ...], Ended]], line: list[str]
) -> None:
    fab, slurmfab = (ended[name][tuple(line)] for name in (FAB, SLURMFAB))
    assert (fab.code, by_fab(fab.out), by_fab(fab.err)) == (slurmfab.code, by_fab(slurmfab.out), by_fab(slurmfab.err))
    if line[1:] == ["--help"]:
        assert (fab.code, fab.err) == (0, "")
        assert fab.out.startswith(f"Usage: fab [--core-opts] {line[0]} ")
        assert f"\n      fab {line[0]}" in fab.out
    elif line[0] not in NEVER_WRONG:
        assert (fab.code, "Traceback" in fab.err, fab.err.strip() != "") == (2, False, True)


@pytest.mark.parametrize("name", [FAB, SLURMFAB])
def test_fabrics_own_options_are_true_for_both_programs(tmp_path: Path, name: str) -> None:
    (tmp_path / "fabfile.py").write_text(TEXT)
    lines = [
        ["--list"],
        ["--help"],
        ["-h", "deploy"],
        ["--print-completion-script", "bash"],
        ["--list", "--list-format", "json"],
        ["--complete", "--", f"{name} deploy --accept-new"],
        ["-R", "deploy"],
        ["drain", "--resaon"],
        ["-H", "n1", "status"],
        ["-i", "key", "deploy"],
        ["-H", "n1", "deploy", "--become", "perhaps"],
        ["deploy", "--", "uptime"],
        ["rehearse", "deploy"],
        ["help", "deploy"],
        [],
    ]
    done = dict(zip((" ".join(line) for line in lines), call(name, lines, tmp_path, {**os.environ}), strict=True))
    listed = [line.split()[0] for line in done["--list"].out.splitlines() if line.startswith("  ")]
    assert listed == sorted(TASKS)
    assert "--print-completion-script=STRING" in done["--help"].out
    assert "-H STRING, --hosts=STRING" in done["--help"].out
    assert done["-h deploy"].out.startswith(f"Usage: {name} [--core-opts] deploy ")
    assert f"complete -F _complete_{name} -o default {name}" in done["--print-completion-script bash"].out
    assert '"name": "deploy"' in done["--list --list-format json"].out
    assert "--accept-new-host-keys" in done[f"--complete -- {name} deploy --accept-new"].out.split()
    assert f"{name} plan shows what deploy would do" in done["-R deploy"].err
    assert "drain has no option --resaon. Did you mean --reason?" in done["drain --resaon"].err
    assert "status takes no hosts, and here is n1." in done["-H n1 status"].err
    assert "--identity has no effect on deploy, which takes --key" in done["-i key deploy"].err
    assert "--become perhaps" in done["-H n1 deploy --become perhaps"].err
    assert "deploy reads no words behind --, and here is uptime." in done["deploy -- uptime"].err
    assert "rehearse stands alone. Nothing was done." in done["rehearse deploy"].err
    assert f"Nothing was done. The help of a task: {name} TASK --help." in done["help deploy"].err
    assert [one.code for one in done.values()] == [0] * 6 + [2] * 8 + [0]
    assert done[""].out.startswith("slurmfab turns bare machines into a working Slurm cluster over SSH")
