"""The JSON schema of cluster files: it accepts what the models accept, and marks what an editor should mark."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator

from slurmfab.cluster.inventory import json_schema, loading, schema_file
from slurmfab.cluster.inventory.yaml_nodes import compose
from slurmfab.cluster.slurm.versions import SlurmVersion

TOP = Path(__file__).parents[3]
OLD, NEW, FUTURE = SlurmVersion(22, 5), SlurmVersion(24, 11), SlurmVersion(29, 5)
SMALL = "cluster: lab\ncontrollers: [c1]\nnodes:\n  - hosts: n[1-2]\n"


@cache
def schema(version: SlurmVersion | None = None) -> dict[str, Any]:
    return json_schema.schema(version)


def errors(text: str, version: SlurmVersion | None = None) -> list[str]:
    """What an editor marks in a cluster file."""
    found = Draft7Validator(schema(version)).iter_errors(json_schema.plain(compose(text, "a file")))
    return [f"{'.'.join(map(str, error.absolute_path))}: {error.message}" for error in found]


def good_files() -> Iterator[Any]:
    """Cluster files of this repository that slurmfab accepts."""
    for path in sorted([*TOP.glob("configs/*.yaml"), *TOP.glob("tests/unit/takeover/golden/*.yaml")]):
        yield pytest.param(path.read_text(), id=path.name)
    for number, text in enumerate(json_schema.DOCUMENTS):
        yield pytest.param(text, id=f"every-key-{number}")
    for path in sorted(TOP.glob("tests/unit/plan/cases/*.yaml")):
        case = yaml.safe_load(path.read_text())
        if isinstance(case.get("cluster"), str):
            yield pytest.param(case["cluster"], id=path.name)
    for path in sorted([TOP / "README.md", *TOP.glob("docs/**/*.md")]):
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", path.read_text(), re.S)):
            if re.match(r"(#.*\n)*cluster:", block) and "…" not in block:
                yield pytest.param(block, id=f"{path.name}-{number}")


def keys_of(made: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every key of slurmfab's with its schema."""
    for name, part in {"Cluster": made, **made["definitions"]}.items():
        for key, value in part["properties"].items():
            if key[0].islower() or name in ("PrivateTmp", "Switch"):
                yield f"{name}.{key}", value


def test_the_schema_is_one_of_draft_7_with_a_description_and_an_example_for_every_key() -> None:
    Draft7Validator.check_schema(schema())
    assert [name for name, value in keys_of(schema()) if not value.get("description")] == []
    assert [name for name, value in keys_of(schema()) if not value.get("examples")] == []


@pytest.mark.parametrize("text", json_schema.DOCUMENTS)
def test_the_examples_of_keys_are_cluster_files_that_slurmfab_accepts(text: str) -> None:
    assert loading.parse(text, "an example").compute_nodes


@pytest.mark.parametrize("text", [*good_files()])
def test_a_file_that_slurmfab_accepts_is_accepted_by_the_schema(text: str) -> None:
    assert errors(text) == []


