"""An image with programs of Open MPI and PMI-2, made on a lab host of the files of its distribution's packages."""

from __future__ import annotations

from lab_cluster import DeployedLab

IMAGE = """\
set -e; { apt-get -qq update && apt-get -qq install --no-install-recommends libpmi2-0; } >/tmp/pmi2.log 2>&1
pmi2=$(dpkg-query -W -f '${Package} ' 'libpmi2-0*')  # libpmi2-0t64 from Debian 13 on
 umask 022; root=$(mktemp -d); chmod 755 $root; cd $root
mkdir -p usr/bin usr/sbin usr/lib usr/lib64 tmp proc sys dev home etc root
chmod 1777 tmp; for one in bin sbin lib lib64; do ln -s usr/$one $one; done
packages=$(apt-cache depends --recurse --installed --no-recommends --no-suggests --no-conflicts --no-breaks \
    --no-replaces --no-enhances openmpi-bin $pmi2 python3 dash coreutils | grep '^[a-z]' | sort -u)
dpkg-query -L $packages 2>/dev/null | grep -v -e ^/usr/share/doc -e ^/usr/share/man -e ^/usr/share/locale | sort -u |
    while read -r path; do if [ -L "$path" ] || [ -f "$path" ]; then echo "$path"; fi; done >/root/list
tar -C / -c -T /root/list 2>/dev/null | tar -x --keep-directory-symlink
echo root:x:0:0::/root:/bin/sh >etc/passwd; echo of the image >etc/kind; cp /root/ring.py /root/pmi2.py .
umoci init --layout /home/image; umoci new --image /home/image:1; umoci insert --image /home/image:1 $root /
chmod -R a+rX /home/image; rm -rf $root
"""
"""Makes an image of Open MPI, PMI-2 and Python, with all that these need, of the files of their packages."""

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

PMI2 = """
import ctypes
pmi = ctypes.CDLL("libpmi2.so.0")
spawned, size, rank, number, length = numbers = [ctypes.c_int() for _ in range(5)]
pmi.PMI2_Init(*map(ctypes.byref, numbers[:4]))
pmi.PMI2_KVS_Put(b"of %d" % rank.value, b"word %d" % rank.value)
pmi.PMI2_KVS_Fence()
got = ctypes.create_string_buffer(64)
pmi.PMI2_KVS_Get(None, -1, b"of %d" % ((rank.value - 1) % size.value), got, 64, ctypes.byref(length))
print("rank %d of %d got %s" % (rank.value, size.value, got.value.decode()), flush=True)
pmi.PMI2_Finalize()
"""
"""Each process gives a word to Slurm's server of PMI-2, and prints that of the one before it."""


def make_image(lab: DeployedLab, host: str) -> None:
    """Make /home/image, an image of OCI with the tag 1 and the programs /ring.py and /pmi2.py, readable to all."""
    lab.on(host, f"cat >/root/ring.py <<'END'\n{RING}END\ncat >/root/pmi2.py <<'END'\n{PMI2}END\n{IMAGE}")


def ring_of(size: int) -> list[str]:
    """What the program prints, sorted, if its processes are one program of this size inside of the image."""
    return [f"rank {rank} of {size} got {(rank - 1) % size} {(rank - 1) % size}, of the image" for rank in range(size)]
