"""enroot with pyxis, and Apptainer, from packages of the site's own, which are stand-ins.

`container_standins` makes them. One lab per suite goes through all of it, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import container_standins
import pytest
from lab_cluster import ExtendedLab, succeeded
from stock import Stock, in_turn

from slurmfab.commands.checks.container_ways import make_script

pytestmark = pytest.mark.lab

OWN = "users: [{name: ann, uid: 3000}]\nconfigless: true\n"
KEYS = """\
packages: {{all: [{}]}}
containers: {{use: [enroot, apptainer], enroot: {{hooks: [slurm-pmi]}}}}
"""
IMAGE = "/srv/image/image.sqsh"
AS_ANN = "cd /tmp && runuser -u ann -- env -u XDG_RUNTIME_DIR "
DAEMONS = "systemctl show -P MainPID slurmd"
DROP_INS = "ls /etc/slurm/plugstack.conf.d"
PLUGIN = "/usr/lib/*/slurm/spank_pyxis.so"
LEFT = (
    "ls /etc/slurm/plugstack.conf.d /etc/tmpfiles.d | grep slurmfab; ls -d /etc/enroot/*.d /etc/profile.d/slurmfab*"
    " /usr/share/pyxis 2>/dev/null;"
    " ls /var/lib/slurmfab/owned 2>/dev/null | grep -vx -e log-rotation.json -e slurmctld-user.json -e restarts.json"
    " -e recovery.json; :"
)


@dataclass
class Site(ExtendedLab):
    """A cluster of a node with two GPUs, and its file with and without the keys."""

    keys: str
    suite: str

    def refused(self) -> str:
        """What a deployment that fails says."""
        done = self.lab.slurmfab("deploy")
        assert done.returncode != 0, done.stdout
        return " ".join((done.stdout + done.stderr).split())


@pytest.fixture(scope="module", params=in_turn("site_containers"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=1, gpus=("n1:2",)) as lab:
        beside = lab.inventory_path.parent
        made = (container_standins.enroot(beside), container_standins.pyxis(beside, request.param))
        paths = ", ".join(f"./{path.name}" for path in (*made, container_standins.apptainer(beside)))
        yield Site(lab, lab.inventory_path.read_text() + OWN, KEYS.format(paths), request.param)


def test_containers_come_while_a_job_runs_and_pass_all_checks(site: Site) -> None:
    site.lab.inventory_path.write_text(site.text)
    site.lab.deploy()
    site.lab.on("ctl", f"{AS_ANN} sbatch -Q -J kept -n1 --mem=50 -o /dev/null --wrap 'sleep 600'")
    site.lab.until("ctl", "squeue -h -n kept -o %T", "RUNNING")
    before = site.lab.on("n1", DAEMONS)
    site.deploy(site.keys)
    assert site.lab.on("n1", DAEMONS) == before
    done = site.lab.slurmfab("check-cluster", "--json", "-", "--only", "containers")
    found = {one["check"]: one["outcome"] for one in json.loads(done.stdout)["checks"]}
    assert {outcome for name, outcome in found.items() if "container" in name} == {"passed"}, done.stdout
    assert "containers_have_the_gpus_of_their_job" in found
    tried = json.loads(site.lab.slurmfab("quickcheck", "--json", "-", "--only", "container").stdout)["checks"]
    said = " ".join(one["words"] for one in tried if one["outcome"] == "passed")
    for way in ("enroot", "apptainer"):
        assert f"{way} ran a shell with programs of the node" in said
    assert site.lab.on("ctl", "squeue -h -n kept -o %T; scancel -n kept") == "RUNNING"


def test_a_user_s_container_is_the_user_s_own_on_the_node_s_disk(site: Site) -> None:
    site.lab.on("n1", make_script("/srv/image"))
    run = f"{AS_ANN} srun --gres=gpu:1 --container-image={IMAGE} "
    assert site.lab.on("ctl", f"{run} sh -c 'id -u; ls /etc/slurmfab-image'").split() == ["3000", "/etc/slurmfab-image"]
    assert site.lab.on("n1", f"{run} id -u") == "3000"
    shown = site.lab.on("n1", "stat -c '%u %a' /run/pyxis /run/pyxis/3000 /var/lib/enroot-users/3000").splitlines()
    assert shown == ["0 755", "3000 700", "3000 700"]
    assert "SLURM_HOOK=50-slurm-pmi" in site.lab.on("n1", "cat /var/lib/enroot-users/3000/run/environment")
    assert site.lab.on("ctl", "runuser -l ann -c 'echo $APPTAINER_CACHEDIR'") == "/var/lib/apptainer-users/3000"
    assert site.lab.on("n1", f"{AS_ANN} apptainer exec {IMAGE} id -u") == "3000"


def test_pyxis_that_is_loaded_twice_or_for_another_slurm_is_named_before_slurm_reads_it(site: Site) -> None:
    site.lab.on("ctl", "ln -s /usr/share/pyxis/pyxis.conf /etc/slurm/plugstack.conf.d/pyxis.conf")
    assert "plugstack.conf.d/pyxis.conf loads spank_pyxis.so already" in site.refused()
    done = site.lab.slurmfab("check-cluster", "--json", "-", "--hosts", "ctl", "--only", "containers")
    assert "Slurm loads pyxis twice" in done.stdout
    site.lab.on("ctl", "rm /etc/slurm/plugstack.conf.d/pyxis.conf")
    site.lab.on("n1", "rm /etc/slurm/plugstack.conf.d/slurmfab-pyxis.conf")
    site.lab.on("n1", f"cp {PLUGIN} /root/right.so; printf 'not a plugin' >$(ls {PLUGIN})")
    said = site.refused()
    assert "Slurm on this host cannot load spank_pyxis.so" in said
    assert site.lab.on("n1", f"{DROP_INS}; {AS_ANN} srun -n1 --mem=50 echo runs") == "runs"
    site.lab.on("n1", f"cp /root/right.so $(ls {PLUGIN})")
    site.deploy(site.keys)


def test_a_node_when_an_update_has_broken_a_runtime_then_its_reboot_ends_with_that(site: Site) -> None:
    reboot = ("reboot", "n1", "--reason", "new kernel", "--timeout", "3")
    broken = "#!/bin/sh\\necho libfuse3.so.3: no such library >&2; exit 1\\n"
    site.lab.on("n1", f"cd /usr/bin; mv apptainer whole; printf '{broken}' >apptainer; chmod 755 apptainer")
    done = site.lab.slurmfab(*reboot)
    said = " ".join((done.stdout + done.stderr).split())
    assert (done.returncode, "a container by apptainer: libfuse3.so.3: no such library" in said) == (1, True), said
    site.lab.on("n1", "cd /usr/bin; mv whole apptainer")
    succeeded(site.lab.slurmfab(*reboot))


def test_a_rollback_of_their_removal_leaves_a_slurm_that_runs_jobs(site: Site) -> None:
    site.lab.inventory_path.write_text(site.text)
    site.lab.deploy()
    for host in ("ctl", "n1"):
        assert site.lab.on(host, LEFT) == ""
    assert site.lab.on("n1", "ls -d /var/lib/enroot-users/3000") == "/var/lib/enroot-users/3000"
    succeeded(site.lab.slurmfab("rollback"))
    assert site.lab.on("n1", DROP_INS) == "slurmfab-pyxis.conf"
    assert site.lab.on("n1", f"{AS_ANN} srun -n1 --mem=50 echo runs") == "runs"
