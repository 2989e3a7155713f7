"""The text of submit scripts: cases that a page for browsers has to fulfil, too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.programs.user_tools import submit_script, wanted
from slurmfab.on_hosts.programs.user_tools.job_script import JobOptions, script

CASES = json.loads((Path(__file__).parent.parent / "job_scripts.json").read_text())


def options(case: dict[str, Any]) -> JobOptions:
    """The options of a case; JSON has no tuples."""
    return JobOptions(**{name: tuple(one) if isinstance(one, list) else one for name, one in case["options"].items()})


@pytest.mark.parametrize("case", CASES, ids=[case["case"] for case in CASES])
def test_a_script_when_made_then_it_is_the_text_of_its_case_and_sbatch_reads_it_as_it_was_meant(
    case: dict[str, Any],
) -> None:
    asked = options(case)
    text = script(asked)
    assert text == case["text"]
    read = submit_script.read(text.encode())
    assert read.findings == ()
    found = {setting.name: setting.value for setting in read.jobs[0]}
    assert found.get("job-name", "") == asked.name
    assert found.get("time", "") == asked.time
    assert wanted.read(read.jobs[0])[1] == []
