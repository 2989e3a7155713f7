"""Homes on a real network file system: mounted, proved, kept under jobs, undone, and taken back.

The controller serves them, by GlusterFS or by SSH, whose packages are small; One lab goes through
all of it, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import words_of
from stand_ins import NFS_SERVER
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
GLUSTER = """\
apt-get install -y -qq --no-install-recommends glusterfs-server >/dev/null
mkdir -p /srv/brick && systemctl start glusterd
gluster --mode=script volume create homes {address}:/srv/brick force
gluster volume start homes
"""
KEY = "test -e {0} || ssh-keygen -q -t ed25519 -N '' -f {0}; cat {0}.pub"
KEY_FILE = "/root/homes-key"
LOGINS = "mkdir -p /srv/brick /root/.ssh && cat >> /root/.ssh/authorized_keys <<'END'\n{}\nEND"
MOUNTED = "findmnt -n -o FSTYPE,SOURCE /home; systemctl is-enabled home.mount"
LEFT = (
    "findmnt -n /home; ls /etc/systemd/system/home.*mount /var/lib/slurmfab/owned/mounts.json; "
    "systemctl is-enabled home.mount | grep -v not-found"
)
SUBMIT = "su - ann -c \"sbatch --parsable -w n1 -n1 --mem=50 --wrap '{}'\""
MOUNTS = """\
homes: /home
users: [{{name: ann}}]
mounts:
  - {{path: /home, source: "{source}", type: {type}, options: [{options}]}}
"""
EXPORTS = """\
users: [{name: ann}]
quota: {path: /srv/data, soft: 1G}
exports:
  - {path: /srv/data, host: n2}
  - {path: /srv/soft, host: n2, mount: /soft, to: login}
