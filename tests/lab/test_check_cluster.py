"""The checks on real hosts: all is well after a deployment, and what somebody breaks is found, named and repaired."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from lab_cluster import AS_SLURM, DeployedLab, eventually
from stock import shared_in_turn

from slurmfab import lab

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "check_cluster")]


@dataclass(frozen=True)
class Checked:
    """What a run of the checks told."""

    code: int
    told: dict[str, Any]
    shown: str

    def having(self, outcome: str) -> set[tuple[str, str]]:
        """(host, group.check) of all results with this outcome."""
        return {(one["host"], name_of(one)) for one in self.told["checks"] if one["outcome"] == outcome}

    def one(self, host: str, check: str) -> dict[str, Any]:
        """The result of a check on a host."""
        return next(one for one in self.told["checks"] if (one["host"], name_of(one)) == (host, check))


def name_of(result: dict[str, Any]) -> str:
    """A check's name with its group's in front."""
    return f"{result['group']}.{result['check']}"


def checked(cluster: DeployedLab, *words: str) -> Checked:
    done = cluster.slurmfab("check-cluster", "--json", "-", *words)
    assert done.stdout.startswith("{"), f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return Checked(done.returncode, json.loads(done.stdout), done.stderr)


def has_limits(cluster: DeployedLab) -> bool:
    """Whether jobs have limits; they have none where a host knows control groups of version 2 alone, this machine 1."""
    return "task/cgroup" in cluster.on("ctl", "scontrol show config | grep ^TaskPlugin")


@pytest.fixture
def whole_again(deployed_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The deployed lab, put right by a deployment after the test has broken it."""
    yield deployed_lab
    deployed_lab.deploy()
    states = "sinfo -h -o '%D %t'; squeue -h -o '%i %j %T'; sinfo -h -R | grep -v none"
    deployed_lab.until("ctl", states, "3 idle", patience=180)


def test_checks_after_a_deployment_all_pass_and_leave_no_job_behind(deployed_lab: DeployedLab, tmp_path: Path) -> None:
    deployed_lab.until("ctl", "sinfo -h -o '%D %t'", "3 idle")
    found = checked(deployed_lab, "--junit", str(tmp_path / "checks.xml"))
    assert found.having("failed") == set()
    assert found.having("not run") == set()
    assert found.code == 0
    passed = found.having("passed")
    limits = ("limits.memory_is_limited", "limits.cores_are_limited") if has_limits(deployed_lab) else ()
    for check in ("munge.key_is_the_controllers", "jobs.job_runs", *limits):
        assert ("n1", check) in passed
    assert {host for host, check in passed if check == "gpus.job_has_the_gpu_that_it_asked_for"} == {"n1", "n2"}
    assert f"{len(passed)} checks passed in " in found.shown
    cases = ElementTree.parse(tmp_path / "checks.xml").getroot().iter("testcase")
    assert len(list(cases)) == len(passed)
    deployed_lab.until("ctl", "squeue -h", "")


OWN = {
    "test_mine.py": """
def test_slurmd_runs_as_root(node):
    \"\"\"slurmd is root's\"\"\"
    service = node.service("slurmd")
    assert service.is_running
    assert node.file(f"/proc/{service.systemd_properties['MainPID']}").user == "root"


def test_hosts_have_a_motto(host, slurm, cluster):
    \"\"\"every host has a motto\"\"\"
    assert slurm.run(("n1",), "echo 7").stdout == "7\\n"
    assert host.file("/etc/motto").exists, f"{cluster.name} has none. Repair: touch /etc/motto"
""",
    "test_torn.py": "def test_x(host:\n",
}
"""Files with a site's own checks: the first one passes, the second fails, and the last is no Python."""


def test_own_checks_of_a_site_run_beside_the_others(deployed_lab: DeployedLab) -> None:
    directory = deployed_lab.inventory_path.parent / "checks"
    directory.mkdir(mode=0o755)
    try:
        for name, text in OWN.items():
            (directory / name).write_text(text)
        deployed_lab.on("n1", "touch /etc/motto")
        found = checked(deployed_lab, "--only", "own,munge")
    finally:
        shutil.rmtree(directory)
        deployed_lab.on("n1", "rm -f /etc/motto")
    nodes = {(node, "own-mine.slurmd_runs_as_root") for node in ("n1", "n2", "n3")}
    assert found.having("passed") >= {*nodes, ("n1", "own-mine.hosts_have_a_motto"), ("n1", "munge.key_is_safe")}
    lacking = {(host, "own-mine.hosts_have_a_motto") for host in ("ctl", "n2", "n3")}
    assert found.having("failed") == {*lacking, ("ctl", "own-torn.file_loads")}
    assert found.one("n2", "own-mine.hosts_have_a_motto")["repair"] == "touch /etc/motto"
    assert "test_torn.py: it cannot be loaded: SyntaxError: '(' was never closed" in found.shown
    assert "Traceback" not in found.shown
    assert {one["own"] for one in found.told["checks"]} == {True, False}


