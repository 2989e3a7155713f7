"""Containers of users on real Slurm of each suite: with the job's GPU, within its limits, and gone with the key.

n1 has two stand-ins for GPUs. One lab goes through all of it, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab_cluster import ExtendedLab, succeeded
from lab_user import reboot_with_a_broken_crun
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

USERS = "users: [{name: ann, uid: 2001}, {name: bob, uid: 2002}]\npackages: {compute: [busybox-static]}\n"
PODMAN = "containers: [podman]\nscratch: {size: 1G}\n"
IMAGE = """\
set -e; cd $(mktemp -d); mkdir bin; cp /bin/busybox bin
for name in sh id ls sed sort wc awk pwd dd tail sleep; do ln -s busybox bin/$name; done
tar -c . | sdocker import -q - lab:1 >/dev/null
"""
SEES = "ls /dev/nvidia*; nvidia-smi -L | cut -d: -f1; id -un; pwd; echo here >file"
AS_ANN = "cd /home/ann && runuser -u ann -- "
SRUN = AS_ANN + "srun -Q -w n1 {} bash -c '{}' 2>&1"
OOM = "sdocker run lab:1 dd if=/dev/zero of=/dev/null bs=600M count=9"
SLEEPS = 'sdocker run lab:1 sh -c "echo started >started; sleep 300"'
BUILD = 'podman tag lab:1 lab:2; printf "FROM lab:1\\\\nRUN echo >/new\\\\n" | podman build -q -t lab:new - >&2'
AGED = """\
find /var/lib/podman-users/2001/overlay -name link -exec touch -d '40 days ago' {} +
find /var/lib/podman-users/2001/overlay-images -mindepth 1 -maxdepth 1 -type d -exec touch -d '40 days ago' {} +
"""
NAMES = "podman images --format {{.Repository}}:{{.Tag}} | sort"
IDS = "cat /etc/subuid /etc/subgid | sort -u"
LEFT = (
    "ls -d /etc/slurmfab-podman.json /etc/containers/storage.conf /etc/containers/containers.conf.d/slurmfab.conf "
    "/usr/local/lib/slurmfab/podman /usr/local/bin/sdocker /etc/slurm/prolog.d/*containers /usr/bin/podman "
    "/etc/systemd/system/slurmfab-containers.timer /etc/systemd/system/slurmfab-runtime@.service 2>/dev/null; :"
)


class Site(ExtendedLab):
    """A cluster, and its file without containers."""

    def srun(self, options: str, script: str, *, check: bool = True) -> list[str]:
        """What a job of ann's on n1 prints."""
        lines = self.lab.on("ctl", SRUN.format(options, script), check=check).splitlines()
        return [line for line in lines if "Using cgroups-v1 which is deprecated" not in line]