"""
PORTMAP = "ss --listening --numeric --no-header --tcp --udp 'sport = :111'"
EXPORTS_LEFT = (
    "ls /etc/exports.d/slurmfab.exports /etc/nfs.conf.d/slurmfab.conf /var/lib/slurmfab/owned/exports*; "
    "findmnt -n /soft; dpkg-query -W -f '${db:Status-Status}' nfs-kernel-server | grep ^installed; "
    "cat /var/lib/nfs/etab"
)
SERVING = {
    "glusterfsd": ("gluster --mode=script volume stop homes", "gluster volume start homes"),
    "sftp-server": ("mv /srv/brick /srv/away", "mv /srv/away /srv/brick"),
}
"""Commands that end and begin to serve the homes, by program."""

SSH_OPTIONS = f"allow_other, IdentityFile={KEY_FILE}, StrictHostKeyChecking=accept-new"


@dataclass
class Stored:
    """A cluster, its file without mounts, what the file says of homes, and the program that serves these."""

    lab: DeployedLab
    text: str
    mounts: str
    server: str

    def write(self, more: str = "") -> None:
        self.lab.inventory_path.write_text(self.text + more)

    def check(self) -> dict[str, Any]:
        return {f"{one['check']}/{one['host']}": one for one in self.lab.checks("storage")}

    def is_mounted(self, host: str) -> bool:
        return "fuse." in self.lab.on(host, MOUNTED, check=False)


@pytest.fixture(scope="module", params=in_turn("storage"))
def stored(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Stored]:
    with stock.copy(request.param, nodes=2) as lab:
        is_gluster = request.param == "trixie"
        mounts = served_by_gluster(lab) if is_gluster else served_by_ssh(lab)
        yield Stored(lab, lab.inventory_path.read_text(), mounts, "glusterfsd" if is_gluster else "sftp-server")


def served_by_gluster(lab: DeployedLab) -> str:
    """A volume on the controller; the keys of the cluster file for it."""
    address = lab.lab.host("ctl").address
    lab.on("ctl", GLUSTER.format(address=address))
    return MOUNTS.format(source=f"{address}:/homes", type="glusterfs", options="")


def served_by_ssh(lab: DeployedLab) -> str:
    """A directory on the controller, where root of each host may log in; the keys of the cluster file for it."""
    keys = "\n".join(lab.on(host, KEY.format(KEY_FILE)) for host in HOSTS)
    lab.on("ctl", LOGINS.format(keys))
    source = f"root@{lab.lab.host('ctl').address}:/srv/brick"
    return MOUNTS.format(source=source, type="sshfs", options=SSH_OPTIONS)


def test_homes_are_mounted_everywhere_before_they_are_made(stored: Stored) -> None:
    stored.write(stored.mounts)
    stored.lab.deploy()
    assert all(stored.is_mounted(host) for host in HOSTS)
    assert stored.lab.on("n1", MOUNTED).endswith("enabled")
    assert "ann" in stored.lab.on("ctl", "ls /srv/brick").split()
    assert stored.lab.deploy()["steps"] == []


def test_a_job_that_is_submitted_at_home_writes_there_for_other_hosts(stored: Stored) -> None:
    job = stored.lab.on("ctl", SUBMIT.format("hostname"))
    stored.lab.until("n2", f"cat /home/ann/slurm-{job}.out", "n1")


def test_check_cluster_writes_on_one_host_and_reads_on_another(stored: Stored) -> None:
    found = stored.check()
    assert {one["outcome"] for one in found.values()} == {"passed"}, found
    assert "files_are_shared/n1" in found
    assert stored.lab.on("ctl", "find /home -name '.slurmfab-check*'") == ""


def test_quickcheck_submits_at_home_and_reads_the_output_there(stored: Stored) -> None:
    done = succeeded(stored.lab.slurmfab("quickcheck", "--only", "homes"))
    assert "of ann ran in /home/ann; ctl read its output" in done.stdout
    assert stored.lab.on("n2", "ls /home/ann").split() == stored.lab.on("ctl", "ls /srv/brick/ann").split()


def test_a_server_that_answers_nothing_holds_up_no_plan_and_is_told(stored: Stored) -> None:
    stored.lab.on("ctl", f"pkill -STOP {stored.server}")
    try:
        runs = [stored.lab.slurmfab(command) for command in ("plan", "deploy")]
        found = stored.check()
    finally:
        stored.lab.on("ctl", f"pkill -CONT {stored.server}")
    for done in runs:
        assert done.returncode == 3, words_of(done)
        assert "it does not answer; is its file server up?" in words_of(done)
        assert "all is as wanted" not in words_of(done)
    assert "no answer within 10 s" in found["files_are_shared/n1"]["cause"], found


def test_a_node_that_starts_before_its_file_server_mounts_the_homes_when_they_are_next_used(stored: Stored) -> None:
    stops, starts = SERVING[stored.server]
    stored.lab.on("ctl", stops)
    try:
        lab.kill_host(stored.lab.lab, "n1")
        lab.start_host(stored.lab.lab, "n1")
        stored.lab.until("n1", "systemctl is-active slurmd", "active", patience=150)
        assert not stored.is_mounted("n1")
        refused = stored.lab.slurmfab("deploy", "--hosts", "n1")
        assert (refused.returncode, "all is as wanted" in words_of(refused)) == (3, False), words_of(refused)
    finally:
        stored.lab.on("ctl", starts)
    for host in ("n1", "ctl", "n2"):
        stored.lab.until(host, "ls /home", "ann", patience=90)
    assert stored.is_mounted("n1")
    assert stored.lab.on("n1", "systemctl is-active systemd-logind home.automount").split() == ["active", "active"]
    stored.lab.deploy()


def test_a_mount_is_not_taken_away_under_a_job(stored: Stored) -> None:
    job = stored.lab.on("ctl", SUBMIT.format("sleep 600"))
    stored.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    stored.write()
    for command in ("plan", "deploy"):
        refused = stored.lab.slurmfab(command)
        assert f"/home is not unmounted: job {job} runs here" in words_of(refused)
    assert refused.returncode == 3
    assert stored.is_mounted("n1")
    stored.lab.on("ctl", f"scancel {job}")
    stored.lab.until("n1", "pgrep -c slurmstepd", "0")


def test_mounts_are_taken_back_with_all_that_was_theirs(stored: Stored) -> None:
    stored.lab.deploy()
    for host in HOSTS:
        assert not stored.is_mounted(host)
        assert stored.lab.on(host, LEFT, check=False) == ""
    assert stored.lab.deploy()["steps"] == []


def test_rollback_brings_mounts_back_and_takes_them_away(stored: Stored) -> None:
    stored.write(stored.mounts)
    stored.lab.deploy()
    assert all(stored.is_mounted(host) for host in HOSTS)
    assert stored.lab.slurmfab("rollback").returncode == 0
    assert not any(stored.is_mounted(host) for host in HOSTS)


def test_a_host_whose_kernel_has_no_nfs_server_is_named_and_others_go_on(stored: Stored) -> None:
    stored.write(EXPORTS)
    refused = ended(stored.lab.slurmfab("deploy"), 3)
    assert "has no NFS server" in words_of(refused)
    assert "name another host in exports" in words_of(refused)
    assert "nfs-server is" in stored.check()["exports_are_served/n2"]["cause"]


def test_exports_name_the_hosts_of_the_cluster_alone(stored: Stored) -> None:
    stored.lab.on("n2", NFS_SERVER)
    stored.lab.deploy()
    addresses = {stored.lab.lab.host(host).address for host in ("ctl", "n1")}
    served = [line.split("(")[0].split() for line in stored.lab.on("n2", "exportfs -s").splitlines()]
    assert {client for path, client in served if path == "/srv/data"} == addresses
    assert {path for path, _ in served} == {"/srv/data"}
    assert stored.lab.on("n2", "findmnt -n -o FSROOT /soft; cat /etc/nfs.conf.d/slurmfab.conf").startswith("/srv/soft")
    assert stored.lab.on("n2", f"systemctl start rpcbind.socket; {PORTMAP}", check=False) == ""
    assert stored.lab.deploy()["steps"] == []
    found = stored.check()
    assert found["exports_are_served/n2"]["outcome"] == "passed"
    # The lab's kernel has no quotas, which the real repquota says.
    assert "cannot limit users: " in found["quotas_are_set/n2"]["cause"]
    assert "cannot limit users: " in words_of(stored.lab.slurmfab("plan"))


def test_exports_are_rolled_back_and_taken_back_with_their_server(stored: Stored) -> None:
    assert stored.lab.slurmfab("rollback").returncode == 0
    assert (
        stored.lab.on("n2", "exportfs -s; findmnt -n /soft; systemctl is-active nfs-server", check=False) == "inactive"
    )
    stored.lab.deploy()
    stored.lab.on("n2", "echo thesis > /soft/thesis")
    stored.write()
    limited = stored.lab.slurmfab("deploy", "--hosts", "n2")
    assert "/srv/data stays exported to ctl, n1" in words_of(limited)
    assert "/srv/data" in stored.lab.on("n2", "exportfs -s")
    stored.lab.deploy()
    assert stored.lab.on("n2", EXPORTS_LEFT, check=False) == ""
    assert stored.lab.on("n2", "cat /srv/soft/thesis") == "thesis"
    assert stored.lab.deploy()["steps"] == []
