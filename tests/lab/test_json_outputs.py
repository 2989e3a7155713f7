"""What `--json` writes about real hosts is what the schemas of docs/reference say, without a key more."""

from __future__ import annotations

import json

import pytest
from json_shapes import mistakes
from lab_cluster import DeployedLab
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "json_outputs")]

OUTPUTS = {
    "plan": "run",
    "check-cluster --only jobs": "check-cluster",
    "status": "status",
    "quickcheck": "quickcheck",
    "drift": "drift",
    "logs ctl --since 1d": "logs",
    "history": "history",
    "run true": "run-on-hosts",
    "doctor": "doctor",
}
"""Tasks that change nothing, with the names of their schemas; other lab tests look at those that do."""


@pytest.mark.parametrize("words", OUTPUTS)
def test_an_output_of_real_hosts_when_compared_with_its_schema_then_fits(deployed_lab: DeployedLab, words: str) -> None:
    done = deployed_lab.slurmfab(*words.split(), "--json", "-")
    assert done.stdout, done.stderr
    assert mistakes(OUTPUTS[words], json.loads(done.stdout)) == []
