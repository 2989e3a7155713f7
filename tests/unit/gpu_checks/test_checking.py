"""`check-gpus`: the conversation with the program on the controller, and what is refused before it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmfab.base.errors import HostFailed, InputError
from slurmfab.commands.gpu_checks.checking import Ask, Entry, conversation, format_heard, loaded, summary

PASSED = {"nodes": ["n1"], "outcome": "passed"}
END = {"nodes": [], "end": True, "counts": {"passed": 1, "falls short": 0, "not measured": 2}}


def answering(*lines: object, code: int = 0) -> Ask:
    """A controller whose program prints these lines."""

    def ask(command: str, heard: Callable[[str], None], seconds: float) -> int:  # noqa: ARG001 - as a shell has it
        assert command.startswith("exec runuser -u slurm -- ")
        for line in lines:
            heard(line if isinstance(line, str) else json.dumps(line))
        return code

    return ask


def test_each_measurement_is_told_as_it_comes() -> None:
    heard: list[Entry] = []
    entries, code = conversation("ctl", answering(PASSED, END, code=3), ["--now"], 60, heard.append)
    assert (heard, code) == ([PASSED], 3)
    assert summary("lab", entries) == "lab: 1 passed, 2 not measured."


def test_what_the_measurements_wait_for_is_told_as_it_changes_and_is_no_measurement() -> None:
    waits = {"progress": {"measuring": ["n1"], "waiting": {"Resources": ["n2", "n3"], "PartitionDown": ["n7"]}}}
    heard: list[Entry] = []
    entries, _ = conversation("ctl", answering(waits, PASSED, END), ["--now"], 60, heard.append)
    assert (heard, entries) == ([waits, PASSED], [PASSED, END])
    assert format_heard(waits) == "measuring: n1; waiting: n7 (PartitionDown), n[2-3] (Resources)"


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (answering({"refused": "another check is running (process 7)"}, code=4), "another check is running"),
        (answering("runuser: user slurm does not exist", code=1), "runuser: user slurm does not exist"),
        (answering("python3: not found", code=127), "python3: not found"),
        (answering(code=139), "the program ended with exit code 139"),
    ],
    ids=["refused", "noise", "missing", "silent"],
)
def test_a_check_that_could_not_be_made_is_an_error_with_its_reason(ask: Ask, words: str) -> None:
    with pytest.raises(HostFailed, match=words.replace("(", "\\(")):
        conversation("ctl", ask, ["--now"], 60, lambda _: None)


@pytest.mark.parametrize(("key", "words"), [("", "has no gpu_checks"), ("gpu_checks: {}\n", "never been deployed")])
def test_a_cluster_without_the_key_or_without_slurm_has_nothing_to_check(key: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text(f"cluster: lab\ncontrollers: [c1]\nnodes: [{{hosts: n1}}]\n{key}")
    with pytest.raises(InputError, match=words):
        loaded(str(file))
