"""What people need around Slurm, by configs/example-around-slurm.yaml: brought, proved, used, and taken back.

The first deployment brings all of it; the one without its keys takes it back. The controller is the file server, too,
with GlusterFS. One lab goes through all of it, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from lab_cluster import DeployedLab, eventually
from lab_user import log_in, new_key
from stock import Stock, in_turn

from slurmfab.commands.checks.mpi_program import RING_IN_LIBRARY

pytestmark = pytest.mark.lab

EXAMPLE = Path(__file__).parents[2] / "configs" / "example-around-slurm.yaml"
HERE = {"mn01": "ctl", "login01": "n3", "cn[01-08]": "n[1-2]"}
"""The lab's hosts, by those of the example."""

OF_SLURM = ("cluster", "ssh", "addresses", "controllers", "login", "nodes", "partitions", "users", "slurm")
"""Keys that stay; all others are of things around Slurm."""

HOSTS = ("ctl", "n1", "n2", "n3")
FILE_SERVER = """\
apt-get install -y -qq --no-install-recommends glusterfs-server >/dev/null
mkdir -p /srv/brick/home /srv/brick/software/modules/tool
printf '#%%Module\\nsetenv TOOL /software/tool\\n' > /srv/brick/software/modules/tool/1.0
systemctl start glusterd
gluster --mode=script volume create export {0}:/srv/brick force && gluster volume start export
"""
PROVED = {
    "mounts_are_there",
    "files_are_shared",
    "homes_are_on_their_mount",
    "scratch_has_its_place",
    "node_is_closed_without_a_job",
    "users_need_no_keys",
    "users_are_greeted",
    "windows_reach_users",
    "jobs_forward_windows",
    "module_is_a_command",
    "directories_of_modules_are_there",
    "srun_can_start_mpi",
    "mpi_is_there",
    "packages_of_the_site_are_installed",
    "files_of_the_site_are_as_the_cluster_file_says",
}
BATCH = """\
#!/bin/bash -l
module load tool
echo "tool is $TOOL, data in $SITE_DATA, $OMP_PROC_BIND, $SCRATCH"
srun python3 ring.py
"""
TAKES_MEMORY = "print(len(b'x' * (400 << 20)))"
SCREEN = """\
import socket
with socket.create_server(("127.0.0.1", 6010)) as screen:
    connection, _ = screen.accept()
    connection.sendall(connection.recv(6) + b" is open")
"""
WINDOW = """\
import os, socket
host, _, number = os.environ["DISPLAY"].rpartition(":")
with socket.create_connection((host or "localhost", 6000 + int(float(number)))) as screen:
    screen.sendall(b"window")
    print(screen.makefile().read())
"""
X11 = (
    "cd && python3 screen.py & cd; touch .Xauthority; xauth -q add localhost:10 . 00112233445566778899aabbccddeeff; "
    "DISPLAY=localhost:10.0 srun --x11 -n1 --mem=100 python3 window.py"
)
LEFT = """\
findmnt -n -t fuse.glusterfs
ls -d /scratch /etc/profile.d/site.sh /etc/security/limits.d/90-site.conf 2>/dev/null
ls /var/lib/slurmfab/owned 2>/dev/null |
    grep -vx -e log-rotation.json -e recovery.json -e restarts.json -e slurmctld-user.json
grep -rl slurmfab /etc/pam.d /etc/security /etc/profile.d /etc/systemd/system /etc/ssh/sshd_config.d 2>/dev/null |
    grep -v -e /slurmctld.service.d/slurmfab-user.conf -e /slurmfab-recovery -e '[.]service[.]d/10-slurmfab[.]conf$'
ls -d /etc/motd.d/slurmfab /usr/share/doc/*-users 2>/dev/null
dpkg-query -W -f '${db:Status-Status} ${Package}\\n' lmod openmpi-bin xauth tree nano libpam-slurm-adopt 2>/dev/null |
    grep ^installed
true
"""


@dataclass
class Site:
    """A cluster, its file with and without the things around Slurm, and the key of the user ann."""

    lab: DeployedLab
    whole: dict[str, Any]
    key: Path

    def deploy(self, keys: dict[str, Any]) -> None:
        """Deploy with these keys, after which another deployment has nothing to do."""
        self.lab.inventory_path.write_text(json.dumps(keys, indent=1))
        self.lab.deploy()
        assert self.lab.deploy()["steps"] == []

    def passed(self, command: str, *words: str) -> dict[str, str]:
        """What has passed in `check-cluster` or `quickcheck`, with quickcheck's words; nothing has failed."""
        done = self.lab.slurmfab(command, "--json", "-", *words)
        found = json.loads(done.stdout)["checks"]
        assert [one for one in found if one["outcome"] == "failed"] == []
        return {one["check"]: one.get("words", "") for one in found if one["outcome"] == "passed"}

    def ann(self, command: str, host: str = "n3") -> tuple[int, str]:
        """What a login of ann's prints, with its exit code."""
        return log_in(self.lab, "ann", self.key, host, command)

    @property
    def guides(self) -> str:
        """The directory of the guide for users."""
        return f"/usr/share/doc/{self.whole['cluster']}-users"

    def put(self, name: str, text: str) -> None:
        """Put a file into ann's home."""
        self.lab.on("n3", f"cat > /home/ann/{name} <<'END'\n{text}\nEND\nchown ann: /home/ann/{name}")


