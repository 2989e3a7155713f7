"""A week of ann's, a user, on a cluster with most of what users meet, and the end of all of it, with her files kept.

One lab goes through it, day by day. n3 is where users log in, and has the files of /data, the hub and the directory.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import container_standins
import directory_server
import pytest
from lab_cluster import DeployedLab, eventually, succeeded
from lab_user import words_of
from mpi_image import make_image, ring_of
from stock import Stock, in_turn

from slurmfab import lab
from slurmfab.commands.quickcheck.jupyter import CELL, RUN

pytestmark = pytest.mark.lab

PASSWORD = "not-in-any-dictionary"
HASH = f"perl -e 'print crypt(q({PASSWORD}), q($2y$05$) . q(abcdefghijklmnopqrstuu))'"
KEYS = """\
login: [n3]
database: ctl
accounts: [{{name: physics, from_groups: phys, MaxJobs: 1}}]
jupyter: n3
mpi: {{type: pmix, packages: openmpi}}
containers: [podman, oci, apptainer]
registry: {{host: ctl, directory: /srv/images}}
scratch: {{size: 1G, tmpdir: true}}
user_tools: true
packages: {{all: [./{apptainer}]}}
mounts: [{{path: /data, source: "root@{server}:/srv/brick", type: sshfs, options: [{options}]}}]
"""
OPTIONS = "allow_other, IdentityFile=/home/root-key, StrictHostKeyChecking=accept-new"
SERVES = (
    "mkdir -p /root/.ssh; install -d -m 1777 /srv/brick; ssh-keygen -q -t ed25519 -N '' -f /home/root-key; "
    "cat /home/root-key.pub >>/root/.ssh/authorized_keys"
)
SUBORDINATE = "for one in /etc/subuid /etc/subgid; do echo ann:2000000:65536 >>$one; done"
"""What a site with a directory has to bring for Podman without root: LDAP has no place for it."""

ANSWERS = {"partition": "main", "time": "10", "cpus": "1", "memory": "400M"}
RUNS_CELL = f"python3 -E -s -c {shlex.quote(RUN)}"
RING = "/usr/bin/python3 /ring.py"
PULL = "sdocker pull -q ctl:5000/ring:1 && sdocker tag ctl:5000/ring:1 ring:1"
KEEPS = "mkdir -p ~/.config/containers && skopeo login --authfile ~/.config/containers/auth.json"
"""How a login reaches all nodes, as the guide says it."""

OF_APPTAINER = "apptainer registry login --username ann docker://ctl:5000"
BUNDLE = "bundles/image-1"
WAYS = {
    "podman": f"sdocker run ring:1 {RING}",
    "oci": f"--container=/home/ann/{BUNDLE} {RING}",
    "apptainer": f"apptainer exec ring.sif {RING}",
}
SORTS = """\
#!/bin/bash
#SBATCH --partition=main --time=02:00:00 --mem=200
cd "$SCRATCH" && head -c 300M /dev/urandom | split -b 1M - part.
cat part.* | sha256sum | cut -c1-8 >~/sorted-$SLURM_JOB_ID
echo "$SCRATCH $TMPDIR" >>~/sorted-$SLURM_JOB_ID
"""
"""A script that needs its node's own disk, and leaves a line in ann's home."""

BAD = "#!/bin/bash\n#SBATCH --partition=mian --time=2h\nsrun ./simulate\n"
MOST_MILLISECONDS = 5000
STATE = "squeue -h -j {} -o '%T %r'"
HAS_SAVED = (
    "cd $(scontrol show config | awk '$1 == \"StateSaveLocation\" {{print $3}}') && "
    "grep -aq '{}' {} && echo yes || echo no"
)
"""Whether a word is in a file of slurmctld's state, which follows some seconds after what it tells."""

LEFT = (
    "ls -d /usr/local/lib/slurmfab/* /etc/slurm/oci.conf /etc/containers/certs.d/ctl* /etc/docker/registry/slurmfab* "
    "/var/lib/slurmfab/owned/*.json 2>/dev/null | grep -v slurmdbd-user; findmnt -n /data; :"
)


@dataclass
class Week:
    """A cluster of two nodes and a login host with the same homes, and its file without what users meet."""

    lab: DeployedLab
    suite: str
    bare: str
    before: dict[str, set[str]]  # by host, what a cluster without what users meet has of these paths

    def ann(self, script: str, host: str = "n3", *, check: bool = True) -> str:
        """What a script prints that ann runs where she logs in."""
        return self.lab.on(host, f"runuser -l ann -c {shlex.quote(script)} 2>&1", check=check)

    def ring(self, way: str) -> list[str]:
        """What ann's MPI program prints on two nodes, without what libraries say about their hosts."""
        run = f"timeout 120 srun -Q -N2 -n2 --mem=700 {way}"
        noise = ("hwloc", "mca_", "cgroups-v1", "PMIX ERROR")
        return sorted(line for line in self.ann(run, check=False).splitlines() if not any(one in line for one in noise))

    def said(self, *words: str) -> str:
        """What a task prints."""
        return words_of(self.lab.slurmfab(*words))

    def failures(self) -> dict[str, str]:
        """The causes of failed checks that follow from no other one."""
        told = json.loads(self.lab.slurmfab("check-cluster", "--json", "-").stdout)["checks"]
        return {
            f"{one['group']}.{one['check']}/{one['host']}": one["cause"]
            for one in told
            if one["outcome"] == "failed" and not one.get("because")
        }


