"""Imported clusters: the cluster file, the remarks and the account of each kind, as somebody has looked at them.

`SLURMFAB_REGENERATE=1 pytest tests/unit/takeover/test_survey.py` writes them anew; look at what changed.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from found_clusters import KINDS, RELEASES

from slurmfab.cluster.inventory import loading
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.found import FoundCluster, Takeover
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.survey import survey
from slurmfab.core.impact.slurm_diff import TEXT, differences
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import judging
from slurmfab.on_hosts.agent.client.commands import PARTITION

GOLDEN = Path(__file__).parent / "golden"
CHANGED_BY_IMPORT = {"own-ids": ["node n2: State: DOWN -> UNKNOWN"]}
"""Differences in Slurm's sense that no cluster file can avoid, by kind."""

every_kind = pytest.mark.parametrize("kind", KINDS)
every_version = pytest.mark.parametrize("slurm", RELEASES)


def planned(taken: Takeover, found: FoundCluster) -> PlanInput:
    """What the first plan after an import is made from."""
    cluster = loading.parse(taken.text, "cluster.yaml")
    return PlanInput(cluster, first_lock(cluster, OldCluster(found)), found.facts)


def for_people(taken: Takeover) -> str:
    """Remarks and account as text."""
    lines = [f"* {remark}" for remark in taken.remarks]
    lines += ["", *(f"{one.file}: {one.key}={one.value} -> {one.where}" for one in taken.account), ""]
    programs = [f"{path}{' (program)' if path in taken.programs else ''}" for path in taken.files]
    return "\n".join([*lines, *programs]) + "\n"


@every_version
@every_kind
def test_an_imported_cluster_has_its_golden_cluster_file(kind: str, slurm: str) -> None:
    taken = survey(KINDS[kind](slurm))
    texts = {f"{kind}-{slurm}.yaml": taken.text, f"{kind}-{slurm}.txt": for_people(taken)}
    for name, text in texts.items():
        if os.environ.get("SLURMFAB_REGENERATE"):
            (GOLDEN / name).write_text(text)
        assert (GOLDEN / name).read_text() == text, f"{GOLDEN / name} differs"


def test_every_golden_file_belongs_to_a_kind() -> None:
    kept = {path.name for path in GOLDEN.iterdir()}
    assert kept == {f"{kind}-{slurm}.{end}" for kind in KINDS for slurm in RELEASES for end in ("yaml", "txt")}


@every_version
@every_kind
def test_the_first_plan_after_an_import_says_the_same_to_slurm(kind: str, slurm: str) -> None:
    found = KINDS[kind](slurm)
    plan_input = planned(survey(found), found)
    before = {file: found.facts["ctl"].slurm_files[file] for file in ("slurm.conf", "cgroup.conf")}
    left = differences(before, plan_input.rendered, plan_input.is_same_host)
    expected = CHANGED_BY_IMPORT.get(kind, [])
    assert [str(one) for one in left if one.kind != TEXT and one.name != PARTITION] == expected


@every_version
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in CHANGED_BY_IMPORT])
def test_the_first_plan_after_an_import_leaves_slurms_files_as_they_are(kind: str, slurm: str) -> None:
    found = KINDS[kind](slurm)
    plan_input = planned(survey(found), found)
    assert plan_input.hand_made["slurm.conf"] == found.facts["ctl"].slurm_conf
    assert plan_input.hand_made["cgroup.conf"] == found.facts["ctl"].cgroup_conf
    assert [str(one) for one in plan_input.differences if one.kind != TEXT] == []


@every_version
@every_kind
def test_the_first_plan_after_an_import_is_not_refused(kind: str, slurm: str) -> None:
    found = KINDS[kind](slurm)
    plan_input = planned(survey(found), found)
    judging.refuse_unfit(plan_input, plan_input.cluster.hosts, ())


@every_kind
def test_an_import_of_the_same_cluster_gives_the_same_bytes(kind: str) -> None:
    assert survey(KINDS[kind]("24.11")) == survey(KINDS[kind]("24.11"))


def test_a_cluster_of_schedmds_packages_says_so_in_its_file() -> None:
    found = KINDS["plain"]("24.11")
    there = {"packages": {"slurm-smd": "24.11.5-1", "slurm-smd-client": "24.11.5-1", "munge": "0.5"}}
    facts = {host: replace(fact, **there, slurm_versions={"scontrol": "24.11.5"}) for host, fact in found.facts.items()}
    taken = survey(replace(found, facts=facts))
    cluster = loading.parse(taken.text, "cluster.yaml")
    assert (cluster.slurm.packages, cluster.slurm.version) == ("smd", "24.11.*")