def whole_file(lab: DeployedLab, public_key: str) -> dict[str, Any]:
    """The example with the lab's hosts, its file server, and a key of ann's."""
    text = EXAMPLE.read_text()
    for theirs, ours in HERE.items():
        text = text.replace(theirs, ours)
    given = yaml.safe_load(lab.inventory_path.read_text())
    found = {
        **yaml.safe_load(text),
        **{key: given[key] for key in ("cluster", "ssh", "addresses", "slurm") if key in given},
    }
    found["users"][0]["keys"] = [public_key]
    found["scratch"]["size"] = "2G"
    for mount in found["mounts"]:
        mount["source"] = mount["source"].replace("nas.example.org:", f"{lab.lab.host('ctl').address}:")
        mount["type"] = "glusterfs"
        mount["options"] = [option for option in mount["options"].split(",") if option == "ro"]
    return found


@pytest.fixture(scope="module", params=in_turn("around_slurm"))
def site(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Hosts that were never deployed to; only the file server is at work."""
    key = new_key(tmp_path_factory.mktemp("ann"))
    with stock.installed(request.param, nodes=3) as lab:
        lab.on("ctl", FILE_SERVER.format(lab.lab.host("ctl").address))
        yield Site(lab, whole_file(lab, key.with_suffix(".pub").read_text().strip()), key)


def test_a_first_deployment_brings_all_and_the_checks_prove_it(site: Site) -> None:
    site.deploy(site.whole)
    assert PROVED - site.passed("check-cluster").keys() == set()
    found = site.passed("quickcheck", "--user", "ann")
    assert {"allocation", "environment", "nodes", "partitions", "modules", "mpi", "scratch"} <= found.keys()
    assert "tool/1.0" in found["modules"]
    assert "sent messages to each other (Open MPI)" in found["mpi"]


def test_a_user_logs_in_and_gets_to_a_node_with_a_job_alone_and_within_its_limits(site: Site) -> None:
    greeting = log_in(site.lab, "ann", site.key, "n3", typed="exit\n")[1]
    assert "batch*" in greeting, greeting
    assert "Help: https://wiki.example.org/lab" in greeting
    assert f"{site.guides}/guide.md" in greeting
    assert site.ann("bash -lc 'module load tool && echo $TOOL'") == (0, "/software/tool\n")
    for said in (site.ann("ssh -o BatchMode=yes n1 id -un")[1], site.ann("id -un", "n1")[1]):
        assert "ann" not in said.split(), said
    job = site.ann("sbatch --parsable -w n1 --mem=100 -o /dev/null --wrap 'sleep 600'")[1].strip()
    site.lab.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    code, shown = site.ann("ssh -o BatchMode=yes n1 cat /proc/self/cgroup")
    assert (code, f"/job_{job}/" in shown) == (0, True), shown
    site.put("memory.py", TAKES_MEMORY)
    shown = site.ann("ssh -o BatchMode=yes n1 'python3 memory.py; echo code $?'")[1]
    assert "code 137" in shown.splitlines(), shown
    site.ann(f"scancel {job}")
    eventually(lambda: site.ann("id -un", "n1")[0] != 0, "ann is still let in")
    assert site.lab.on("n3", "systemctl show --property=TasksMax user-$(id -u ann).slice") == "TasksMax=512"


def test_a_job_from_home_loads_a_module_and_sends_messages_by_mpi_and_its_output_is_at_home(site: Site) -> None:
    site.put("ring.py", RING_IN_LIBRARY)
    site.put("job", BATCH)
    job = site.ann("sbatch --parsable -N2 --ntasks-per-node=1 --mem=400 -o job.out job")[1].strip()
    site.lab.until("n3", f"squeue -h -j {job} | wc -l", "0")
    shown = site.ann("cat job.out")[1]
    first, *ring = shown.splitlines()
    assert first == f"tool is /software/tool, data in /software/data, close, /scratch/{job}", shown
    assert sorted(ring) == ["ring=0/2 got=101", "ring=1/2 got=100"], shown


def test_the_first_job_of_the_guide_for_users_runs_as_the_guide_says(site: Site) -> None:
    guide = site.ann(f"cat {site.guides}/guide.md")[1]
    assert {"## Partitions", "## Software"} <= set(guide.splitlines()), guide
    site.put("first.sh", guide.partition("```bash\n")[2].partition("```\n")[0])
    said = site.ann("sbatch first.sh")[1]
    assert said.startswith("Submitted batch job "), said
    shown = f"cat /home/ann/first-{said.split()[-1]}.out"
    eventually(lambda: site.lab.on("n3", shown, check=False) in ("n1", "n2"), f"{shown}: n1 or n2", 120)
    assert site.ann(f"grep -c '^<!doctype html>' {site.guides}/guide.html {site.guides}/job.html")[0] == 0


def test_a_program_on_a_node_opens_a_window_on_the_screen_of_its_user(site: Site) -> None:
    site.put("screen.py", SCREEN)
    site.put("window.py", WINDOW)
    assert site.ann(X11) == (0, "window is open\n")


def test_without_the_keys_all_is_gone_but_the_files_of_users(site: Site) -> None:
    site.deploy({key: site.whole[key] for key in OF_SLURM if key in site.whole})
    for host in HOSTS:
        assert site.lab.on(host, LEFT) == "", host
    assert site.ann("id -un", "n1") == (0, "ann\n")
    assert "job.out" in site.lab.on("ctl", "ls /srv/brick/home/ann").split()
    assert site.passed("check-cluster")