@pytest.fixture(scope="module", params=in_turn("week_of_a_user"))
def week(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Week]:
    with stock.copy(request.param, database=True, nodes=3, shared=("/home",)) as made:
        beside = made.inventory_path.parent
        (beside / "registry.htpasswd").write_text(f"ann:{made.on('ctl', HASH)}\n")
        (beside / "registry.htpasswd").chmod(0o600)
        made.on("n3", SERVES)
        directory_server.serve(made, "n3")
        for host in made.lab.hosts:
            made.on(host.name, SUBORDINATE)
        before = {host.name: set(made.on(host.name, LEFT).splitlines()) for host in made.lab.hosts}
        bare = made.inventory_path.read_text().replace("n[1-3]", "n[1-2]")
        apptainer = f"./{container_standins.apptainer(beside).name}"
        keys = KEYS.format(apptainer=apptainer, server=made.lab.host("n3").address, options=OPTIONS)
        made.inventory_path.write_text(bare + keys + directory_server.keys())
        yield Week(made, request.param, bare + "login: [n3]\ndatabase: ctl\n", before)


def test_before_the_week_deployments_bring_it_all(week: Week) -> None:
    whole = week.lab.inventory_path.read_text()
    week.lab.inventory_path.write_text(whole.replace("jupyter: n3\n", ""))
    week.lab.deploy()
    week.lab.inventory_path.write_text(whole)
    week.lab.deploy()
    assert week.lab.deploy()["steps"] == []
    assert week.failures() == {}


def test_on_monday_ann_logs_in_with_her_password_and_runs_a_cell_of_a_notebook_in_a_job(week: Week) -> None:
    entered = directory_server.enter(week.lab, "ann", "n1", "n3", "pwd; srun -N2 -n2 --mem=50 id -un")
    assert entered.splitlines() == ["/home/ann", "ann", "ann", "exit 0"]
    assert "exit 255" in directory_server.enter(week.lab, "eve", "n1", "n3", "true"), "she is not in the group"
    values = ["ann", "ann may enter", "https://n3:8000", ANSWERS, "", 180, CELL]
    told = json.loads(
        week.lab.on("n3", f"cd / && echo {shlex.quote(json.dumps(values))} | {RUNS_CELL}").splitlines()[-1]
    )
    assert told.get("printed", "").split()[:1] in (["n1"], ["n2"]), told
    week.lab.until("ctl", "squeue -h", "")


def test_on_monday_she_makes_an_image_of_her_own_and_the_registry_has_it(week: Week) -> None:
    make_image(week.lab, "n1")
    for login in (f"{KEEPS} --username ann --password-stdin ctl:5000", OF_APPTAINER):
        week.ann(f"echo {PASSWORD} >word; {login} <word; rm word")
    anonymous = "skopeo copy -q --dest-no-creds oci:/home/image:1 docker://ctl:5000/other:1"
    assert "authentication required" in week.ann(anonymous, check=False)
    week.ann("srun -n1 --mem=500 skopeo copy -q oci:/home/image:1 docker://ctl:5000/ring:1")
    week.ann("srun -n1 --mem=500 apptainer pull ring.sif docker://ctl:5000/ring:1")
    week.ann("srun -n1 --mem=500 sbundle oci:/home/image:1")
    for node in ("n1", "n2"):
        week.ann(f"srun -w {node} -n1 --mem=500 sh -c '{PULL}'")


@pytest.mark.parametrize("way", WAYS)
def test_on_tuesday_her_program_is_one_on_two_nodes_by_each_way_of_containers_or_is_refused(
    week: Week, way: str
) -> None:
    found = week.ring(WAYS[way])
    if (week.suite, way) == ("bookworm", "oci"):
        assert "run an MPI program in a container by `srun sdocker run` or `srun apptainer exec`" in " ".join(found)
    else:
        assert found == ring_of(2)


def test_on_wednesday_a_bad_script_is_told_before_it_waits_and_the_mended_one_sorts_on_the_nodes_disk(
    week: Week,
) -> None:
    week.ann(f"cat >sort.sh <<'END'\n{BAD}END")
    told = week.ann("slint sort.sh", check=False)
    assert all(words in told for words in ("--partition=main", "--time=02:00:00", "simulate")), told
    assert "sbatch: error: Invalid" in week.ann("sbatch sort.sh", check=False)
    week.ann(f"cat >sort.sh <<'END'\n{SORTS}END")
    job = week.ann("slint sort.sh >/dev/null && sbatch --parsable --gres=scratch:1 sort.sh")
    eventually(lambda: week.ann(f"wc -l <sorted-{job}", check=False) == "2", f"job {job} sorts", 120)
    assert week.ann(f"tail -n1 sorted-{job}") == f"/scratch/{job} /scratch/{job}"
    for node in ("n1", "n2"):
        week.lab.until(node, f"ls -d /scratch/{job} 2>/dev/null; :", "")


