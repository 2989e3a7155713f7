"""`fab rehearse` on a cluster of a lab: the twin is like it, has no way out, and the cluster is not touched."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from typing import IO, Any

import pytest
from lab_cluster import PROGRAM, DeployedLab
from lab_cluster import report as report_of
from lab_user import snapshots
from stock import Stock, in_turn

from slurmfab import lab as labs
from slurmfab.commands.rehearse.rehearsing import lab_name
from slurmfab.commands.rehearse.stage import DOOR, packet_counts
from slurmfab.lab import twins
from slurmfab.lab.layout import LabLayout

pytestmark = pytest.mark.lab

LOGINS = "journalctl --unit ssh --unit ssh.socket --unit 'ssh@*' --grep Accepted --quiet | wc -l"
CONNECT = "timeout 3 bash -c 'exec 3<>/dev/tcp/{address}/{port}' 2>&1"


KEYS = """\
database: ctl
accounts: [{name: physics}]
users: [{name: ann, uid: 4001, accounts: physics}]
topology:
  - {SwitchName: s1, Nodes: "n[1-2]"}
  - {SwitchName: s2, Nodes: n3}
  - {SwitchName: top, Switches: "s[1-2]"}
slurm_conf: {SlurmdTimeout: 111}
"""
PARTITIONS = """\
partitions:
  - {PartitionName: main, Nodes: ALL, Default: "YES"}
  - {PartitionName: wide, Nodes: "n[1-3]"}
"""
JOBS = r"""
cd / && set -e
sub() { runuser -u ann -- sbatch --parsable --mem=50 --output=/dev/null "$@"; }
sub --partition=wide --nodes=3 --time=60 --wrap 'exit 0'
for i in $(seq 300); do
    [ "$(sacct --noheader --allusers -X | grep --count COMPLETED)" = 0 ] || break
    sleep 0.1
done
sub --nodelist=n3 --time=120 --wrap 'exec sleep 7200'
until [ "$(squeue --noheader --states=RUNNING | wc -l)" = 1 ]; do sleep 0.1; done
runuser -u slurm -- strigger --set --down --flags=perm --program=/bin/true
place=$(scontrol show config | sed -n 's/^StateSaveLocation *= //p')
systemctl restart slurmctld
until grep --quiet /bin/true "$place/trigger_state" && scontrol ping | grep --quiet UP; do sleep 0.1; done
"""
"""For the controller: a job of last week on all nodes, one that runs on the node that the twin lacks; a trigger."""

FREEZE = """
group=/sys/fs/cgroup/freezer/held
if mkdir $group; then
    sleep 3600 >/dev/null 2>&1 </dev/null &
    echo $! >$group/tasks
    echo FROZEN >$group/freezer.state
fi
python3 - >/dev/null 2>&1 <<'PYTHON' &
import ctypes, os, time
ctypes.CDLL(None).prctl(15, b"\\xff\\xfe", 0, 0, 0)
for _ in range(99):
    if not os.fork():
        break
