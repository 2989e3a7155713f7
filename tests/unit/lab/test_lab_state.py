"""What is remembered of a lab, and who may work on it at one time."""

import json
import shutil
from dataclasses import asdict

import pytest

from slurmfab.base.errors import BrokenFile, LabError
from slurmfab.lab import LabSpec, state


def test_lock_when_another_holder_has_it_then_the_second_one_is_told(tmp_path):
    with state.locked(tmp_path), pytest.raises(LabError, match="Another process"), state.locked(tmp_path, patience=0):
        pass


def test_lock_when_its_holder_is_done_then_the_next_one_gets_it(tmp_path):
    with state.locked(tmp_path / "lab"):
        pass
    with state.locked(tmp_path / "lab", patience=0):
        assert (tmp_path / "lab").is_dir()


def test_lock_when_its_holder_removed_the_directory_then_a_new_one_is_made(tmp_path):
    with state.locked(tmp_path / "lab"):
        shutil.rmtree(tmp_path / "lab")
        with state.locked(tmp_path / "lab", patience=0):
            assert (tmp_path / "lab").is_dir()


def test_lock_when_there_is_nothing_to_hold_then_nothing_is_made(tmp_path):
    with state.locked(tmp_path / "lab", make=False):
        assert list(tmp_path.iterdir()) == []


def test_json_when_written_and_read_then_it_is_the_same_and_no_other_file_is_left(tmp_path):
    file = tmp_path / "state.json"
    assert state.read_json(file) is None
    state.write_json(file, {"phase": "up"})
    assert state.read_json(file) == {"phase": "up"}
    assert [path.name for path in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("text", ["{}", '{"spec": 1}', '{"spec": {"name": []}}', "[" * 20_000, '"\\ud800"'])
def test_a_state_when_it_is_broken_then_its_file_is_named(tmp_path, monkeypatch, text) -> None:
    monkeypatch.setattr("slurmfab.lab.layout.LABS", tmp_path)
    (tmp_path / "x").mkdir()
    state.LabLayout("x").state.write_text(text)
    with pytest.raises(BrokenFile, match=str(tmp_path)):
        state.read("x")


def test_a_state_when_a_newer_slurmfab_wrote_it_then_what_is_known_of_it_counts() -> None:
    ours = state.LabState(LabSpec("here", gpus=("n1:2",)), "10.1.2.0/24", "/base", ("/cgroup",), "/cluster.yaml", "up")
    written = json.loads(json.dumps(asdict(ours)))
    newer = {**written, "spec": {**written["spec"], "moons": ["n1"]}, "weather": "fine"}
    assert state.from_data(newer) == ours


def test_a_state_when_a_newer_slurmfab_wrote_values_that_make_no_lab_here_then_its_hosts_and_network_count() -> None:
    ours = state.LabState(LabSpec("here", nodes=3), "10.1.2.0/24", "/base", ("/cgroup",), "/cluster.yaml", "up")
    written = json.loads(json.dumps(asdict(ours)))
    newer = {**written, "spec": {**written["spec"], "gpus": ["n1:2:A100:watercooled"]}}
    assert state.from_data(newer) == ours
