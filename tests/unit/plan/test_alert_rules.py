"""The alert rules: what they are about, and where their words are explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from support import THREE_HOSTS, cluster

from slurmfab.core.plan.alert_rules import alert_rules, rules

ALL = "drift: {when: hourly}\nbackup: {directory: /srv/backups}\ngpu_checks: {min_busbw: 10}\n"
PAGE = Path(__file__).parents[3] / "docs" / "monitoring.md"


def test_rules_when_the_file_asks_for_all_then_each_is_in_the_documentation_with_severity_and_summary() -> None:
    (group,) = yaml.safe_load(alert_rules(cluster(THREE_HOSTS + ALL)))["groups"]
    headings = re.findall(r"^### (\w+)$", PAGE.read_text().partition("\n## Alerts\n")[2], re.MULTILINE)
    assert [rule["alert"] for rule in group["rules"]] == headings
    for rule in group["rules"]:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert "{{ $labels.cluster }}" in rule["annotations"]["summary"]
        assert rule["annotations"]["runbook"].endswith(f"docs/monitoring.md#{rule['alert'].lower()}")


@pytest.mark.parametrize("word", ["Drift", "Backup", "Gpu"])
def test_rules_when_the_file_does_not_ask_for_something_then_are_not_about_it(word: str) -> None:
    assert not any(rule.alert.startswith(word) for rule in rules(cluster()))


def test_ages_when_the_file_has_schedules_then_follow_them() -> None:
    found = {rule.alert: rule.expr for rule in rules(cluster(THREE_HOSTS + ALL))}
    assert found["DriftNotCompared"].endswith("> 10800")
    assert found["BackupTooOld"].endswith("> 176400")


def test_a_state_directory_when_it_is_elsewhere_then_its_file_systems_are_watched() -> None:
    found = {rule.alert: rule.expr for rule in rules(cluster(f"{THREE_HOSTS}state_directory: /srv/a.b/state\n"))}
    assert r'mountpoint=~"/srv/a\\.b/state|/srv/a\\.b|/srv|/"' in found["StateDirectoryFull"]


def test_figures_of_slurm_and_of_slurmfab_count_from_controllers_alone() -> None:
    wanted = cluster(THREE_HOSTS.replace("[c1]", "[c1, c2.example.org]") + ALL + "state_directory: /shared/s\n")
    series = [one for rule in rules(wanted) for one in re.findall(r"(slurm\w*)\{(.*?)\}", rule.expr)]
    assert len({name for name, _ in series}) > 10
    for name, labels in series:
        assert labels.startswith(r'cluster="lab",instance=~"c1|c2\\.example\\.org"'), name