time.sleep(3600)
PYTHON
cd /root && python3 -c 'import os; [(os.mkdir("d"), os.chdir("d")) for _ in range(3000)]'
"""
"""A script of a host that shall stay: frozen processes, which do not end when they are killed, others whose
name is no text, and deep directories."""


@pytest.fixture(scope="module", params=in_turn("twin"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, nodes=3, database=True) as lab:
        text = re.sub(r"(?m)^partitions:\n(?:[ -].*\n)*", PARTITIONS, lab.inventory_path.read_text())
        lab.inventory_path.write_text(f"{text}{KEYS}")
        lab.deploy()
        lab.on("ctl", JOBS)
        assert lab.slurmfab("backup").returncode == 0
        try:
            yield lab
        finally:
            labs.down(lab_name(lab.inventory_path))


def change(lab: DeployedLab, setting: str) -> None:
    """Give the cluster file another setting of slurm.conf."""
    lab.inventory_path.write_text(
        f"{lab.inventory_path.read_text().partition('slurm_conf:')[0]}slurm_conf: {{{setting}}}\n"
    )


def rehearsed(lab: DeployedLab, *words: str) -> tuple[int, dict[str, Any], str]:
    done = lab.slurmfab("rehearse", "--json", "-", "--cluster", str(lab.inventory_path), *words, cluster=False)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def test_a_change_when_it_is_rehearsed_then_the_report_says_what_the_plan_does_and_the_cluster_is_not_touched(
    cluster: DeployedLab,
) -> None:
    change(cluster, "SlurmdTimeout: 123")
    files, logins = snapshots(cluster, "ctl", "n1", "n2", "n3"), {}
    for host in ("n1", "n2", "n3"):
        logins[host] = cluster.on(host, LOGINS, check=False)
    code, told, shown = rehearsed(cluster, "--keep", "--", "deploy")
    assert (code, told["found"], told["look_at"]) == (0, [], []), shown
    assert sorted(told["twin"]) == ["ctl", "n1", "n2"]
    assert told["twin"]["n1"] == ["n3"]
    assert snapshots(cluster, "ctl", "n1", "n2", "n3") == files
    assert logins == {host: cluster.on(host, LOGINS, check=False) for host in logins}
    assert refuses_all_others(cluster)
    assert has_all_nodes_in_slurm_conf(cluster)
    assert "/bin/true" in cluster.on("ctl", "strigger --get")
    assert "/bin/true" not in on_twin(cluster, "strigger --get")
    assert cluster.slurmfab("plan", "--save", "tonight.json").returncode == 4
    done = cluster.slurmfab("deploy", "--plan", "tonight.json", "--json", "-")
    assert re.search(r"Rehearsed \S+ \S+ UTC: went well\.\n", done.stderr), done.stderr
    report = report_of(done)
    # slurmd loads its files by itself after a reconfigure; whether a run still sees it at that depends on the load.
    by_itself = {("slurmd", "service:slurmd")}
    assert changed(told) - by_itself == changed(report) - by_itself != set()


def on_twin(cluster: DeployedLab, script: str) -> str:
    return labs.run(labs.load(lab_name(cluster.inventory_path)), "ctl", ["sh", "-c", script]).stdout


def changed(report: dict[str, Any]) -> set[tuple[str, str]]:
    return {(step["phase"], one["id"]) for step in report["steps"] for one in step["outcomes"]}


def has_all_nodes_in_slurm_conf(cluster: DeployedLab) -> bool:
    """Whether the twin's Slurm knows the node that the twin lacks, in its partitions and at its switch."""
    twin = labs.load(lab_name(cluster.inventory_path))
    on = lambda command: labs.run(twin, "ctl", ["sh", "-c", command]).stdout  # noqa: E731
    assert "State=FUTURE " in on("scontrol --future show nodes | grep -A99 NodeName=n3")
    assert "State=FUTURE" in on("grep '^NodeName=n3 ' /etc/slurm/slurm.conf")
    assert all("TotalNodes=3 " in on(f"scontrol show partition {name}") for name in ("main", "wide"))
    assert "SwitchName=s2 Level=0 LinkSpeed=1 Nodes=n3\n" in on("scontrol show topology")
    assert on("sinfo --noheader --format=%N --partition=wide").split() == ["n[1-2]"]
    return True


def refuses_all_others(cluster: DeployedLab) -> bool:
    """Whether neither the twin's hosts nor the namespace of commands reach a host of the real cluster, or this one."""
    twin = labs.load(lab_name(cluster.inventory_path))
    before = packet_counts(twin.spec)
    for host in cluster.lab.hosts:
        script = CONNECT.format(address=host.address, port=22)
        assert labs.run(twin, "ctl", ["sh", "-c", script]).returncode != 0
        namespace = LabLayout(twin.name).host(DOOR).namespace
        assert subprocess.run(["nsenter", f"--net=/run/netns/{namespace}", "sh", "-c", script], check=False).returncode
    counts = packet_counts(twin.spec)
    assert counts["beyond"] >= before["beyond"] + len(cluster.lab.hosts)
    for place in twin.hosts[0].address, twin.hosts[1].address:
        assert labs.run(twin, "ctl", ["sh", "-c", CONNECT.format(address=place, port=22)]).returncode == 0
    return True


