"""`fab doctor` as a whole: it works in any directory, and its exit code says where the trouble is."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from slurmfab.commands.doctor import examining
from slurmfab.commands.doctor.examining import exit_code
from slurmfab.commands.doctor.finding import FAILURE, Finding, failure, ok, warning

CLUSTER = """\
cluster: lab
ssh: {{user: root, port: {port}}}
addresses: {{c1: 127.0.0.1}}
controllers: [c1]
nodes: [{{hosts: n1}}]
"""


def doctor(place: Path, *words: str) -> tuple[int, str, str]:
    variables = {"HOME": str(place), "SLURMFAB_CLUSTER": "", "SSH_AUTH_SOCK": ""}
    done = subprocess.run(
        [Path(sys.executable).with_name("slurmfab"), "doctor", *words],
        cwd=place,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def make_key(place: Path) -> None:
    (place / ".ssh").mkdir(mode=0o700)
    key = place / ".ssh/id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)


def test_doctor_when_the_directory_is_empty_then_works_and_says_so(tmp_path: Path) -> None:
    make_key(tmp_path)
    code, said, _ = doctor(tmp_path)
    assert code == 0
    assert "there is no configs/cluster.yaml yet" in said
    assert "packages" in said


def test_doctor_when_the_cluster_file_is_broken_then_says_where_and_looks_at_the_rest(tmp_path: Path) -> None:
    make_key(tmp_path)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/cluster.yaml").write_text("cluster: [\n")
    code, said, told = doctor(tmp_path, "--json", "-")
    assert code == 1
    values = json.loads(said)
    assert values["version"] == 1
    (found,) = [one for one in values["findings"] if one["state"] == "failure"]
    assert found["subject"] == "cluster file"
    assert "configs/cluster.yaml:1: this is not valid YAML" in found["text"]
    assert "FAILED" in told


def test_doctor_when_a_host_is_down_then_names_it_with_exit_code_3(tmp_path: Path) -> None:
    make_key(tmp_path)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (tmp_path / "cluster.yaml").write_text(CLUSTER.format(port=taken.getsockname()[1]))
        code, said, _ = doctor(tmp_path, "--cluster", "cluster.yaml", "--hosts", "c1")
        local, _, _ = doctor(tmp_path, "--cluster", "cluster.yaml", "--local")
    assert (code, local) == (3, 0)
    assert "FAILED" in said
    assert "nothing listens at 127.0.0.1" in said


@pytest.mark.parametrize("words", [["--cluster", "none.yaml"], ["--hosts", "x9", "--cluster", "cluster.yaml"]])
def test_doctor_when_asked_for_what_is_not_there_then_refuses(tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "cluster.yaml").write_text(CLUSTER.format(port=22))
    assert doctor(tmp_path, *words)[0] == 2


@pytest.mark.parametrize(
    ("findings", "code"),
    [
        ([ok("a", "b")], 0),
        ([ok("a", "b"), warning("c", "d")], 0),
        ([failure("n1", "down", is_host=True), warning("c", "d")], 3),
        ([failure("n1", "down", is_host=True), failure("SSH keys", "none")], 1),
    ],
)
def test_the_exit_code_says_whose_side_the_failure_is_on(findings: list[Finding], code: int) -> None:
    assert exit_code(findings) == code


def test_doctor_when_others_may_enter_file_systems_of_lab_hosts_then_names_them_with_the_way_to_mend_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o755)
    monkeypatch.setattr(examining, "obstacle", lambda: "")
    for name, said in (("obstacles", ()), ("remarks", ()), ("holds_overlays", True)):
        monkeypatch.setattr(examining.needs, name, lambda *_, said=said: said)
    for name in ("CACHE", "LABS", "DISKS"):
        monkeypatch.setattr(examining.needs, name, tmp_path / ("" if name == "CACHE" else name))
    (found,) = [one for one in examining.of_labs() if one.subject == "lab's files"]
    assert found.state == FAILURE
    assert f"chown root:root {tmp_path}; chmod 700 {tmp_path}" in found.text
    tmp_path.chmod(0o700)
    assert [one for one in examining.of_labs() if one.subject == "lab's files"] == []
