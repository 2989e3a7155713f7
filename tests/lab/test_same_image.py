"""One image, from the cluster's own registry, in jobs with one of two GPUs by every way of running containers.

The cluster is configless and has a second controller. Stand-ins are the GPUs (device files), enroot, pyxis and
Apptainer (`container_standins`).
One lab goes through all of it, in this order.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import container_standins
import pytest
from lab_cluster import DeployedLab, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

PASSWORD = "not-in-any-dictionary"
HASH = "perl -e 'print crypt($ARGV[0], q($2y$05$) . q(abcdefghijklmnopqrstuu))' {}"
BASE = """\
configless: true
slurm_conf: {SlurmctldTimeout: 10, SchedulerParameters: bf_interval=2}
users: [{name: ann, uid: 3000}]
"""
"""Hosts get Slurm's files from a controller, and the tools of Slurm wait less for one that begins."""

KEYS = """\
packages: {{all: [busybox-static, {}]}}
containers: [podman, oci, apptainer, enroot]
registry: {{host: ctl, directory: /srv/images, anonymous_pull: true}}
"""
TOOL = "ctl:5000/tool:1"
BUILD = f"""\
set -e; cd $(mktemp -d); mkdir bin dev etc proc sys tmp; cp /bin/busybox bin
for name in sh dd grep cat; do ln -s busybox bin/$name; done
echo 'root:x:0:0::/:/bin/sh' >etc/passwd; echo 'of the registry' >etc/kind
tar -c . | podman import -q - {TOOL} >/dev/null
"""
SEND = f"podman login -u ann --password-stdin ctl:5000 && podman push -q {TOOL}"
FETCH = f"podman rmi -f {TOOL} >/dev/null && podman pull -q {TOOL} >/dev/null && podman logout ctl:5000"
UNPACK = f"""\
mkdir tree; podman export $(podman create {TOOL} sh) | tar -x -C tree; mksquashfs tree tool.sqsh -quiet -no-progress
sbundle {TOOL} bundle
"""
HOSTS = ("ctl", "n1", "n2")
LEFT = (
    "ls -d /usr/local/bin/s[bd]* /usr/local/lib/slurmfab/*oci* /etc/slurm/oci.conf /etc/slurm/plugstack.conf.d/slurm*"
    " /etc/enroot/*.d/slurmfab* /etc/containers/*.d/slurmfab* /etc/profile.d/slurmfab-a* /etc/slurmfab-podman.json"
    " /etc/docker/registry/slurmfab*/* /etc/systemd/system/*slurmfab-c* 2>/dev/null;"
    " ls /var/lib/slurmfab/owned 2>/dev/null | grep -vx -e log-rotation.json -e restarts.json -e slurmctld-user.json"
    " -e recovery.json;"
    " ss -Hltn 'sport = :5000 or sport = :5001'; :"
)
"""Lists what the keys have brought; a rollback leaves packages, and the IDs of users."""

AS_ANN = "cd /home/ann && runuser -u ann -- env -u XDG_RUNTIME_DIR "

WAYS = {
    "podman": ("", f"sdocker run {TOOL}"),
    "oci": ("--container=/home/ann/bundle", ""),
    "apptainer": ("", "apptainer exec --nv tool.sqsh"),
    "enroot": ("--container-image=/home/ann/tool.sqsh", ""),
}
"""By way, options of srun, and what is before a command of the image."""

GPUS = "cat /etc/kind; for one in /dev/nvidia[0-9]; do (: <$one) 2>&1 | grep -q 'not permitted' || echo $one; done"
"""Prints the GPUs that a program in the container may open; there is no driver behind the device files."""

EAT = "dd if=/dev/zero of=/dev/null bs={}M count=1 && echo eaten"


@dataclass
class Site:
    """A cluster of a node with two GPUs, whose user runs one image by every way."""

    lab: DeployedLab

    def job(self, options: str, script: str) -> str:
        """What a job of ann's on n1 prints, errors included, but what Podman says about this machine's cgroups."""
        printed = self.lab.on("n1", f"{AS_ANN} srun -Q -n1 {options} {script} 2>&1", check=False)
        return "\n".join(line for line in printed.splitlines() if "cgroups-v1" not in line)

    def script(self, text: str) -> str:
        """What a job of ann's on n1 prints, which runs a shell script."""
        return self.job("--mem=900", f"bash -ec {shlex.quote(text)}")

    def run(self, way: str, options: str, command: str) -> str:
        """What a command of the shell prints in a container of this way, in a job with these options."""
        of_srun, before = WAYS[way]
        return self.job(f"{options} {of_srun}", f"{before} /bin/sh -c {shlex.quote(command)}")


