"""A program of Open MPI in an image, on two nodes, by each way of running containers, on real Slurm of each suite.

The image is made of the distribution's packages. Apptainer is a stand-in, since neither suite has it. One lab per suite
goes through all of it, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import container_standins
import pytest
from lab_cluster import DeployedLab
from stock import Stock
from suites import SUITES

pytestmark = pytest.mark.lab

KEYS = """\
users: [{{name: ann, uid: 2001}}]
mpi: {{type: pmix, packages: openmpi}}
containers: [podman, oci, apptainer]
packages: {{all: [./{apptainer}]}}
"""
IMAGE = """\
set -e; umask 022; root=$(mktemp -d); chmod 755 $root; cd $root
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 tmp proc sys dev home etc root
chmod 1777 tmp; for one in bin sbin lib lib64; do ln -s usr/$one $one; done
packages=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances openmpi-bin python3 dash coreutils | grep '^[a-z]' | sort -u)
dpkg-query -L $packages 2>/dev/null | grep -v -e ^/usr/share/doc -e ^/usr/share/man -e ^/usr/share/locale | sort -u |
    while read -r path; do if [ -L "$path" ] || [ -f "$path" ]; then echo "$path"; fi; done >/root/list
tar -C / -c -T /root/list 2>/dev/null | tar -x --keep-directory-symlink
echo root:x:0:0::/root:/bin/sh >etc/passwd; echo of the image >etc/kind; cp /root/ring.py ring.py
umoci init --layout /home/image; umoci new --image /home/image:1; umoci insert --image /home/image:1 $root /
chmod -R a+rX /home/image; rm -rf $root
"""
"""Makes an image of Open MPI and Python, with all that these need, of the files of their packages."""

RING = r"""
import ctypes, os
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
found = (ctypes.c_char.in_dll(mpi, "ompi_mpi_" + name) for name in ("comm_world", "int"))
world, number = (ctypes.c_void_p(ctypes.addressof(one)) for one in found)
mpi.MPI_Init(None, None)
rank, size = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
most = 1 << 20
sent, got = (ctypes.c_int * most)(*[rank.value] * most), (ctypes.c_int * most)()
to, source = ((rank.value + step) % size.value for step in (1, -1))
mpi.MPI_Sendrecv(sent, most, number, to, 0, got, most, number, source, 0, world, None)
kind = os.path.exists("/etc/kind") and open("/etc/kind").read().strip()
print("rank %d of %d got %d %d, %s" % (rank.value, size.value, got[0], got[most - 1], kind), flush=True)
mpi.MPI_Finalize()
"""
"""Each process sends four MiB with its number to the next one, and prints what it got, and where it runs."""

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
        """What a job of ann's on both nodes prints, sorted, without what libraries say about their hosts."""
        run = f"{AS_ANN} timeout 90 srun -Q -N2 --mem=700 {options} {command} 2>&1"
        printed = self.lab.on("ctl", run, check=False).splitlines()
        return sorted(line for line in printed if not any(word in line for word in ("hwloc", "mca_", "cgroups-v1")))


@pytest.fixture(scope="module", params=SUITES)
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2, shared=("/home",)) as lab:
        apptainer = container_standins.apptainer(lab.inventory_path.parent).name
        lab.inventory_path.write_text(lab.inventory_path.read_text() + KEYS.format(apptainer=apptainer))
        lab.deploy()
        lab.on("n1", f"cat >/root/ring.py <<'END'\n{RING}END\n{IMAGE}")
        lab.on("n1", f"{AS_ANN} sbundle oci:/home/image:1 2>/dev/null")
        for node in ("n1", "n2"):
            lab.on(node, IMPORT)
        yield Site(lab, request.param)


def rings(size: int) -> list[str]:
    return [f"rank {rank} of {size} got {(rank - 1) % size} {(rank - 1) % size}, of the image" for rank in range(size)]


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
        assert [line for line in found if complaint not in line] == rings(2)
        more = site.srun("-n4 --overcommit", WAYS[way])
        assert [line for line in more if complaint not in line] == rings(4)


def test_nodes_when_programs_have_ended_then_have_no_traces_of_them(site: Site) -> None:
    for node in ("n1", "n2"):
        site.lab.until(node, STEPS, "0")


def test_quickcheck_when_the_cluster_has_mpi_and_containers_then_tries_each_way(site: Site) -> None:
    done = site.lab.slurmfab("quickcheck", "--only", "mpi", "--user", "ann", "--json", "-")
    lines = [(one["outcome"], one["words"]) for one in json.loads(done.stdout)["checks"]]
    assert [outcome for outcome, _ in lines].count("failed") == 0, lines
    sent = [words for outcome, words in lines if outcome == "passed" and "they sent messages to each other" in words]
    assert len(sent) == (4 if site.suite == "trixie" else 3), lines
    assert site.suite == "trixie" or any("nothing of PMIx" in words for _, words in lines), lines