def test_on_thursday_a_limit_holds_her_second_job_and_she_is_told_which(week: Week) -> None:
    first = week.ann("sbatch --parsable -n1 --mem=50 -o /dev/null --wrap 'sleep 600'")
    week.lab.until("ctl", STATE.format(first), "RUNNING None")
    second = week.ann("sbatch --parsable -n1 --mem=50 -o /dev/null --wrap true")
    week.lab.until("ctl", STATE.format(second), "PENDING AssocMaxJobsLimit")
    assert "AssocMax" in week.ann("sstatus")
    week.ann(f"scancel {first}")
    week.lab.until("ctl", f"squeue -h -j {second},{first} | wc -l", "0")


def test_on_thursday_sstatus_tells_her_two_thousand_jobs_within_seconds(week: Week) -> None:
    week.ann("seq 2000 | xargs -P 4 -I@ sbatch --hold -n1 --mem=50 -o /dev/null --wrap true >/dev/null")
    took = week.ann("since=$(date +%s%N); sstatus >told; echo $((($(date +%s%N) - since) / 1000000))")
    # Slurm 22.05 leaves some of two thousand where it is slow.
    week.lab.until("ctl", "scancel --user=ann 2>/dev/null; squeue -h | wc -l", "0")
    assert int(took) < MOST_MILLISECONDS, f"{took} ms"
    assert "... and 1950 more" in week.ann("cat told; rm told")


def test_on_friday_a_node_dies_and_her_job_goes_on_on_another(week: Week) -> None:
    job = week.ann("sbatch --parsable --requeue -w n1 -n1 --mem=50 -o /dev/null --wrap 'sleep 600'")
    week.lab.until("ctl", STATE.format(job), "RUNNING None")
    lab.kill_host(week.lab.lab, "n1")
    week.lab.on("ctl", "scontrol update NodeName=n1 State=DOWN Reason='power supply'")
    week.ann(f"scontrol update JobId={job} ReqNodeList=n2")
    eventually(lambda: week.lab.on("ctl", f"squeue -h -j {job} -o '%T %N'") == "RUNNING n2", "it runs on n2", 180)
    lab.start_host(week.lab.lab, "n1")
    week.ann(f"scancel {job}")
    resume = ("resume", "n1", "--any")
    eventually(lambda: week.lab.slurmfab(*resume).returncode == 0, lambda: week.said(*resume), 120)
    week.lab.until("ctl", "sinfo -h -n n1 -p main -o %t", "idle", patience=150)
    week.lab.until("ctl", HAS_SAVED.format("power supply", "node_state"), "no")


def test_on_saturday_the_power_is_cut_and_the_file_server_comes_last_and_nothing_is_lost(week: Week) -> None:
    week.ann("echo kept >/data/ann")
    job = week.ann("sbatch --parsable --hold -J reads -n1 --mem=50 -o result --wrap 'cat /data/ann'")
    week.lab.until("ctl", HAS_SAVED.format("reads", "job_state"), "yes")
    for host in ("ctl", "n1", "n2", "n3"):
        lab.kill_host(week.lab.lab, host)
    for host in ("ctl", "n1", "n2"):
        lab.start_host(week.lab.lab, host)
    week.lab.until("ctl", "scontrol ping | grep -c 'is UP'", "1", patience=150)
    lab.start_host(week.lab.lab, "n3")
    eventually(lambda: week.lab.slurmfab("deploy").returncode == 0, lambda: week.said("deploy"), 180)
    eventually(lambda: week.failures() == {}, lambda: str(week.failures()), 180)
    week.ann(f"scontrol release {job}")
    eventually(lambda: week.ann("cat result", check=False) == "kept", "her job has read her file", 120)


def test_on_sunday_all_is_taken_out_again_and_her_files_are_kept(week: Week) -> None:
    files = week.lab.on("n3", "cd /home/ann && find . -type f ! -path './.*' | sort | xargs -d '\\n' sha256sum")
    assert "ring.sif" in files
    week.lab.inventory_path.write_text(week.bare)
    succeeded(week.lab.slurmfab("deploy"))
    assert week.lab.deploy()["steps"] == []
    left = {host: set(week.lab.on(host, LEFT).splitlines()) - of_host for host, of_host in week.before.items()}
    assert not any(left.values()), left
    assert week.lab.on("n3", "cd /home/ann && find . -type f ! -path './.*' | sort | xargs -d '\\n' sha256sum") == files
    assert week.lab.on("n3", "cat /srv/brick/ann") == "kept"
    assert week.failures() == {}