@pytest.fixture(scope="module", params=in_turn("same_image"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2, gpus=("n1:2",), shared=("/shared",)) as lab:
        beside = lab.inventory_path.parent
        made = (container_standins.enroot(beside), container_standins.pyxis(beside, request.param))
        debs = ", ".join(f"./{path.name}" for path in (*made, container_standins.apptainer(beside)))
        passwords = beside / "registry.htpasswd"
        passwords.write_text(f"ann:{lab.on('ctl', HASH.format(PASSWORD))}\n")
        passwords.chmod(0o600)
        text = lab.inventory_path.read_text()
        with_backup = "controllers: [ctl, n2]\nstate_directory: /shared/state"
        lab.inventory_path.write_text(text.replace("controllers: [ctl]", with_backup).replace("n[1-2]", "n1") + BASE)
        lab.deploy()
        with lab.inventory_path.open("a") as file:
            file.write(KEYS.format(debs))
        yield Site(lab)


def test_all_ways_and_the_registry_come_by_one_deployment_and_a_second_has_nothing_to_do(site: Site) -> None:
    site.lab.deploy()
    assert site.lab.deploy()["steps"] == []


def test_an_image_goes_to_the_registry_with_a_login_and_comes_back_with_and_without_one(site: Site) -> None:
    assert site.script(BUILD) == ""
    said = site.script(f"podman push -q {TOOL} || echo refused")
    assert said.endswith("refused"), said
    said = site.script(f"echo {PASSWORD} | ({SEND}) && {FETCH}")
    assert "logout" in said or "Removed login" in said, said
    said = site.script(f"podman rmi -f {TOOL}; podman pull -q {TOOL} >/dev/null; {UNPACK}")
    assert "/home/ann/bundle" in said, said


@pytest.mark.parametrize("way", WAYS)
def test_a_container_in_a_job_with_one_of_two_gpus_sees_one(site: Site, way: str) -> None:
    assert site.run(way, "--gres=gpu:1", GPUS).split("\n") == ["of the registry", "/dev/nvidia0"]


@pytest.mark.parametrize("way", WAYS)
def test_a_container_when_it_wants_more_than_the_memory_of_its_job_then_is_ended(site: Site, way: str) -> None:
    assert "eaten" in site.run(way, "--mem=200", EAT.format(20))
    said = site.run(way, "--mem=200", EAT.format(600))
    assert ("eaten" in said, "oom" in said.lower() or "out of memory" in said.lower()) == (False, True), said


def test_all_ways_pass_the_checks_and_quickcheck(site: Site) -> None:
    succeeded(site.lab.slurmfab("check-cluster", "--only", "containers,registry"))
    done = succeeded(site.lab.slurmfab("quickcheck", "--only", "container", "--user", "ann"))
    assert all(way in done.stdout for way in ("podman", "apptainer", "enroot")), done.stdout


def test_containers_run_while_the_second_controller_is_at_work(site: Site) -> None:
    site.lab.on("ctl", "systemctl stop slurmctld")
    site.lab.on("n2", "scontrol takeover")
    site.lab.until("n2", "scontrol ping | grep -c 'backup.*UP'", "1")
    found = {way: site.run(way, "--gres=gpu:1", GPUS).splitlines()[-1] for way in WAYS}
    assert found == dict.fromkeys(WAYS, "/dev/nvidia0")
    site.lab.on("ctl", "systemctl start slurmctld")
    site.lab.until("ctl", "scontrol ping | grep -c UP", "2")


def test_all_ways_and_the_registry_go_by_a_rollback_and_what_users_own_stays(site: Site) -> None:
    succeeded(site.lab.slurmfab("rollback"))
    for host in HOSTS:
        assert site.lab.on(host, LEFT) == ""
    assert site.lab.on("ctl", "ls /srv/images/docker/registry/v2/repositories") == "tool"
    assert site.lab.on("n1", "cat /home/ann/bundle/rootfs/etc/kind") == "of the registry"
    assert site.job("", "hostname") == "n1"