BROKEN = [
    pytest.param(
        "n2", "systemctl stop slurmd", "daemons.slurmd_runs", "slurmd.service is inactive", id="slurmd stopped"
    ),
    pytest.param(
        "ctl",
        "systemctl stop slurmctld",
        "daemons.slurmctld_runs",
        "slurmctld.service is inactive",
        id="slurmctld stopped",
    ),
    pytest.param(
        "n1",
        "systemctl disable munge",
        "daemons.daemons_start_at_boot",
        "munge will not start at the next",
        id="munge disabled",
    ),
    pytest.param(
        "n1",
        "head -c 128 /dev/urandom > /etc/munge/munge.key",
        "munge.key_is_the_controllers",
        "its munge key differs from ctl's",
        id="munge key edited",
    ),
    pytest.param(
        "n3",
        "head -c 128 /dev/urandom > /etc/munge/munge.key; systemctl restart munge",
        "munge.controller_believes_the_credential",
        "ctl rejects a credential from n3",
        id="munge key edited and read",
    ),
    pytest.param(
        "n2",
        "chmod 0440 /etc/munge/munge.key",
        "munge.key_is_safe",
        "has the mode 0440 instead of 0400",
        id="munge key readable",
    ),
    pytest.param(
        "n1",
        "echo '# by hand' >> /etc/slurm/slurm.conf",
        "configuration.files_are_the_controllers",
        "slurm.conf differs from ctl's",
        id="slurm.conf edited",
    ),
    pytest.param(
        "ctl",
        "echo '# by hand' >> /etc/slurm/slurm.conf",
        "configuration.slurmctld_runs_with_this_file",
        "not the one that slurmctld has loaded",
        id="slurm.conf edited on the controller",
    ),
    pytest.param(
        "n3",
        "sed -i 's/^[0-9.]* ctl$/10.255.255.1 ctl/' /etc/hosts",
        "identity.names_resolve",
        "ctl resolves to 10.255.255.1",
        id="name leads elsewhere",
    ),
    pytest.param(
        "n1",
        "rm /var/lib/slurm/home/.ssh/authorized_keys",
        "ssh.controller_gets_in",
        "Permission denied",
        id="authorized_keys gone",
    ),
]


@pytest.mark.parametrize(("host", "damage", "check", "cause"), BROKEN)
def test_damage_is_found_with_its_cause_and_the_repair_repairs_it(
    whole_again: DeployedLab,
    host: str,
    damage: str,
    check: str,
    cause: str,
) -> None:
    whole_again.on(host, damage)
    group = check.partition(".")[0]
    found = checked(whole_again, "--only", group)
    told = found.one(host, check)
    assert found.code == 1
    assert told["outcome"] == "failed"
    assert cause in told["cause"]
    assert "fab deploy" in told["repair"]
    whole_again.deploy()
    assert checked(whole_again, "--only", group).having("failed") == set()


def test_a_partition_that_somebody_has_set_down_is_named(deployed_lab: DeployedLab) -> None:
    deployed_lab.on("ctl", "scontrol update PartitionName=main State=DOWN")
    found = checked(deployed_lab, "--only", "configuration")
    told = found.one("ctl", "configuration.partitions_are_as_wanted")
    deployed_lab.on("ctl", told["repair"])
    assert (found.code, "partition main is DOWN in slurmctld" in told["cause"]) == (1, True)
    assert checked(deployed_lab, "--only", "configuration").having("failed") == set()


FIREWALL = (
    "command -v nft >/dev/null || "
    "{ apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq install nftables; } >/dev/null 2>&1; "
    "nft add table inet site; nft add chain inet site in '{ type filter hook input priority 0; }'; "
    "nft add rule inet site in tcp dport "
)
NO_FIREWALL = "nft delete table inet site"


