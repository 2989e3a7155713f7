"""Drills on real hosts: every fault is real, is noticed, and is over afterwards, also when the deployer is killed.

One lab goes through all of it. A job of the slurm user runs on n3 from the first drill to the last. The clock is not
touched, since all hosts of a lab have that of this machine.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

import pytest
from lab_cluster import AS_SLURM, PROGRAM, DeployedLab, succeeded
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

NOT_DONE = 5
HOSTS = ("ctl", "n1", "n2", "n3")
SETTINGS = """
slurm_conf: {SlurmdTimeout: 5, MessageTimeout: 5, SlurmctldTimeout: 10, SchedulerParameters: bf_interval=2}
health: {interval: 2}
monitoring: true
packages: {compute: [nftables]}
"""
MOUNT = (
    'mounts: [{{path: /data, source: "root@{address}:/srv/data", type: sshfs, roles: compute, options: [{options}]}}]\n'
)
KEY = "/root/data-key"
OPTIONS = f"IdentityFile={KEY}, StrictHostKeyChecking=accept-new"
NEW_KEY = f"test -e {KEY} || ssh-keygen -q -t ed25519 -N '' -f {KEY}; cat {KEY}.pub"
LOGINS = "mkdir -p /srv/data /root/.ssh && cat >> /root/.ssh/authorized_keys <<'END'\n{}\nEND"
OWN_SPOOL = "systemctl stop slurmd; mount -t tmpfs -o size=20M,mode=755 tmpfs /var/spool/slurmd; systemctl start slurmd"
JOB = "scontrol --oneliner show job {} | grep -oE '(JobState|StartTime|Restarts)=[^ ]+' | paste -sd ' '"
LEFT = (
    "ls -d /run/slurmfab-drill* /run/systemd/transient/slurmfab-drill* /dev/*slurmfab-drill* /var/spool/slurmd/.slurm*"
    " 2>/dev/null; command -v nft >/dev/null && nft list tables | grep drill; true"
)
MOMENT = "journalctl --unit={} --output=short-unix --grep='{}' --no-pager | grep -v '^--' | tail -n 1 | cut -d' ' -f1"
IN_ORDER = "scontrol show reservation; sinfo -h -p main -o '%N %t' | sort | paste -sd ,"
CUT = "table inet cut { chain in { type filter hook input priority -300; tcp dport 6818 drop; }; }\n"
WELL = "No reservations in the system\nn2 idle,n3 mix"


@dataclass(frozen=True)
class Drilled:
    """A cluster with a backup controller on n1, a file server on ctl, and a job on n3."""

    lab: DeployedLab
    job: str
    seen: str
    found: tuple[tuple[str, str], ...]  # what check-cluster finds before the first drill

    def drill(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The result of the one drill of a run that ends with this exit code."""
        done = self.lab.slurmfab("drill", *words, "--json", "-")
        assert done.returncode == code, words_of(done)
        (result,) = json.loads(done.stdout)["results"]
        return dict(result)

    def until_well(self) -> None:
        """Wait until nothing of a drill is left anywhere, and all nodes are as before."""
        self.lab.until("ctl", IN_ORDER, WELL)
        for host in HOSTS:
            self.lab.until(host, LEFT, "")


def failed_checks(lab: DeployedLab) -> tuple[tuple[str, str], ...]:
    """What check-cluster finds, as host and cause."""
    return tuple((one["host"], one["cause"]) for one in lab.checks() if one["outcome"] == "failed")