@pytest.fixture(scope="module", params=in_turn("containers"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=1, gpus=("n1:2",)) as lab:
        yield Site(lab, lab.inventory_path.read_text() + USERS)


def test_users_when_the_file_has_podman_then_have_the_same_numbers_and_a_directory_each(site: Site) -> None:
    before = site.lab.on("n1", "echo carl:100000:65536 >>/etc/subuid; cat /etc/subuid")
    assert "carl" in before
    site.deploy(PODMAN)
    for host in ("ctl", "n1"):
        ids = site.lab.on(host, IDS).splitlines()
        assert {"ann:131137536:65536", "bob:131203072:65536"} < set(ids)
        assert ("carl:100000:65536" in ids) == (host == "n1")
    shown = site.lab.on("n1", "cd /var/lib/podman-users; stat -c '%n %U %a' . 2001 2002")
    assert shown.splitlines() == [". root 755", "2001 ann 700", "2002 bob 700"]


def test_a_container_in_a_job_with_one_of_two_gpus_sees_that_one_alone(site: Site) -> None:
    site.lab.on("n1", f"cat >/tmp/image.sh <<'END'\n{IMAGE}END")
    site.srun("", "sh /tmp/image.sh")
    found = site.srun("--gres=gpu:1", f'sdocker run --gpus all lab:1 sh -c "{SEES}"')
    assert found == ["/dev/nvidia0", "/dev/nvidiactl", "GPU 0", "ann", "/home/ann"]
    assert site.lab.on("n1", "stat -c %U /home/ann/file") == "ann"
    assert site.srun("", 'sdocker run --gpus all lab:1 sh -c "ls /dev/nvidia*"', check=False)[0] == (
        "sdocker: the job has no GPU; ask for one with --gres=gpu:1."
    )
    (place,) = site.srun("--gres=scratch:1", 'sdocker run lab:1 sh -c "cd \\$SCRATCH && echo text >file && pwd"')
    assert place.startswith("/scratch/")
    assert site.srun("--gres=gpu:2", 'sdocker run lab:1 sh -c "ls /dev/nvidia?"') == ["/dev/nvidia0", "/dev/nvidia1"]


def test_a_container_when_it_wants_more_than_the_jobs_memory_then_is_ended(site: Site) -> None:
    found = " ".join(site.srun("--mem=200", OOM, check=False))
    assert "Out Of Memory" in found or "oom" in found.lower()


def test_containers_when_a_job_is_cancelled_then_end_and_the_next_job_runs_others(site: Site) -> None:
    job = site.lab.on("ctl", AS_ANN + f"sbatch --parsable -w n1 --mem=200 -o /dev/null --wrap '{SLEEPS}'")
    site.lab.until("n1", "cat /home/ann/started 2>&1", "started")
    site.lab.on("ctl", f"scancel {job}")
    site.lab.until("n1", "pgrep -u ann -c 'conmon|sleep'; :", "0")
    assert site.srun("", "podman run --rm lab:1 id -u") == ["0"]
    assert site.srun("", "sdocker run lab:1 id -u; podman ps -q | wc -l; podman container prune -f >/dev/null") == [
        "2001",
        "0",
    ]


LEFTOVERS = """
set -e; uid=$(id -u ann); place=/run/user/$uid; systemctl start slurmfab-runtime@$uid
mkdir -p $place/libpod/anns; chown -R ann: $place/libpod
mkdir -m 770 $place/libpod/roots; touch $place/libpod/roots/file
SLURM_JOB_UID=$uid sh /etc/slurm/prolog.d/10-slurmfab-containers
ls $place/libpod/roots; ls $place/libpod; rm -rf $place/libpod
"""
"""What Podman left of a user has a directory for the group root; prints what a prolog leaves of it."""


def test_what_podman_left_when_a_prolog_removes_it_then_the_group_of_root_has_no_part_in_it(site: Site) -> None:
    assert site.lab.on("n1", LEFTOVERS).split() == ["file", "roots"]


def test_a_session_when_outside_of_a_job_then_has_no_gpu_and_is_told(site: Site) -> None:
    found = site.lab.on("n1", AS_ANN + "sdocker run lab:1 sh -c 'ls /dev/nvidia*; id -u' 2>&1").splitlines()
    assert found[0] == "sdocker: this is not in a job: the container has no GPU, and only the limits of this session."
    assert "2001" in found
    assert "/dev/nvidia0" not in found


@pytest.mark.parametrize("user", ["slurm", "ann"])
def test_quickcheck_when_asked_then_runs_a_container_as_a_user(site: Site, user: str) -> None:
    (line,) = site.lab.checks("container", "--user", user, task="quickcheck")
    assert (line["outcome"], line["words"]) == ("passed", "podman ran a shell with programs of the node"), line


def test_check_cluster_when_asked_then_proves_podman(site: Site) -> None:
    checks = site.lab.checks("podman,containers")
    assert {one["outcome"] for one in checks} == {"passed"}, [one for one in checks if one["outcome"] != "passed"]
    assert len({one["check"] for one in checks}) >= len(("ids", "directories", "timer", "starts", "gpus", "memory"))


def test_images_when_nobody_has_used_them_for_long_then_go_and_others_stay(site: Site) -> None:
    site.srun("", BUILD)
    site.lab.on("n1", AGED)
    site.srun("", "podman run --rm lab:1 id -u")
    site.lab.on("n1", "systemctl start slurmfab-containers.service")
    assert site.srun("", NAMES) == ["localhost/lab:1", "localhost/lab:2"]
    site.lab.on("n1", f"{AGED}systemctl start slurmfab-containers.service")
    assert site.srun("", NAMES) == []


def test_users_when_one_comes_and_another_leaves_then_ids_follow_and_images_go(site: Site) -> None:
    site.lab.on("n1", "runuser -u bob -- mkdir -p /var/lib/podman-users/2002/overlay")
    for words in (("add-user", "dora", "--uid", "2003"), ("remove-user", "bob")):
        succeeded(site.lab.slurmfab(*words))
        succeeded(site.lab.slurmfab("plan"))  # it has nothing to do
    for host in ("ctl", "n1"):
        ids = site.lab.on(host, IDS).splitlines()
        assert "dora:131268608:65536" in ids
        assert not [line for line in ids if line.startswith("bob:")]
        assert site.lab.on(host, "stat -c '%U %a' /var/lib/podman-users/2003") == "dora 700"
    site.lab.deploy()
    site.lab.on("n1", "systemctl start slurmfab-containers.service")
    assert site.lab.on("n1", "ls /var/lib/podman-users") == "2001\n2003\n64030"


def test_a_node_when_an_update_has_broken_crun_then_its_reboot_ends_with_that(site: Site) -> None:
    reboot_with_a_broken_crun(site.lab, "a container by podman: ")


def test_containers_when_the_key_goes_then_is_taken_back_and_images_stay(site: Site) -> None:
    site.deploy("")
    for host in ("ctl", "n1"):
        assert site.lab.on(host, LEFT) == ""
    found = site.lab.on("n1", IDS).splitlines()
    assert {line.partition(":")[0] for line in found} >= {"ann", "carl"}
    assert not {"ann:131137536:65536", "dora:131268608:65536"} & set(found)
    assert site.lab.on("n1", "test -d /var/lib/podman-users/2001/overlay-images && echo there") == "there"
    assert json.dumps(site.srun("", "hostname")) == '["n1"]'
