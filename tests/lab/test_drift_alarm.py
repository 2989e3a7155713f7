"""`fab drift` over real hosts: a file changed by hand, told by exit code, metrics and mail, and gone again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, ended
from stock import shared_in_turn

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "drift_alarm")]


def test_a_changed_file_when_the_alarm_runs_then_is_told_once_and_told_again_when_it_is_right(
    deployed_lab: DeployedLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, metrics = tmp_path / "sendmail", tmp_path / "drift.prom"
    program.write_text(f"#!/bin/sh\ncat >>{tmp_path}/mails\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    file = deployed_lab.inventory_path
    before = file.read_text()
    file.write_text(f"{before}drift: {{mail: ann@example.org, textfile: {metrics}}}\n")

    def alarm(code: int) -> str:
        """The mail of a run that ends with this exit code."""
        ended(deployed_lab.slurmfab("drift", "--json", str(tmp_path / "drift.json")), code)
        mails = tmp_path / "mails"
        text = mails.read_text() if mails.exists() else ""
        mails.unlink(missing_ok=True)
        return text

    try:
        assert alarm(0) == ""
        deployed_lab.on("n2", "echo '# by hand' >>/etc/slurm/slurm.conf")
        assert "n2: slurm-files:/etc/slurm (changed file)" in alarm(4)
        differences = json.loads((tmp_path / "drift.json").read_text())["differences"]
        assert {(one["host"], one["kind"]) for one in differences} >= {("n2", "changed file")}
        assert 'kind="changed file"} 1\n' in metrics.read_text()
        assert alarm(4) == ""
        deployed_lab.deploy("--hosts", "n2")
        assert "  n2: slurm-files:/etc/slurm (changed file)" in alarm(0).partition("Right again:\n")[2]
        assert 'kind="changed file"} 0\n' in metrics.read_text()
    finally:
        file.write_text(before)
        deployed_lab.deploy("--hosts", "n2")