def test_a_change_that_no_slurmctld_takes_when_it_is_rehearsed_then_its_cause_comes_first_and_the_exit_code_is_1(
    cluster: DeployedLab,
) -> None:
    change(cluster, "JobSubmitPlugins: nonsense")
    code, told, shown = rehearsed(cluster, "--", "deploy")
    assert code == 1, shown
    assert "nonsense" in "\n".join(told["found"]), told["found"]
    assert lab_name(cluster.inventory_path) not in labs.names()


def test_a_deployment_when_it_is_killed_and_a_node_loses_its_power_then_the_next_run_completes_it(
    cluster: DeployedLab,
) -> None:
    change(cluster, "SlurmdTimeout: 130")
    code, told, shown = rehearsed(cluster, "--kill", "1", "--power-cut", "n1", "--", "deploy")
    assert len(told["attempts"]) == 3, shown
    assert told["attempts"][-1]["exit_code"] == 0, shown
    # Until the next run, hosts have different files, which slurmctld of 22.05 may tell.
    others = [one for one in told["look_at"] if "different slurm.conf" not in one]
    assert (told["found"], others) == ([], []), shown
    assert code in (0, 4)


def test_a_limit_that_only_a_job_on_more_nodes_than_the_twin_has_would_reach_is_named(cluster: DeployedLab) -> None:
    text = cluster.inventory_path.read_text()
    cluster.inventory_path.write_text(text.replace('"n[1-3]"}', '"n[1-3]", MaxNodes: 2}'))
    code, told, shown = rehearsed(cluster, "--", "deploy")
    cluster.inventory_path.write_text(text)
    assert code == 1, shown
    assert re.search(r"refused after the change: .*partition wide, .*3 nodes", "\n".join(told["found"])), told["found"]


def test_a_limit_that_only_a_job_cut_to_the_twin_would_miss_is_no_fault(cluster: DeployedLab) -> None:
    text = cluster.inventory_path.read_text()
    cluster.inventory_path.write_text(text.replace('"n[1-3]"}', '"n[1-3]", MinNodes: 3}'))
    code, told, shown = rehearsed(cluster, "--", "deploy")
    cluster.inventory_path.write_text(text)
    assert (code, told["found"]) == (0, []), shown


def test_a_twin_whose_rehearsal_was_killed_then_is_removed_by_doctor_whatever_it_did(cluster: DeployedLab) -> None:
    name = lab_name(cluster.inventory_path)
    words = (*PROGRAM, "rehearse", "--cluster", str(cluster.inventory_path), "--", "deploy")
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        until(process.stderr, "brought to the state of the cluster")
        on_twin(cluster, FREEZE)
        process.kill()
    assert name in labs.names()
    assert (twins.PLACES / name).stat().st_mode & 0o077 == LabLayout(name).directory.stat().st_mode & 0o077 == 0
    done = cluster.slurmfab("doctor", "--local")
    assert f"{name} was left by a rehearsal that was killed: removed" in done.stdout, done.stdout + done.stderr
    assert (name in labs.names(), LabLayout(name).directory.exists(), (twins.PLACES / name).exists()) == (False,) * 3


def until(lines: IO[str], wanted: str) -> None:
    """Read lines until one has these words."""
    seen = []
    for line in lines:
        seen.append(line)
        if wanted in line:
            return
    pytest.fail("".join(seen))


def test_a_restoration_when_the_cluster_has_no_jobs_then_those_of_the_rehearsal_do_not_count(stock: Stock) -> None:
    with stock.copy(in_turn("twin")[0], nodes=1) as lab:
        lab.deploy()
        assert lab.slurmfab("backup").returncode == 0
        (archive,) = lab.inventory_path.parent.glob("*.backups/*.tar")
        try:
            code, told, shown = rehearsed(lab, "--", "restore", str(archive))
        finally:
            labs.down(lab_name(lab.inventory_path))
        assert (code, told["found"]) == (0, []), shown
        assert any("made from the cluster file" in line or "no record" in line for line in told["unknown"]), shown
