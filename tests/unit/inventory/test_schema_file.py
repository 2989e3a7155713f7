"""The schema beside a cluster file: written with it, kept up to date, and never over a file of somebody else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import loading, schema_file
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.edits import people, writing
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.slurm.versions import SlurmVersion

TEXT = "# yaml-language-server: $schema=cluster.schema.json\ncluster: lab\ncontrollers: [c1]\nnodes:\n  - hosts: n1\n"


def made_for(path: Path) -> str:
    return str(json.loads(path.read_text())["$comment"])


def test_the_schema_lies_beside_the_cluster_file_and_is_named_in_its_first_line() -> None:
    assert schema_file.schema_path(Path("configs/cluster.yaml")) == Path("configs/cluster.schema.json")
    assert schema_file.modeline(Path("configs/lab.yaml")) == "# yaml-language-server: $schema=lab.schema.json\n"


def test_a_schema_is_json_that_says_what_it_was_made_from(tmp_path: Path) -> None:
    schema_file.provide(tmp_path / "cluster.yaml", Lock(slurm="24.11.5-4"))
    assert "for Slurm 24.11." in made_for(tmp_path / "cluster.schema.json")
    assert max(map(len, schema_file.text(None).splitlines())) < 20_000


def test_a_schema_is_renewed_for_another_slurm_and_for_another_slurmfab_only(tmp_path: Path) -> None:
    path, schema = tmp_path / "cluster.yaml", tmp_path / "cluster.schema.json"
    schema_file.renew(path, Lock(slurm="24.11.5"))
    assert not schema.exists()

    schema_file.provide(path, Lock())
    schema_file.renew(path, Lock(slurm="24.11.5"))
    assert "for Slurm 24.11." in made_for(schema)

    before = schema.stat().st_mtime_ns
    schema_file.renew(path, Lock(slurm="24.11.5"))
    assert schema.stat().st_mtime_ns == before

    schema.write_text(schema.read_text().replace("Made by slurmfab ", "Made by slurmfab 0.0.", 1))
    schema_file.renew(path, Lock(slurm="24.11.5"))
    assert "slurmfab 0.0." not in schema.read_text()


def test_a_schema_of_somebody_else_stays(tmp_path: Path) -> None:
    schema = tmp_path / "cluster.schema.json"
    schema.write_text('{"title": "mine"}')
    schema_file.provide(tmp_path / "cluster.yaml", Lock())
    schema_file.renew(tmp_path / "cluster.yaml", Lock(slurm="24.11.5"))
    assert schema.read_text() == '{"title": "mine"}'


def test_a_schema_that_cannot_be_renewed_stops_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    schema_file.provide(tmp_path / "cluster.yaml", Lock())

    def refuse(*_: object, **__: object) -> None:
        raise InputError("read-only")

    monkeypatch.setattr(schema_file.atomic_file, "write", refuse)
    schema_file.renew(tmp_path / "cluster.yaml", Lock(slurm="24.11.5"))
    assert "all versions" in made_for(tmp_path / "cluster.schema.json")


def test_edits_by_slurmfab_keep_the_first_line() -> None:
    for text in (
        writing.with_nodes(TEXT, ["n2"], {"n2": "10.0.0.2"}, endpoints={"n2": "10.0.0.2:22"}),
        people.with_user(TEXT, "ann", {"uid": "2001"}),
    ):
        assert text.splitlines()[0] == TEXT.splitlines()[0]
        assert loading.parse(text, "edited").name == "lab"


@pytest.mark.parametrize(
    ("slurm", "in_lock", "wanted"),
    [
        ("", "", None),
        ("", "24.11.5-4", SlurmVersion(24, 11)),
        ("22.05", "24.11.5-4", SlurmVersion(22, 5)),
        ("all", "24.11.5-4", None),
    ],
)
def test_the_version_is_the_wanted_one_or_the_installed_one(
    tmp_path: Path, slurm: str, in_lock: str, wanted: SlurmVersion | None
) -> None:
    locks.save(Lock(slurm=in_lock), tmp_path / "cluster.lock.json")
    assert schema_file.wanted_version(tmp_path / "cluster.yaml", slurm) == wanted


def test_a_version_that_there_is_none_of_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--slurm 12: .*--slurm all"):
        schema_file.write_or_show(str(tmp_path / "cluster.yaml"), "12", "")


def test_the_schema_goes_to_standard_output_or_to_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert schema_file.write_or_show(str(tmp_path / "cluster.yaml"), "24.11", "") == 0
    assert made_for_text(capsys.readouterr().out) == "for Slurm 24.11."
    output = tmp_path / "made.json"
    assert schema_file.write_or_show(str(tmp_path / "cluster.yaml"), "", str(output)) == 0
    assert "all versions" in made_for(output)
    assert f"$schema={output}" in capsys.readouterr().out


def made_for_text(text: str) -> str:
    return " ".join(str(json.loads(text)["$comment"]).split()[-3:])