@pytest.mark.parametrize(
    ("closed", "rule", "check", "words"),
    [
        ("n2", "6818 drop", "network.node_is_reached_by_others", "n1 cannot connect to slurmd on n2, port 6818 (no"),
        ("n2", "6818 reject", "network.node_is_reached_by_others", "a firewall is between them"),
        ("ctl", "6817 ip saddr {n2} drop", "network.node_reaches_slurmctld", "n2 cannot connect to slurmctld on"),
    ],
    ids=["slurmd-silent", "slurmd-refuses", "slurmctld-silent"],
)
def test_a_firewall_is_named_with_the_port_and_opening_that_repairs_it(
    deployed_lab: DeployedLab, closed: str, rule: str, check: str, words: str
) -> None:
    address = deployed_lab.lab.host("n2").address
    deployed_lab.on(closed, FIREWALL + rule.format(n2=address))
    try:
        told = checked(deployed_lab, "--only", "network").one("n2", check)
    finally:
        deployed_lab.on(closed, NO_FIREWALL)
    assert told["outcome"] == "failed"
    assert words in told["cause"]
    assert f"TCP port {rule[:4]} on {closed}" in told["repair"]
    assert checked(deployed_lab, "--only", "network").having("failed") == set()


def test_a_drained_node_is_told_with_its_reason_and_spared_from_jobs(deployed_lab: DeployedLab) -> None:
    deployed_lab.on("ctl", "scontrol update NodeName=n1 State=DRAIN Reason='fan is broken'")
    try:
        found = checked(deployed_lab, "--only", "nodes,jobs")
    finally:
        deployed_lab.on("ctl", "scontrol update NodeName=n1 State=RESUME")
    told = found.one("n1", "nodes.node_takes_jobs")
    assert "fan is broken" in told["cause"]
    assert "State=RESUME" in told["repair"]
    assert ("n1", "jobs.job_runs") in found.having("not run")
    assert ("n2", "jobs.job_runs") in found.having("passed")
    assert "no job runs on n1 now" in found.one("ctl", "jobs.job_runs_on_many_nodes")["cause"]


def test_a_node_full_of_other_jobs_is_left_out_and_its_jobs_go_on(deployed_lab: DeployedLab) -> None:
    submit = AS_SLURM + "sbatch --parsable --exclusive --nodelist=n2 --output=/dev/null --wrap 'sleep 600'"
    job = deployed_lab.on("ctl", submit)
    try:
        deployed_lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
        found = checked(deployed_lab, "--only", "job_runs")
        assert deployed_lab.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
    finally:
        deployed_lab.on("ctl", f"scancel {job}")
    assert found.one("n2", "jobs.job_runs")["cause"] == "all of n2 is taken by jobs."
    assert found.code == 5


def test_test_jobs_when_the_queue_is_full_then_wait_for_nobody_and_take_nothing_from_anybody(
    deployed_lab: DeployedLab,
) -> None:
    submit = AS_SLURM + "sbatch --parsable --nodes=3 --output=/dev/null --mem=50 {} --wrap 'sleep 600'"
    running = deployed_lab.on("ctl", submit.format("--ntasks-per-node=1"))
    deployed_lab.until("ctl", f"squeue -h -j {running} -o %T", "RUNNING")
    waiting = deployed_lab.on("ctl", submit.format("--exclusive"))
    try:
        deployed_lab.until("ctl", f"squeue -h -j {waiting} -o '%T %r'", "PENDING Resources")
        found = checked(deployed_lab, "--only", "job_runs,limits")
        states = deployed_lab.on("ctl", f"squeue -h -j {running},{waiting} -S i -o '%T %r'").splitlines()
    finally:
        deployed_lab.on("ctl", f"scancel {running} {waiting}")
    assert states == ["RUNNING None", "PENDING Resources"]
    limits = ("limits.memory_is_limited",) if has_limits(deployed_lab) else ()
    asked = {(node, check) for node in ("n1", "n2", "n3") for check in ("jobs.job_runs", *limits)}
    assert asked | {("ctl", "jobs.job_runs_on_many_nodes")} <= found.having("passed"), found.shown
    assert found.code == 0, found.shown
    assert found.told["seconds"] < 30
    assert deployed_lab.on("ctl", "scontrol -o show reservation") == "No reservations in the system"