@pytest.fixture(scope="module", params=in_turn("drill"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Drilled]:
    with stock.copy(request.param, nodes=3, gpus=("n2:2", "n3:2"), shared=("/shared",)) as lab:
        text = lab.inventory_path.read_text()
        text = text.replace("controllers: [ctl]", "controllers: [ctl, n1]\nstate_directory: /shared/slurm/state")
        text = text.replace("hosts: n[1-3]", "hosts: n[2-3]") + SETTINGS
        lab.on("ctl", LOGINS.format("\n".join(lab.on(node, NEW_KEY) for node in ("n2", "n3"))))
        mount = MOUNT.format(address=lab.lab.host("ctl").address, options=OPTIONS)
        lab.inventory_path.write_text(text + mount)
        lab.deploy()
        lab.on("n2", OWN_SPOOL)
        job = lab.on("ctl", AS_SLURM + "sbatch --parsable -w n3 --mem=50 -o /dev/null --wrap 'sleep 3600'")
        lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
        lab.until("ctl", IN_ORDER, WELL)
        yield Drilled(lab, job, lab.on("ctl", JOB.format(job)), failed_checks(lab))
        lab.on("ctl", f"scancel {job}")


@pytest.fixture(autouse=True)
def as_before(cluster: Drilled) -> Iterator[None]:
    """After each test nothing of a drill is left, and the job has gone on."""
    yield
    cluster.until_well()
    assert cluster.lab.on("ctl", JOB.format(cluster.job)) == cluster.seen


def test_drills_without_a_name_are_listed_with_why_one_is_not_for_this_cluster(cluster: Drilled) -> None:
    listed = cluster.lab.slurmfab("drill")
    assert listed.returncode == 0
    for name in ("slurmctld", "failover", "power", "link", "clock", "spool", "gpu", "file-server"):
        assert name in listed.stdout


def test_a_slurmctld_that_crashes_is_started_by_systemd_and_a_job_that_has_just_begun_goes_on(cluster: Drilled) -> None:
    before = cluster.lab.on("ctl", "systemctl show -p MainPID --value slurmctld")
    job = cluster.lab.on("ctl", AS_SLURM + "sbatch --parsable -w n3 --mem=50 -o /dev/null --wrap 'sleep 3600'")
    cluster.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    began = cluster.lab.on("ctl", JOB.format(job))
    result = cluster.drill("--drills", "slurmctld")
    assert (result["outcome"], result["host"]) == ("passed", "ctl")
    assert 0 < result["noticed"] < 30
    assert cluster.lab.on("ctl", "systemctl show -p MainPID --value slurmctld") != before
    assert result["alerts"] == [{"name": "SlurmctldDown", "after": 120, "fires": False}]
    assert cluster.lab.on("ctl", JOB.format(job)) == began
    assert cluster.lab.on("ctl", "find /shared /var/log/slurm -name 'core*'") == ""
    assert [one for one in cluster.lab.checks("daemons") if one["outcome"] == "failed"] == []
    assert (planned := cluster.lab.slurmfab("plan")).returncode == 0, words_of(planned)
    cluster.lab.on("ctl", f"scancel {job}")


def test_the_backup_takes_over_and_gives_back(cluster: Drilled) -> None:
    result = cluster.drill("--drills", "failover")
    assert result["outcome"] == "passed"
    begun = cluster.lab.on("ctl", MOMENT.format("slurmfab-drill-failover", "Started"))
    took_over = cluster.lab.on("n1", MOMENT.format("slurmctld", "Running as primary controller"))
    assert 0 <= result["noticed"] - (float(took_over) - float(begun)) < 3
    assert cluster.lab.on("ctl", "scontrol ping | grep -c UP") == "2"


@pytest.mark.parametrize(
    ("name", "sign"),
    [
        ("spool", "/var/spool/slurmd is full ("),
        ("gpu", "GPU /dev/nvidia1 is gone"),
        ("file-server", "/data does not answer"),
    ],
)
def test_the_health_check_drains_the_node_with_the_cause_and_gives_it_back(
    cluster: Drilled, name: str, sign: str
) -> None:
    result = cluster.drill("--drills", name)
    assert (result["outcome"], result["host"]) == ("passed", "n2"), result
    assert sign in result["sign"]
    assert result["noticed"] == result["out"]
    assert {alert["fires"] for alert in result["alerts"]} == {False}


def test_a_node_without_power_is_noticed_and_comes_back(cluster: Drilled) -> None:
    before = cluster.lab.on("n2", "cut -d' ' -f1 /proc/uptime")
    result = cluster.drill("--drills", "power")
    assert (result["outcome"], result["host"]) == ("passed", "n2"), result
    assert float(cluster.lab.on("n2", "cut -d' ' -f1 /proc/uptime")) < float(before)


def test_a_node_without_its_link_is_down_and_back_and_ssh_goes_on(cluster: Drilled) -> None:
    result = cluster.drill("--drills", "link", "--node", "n2")
    assert result["outcome"] == "passed", result
    assert "down" in result["sign"]
    assert result["noticed"] <= result["out"] <= result["lasted"]


def test_the_checks_after_all_drills_find_what_they_found_before_and_a_plan_has_nothing_to_do(cluster: Drilled) -> None:
    assert failed_checks(cluster.lab) == cluster.found
    assert (planned := cluster.lab.slurmfab("plan")).returncode == 0, words_of(planned)


def test_a_node_with_a_job_is_refused_with_the_job_and_not_touched(cluster: Drilled) -> None:
    results = cluster.lab.inventory_path.with_name("drills.xml")
    result = cluster.drill("--drills", "power", "--node", "n3", "--junit", str(results), code=NOT_DONE)
    assert (result["outcome"], result["cause"]) == ("not run", f"n3: has jobs: {cluster.job} (slurm)")
    skipped = ElementTree.parse(results).find(".//testcase/skipped")
    assert skipped is not None
    assert skipped.get("message") == result["cause"]


def test_a_node_that_gets_a_job_meanwhile_is_not_reserved_and_not_touched(cluster: Drilled) -> None:
    job = cluster.lab.on("ctl", AS_SLURM + "sbatch --parsable -w n2 --mem=50 -o /dev/null --wrap 'sleep 3600'")
    cluster.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    try:
        result = cluster.drill("--drills", "link", code=NOT_DONE)
        assert f"n2: has jobs: {job} (slurm)" in result["cause"]
    finally:
        cluster.lab.on("ctl", f"scancel {job}")


def test_the_clock_of_a_container_is_not_touched(cluster: Drilled) -> None:
    result = cluster.drill("--drills", "clock", code=NOT_DONE)
    assert result["cause"] == "n2: a container has the clock of its host, and of others"


def test_a_drill_whose_deployer_is_killed_is_taken_back_at_once(cluster: Drilled) -> None:
    words = [*PROGRAM, "drill", "--drills", "link", "--cluster", str(cluster.lab.inventory_path)]
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        cluster.lab.until("n2", "nft list tables | grep -c drill", "1")
        assert "slurmfab_drill" in cluster.lab.on("ctl", "scontrol show reservation")
        process.kill()
    cluster.lab.until("n2", "nft list tables | grep -c drill", "0", patience=10)
    cluster.until_well()


def test_the_drills_are_in_the_history_and_in_the_report(cluster: Drilled) -> None:
    page = cluster.lab.inventory_path.with_name("page.html")
    assert "drills: gpu" in cluster.lab.slurmfab("history").stdout
    done = cluster.lab.slurmfab("report", "--output", str(page))
    assert done.returncode == 0, words_of(done)
    assert "file-server" in page.read_text()


def test_a_node_that_was_cut_off_and_is_reachable_again_when_it_is_resumed_or_deployed_to_then_is_in_service(
    cluster: Drilled,
) -> None:
    shown = "sinfo -h -p main -N -n n2 -o %t"
    for words in (("deploy",), ("resume", "n2")):
        # Slurm leaves a node that was silent twice down for good.
        cluster.lab.on("n2", f"nft -f - <<'END'\n{CUT}END")
        cluster.lab.until("ctl", shown, "down*")
        cluster.lab.on("n2", "nft delete table inet cut")
        succeeded(cluster.lab.slurmfab(*words))
        assert cluster.lab.on("ctl", shown) == "idle"
    assert cluster.lab.on("ctl", f"{AS_SLURM}srun -w n2 --mem=50 hostname") == "n2"
