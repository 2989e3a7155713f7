"""Slurm's files that an admin wrote: they stay while they say the same as the cluster file, and return."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from lab_cluster import DeployedLab, ended, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
BY_HAND = """
cd /etc/slurm
sed -i '/^PartitionName=slurmfab/d; /^#/d; /^$/d; s/^KillWait=30$/killwait = 30  # seconds/' slurm.conf
sed -n '/^NodeName/p' slurm.conf >nodes-$(sed -n 's/^ClusterName=//p' slurm.conf).conf
sed -i '/^NodeName/d; 1i # ann, 2019' slurm.conf
sed -i '/^PartitionName/{s/^/Include nodes-%%c.conf\\n/;:rest;n;b rest}' slurm.conf
sed -i '/^#/d; /^$/d; 1i # ann, 2020' cgroup.conf
"""
"""Writes slurm.conf and cgroup.conf in an admin's way: no comments of slurmfab, the nodes in a file of their own."""

OF_NODE = """
[ $(hostname) = n1 ] && sed -i '/^#/d; s/^NodeName=[^ ]* //' gres.conf || rm gres.conf
"""
OF_CONTROLLER = "rm /etc/slurm/gres.conf /etc/slurm/cgroup.conf"
CONFS = 'cd /etc/slurm && for file in *.conf; do echo "== $file"; cat $file; done'
DAEMONS = "systemctl show -P MainPID slurmctld slurmd"


@pytest.fixture(scope="module", params=in_turn("hand_made_files"))
def by_hand(stock: Stock, request: pytest.FixtureRequest) -> Iterator[DeployedLab]:
    """A cluster whose files an admin has rewritten; slurmctld and slurmd have read them."""
    with stock.copy(request.param, nodes=2, gpus=("n1:2:L4",)) as made:
        made.deploy()
        made.inventory_path.write_text(f"{made.inventory_path.read_text()}own_partition: false\n")
        for host in HOSTS:
            made.on(host, BY_HAND.replace("%%", "%") + (OF_CONTROLLER if host == "ctl" else OF_NODE))
        made.on("n2", "chown slurm:slurm /etc/slurm/slurm.conf")
        made.on("ctl", "scontrol reconfigure")
        made.until("ctl", "sinfo -h -o '%D %t'", "2 idle", patience=120)
        yield made


def confs(cluster: DeployedLab) -> dict[str, str]:
    """Slurm's files by host."""
    return {host: cluster.on(host, CONFS) for host in HOSTS}


def set_kill_wait(cluster: DeployedLab, seconds: int | None, *, keep_files: bool = False) -> None:
    """Change one setting in the cluster file, and whether files are kept."""
    content = yaml.safe_load(cluster.inventory_path.read_text())
    content.pop("slurm_conf", None)
    content |= {"keep_files": keep_files}
    content |= {"slurm_conf": {"KillWait": seconds}} if seconds else {}
    cluster.inventory_path.write_text(yaml.safe_dump(content, sort_keys=False))


def test_hand_made_files_when_they_say_the_same_stay_until_the_cluster_file_changes_and_return_with_a_rollback(
    by_hand: DeployedLab,
) -> None:
    before, daemons = confs(by_hand), {host: by_hand.on(host, DAEMONS) for host in HOSTS}
    assert "Include nodes-%c.conf" in before["n2"]
    assert "== gres.conf\n" not in before["ctl"] + before["n2"]

    # Nothing differs, so nothing is changed or restarted.
    succeeded(by_hand.slurmfab("plan"))
    by_hand.deploy()
    assert confs(by_hand) == before
    assert {host: by_hand.on(host, DAEMONS) for host in HOSTS} == daemons
    # Without a partition of slurmfab's, its own jobs run in main.
    succeeded(by_hand.slurmfab("check-cluster"))

    # A node with another text gets the controller's.
    by_hand.on("n2", "echo '# bob' >>/etc/slurm/slurm.conf")
    assert by_hand.slurmfab("check-cluster", "--only", "configuration").returncode != 0
    by_hand.deploy()
    succeeded(by_hand.slurmfab("check-cluster", "--only", "configuration"))
    assert by_hand.slurmfab("plan").returncode == 0

    # The first change brings slurmfab's files to all hosts.
    before = confs(by_hand)
    set_kill_wait(by_hand, 60)
    assert "KillWait" in by_hand.slurmfab("plan").stdout
    by_hand.deploy()
    assert all("# Made by slurmfab" in text for text in confs(by_hand).values())
    assert by_hand.on("ctl", "scontrol show config | sed -n 's/^KillWait *= //p'") == "60 sec"
    assert by_hand.slurmfab("plan").returncode == 0

    # A rollback brings the admin's files back as they were.
    succeeded(by_hand.slurmfab("rollback"))
    assert confs(by_hand) == before
    assert by_hand.on("ctl", "scontrol show config | sed -n 's/^KillWait *= //p'") == "30 sec"
    set_kill_wait(by_hand, None)
    succeeded(by_hand.slurmfab("plan"))


def test_files_that_are_kept_when_the_cluster_file_says_otherwise_then_stay_and_the_check_tells_until_both_agree(
    by_hand: DeployedLab,
) -> None:
    before, daemons = confs(by_hand), {host: by_hand.on(host, DAEMONS) for host in HOSTS}
    set_kill_wait(by_hand, 60, keep_files=True)
    shown = succeeded(by_hand.slurmfab("plan"))
    assert "stay as they are on the hosts (keep_files)" in shown.stdout + shown.stderr
    by_hand.deploy()
    assert confs(by_hand) == before
    assert {host: by_hand.on(host, DAEMONS) for host in HOSTS} == daemons
    checked = ended(by_hand.slurmfab("check-cluster", "--only", "configuration"), 1)
    assert "slurm.conf: KillWait: 30 -> 60 (now -> in the cluster file)" in " ".join(checked.stdout.split())

    # Another directory of the state than that of slurm.conf is refused.
    text = by_hand.inventory_path.read_text()
    by_hand.inventory_path.write_text(f"{text}state_directory: /srv/state\n")
    refused = by_hand.slurmfab("plan")
    assert (refused.returncode, "remove keep_files" in refused.stderr) == (2, True), refused.stderr
    by_hand.inventory_path.write_text(text)

    # The admin corrects the files.
    for host in HOSTS:
        by_hand.on(host, "sed -i 's/^killwait = 30.*/KillWait=60/' /etc/slurm/slurm.conf")
    by_hand.on("ctl", "scontrol reconfigure")
    succeeded(by_hand.slurmfab("check-cluster", "--only", "configuration"))
    assert by_hand.slurmfab("plan").returncode == 0