@pytest.mark.parametrize(
    "more",
    [
        "slurm_conf: {SLURMDTIMEOUT: 300, MailProg: null}\nx11: yes\nhosts_file: FALSE\nlogin:\n",
        "memory_margin: 2048M\nids: {slurm: 64030}\nmonitoring: false\nhealth: true\nlicenses: {matlab: 10}\n",
        "partitions: [{PartitionName: 2024, Nodes: ALL, maxtime: 1:30, HIDDEN: false}]\n".replace("maxtime", "MaxTIME"),
        "acceptance: {memory: , ring: {nodes: all, figures: {latency: {target: 2.5, tolerance: 20%}}}}\n",
    ],
)
def test_what_only_looks_odd_to_an_editor_is_accepted(more: str) -> None:
    assert loading.parse(SMALL + more, "a file").name == "lab"
    assert errors(SMALL + more) == []


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        (SMALL + "    RealMemry: 2000\n", "nodes.0"),
        (SMALL + "    NodeAddr: 10.0.0.1\n", "nodes.0"),
        (SMALL + "partitions: [{PartitionName: a, Nodes: ALL, MaxTme: 60}]\n", "partitions.0"),
        (SMALL + "slurm_conf: {SlurmdTimeot: 300}\n", "slurm_conf"),
        (SMALL + "slurm_conf: {ClusterName: other}\n", "slurm_conf"),
        (SMALL + "cgroup_conf: {ConstrainCors: yes}\n", "cgroup_conf"),
        (SMALL + "users: [{name: ann, MaxJbs: 3}]\n", "users.0"),
        (SMALL + "users: [{name: ann, associations: {lab: {MaxJbs: 3}}}]\n", "users.0.associations.lab"),
        (SMALL + "controler: c1\n", ""),
        (SMALL + "ssh: {usr: admin}\n", "ssh"),
        (SMALL + "node_logins: with_jobs\n", "node_logins"),
        (SMALL + "backup: {directory: /b, keep: 0}\n", "backup"),
        (SMALL + "backup: {directory: b}\n", "backup"),
        (SMALL + "x11: maybe\n", "x11"),
        (SMALL + "nodes: n[1-2]\n".replace("nodes", "topology"), "topology"),
        ("cluster: Lab\ncontrollers: c1\nnodes: [{hosts: n1}]\n", "cluster"),
        ("cluster: lab\nnodes: [{hosts: n1}]\n", ""),
    ],
)
def test_a_mistake_is_marked_at_its_key(text: str, marked: str) -> None:
    assert [error.partition(": ")[0] for error in errors(text)] == [marked]


@pytest.mark.parametrize(
    ("version", "line", "count"),
    [
        (OLD, "    RestrictedCoresPerGPU: 2\n", 1),
        (NEW, "    RestrictedCoresPerGPU: 2\n", 0),
        (OLD, "slurm_conf: {HashPlugin: hash/k12}\n", 1),
        (NEW, "slurm_conf: {HashPlugin: hash/k12}\n", 0),
        (OLD, "slurm_conf: {PowerPlugin: x}\n", 0),
        (NEW, "slurm_conf: {PowerPlugin: x}\n", 1),
        (OLD, "database: c1\nqos: [{name: a, MaxTRESRunMinsPU: cpu=3}]\n", 1),
        (None, "slurm_conf: {PowerPlugin: x, HashPlugin: hash/k12}\n", 0),
        (FUTURE, "slurm_conf: {NotInventedYet: x}\n", 0),
        (None, "slurm_conf: {NotInventedYet: x}\n", 1),
    ],
)
def test_keys_of_another_slurm_are_marked(version: SlurmVersion | None, line: str, count: int) -> None:
    assert len(errors(SMALL + line, version)) == count


def test_defaults_and_examples_have_the_values_that_the_schema_allows() -> None:
    made = schema()
    for name, value in keys_of(made):
        validator = Draft7Validator({**value, "definitions": made["definitions"]})
        for one in [*value["examples"], *([value["default"]] if "default" in value else [])]:
            assert [error.message for error in validator.iter_errors(one)] == [], name


def test_patterns_are_in_the_dialect_of_editors() -> None:
    patterns = re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', schema_file.text(None))
    assert len(patterns) > 50
    assert [one for one in patterns if "(?P" in one or "\\Z" in one or "\\z" in one] == []


def test_slurms_keys_stand_beside_slurmfabs_with_their_meaning_and_versions() -> None:
    group = schema()["definitions"]["NodeGroup"]["properties"]
    assert "settings" not in group
    assert "NodeAddr" not in group
    assert group["RealMemory"]["description"] == "Memory of a node in MiB that jobs may use. slurm.conf(5)."
    assert group["RestrictedCoresPerGPU"]["description"].endswith("From Slurm 24.05 on.")
    assert schema()["definitions"]["Partition"]["required"] == ["PartitionName", "Nodes"]


def test_the_shipped_examples_name_the_schema_beside_them() -> None:
    for path in TOP.glob("configs/*.yaml"):
        assert path.read_text().startswith(schema_file.modeline(Path("cluster.yaml")))