def test_a_host_without_power_is_one_failure_and_exit_code_3(whole_again: DeployedLab) -> None:
    # A job that has not quite ended there would keep the node, for slurmctld would not hear of its end.
    whole_again.until("ctl", "squeue -h; sinfo -h -o '%D %t'", "3 idle")
    booted = "scontrol show node n3 | grep -o 'BootTime=[^ ]*'"
    before = whole_again.on("ctl", booted)
    lab.kill_host(whole_again.lab, "n3")
    try:
        found = checked(whole_again, "--only", "daemons,munge,ssh")
    finally:
        lab.start_host(whole_again.lab, "n3")
        # Slurm sets a node down once it hears that it has booted, and the controller gives it back by itself.
        eventually(lambda: whole_again.on("ctl", booted) != before, "n3 has registered")
        whole_again.until("ctl", "sinfo -h -n n3 -o %t; squeue -h -o '%i %j %T %N'", "idle")
    assert found.having("failed") == {("n3", "reachable.host_is_reachable")}
    left_out = [one for one in found.told["checks"] if one["host"] == "n3" and one["outcome"] == "not run"]
    assert {one["cause"] for one in left_out} == {"n3 is unreachable."}
    assert found.code == 3


def test_the_munge_key_and_its_fingerprint_are_told_nowhere(deployed_lab: DeployedLab, tmp_path: Path) -> None:
    junit = tmp_path / "checks.xml"
    found = checked(deployed_lab, "--only", "munge", "--junit", str(junit), "--verbose")
    everything = json.dumps(found.told) + found.shown + junit.read_text()
    secrets = ("base64 -w0 /etc/munge/munge.key", "sha256sum /etc/munge/munge.key | cut -c 1-16")
    assert "munge" in everything
    for command in secrets:
        assert deployed_lab.on("ctl", command)[:16] not in everything


LOGIN = "runuser -u slurm -- ssh {} -o BatchMode=yes -o StrictHostKeyChecking=yes slurm@{} hostname 2>&1 || true"
"""A login of the slurm user, or its error."""


UNKNOWN = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
"""For logins from node to node, which know no keys of each other."""


def test_a_key_that_is_stolen_from_a_controller_then_is_refused_from_everywhere_else(deployed_lab: DeployedLab) -> None:
    assert deployed_lab.on("ctl", LOGIN.format("", "n1")) == "n1"
    key = deployed_lab.on("ctl", "base64 -w0 /var/lib/slurm/home/.ssh/id_ed25519")
    deployed_lab.on("n2", f"echo {key} | base64 -d >/tmp/stolen && chown slurm /tmp/stolen && chmod 600 /tmp/stolen")
    try:
        for goal in ("n1", deployed_lab.lab.host("n1").address):
            told = deployed_lab.on("n2", LOGIN.format(f"-F none -i /tmp/stolen -o IdentitiesOnly=yes {UNKNOWN}", goal))
            assert "Permission denied" in told
        assert "Refused by key options" in deployed_lab.on(
            "n1", "journalctl --sync; journalctl -o cat -t sshd -t sshd-session"
        )
    finally:
        deployed_lab.on("n2", "rm /tmp/stolen")


def test_logins_of_the_slurm_user_when_the_cluster_file_changes_them_then_are_those_and_no_others(
    whole_again: DeployedLab,
) -> None:
    text = whole_again.inventory_path.read_text()
    try:
        assert whole_again.on("ctl", LOGIN.format("", "n1")) == "n1"
        assert "PTY allocation request failed" in whole_again.on("ctl", LOGIN.format("-tt", "n1"))
        assert "Permission denied" in whole_again.on("n1", LOGIN.format("", "ctl"))
        found = checked(whole_again, "--only", "ssh")
        assert {check for _, check in found.having("passed") if check.startswith("ssh")} == {
            "ssh.controller_gets_in", "ssh.host_is_kept_out_of_the_controller",
        }  # fmt: skip
        assert found.code == 0

        whole_again.inventory_path.write_text(f"{text}slurm_ssh: both\n")
        whole_again.deploy()
        assert whole_again.on("n1", LOGIN.format("", "ctl")) == "ctl"
        found = checked(whole_again, "--only", "ssh")
        assert {check for _, check in found.having("passed") if check.startswith("ssh")} == {
            "ssh.controller_gets_in", "ssh.host_gets_to_the_controller",
        }  # fmt: skip

        whole_again.inventory_path.write_text(f"{text}slurm_ssh: none\n")
        whole_again.deploy()
        for host in ("ctl", "n1"):
            assert whole_again.on(host, "grep -c ssh- /var/lib/slurm/home/.ssh/authorized_keys || true") == "0"
        assert "Permission denied" in whole_again.on("ctl", LOGIN.format("", "n1"))
    finally:
        whole_again.inventory_path.write_text(text)
