"""A program of Open MPI in an image, on two nodes, by each way of running containers, on real Slurm of each suite.

The image is made of the distribution's packages. Apptainer is a stand-in, since neither suite has it. One lab per suite
goes through all of it, in this order.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import container_standins
import pytest
from lab_cluster import DeployedLab
from mpi_image import make_image, ring_of
from stock import Stock
from suites import SUITES

pytestmark = pytest.mark.lab

KEYS = """\
users: [{{name: ann, uid: 2001}}]
mpi: {{type: pmix, packages: openmpi}}
containers: [podman, oci, apptainer]
packages: {{all: [./{apptainer}]}}
"""
BUNDLE = "/home/ann/bundles/image-1"
AS_ANN = "cd /home/ann && runuser -u ann -- env HOME=/home/ann "
IMPORT = f"{AS_ANN} sh -c 'tar -C {BUNDLE}/rootfs -c . | sdocker import -q - ring:1 >/dev/null'"
RUN = "/usr/bin/python3 /ring.py"
WAYS = {
    "podman": f"sdocker run ring:1 {RUN}",
    "oci": f"--container={BUNDLE} {RUN}",
    "apptainer": f"apptainer exec {BUNDLE}/rootfs {RUN}",
}
STEPS = (
    "ps ax -o args | grep -c '^slurmstepd: .*[0-9]\\]'; ls -d /dev/shm/slurmfab* /var/spool/slurmd/oci* 2>/dev/null; :"
)


@dataclass
class Site:
    """A cluster of two nodes with the same homes."""

    lab: DeployedLab
    suite: str

    def srun(self, options: str, command: str) -> list[str]:
        """What a job from ann's login shell on both nodes prints, sorted, without what libraries say."""
        run = shlex.quote(f"timeout 90 srun -Q -N2 --mem=700 {options} {command} 2>&1")
        printed = self.lab.on("ctl", f"{AS_ANN} bash -lc {run}", check=False).splitlines()
        return sorted(line for line in printed if not any(word in line for word in ("hwloc", "mca_", "cgroups-v1")))


@pytest.fixture(scope="module", params=SUITES)
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2, shared=("/home",)) as lab:
        apptainer = container_standins.apptainer(lab.inventory_path.parent).name
        lab.inventory_path.write_text(lab.inventory_path.read_text() + KEYS.format(apptainer=apptainer))
        lab.deploy()
        make_image(lab, "n1")
        lab.on("n1", f"{AS_ANN} sbundle oci:/home/image:1 2>/dev/null")
        for node in ("n1", "n2"):
            lab.on(node, IMPORT)
        yield Site(lab, request.param)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_of_an_image_when_srun_starts_it_on_two_nodes_then_is_one_program_or_is_refused_at_once(
    site: Site, way: str
) -> None:
    found = site.srun("-n2", WAYS[way])
    if (site.suite, way) == ("bookworm", "oci"):
        assert "run an MPI program in a container by `srun sdocker run` or `srun apptainer exec`" in " ".join(found)
        assert site.srun("-n2 --mpi=none", f"--container={BUNDLE} /bin/cat /etc/kind") == ["of the image"] * 2
    else:
        # PMIx of Debian 12 complains of its lock in the stand-in for Apptainer, and works.
        complaint = "PMIX ERROR" if (site.suite, way) == ("bookworm", "apptainer") else "\0"
        assert [line for line in found if complaint not in line] == ring_of(2)
        more = site.srun("-n4 --overcommit", WAYS[way])
        assert [line for line in more if complaint not in line] == ring_of(4)


@pytest.mark.parametrize("way", WAYS)
def test_a_program_of_pmi_2_when_srun_starts_it_then_is_one_program_or_is_refused_at_once(site: Site, way: str) -> None:
    found = site.srun("-n2 --mpi=pmi2", WAYS[way].replace("ring.py", "pmi2.py"))
    if (site.suite, way) == ("bookworm", "oci"):
        assert "run an MPI program in a container by `srun sdocker run` or `srun apptainer exec`" in " ".join(found)
    else:
        assert found == ["rank 0 of 2 got word 1", "rank 1 of 2 got word 0"]


def test_nodes_when_programs_have_ended_then_have_no_traces_of_them(site: Site) -> None:
    for node in ("n1", "n2"):
        site.lab.until(node, STEPS, "0")


def test_quickcheck_when_the_cluster_has_mpi_and_containers_then_tries_each_way(site: Site) -> None:
    lines = [(one["outcome"], one["words"]) for one in site.lab.checks("mpi", "--user", "ann", task="quickcheck")]
    assert [outcome for outcome, _ in lines].count("failed") == 0, lines
    sent = [words for outcome, words in lines if outcome == "passed" and "they sent messages to each other" in words]
    assert len(sent) == (4 if site.suite == "trixie" else 3), lines
    assert site.suite == "trixie" or any("nothing of pmix" in words for _, words in lines), lines
