"""Slurm's own containers on real Slurm of each suite: with the job's GPU, within its limits, and gone with the key.

n1 has two stand-ins for GPUs. One lab goes through all of it, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import ExtendedLab
from lab_user import reboot_with_a_broken_crun
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

KEYS = "users: [{name: ann, uid: 2001}, {name: bob, uid: 2002}]\npackages: {compute: [busybox-static]}\n"
OCI = "containers: [oci]\n"
IMAGE = """\
set -e; cd $(mktemp -d); mkdir -p root/bin root/tmp
cp /bin/busybox root/bin; for name in sh id ls tail cat; do ln -s busybox root/bin/$name; done
umoci init --layout /srv/image; umoci new --image /srv/image:1; umoci insert --image /srv/image:1 root /
umoci config --image /srv/image:1 --config.env MODEL=small --config.user 1000; chmod -R a+rX /srv/image
"""
BUNDLE = "/home/ann/bundles/image-1"
STARTS = "systemctl show -P ExecMainStartTimestampMonotonic slurmctld slurmd"
SEES = "ls /dev | grep nvidia; id -u; echo $MODEL $HOME $CUDA_VISIBLE_DEVICES; echo x >~/made; command -v nvidia-smi"
TRACES = "ls -d /dev/shm/slurmfab* /tmp/slurm /var/spool/slurmd/oci-job* 2>/dev/null; :"
BATCH = """\
printf '#!/bin/sh\\necho in $SLURM_CONTAINER with $(ls /dev | grep -c "nvidia[0-9]")\\n' >/home/ann/job.sh
runuser -u ann -- timeout 60 sbatch -W -Q -w n1 --gres=gpu:1 -D /home/ann -o out --container={} /home/ann/job.sh
cat /home/ann/out
"""
LEFT = (
    "ls -d /etc/slurm/oci.conf /usr/local/lib/slurmfab/oci /usr/local/bin/sbundle /usr/bin/crun /usr/bin/umoci "
    "/usr/bin/skopeo 2>/dev/null; :"
)


class Site(ExtendedLab):
    """A cluster, and its file without containers."""

    def srun(self, options: str, script: str, *, user: str = "ann", check: bool = True) -> list[str]:
        """What a container of a user's prints in a job on n1."""
        command = f"cd /tmp; runuser -u {user} -- timeout 60 srun -Q -w n1 --container={BUNDLE} {options}"
        return self.lab.on("n1", f"{command} /bin/sh -c '{script}' 2>&1", check=check).splitlines()


