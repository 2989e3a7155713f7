"""What oci.conf runs: a container for crun, and what is left of it."""

from __future__ import annotations

import json
import os
import pwd
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.programs.containers import gpus
from slurmfab.on_hosts.programs.oci import records, runtime
from slurmfab.on_hosts.programs.oci.main import main

ME = pwd.getpwuid(os.getuid())


class Became(Exception):
    """The process has become another program."""


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    """A bundle, and what slurmstepd has made of its configuration."""
    spool, bundle = tmp_path / "spool", tmp_path / "bundle"
    for place in (spool, bundle / "rootfs"):
        place.mkdir(parents=True)
    own: dict[str, Any] = {"process": {"env": ["PATH=/opt/bin"]}, "root": {"path": "rootfs"}}
    (bundle / "config.json").write_text(json.dumps(own))
    own["root"] = {"path": "where Slurm takes it to be"}
    own["process"] = {"args": ["id"], "env": [f"SLURM_CONTAINER={bundle}", f"WORK={tmp_path}", "ETC=/etc"]}
    (spool / "config.json").write_text(json.dumps(own))
    return spool


def test_run_when_all_is_there_then_crun_gets_the_configuration_and_nothing_of_slurmds(
    spool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: dict[str, Any] = {}

    def become(path: str, words: list[str], environment: dict[str, str]) -> None:
        got.update(path=path, words=words, environment=environment)
        got["config"] = json.loads(Path(words[words.index("--config") + 1]).read_text())
        raise Became

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(records, "PLACE", str(tmp_path))
    monkeypatch.setattr(runtime, "devices", lambda: ((), ()))
    with pytest.raises(Became):
        main("run", str(spool), "7.0.0", "WORK,ETC,NONE")
    assert "--cgroup-manager=disabled" in got["words"]
    assert got["words"][-1] == "slurm-7.0.0"
    assert got["environment"].keys() == {"PATH", "LANG"}
    sources = {one["source"] for one in got["config"]["mounts"]}
    assert str(tmp_path) in sources, "a directory of the job that is the user's"
    assert ("/etc" in sources) == (ME.pw_uid == 0), "what belongs to another user is left out"
    assert got["config"]["root"]["path"] == str(tmp_path / "bundle/rootfs"), "where the bundle says"
    assert "PATH=/opt/bin" in got["config"]["process"]["env"]
    assert [path.name for path in spool.iterdir()] == ["config.json"], "slurmstepd removes nothing else"


def test_run_when_the_bundle_is_gone_then_it_says_so(spool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (spool.parent / "bundle/config.json").unlink()
    assert main("run", str(spool), "7.0.0", "TMPDIR") == runtime.FAILED
    assert "the container was not started" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pmix_v4", "pmi2"])
def test_run_when_slurm_tells_the_tasks_of_an_mpi_program_nothing_then_it_names_the_ways_that_do(
    spool: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    made = json.loads((spool / "config.json").read_text())
    made["process"]["env"] += [f"SLURM_MPI_TYPE={kind}", "SLURM_STEP_NUM_TASKS=2"]
    (spool / "config.json").write_text(json.dumps(made))
    assert main("run", str(spool), "7.0.0", "TMPDIR") == runtime.FAILED
    assert "`srun sdocker run` or `srun apptainer exec`" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["[]", "{", '{"process": []}'])
def test_run_when_a_configuration_is_damaged_then_it_says_so(
    spool: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (spool / "config.json").write_text(text)
    assert main("run", str(spool), "7.0.0", "TMPDIR") == runtime.FAILED
    assert "the container was not started" in capsys.readouterr().err


def test_query_when_slurmstepd_asks_then_nothing_is_left_to_kill(capsys: pytest.CaptureFixture[str]) -> None:
    assert main("query") == 0
    assert json.loads(capsys.readouterr().out) == {"status": "stopped"}
    assert main("kill") == 0


def test_delete_when_a_step_ends_then_its_records_go_and_no_others(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    for name in ("slurmfab-oci-7.0.0-a", "slurmfab-oci-7.0.12-b", "slurmfab-oci-7.1.0-c", "slurmfab-oci-17.0.0-d"):
        (tmp_path / name).mkdir()
    (tmp_path / "slurmfab-oci-7.0.0-a/link").symlink_to(outside)
    records.remove("7.0", ME.pw_uid, str(tmp_path))
    assert sorted(path.name for path in tmp_path.glob("slurmfab*")) == ["slurmfab-oci-17.0.0-d", "slurmfab-oci-7.1.0-c"]
    assert (outside / "file").exists()


def test_delete_when_a_record_is_another_users_then_it_stays(tmp_path: Path) -> None:
    (tmp_path / "slurmfab-oci-7.0.0-a").mkdir()
    records.remove("7.0", ME.pw_uid + 1, str(tmp_path))
    assert (tmp_path / "slurmfab-oci-7.0.0-a").exists()


def test_delete_when_a_record_is_nested_deeper_than_a_path_is_long_then_all_of_it_goes(tmp_path: Path) -> None:
    place = os.open(tmp_path, os.O_RDONLY)
    for name in ("slurmfab-oci-7.0.0-a", *("d" * 200 for _ in range(1500))):
        os.mkdir(name, dir_fd=place)
        below = os.open(name, os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = below
    os.close(place)
    records.remove("7.0", ME.pw_uid, str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_delete_when_there_is_no_such_user_then_it_fails() -> None:
    assert main("delete", "7.0", "no such user") == 1


def test_devices_when_the_job_may_open_some_then_only_these_are_its_gpus(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-caps").mkdir()
    for name in ("nvidia0", "nvidia1", "nvidia10", "nvidia2", "nvidiactl", "nvidia-caps/nvidia-cap1", "null"):
        (tmp_path / name).touch()
    denied = {"nvidia0", "nvidia-cap1"}
    monkeypatch.setattr(gpus, "is_allowed", lambda path: Path(path).name not in denied)
    found, others = runtime.devices(str(tmp_path))
    assert [Path(path).name for path in found] == ["nvidia1", "nvidia2", "nvidia10"]
    assert [Path(path).name for path in others] == ["nvidiactl"]
    denied |= {"nvidia1", "nvidia2", "nvidia10"}
    assert runtime.devices(str(tmp_path)) == ((), ())
