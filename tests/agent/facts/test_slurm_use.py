"""The clusters that a host shows signs of, below a temporary root and by processes of this machine."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from slurmfab.cluster.facts import ClusterMark, SlurmUse, from_answer
from slurmfab.on_hosts.agent.facts import facts, slurm_use

CONF = 'ClusterName=Alpha # of the physicists\nSlurmctldHost = ctl(10.0.0.1)\nslurmctldhost="two"\n#ClusterName=old\n'


def write(root: Path, path: str, text: str) -> None:
    """A file below the scratch root, with its directories."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def use(root: Path, **wanted: Any) -> SlurmUse:
    """What the host says, as the planner takes it."""
    return from_answer("n1", facts.read({"root": str(root), **wanted}), 0.0).slurm_use


def test_a_host_without_slurm_when_new_then_shows_no_sign_of_a_cluster(root: Path) -> None:
    assert use(root, is_new=True) == SlurmUse()


def test_a_slurm_conf_when_read_then_gives_name_and_controllers_whatever_its_spelling(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", CONF)
    assert use(root).marks == (ClusterMark("/etc/slurm/slurm.conf", "Alpha", ("ctl(10.0.0.1)", "two")),)


@pytest.mark.parametrize(
    ("text", "controllers"),
    [
        ("ControlMachine=old\nControlAddr=10.0.0.9\n", ("old(10.0.0.9)",)),
        ("ControlMachine=old\n", ("old",)),
        ("", ()),
    ],
)
def test_a_slurm_conf_of_an_old_slurm_when_read_then_its_controller_is_found(
    root: Path, text: str, controllers: tuple[str, ...]
) -> None:
    write(root, "etc/slurm-llnl/slurm.conf", f"ClusterName=alpha\n{text}")
    assert use(root).marks == (ClusterMark("/etc/slurm-llnl/slurm.conf", "alpha", controllers),)


def test_a_known_host_when_asked_then_is_asked_for_its_slurm_conf_alone(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", CONF)
    write(root, "etc/munge/munge.key", "key")
    write(root, "srv/state/clustername", "alpha")
    known = use(root, state_directories=["/srv/state"])
    assert (len(known.marks), known.munge_key) == (1, "")


def test_a_new_host_when_asked_then_tells_whose_state_and_which_munge_key_it_has(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", f"{CONF}StateSaveLocation=/data/state\n")
    write(root, "etc/munge/munge.key", "key")
    write(root, "data/state/clustername", "alpha\n")
    write(root, "srv/state/clustername", "beta|2469")
    found = use(root, is_new=True, state_directories=["/srv/state"])
    assert found.marks[1:] == (ClusterMark("/data/state", "alpha"), ClusterMark("/srv/state", "beta"))
    assert found.munge_key == hashlib.sha256(b"key").hexdigest()
    assert "munge_key" not in repr(found)


def test_a_new_host_that_is_a_controller_when_asked_then_sends_its_slurm_conf_and_a_node_does_not(root: Path) -> None:
    here = os.uname().nodename.split(".")[0]
    write(root, "etc/slurm/slurm.conf", f"ClusterName=alpha\nSlurmctldHost={here}(10.0.0.1)\n")
    request = {"root": str(root), "is_new": True}
    assert "ClusterName=alpha" in facts.read(request)["slurm_conf"]
    assert facts.read({"root": str(root)})["slurm_conf"] == ""
    write(root, "etc/slurm/slurm.conf", f"ClusterName=alpha\nSlurmctldHost=not-{here}\n")
    assert facts.read(request)["slurm_conf"] == ""


def test_files_of_the_slurm_user_when_they_are_a_trap_then_the_host_does_not_wait_and_tells_no_secret(
    root: Path,
) -> None:
    """The slurm user may log in from other hosts, and owns the directory of slurmctld's state."""
    write(root, "etc/shadow", "root:$y$j9T$secret:1::::::\n")
    state = root / "var/lib/slurm/slurmctld"
    state.mkdir(parents=True)
    (state / "clustername").symlink_to(root / "etc/shadow")
    assert use(root, is_new=True).marks == ()
    (state / "clustername").unlink()
    os.mkfifo(state / "clustername")
    assert use(root, is_new=True).marks == ()
    (state / "clustername").unlink()
    (state / "clustername").symlink_to("/dev/zero")
    assert use(root, is_new=True).marks == ()


@pytest.mark.parametrize(
    ("text", "number"),
    [("alpha|2469", 2469), ("alpha|2469\n", 2469), ("alpha", 0), ("", 0), ("a|1|2", 0), ("alpha|123456", 0)],
)
def test_a_controller_when_asked_then_tells_the_cluster_id_of_its_state(root: Path, text: str, number: int) -> None:
    write(root, "srv/state/clustername", text)
    assert facts.read({"root": str(root), "state_directories": ["/srv/state"]})["cluster_id"] == number


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        (["slurmd", "-D", "--conf-server", "ctl:6817"], "ctl:6817"),
        (["slurmd", "--conf-server=ctl:6817"], "ctl:6817"),
        (["slurmd", "--conf-server"], ""),
        (["slurmd", "-D"], ""),
    ],
)
def test_an_option_when_looked_for_on_a_command_line_then_its_value_is_found(arguments: list[str], value: str) -> None:
    assert slurm_use.after("--conf-server", arguments) == value


def test_a_daemon_without_a_known_slurm_conf_when_it_runs_then_it_is_a_sign_by_its_servers_or_its_program() -> None:
    me = str(os.getpid())
    server = ["slurmd", "--conf-server", "ctl:6817,two:6817"]
    assert [mark["controllers"] for mark in slurm_use.daemon_marks("slurmd", me, server)] == [["ctl"]]
    mark = slurm_use.daemon_marks("slurmd", me, ["slurmd", "-f", "/nowhere"])[0]
    assert (Path(mark["place"]).name[:6], mark["cluster"]) == ("python", "")


@pytest.mark.parametrize("program", ["slurmctld", "slurmctld-wlm"])
def test_a_daemon_when_it_runs_under_the_name_of_debians_file_then_is_found_under_its_own(
    tmp_path: Path, program: str
) -> None:
    shutil.copy("/bin/sleep", tmp_path / program)
    with subprocess.Popen([tmp_path / program, "60"]) as daemon:
        deadline = time.monotonic() + 10
        while str(daemon.pid) not in dict(slurm_use.processes(os.getuid())) and time.monotonic() < deadline:
            pass  # until the kernel has renamed the process
        found = dict(slurm_use.processes(os.getuid()))
        daemon.kill()
    assert found[str(daemon.pid)] == "slurmctld"
