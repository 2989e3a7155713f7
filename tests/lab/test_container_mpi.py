"""A program of Open MPI in an image, on two nodes, by each way of running containers, on real Slurm of each suite.

The image is made of the distribution's packages. Apptainer is a stand-in, since neither suite has it. One lab per suite
goes through all of it, in this order.
"""

from __future__ import annotations

import itertools
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import container_standins
import pytest
from lab_cluster import DeployedLab
from mpi_image import make_image, ring_of
from stock import Stock, part_in_turn
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
AROUND = {
    "private_tmp": "private_tmp: true\n",
    "scratch": "scratch: {size: 1G, tmpdir: true}\n",
    "configless": "configless: true\n",
}
ALL_AROUND = [part for size in (1, 2, 3) for part in itertools.combinations(AROUND, size)]
"""What is around MPI programs beside containers, in each combination."""

LIBRARY = "{ apt-get -qq update && apt-get -qq install --no-install-recommends libpmi2-0; } >/tmp/pmi2.log 2>&1"
OWN_PROLOG = "slurm_conf: {TaskProlog: /home/site-prolog}\n"
STEPS = (
    "ps ax -o args | grep -c '^slurmstepd: .*[0-9]\\]'; ls -d /dev/shm/slurmfab* /var/spool/slurmd/oci* 2>/dev/null; :"
)


@dataclass
class Site:
    """A cluster of two nodes with the same homes."""

    lab: DeployedLab
    suite: str
    text: str  # the cluster file's

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
        lab.on("n1", "cp /root/ring.py /root/pmi2.py /home")
        lab.on("n2", LIBRARY)
        lab.on("n1", f"{AS_ANN} sbundle oci:/home/image:1 2>/dev/null")
        for node in ("n1", "n2"):
            lab.on(node, IMPORT)
        yield Site(lab, request.param, lab.inventory_path.read_text())


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


@pytest.mark.parametrize("around", part_in_turn(ALL_AROUND, 4), ids="+".join)
def test_programs_of_each_mpi_when_jobs_have_other_surroundings_then_are_one_program(
    site: Site, around: tuple[str, ...]
) -> None:
    site.lab.inventory_path.write_text(site.text + "".join(AROUND[one] for one in around))
    site.lab.deploy()
    for way, command in {"": "/usr/bin/python3 /home/ring.py", **WAYS}.items():
        if (site.suite, way) == ("bookworm", "oci"):
            continue
        found = [line for line in site.srun("-n2", command) if "PMIX ERROR" not in line or not way]
        assert found == (ring_of(2) if way else [line.replace("of the image", "False") for line in ring_of(2)]), way
        found = site.srun("-n2 --mpi=pmi2", command.replace("ring.py", "pmi2.py"))
        assert found == ["rank 0 of 2 got word 1", "rank 1 of 2 got word 0"], way
    assert {one["check"]: one["outcome"] for one in site.lab.checks("mpi")}["mpi_program_runs"] == "passed"


def test_a_program_when_a_taskprolog_of_the_site_leaves_pmix_s_variable_out_then_the_check_says_what_to_print(
    site: Site,
) -> None:
    site.lab.on("ctl", "printf '#!/bin/sh\n' >/home/site-prolog && chmod 755 /home/site-prolog")
    site.lab.inventory_path.write_text(site.text + AROUND["private_tmp"] + OWN_PROLOG)
    site.lab.deploy()
    done = site.lab.slurmfab("check-cluster", "--only", "mpi")
    if site.suite == "bookworm":  # PMIx 4 has no such files
        assert done.returncode == 0, done.stdout
        return
    assert done.returncode == 1, done.stdout
    said = "let /home/site-prolog (TaskProlog) print: export PMIX_MCA_gds=hash"
    assert said in " ".join(done.stdout.split()), done.stdout
    site.lab.on("ctl", "echo 'echo export PMIX_MCA_gds=hash' >>/home/site-prolog")
    done = site.lab.slurmfab("check-cluster", "--only", "mpi")
    assert done.returncode == 0, done.stdout


def test_a_check_when_programs_are_started_by_pmi_2_then_has_two_tasks_meet_by_it(site: Site) -> None:
    text = site.text.replace("{type: pmix, packages: openmpi}", "pmi2") + AROUND["private_tmp"]
    site.lab.inventory_path.write_text(text)
    site.lab.deploy()
    for host in ("n1", "n2"):
        site.lab.on(host, LIBRARY)
    (checked,) = [one for one in site.lab.checks("mpi") if one["check"] == "mpi_program_runs"]
    assert checked["outcome"] == "passed", checked
    tried = site.lab.checks("mpi", "--user", "ann", task="quickcheck")
    assert "failed" not in {one["outcome"] for one in tried}, tried
    assert "and they met" in " ".join(one["words"] for one in tried), tried