@pytest.fixture(scope="module", params=in_turn("oci"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=1, gpus=("n1:2",)) as lab:
        site = Site(lab, lab.inventory_path.read_text() + KEYS)
        site.deploy("")
        yield site


def test_oci_when_the_key_comes_then_no_daemon_restarts_and_users_make_bundles(site: Site) -> None:
    before = [site.lab.on(host, STARTS) for host in ("ctl", "n1")]
    site.deploy(OCI)
    assert [site.lab.on(host, STARTS) for host in ("ctl", "n1")] == before
    site.lab.on("n1", IMAGE)
    made = site.lab.on("n1", "runuser -u ann -- env HOME=/home/ann sbundle oci:/srv/image:1 2>/dev/null")
    assert made == BUNDLE
    again = site.lab.on("n1", "runuser -u ann -- env HOME=/home/ann sbundle oci:/srv/image:1 2>&1", check=False)
    assert again == f"sbundle: {BUNDLE} is there already; --force replaces it"
    assert site.lab.on("n1", f"ls -A {BUNDLE}/..") == "image-1"


def test_a_container_in_a_job_with_one_of_two_gpus_has_that_one_alone(site: Site) -> None:
    found = site.srun("--gres=gpu:1", SEES)
    assert found == ["nvidia0", "nvidiactl", "0", "small /home/ann 0", "/usr/local/nvidia/bin/nvidia-smi"]
    assert site.lab.on("n1", "stat -c %U /home/ann/made") == "ann"
    assert site.srun("--gres=gpu:2", "ls -d /dev/nvidia?") == ["/dev/nvidia0", "/dev/nvidia1"]
    assert site.srun("", "ls /dev | grep -c nvidia; exit 7", check=False)[0] == "0"
    assert site.lab.on("n1", BATCH.format(BUNDLE)) == f"in {BUNDLE} with 1"


def test_a_container_when_it_wants_more_than_the_jobs_memory_then_is_ended(site: Site) -> None:
    assert "Out Of Memory" in " ".join(site.srun("--mem=100", "exec tail -c 300000000 /dev/zero", check=False))


def test_checks_when_containers_work_then_pass_without_an_image(site: Site) -> None:
    (line,) = site.lab.checks("container", "--user", "ann", task="quickcheck")
    assert (line["outcome"], line["words"]) == ("passed", "srun --container ran a shell with programs of the node"), (
        line
    )
    assert site.lab.slurmfab("check-cluster", "--only", "containers").returncode == 0


def test_a_bundle_when_another_user_runs_it_then_has_the_gpu_and_no_rights_of_its_owner(site: Site) -> None:
    site.lab.on("n1", f"chmod 755 /home/ann {BUNDLE}")
    found = site.srun("--gres=gpu:1", "command -v nvidia-smi; ls /home; echo >/file", user="bob", check=False)
    assert found[:2] == ["/dev/nvidia-driver/bin/nvidia-smi", "ann"]
    assert "ermission denied" in found[2]


def test_nodes_when_containers_have_ended_or_were_cancelled_then_have_no_traces_of_them(site: Site) -> None:
    start = f"sbatch --parsable -w n1 -D /tmp -o /tmp/out --container={BUNDLE} --wrap 'echo up; sleep 300'"
    job = site.lab.on("n1", f"runuser -u ann -- {start}").split(";")[0]
    site.lab.until("n1", "cat /tmp/out 2>/dev/null; :", "up")
    site.lab.on("n1", f"scancel {job}")
    site.lab.until("n1", TRACES, "")
    log = site.lab.on("n1", "grep -ciE 'error.*(runtime|oci|container|unlinkat|rmdir)' /var/log/slurmd/slurmd.log; :")
    assert log == "0", site.lab.on("n1", "tail -n 40 /var/log/slurmd/slurmd.log")


TRAP = """
set -e; cd /dev/shm; rm -rf slurmfab-oci-* /root/kept; mkdir /root/kept; touch /root/kept/file
runuser -u ann -- python3 -c '
import os
place = os.open(".", os.O_RDONLY)
for name in ("slurmfab-oci-7.0.0-a", *["d" * 200] * 1500):
    os.mkdir(name, dir_fd=place)
    below = os.open(name, os.O_RDONLY, dir_fd=place)
    os.close(place)
    place = below
os.symlink("/root/kept", "slurmfab-oci-7.0.0-a/link")
os.symlink("/root/kept", "slurmfab-oci-7.0.0-link")
os.mkdir("slurmfab-oci-7.0.0-b")'
mkdir -m 770 slurmfab-oci-7.0.0-b/roots; touch slurmfab-oci-7.0.0-b/roots/file
runuser -u bob -- mkdir slurmfab-oci-7.0.0-c
python3 -E -s -B /usr/local/lib/slurmfab/oci/run.py delete 7.0 ann; echo $?
ls -A /root/kept; ls -d slurmfab-oci-*; ls slurmfab-oci-7.0.0-b/roots
rm -rf slurmfab-oci-* /root/kept
"""
"""A user fills the records of containers with links, very deep directories, and a directory of the group root."""


def test_records_that_a_user_has_made_a_trap_when_a_step_ends_then_are_removed_with_the_users_rights_alone(
    site: Site,
) -> None:
    left = ["slurmfab-oci-7.0.0-b", "slurmfab-oci-7.0.0-c", "slurmfab-oci-7.0.0-link"]
    assert site.lab.on("n1", TRAP).split() == ["0", "file", *left, "file"]


def test_nodes_when_they_fetch_slurms_files_then_run_containers_too(site: Site) -> None:
    site.deploy(OCI + "configless: true\n")
    assert site.lab.on("n1", "ls /etc/slurm/oci.conf 2>/dev/null; :") == ""
    assert site.srun("--gres=gpu:1", "ls -d /dev/nvidia?") == ["/dev/nvidia0"]


def test_a_node_when_an_update_has_broken_crun_then_its_reboot_ends_with_that(site: Site) -> None:
    reboot_with_a_broken_crun(site.lab, "a container by oci: ")


def test_oci_when_the_key_goes_then_is_taken_back_and_bundles_stay(site: Site) -> None:
    site.deploy("")
    for host in ("ctl", "n1"):
        assert site.lab.on(host, LEFT) == ""
    assert site.lab.on("n1", f"ls {BUNDLE}/config.json") == f"{BUNDLE}/config.json"
