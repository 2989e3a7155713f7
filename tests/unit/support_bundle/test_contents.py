"""What a support bundle says about itself, and what comes from this machine."""

from __future__ import annotations

import json
from pathlib import Path

from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.commands.support_bundle import contents
from slurmfab.commands.support_bundle.gathering import Gathered, HostAnswer

RECORD = {
    **{"state": "finished", "command": "deploy", "by": "ann@laptop", "ended": "2026-11-23T10:00:00+00:00"},
    **{"hosts": ["n1"], "exit_code": 1, "error": "no\nway", "steps": [], "lost": {}, "cluster_file": "x", "lock": {}},
}


def answer(**files: str) -> HostAnswer:
    facts = HostFacts("n1", "n1", "debian", "trixie", clock_offset=0.25, uids={1000: "ann"})
    return HostAnswer(files, {"gpus.txt": "too long"}, (b"secret",), facts=facts)


def files(tmp_path: Path, gathered: Gathered) -> dict[str, str]:
    (tmp_path / "c.yaml").write_text("cluster: lab\ncontrollers: [ctl]\nnodes: [{hosts: n1}]\n")
    (tmp_path / "c.runs").mkdir()
    (tmp_path / "c.runs/20261123T095900.000000Z-deploy.json").write_text(json.dumps(RECORD))
    return contents.files(loading.load(tmp_path / "c.yaml"), gathered, {"ssh.key": "no"})


def test_silent_hosts_left_files_and_unread_secrets_are_named(tmp_path: Path) -> None:
    found = files(tmp_path, Gathered({"n1": answer()}, {"n2": "n2: nothing\nlistens"}))
    lines = found["missing.txt"].splitlines()
    assert lines[0] == "n2: n2: nothing listens"
    assert "The secrets of these hosts are not known" in lines[1]
    assert lines[2].startswith("ssh.key: the secret could not be read")
    assert lines[3] == "n1: gpus.txt: too long"


def test_a_record_is_there_without_its_copies_and_facts_without_users(tmp_path: Path) -> None:
    found = files(tmp_path, Gathered({"n1": answer(**{"logs/slurmd.log": "x"})}))
    record = json.loads(found["runs/20261123T095900.000000Z-deploy.json"])
    assert record["error"] == "no\nway"
    assert not {"cluster_file", "lock"} & record.keys()
    assert found["runs.txt"] == "20261123T095900.000000Z-deploy  ann@laptop  exit code 1: no way  n1\n"
    assert "uids" not in json.loads(found["hosts/n1/facts.json"])
    assert found["clocks.txt"] == "n1: +0.250 s\n"
    assert found["hosts/n1/logs/slurmd.log"] == "x"
    assert found["cluster/cluster.yaml"].startswith("cluster: lab")


def test_a_bundle_says_that_names_are_in_it(tmp_path: Path) -> None:
    assert "Names are not hidden" in files(tmp_path, Gathered({"n1": answer()}))["README.txt"]
