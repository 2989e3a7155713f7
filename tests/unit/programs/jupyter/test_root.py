"""What root does for the hub: whom it answers, whose servers it starts, and what of the hub reaches a job."""

from __future__ import annotations

import json
import os
import pwd
import socket
from pathlib import Path

import pytest

from slurmfab.on_hosts.programs.jupyter import options, pam, root

SETTINGS = dict.fromkeys(("partitions", "accounts", "denied", "powerful", "powerful_groups"), ())
ROOTS = pytest.mark.needs_root("only root makes tickets")


@pytest.mark.parametrize(("name", "says"), [("root", "no server"), ("daemon", "no server"), ("no-such-one", "no such")])
def test_a_server_when_it_would_be_a_system_users_then_is_refused(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        root.person(name, ())


def test_a_server_when_it_would_be_slurms_then_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    person = pwd.struct_passwd(("slurm", "x", 64030, 64030, "", "/home/slurm", "/bin/bash"))
    monkeypatch.setattr(pwd, "getpwnam", lambda _: person)
    assert root.person("slurm", ()) == person
    with pytest.raises(ValueError, match="no server"):
        root.person("slurm", ("slurm",))


def test_somebody_who_is_not_the_hub_gets_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = socket.socketpair()
    with here, there:
        monkeypatch.setattr(root, "JUPYTER_RUN", str(tmp_path / "none"))
        assert not root.is_hub(there)
        monkeypatch.setattr(root, "JUPYTER_RUN", str(tmp_path))
        assert root.is_hub(there) is (os.geteuid() != 0), "a hub that is root is none"


def test_variables_of_the_hub_when_they_are_not_jupyterhubs_then_reach_no_job() -> None:
    given = {
        "JUPYTERHUB_API_TOKEN": "t", "JPY_API_TOKEN": "t", "JUPYTERHUB_HOST": "", "LD_PRELOAD": "/tmp/x",
        "PATH": "/tmp", "BASH_ENV": "/tmp/x", "JUPYTERHUB_X\nLD_PRELOAD": "y", "JUPYTERHUB_ZERO": "a\0b",
        "SBATCH_UID": "0", "JUPYTERHUB_NONE": None,
    }  # fmt: skip
    assert root.of_hub(given) == {"JUPYTERHUB_API_TOKEN": "t", "JPY_API_TOKEN": "t", "JUPYTERHUB_HOST": ""}


@pytest.mark.parametrize("job", ["", "1;id", "-1", "12\n", "1_2", "99999999999", None])
def test_a_job_when_it_is_no_number_then_is_refused(job: str | None) -> None:
    with pytest.raises(ValueError, match="not the id of a job"):
        root.job_of({"job": job})


@pytest.mark.parametrize(
    ("comment", "port"),
    [
        ("slurmfab-jupyter:28001", 28001),
        ("slurmfab-jupyter:22", 0),
        ("slurmfab-jupyter:28001 x", 0),
        ("28001", 0),
        ("", 0),
    ],
)
def test_a_port_when_it_is_none_of_servers_then_does_not_count(
    comment: str, port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "settings.json"
    values = {**SETTINGS, "ports": [28000, 28999], "idle": 60, "listen": "0.0.0.0"}
    path.write_text(json.dumps(values))
    monkeypatch.setattr(options, "JUPYTER_SETTINGS", str(path))
    assert root.port_in(comment) == port


def test_a_request_when_it_is_none_then_says_so() -> None:
    assert "nothing that can be done" in root.answer({"do": "chown"})["error"]
    assert "error" in root.answer({})


def test_a_password_when_it_is_empty_then_pam_is_not_asked() -> None:
    assert not pam.is_password_of("root", "")
    assert not pam.is_password_of("ro\0ot", "x")


@ROOTS
def test_a_ticket_counts_once_and_for_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "ticket"
    monkeypatch.setattr(root, "JUPYTER_TICKET", str(path))
    assert not root.is_ticket("ann", "secret")
    path.touch(0o600)
    path.write_text("ann secret")
    assert not root.is_ticket("bob", "secret")
    assert not root.is_ticket("ann", "other")
    assert root.is_ticket("ann", "secret")
    assert not root.is_ticket("ann", "secret")


@ROOTS
@pytest.mark.parametrize("how", ["somebody else's", "open", "old"])
def test_a_ticket_when_root_alone_did_not_just_write_it_then_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    path = tmp_path / "ticket"
    monkeypatch.setattr(root, "JUPYTER_TICKET", str(path))
    path.touch(0o600)
    path.write_text("ann secret")
    if how == "somebody else's":
        os.chown(path, 1000, 1000)
    if how == "open":
        path.chmod(0o644)
    if how == "old":
        os.utime(path, (1, 1))
    assert not root.is_ticket("ann", "secret")
