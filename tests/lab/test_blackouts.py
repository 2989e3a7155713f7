"""A hundred losses of power under a day of jobs: what a deployment leaves behind makes the cluster whole by itself.

A seed names each: the cluster, which hosts lose their power, when, and how they come back. Of five hosts, one is the
controller, three compute, and n4 serves a directory, or is the second controller, and has the database on one suite.
Seeds above a hundred have what a cluster seldom has: clocks that differ, nodes that sleep, a node that is long away.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, eventually
from power_switch import SITES, switched
from stock import Stock, in_turn, part_in_turn
from suites import NEWEST

from slurmfab import lab
from slurmfab.base.errors import LabError

pytestmark = pytest.mark.lab

SEEDS = range(1, 109)
PARTS = 56  # a run in CI plays a seed and the one that is so much higher, which has the same shape
NOTED = Path("build/blackouts")  # a file for each suite, a line for each blackout that was played
NODES, SERVER = ("n1", "n2", "n3"), "n4"
HOSTS = ("ctl", *NODES, SERVER)
KEYS = """\
database: {database}
users: [{{name: ann}}]
slurm_conf: {{SchedulerParameters: 'bf_continue,bf_interval=5'{conf}}}
"""
OPTIONS = "allow_other, IdentityFile=/root/key, StrictHostKeyChecking=accept-new"
SERVES = "install -d -m 1777 /srv/brick; mkdir -p -m 700 /root/.ssh; cat >>/root/.ssh/authorized_keys"
SHAPES = {
    "plain": "",
    "configless": "configless: true\n",
    "storage": (
        "scratch: {{size: 1G, tmpdir: true}}\n"
        "power: {{nodes: 'n[1-3]', suspend_after: 20d, how: {{command: {{suspend: /bin/true, resume: /bin/true}}}}}}\n"
        "mounts: [{{path: /data, source: 'root@{server}:/srv/brick', type: sshfs, options: [{options}]}}]\n"
    ),
    "second": "state_directory: /srv/state\n",
    "odd": "mpi: {{type: pmix, packages: openmpi}}\n",
    "asleep": (
        "power: {{nodes: 'n[1-3]', suspend_after: 20s, suspend_timeout: 6s, resume_timeout: 90s, "
        "how: {{command: {{suspend: /usr/local/sbin/site-off, resume: /usr/local/sbin/site-on}}}}}}\n"
    ),
}
"""What the cluster file has beside `KEYS`, by the cluster's name; `second` has a backup controller as well.

Where nodes may sleep, Slurm takes jobs back much later: in `storage` none does, in `asleep` those without a job do. In
`odd` the clocks of two nodes are wrong, and programs of Open MPI are among the jobs.
"""

USUAL = ("plain", "configless", "storage", "second")  # the shapes of the first hundred seeds
SELDOM = (
    ("odd", "all"), ("asleep", "all"), ("odd", "away"), ("asleep", "controller"),
    ("odd", "twice"), ("asleep", "others"), ("odd", "others"), ("asleep", "twice"),
)  # fmt: skip
"""Shape and kind of each seed above a hundred."""

CLOCKS = {"n1": "+40s", "n2": "-40s"}
CLOCK = """\
apt-get -qq -y install faketime >/dev/null
for unit in munge slurmd; do
    mkdir -p /etc/systemd/system/$unit.service.d
    printf '[Service]\\nEnvironment=LD_PRELOAD=%s FAKETIME={} FAKETIME_DONT_FAKE_MONOTONIC=1\\n' \\
        /usr/lib/*/faketime/libfaketime.so.1 >/etc/systemd/system/$unit.service.d/90-clock.conf
done
systemctl daemon-reload
systemctl restart munge slurmd
"""
"""STAND-IN for a clock of the node's own, which lab hosts have not: wrong for these daemons and their children."""

RIGHT = "rm -f /etc/systemd/system/*.service.d/90-clock.conf; systemctl daemon-reload; systemctl restart munge slurmd"
RING = """\
import ctypes, sys, time
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world")))
mpi.MPI_Init(None, None)
size = ctypes.c_int()
mpi.MPI_Comm_size(world, ctypes.byref(size))
for _ in range(2 * int(sys.argv[1])):
    mpi.MPI_Barrier(world)
    time.sleep(0.5)
print(size.value)
mpi.MPI_Finalize()
"""
MPI = "sbatch {name} -N3 -n3 --mem=600 --wrap 'srun --mpi=pmix python3 /usr/local/lib/ring.py {seconds}'"

KINDS = ("all", "all", "all", "twice", "one", "database", "controller", "others", "late")
PATIENCE = 120  # seconds after the last host's boot in which the cluster is whole
UNSAVED = 8.0  # seconds within which slurmctld has written what it told, and the uncertainty of the cut itself
YOUNG = 10  # seconds in which a job that runs for slurmctld may have no process yet
WAKING = 100  # those in which one waits for its nodes to wake: a little more than `resume_timeout`

JOBS = (
    "sbatch {name} -n{cpus} --wrap 'sleep {seconds}'",
    "sbatch {name} -n{cpus} --requeue --wrap 'sleep {seconds}'",
    "sbatch {name} -n{cpus} --no-requeue --wrap 'sleep {seconds}'",
    "sbatch {name} --array=1-4 --wrap 'sleep {seconds}'",
    "sbatch {name} -N2 -n2 --wrap 'srun sleep {seconds}'",
    "sbatch {name} -N3 -n6 --no-requeue --wrap 'srun --mpi=pmi2 sleep {seconds}'",
    "sbatch {name} -n1 {after} --wrap 'sleep {seconds}'",
)
INTERACTIVE = ("srun {name} -n1 --overlap sleep {seconds}", "salloc {name} -N2 -n2 sleep {seconds}")
AS_ANN = "cd /tmp && exec runuser -u ann -- {}"
IN_BACKGROUND = "systemd-run --quiet --collect --uid=ann --working-directory=/tmp {}"
QUEUE = "squeue -h -r -t R,S,CG -o '%A|%T|%S|%N|%j' && date +%s"
STEPS = "ps -eo args= | sed -n 's/^slurmstepd: \\[\\([0-9]*\\)[.+].*/\\1/p' | sort -u"
STATES = "sinfo -h -N -p main -o '%N %T' | sort -u"
OPEN = "sacct --allusers --duplicates -X -n -P -S now -s PENDING,RUNNING -o JobIDRaw,JobName"
ASLEEP = "~#!%"  # what sinfo puts behind the state of a node that sleeps, or is on its way
IN_SERVICE = {"idle", "mixed", "allocated", "completing", "planned"}


def seeds() -> list[int]:
    """Those that this run plays: as BLACKOUTS says (`1-108`), one of each usual cluster with `TURN=all`, or two."""
    first, _, last = os.environ.get("BLACKOUTS", "").partition("-")
    if first:
        played = range(int(first), int(last or first) + 1)
    elif os.environ["TURN"] == "all":
        played = SEEDS[: len(USUAL)]
    else:
        played = part_in_turn(SEEDS, PARTS)
    # A change of the cluster file takes longer than a blackout.
    return sorted(played, key=lambda seed: list(SHAPES).index(Blackout(seed).shape))


@dataclass
class Blackout:
    """What a seed names.

    Args:
        seed: the seed.
        database: the host with the database.
        shape: one of `SHAPES`.
        kind: one of `KINDS`.
        moment: seconds from the first job to the loss.
        order: the hosts that lose their power, in the order in which they come back.
        pauses: seconds before each of them does.
    """

    seed: int
    database: str = SERVER
    shape: str = ""
    kind: str = ""
    moment: float = 0
    order: list[str] = field(default_factory=list)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        chance = random.Random(self.seed)
        self.shape, self.kind = USUAL[self.seed % len(USUAL)], chance.choice(KINDS)
        if self.seed > 100:
            self.shape, self.kind = SELDOM[(self.seed - 101) % len(SELDOM)]
        self.moment = chance.uniform(2, 15)
        some = {
            "one": [chance.choice(NODES)],
            "database": [self.database],
            "controller": ["ctl"],
            "others": [*NODES, SERVER],
            "late": [chance.choice(NODES)],
            "away": ["n1"],
        }
        self.order = some.get(self.kind, list(HOSTS))
        chance.shuffle(self.order)
        self.pauses = [chance.uniform(0, 6) for _ in self.order]

    def __str__(self) -> str:
        back = ", ".join(f"{pause:.1f} s {host}" for pause, host in zip(self.pauses, self.order, strict=True))
        return f"blackout {self.seed} ({self.shape}, {self.kind}, after {self.moment:.1f} s; back: {back})"


@dataclass
class Cluster:
    """The five hosts, and the cluster file without what the shapes add."""

    lab: DeployedLab
    text: str
    database: str
    shape: str = ""
    accepted: dict[str, tuple[str, float]] = field(default_factory=dict)  # job name to its number, and when
    switch: ExitStack = field(default_factory=ExitStack)  # what switches nodes as slurmctld asks for it

    def becomes(self, shape: str) -> None:
        """Deploy this shape, unless it is there."""
        if shape != self.shape:
            if self.shape:
                self.rests()
            if self.shape == "odd":
                for node in CLOCKS:
                    self.lab.on(node, RIGHT)
            more = SHAPES[shape].format(server=self.lab.lab.host(SERVER).address, options=OPTIONS)
            if shape == "asleep":
                self.lab.on("ctl", SITES)
                self.switch.enter_context(switched(self.lab))
            text = self.text.replace("[ctl]", f"[ctl, {SERVER}]") if shape == "second" else self.text
            # Beside slurmctld's database, n4 is a login host, so that it is one of the cluster's whatever else it does.
            more += "login: [n4]\n" if self.database == "ctl" else ""
            # A node that is away for so long is DOWN; an hour would show no more, as slurmctld does nothing else to it.
            conf = ", SlurmdTimeout: 40" if shape == "odd" else ""
            self.lab.inventory_path.write_text(text + KEYS.format(database=self.database, conf=conf) + more)
            # A mount whose server is being deployed to itself is made by the next run.
            self.lab.slurmfab("deploy", "--yes")
            self.lab.deploy(*(["--wake"] if shape == "asleep" else []))
            # It saves then what it knows of accounts, as every five minutes, and needs no database at its next start.
            self.lab.on("ctl", "systemctl restart slurmctld")
            self.shape = shape
            if shape == "odd":
                for node in NODES:
                    self.lab.on(node, f"cat >/usr/local/lib/ring.py <<'END'\n{RING}\nEND")
                for node, wrong in CLOCKS.items():
                    self.lab.on(node, CLOCK.format(wrong))
                self.lab.until("ctl", "sinfo -h -p main -t idle -o %D", "3")
                srun = MPI.format(name="", seconds=1).replace("sbatch", "srun").replace("--wrap 'srun ", "")[:-1]
                assert self.lab.on("ctl", AS_ANN.format(srun)).split() == ["3"] * 3

    def work(self, blackout: Blackout) -> None:
        """Submit jobs of all kinds until the moment of the loss."""
        # As if it were another day: a node that reboots a fourth time within one stays down.
        self.lab.on("ctl", "rm -f /run/slurmfab-recovery/state.json")
        if self.shape == "asleep":
            eventually(lambda: not all(map(self.is_on, NODES)), lambda: self.lab.on("ctl", STATES), 120)
            self.lab.on("ctl", AS_ANN.format("sbatch -J wakes -o /dev/null -n1 --mem=50 --wrap 'sleep 300'"))
            self.lab.until("ctl", "squeue -h -n wakes -o %T", "RUNNING", patience=WAKING)
        chance = random.Random(-blackout.seed)
        begun, number, last = time.monotonic(), 0, ""
        while number < 4 or time.monotonic() - begun < blackout.moment:
            time.sleep(chance.uniform(0.2, 1))
            number += 1
            name = f"b{blackout.seed}-{number}"
            words = {
                "name": f"-J {name} --mem=50 -t 10",
                "cpus": chance.randint(1, 3),
                "seconds": chance.randint(4, 40),
            }
            words["after"] = f"-d afterany:{last}" if last else ""
            if chance.random() < 0.2:
                self.lab.on("ctl", IN_BACKGROUND.format(chance.choice(INTERACTIVE).format(**words)))
            else:
                script = MPI if self.shape == "odd" and number in (1, 5) else chance.choice(JOBS)
                script = script.format(**words).replace("sbatch", "sbatch --parsable -o /dev/null", 1)
                last = self.lab.on("ctl", AS_ANN.format(script))
                self.accepted[name] = (last, time.monotonic())

    def loses(self, blackout: Blackout) -> float:
        """Cut the power of the hosts, and give it back to those that had it; when the controller lost it, or 0."""
        cut = 0.0
        for number in range(2 if blackout.kind == "twice" else 1):
            order = [host for host in blackout.order if self.is_on(host)]
            for host in sorted(order, key=lambda one: one != "ctl"):
                lab.kill_host(self.lab.lab, host)
                cut = cut or (time.monotonic() if host == "ctl" else 0.0)
            if blackout.kind == "late":
                # What slurmctld itself does after SlurmdTimeout, as its own user.
                down = f"NodeName={blackout.order[0]} State=DOWN Reason='Not responding'"
                self.lab.on("ctl", f"runuser -u slurm -- scontrol update {down}")
            if blackout.kind == "away":
                self.lab.until("ctl", f"sinfo -h -p main -n {order[0]} -o %T", "down*", patience=180)
            for pause, host in zip(blackout.pauses, blackout.order, strict=True):
                time.sleep(pause)
                if host in order:
                    lab.start_host(self.lab.lab, host)
            if number == 0 and blackout.kind == "twice":
                time.sleep(blackout.moment)
        return cut

    def is_on(self, host: str) -> bool:
        """Whether a host has power."""
        return lab.load(self.lab.lab.name).host(host).pid is not None

    def complaints(self) -> list[str]:
        """What is not as it has to be; empty for a whole cluster."""
        found: list[str] = []
        queue = self.lab.on("ctl", QUEUE, check=False).splitlines()
        signs = "-" + (ASLEEP if self.shape == "asleep" else "")
        nodes = dict(line.rstrip(signs).split() for line in self.lab.on("ctl", STATES, check=False).splitlines())
        found += [f"{node} is {nodes.get(node)}" for node in NODES if nodes.get(node) not in IN_SERVICE]
        if not queue:
            return ["slurmctld does not answer"]
        if "sacctmgr" not in self.lab.on(
            "ctl", "timeout 10 sacctmgr -nP show cluster >/dev/null && echo sacctmgr", check=False
        ):
            found.append("slurmdbd does not answer")
        steps: dict[str, set[str]] = {}
        for node in NODES:
            with suppress(LabError):  # it sleeps
                steps[node] = set(self.lab.on(node, STEPS).split())
        now = int(queue.pop())
        for line in queue:
            job, state, start, where, name = line.split("|")
            # One that is put back while it ends has no start.
            begun = 0.0 if start == "N/A" else time.mktime(time.strptime(start, "%Y-%m-%dT%H:%M:%S"))
            gone = [
                node if node in steps else f"{node}, which is off,"
                for node in hosts_of(where)
                if job not in steps.get(node, ())
            ]
            if gone and now - begun > (WAKING if state == "CONFIGURING" else YOUNG):
                found.append(
                    f"job {job} ({name}) is {state} since {now - begun:.0f} s on {' and '.join(gone)} without a process"
                )
        return found

    def rests(self) -> None:
        """Have no jobs and a whole cluster before what comes next; nodes that stayed down are given back, once told."""
        self.accepted.clear()
        self.lab.on("ctl", "scancel -u ann", check=False)
        down = "sinfo -h -N -p main -t down -o %N | sort -u | xargs -r -I@ scontrol update NodeName=@ State=RESUME"
        eventually(
            lambda: self.lab.on("ctl", f"{down}; squeue -h -o %i", check=False) == "" and not self.complaints(),
            lambda: f"{self.complaints()}; {self.lab.on('ctl', 'squeue; sinfo -R', check=False)}",
            90,
        )

    def lost(self) -> dict[str, tuple[str, float]]:
        """The jobs that sbatch had accepted and slurmctld does not know."""
        known = set(self.lab.on("ctl", "squeue -h -t all -o %j").split())
        return {name: one for name, one in self.accepted.items() if name not in known}

    def has_named(self, lost: dict[str, tuple[str, float]]) -> None:
        """Wait until the journal of the controller names each lost job that the database knows."""
        recorded = "sacct -a -X -n -P -o JobIDRaw,JobName -S now-1hours"
        names = dict(line.split("|")[::-1] for line in self.lab.on("ctl", recorded).splitlines())
        wanted = {names[name] for name in lost if name in names}
        said = "journalctl -q -u slurmfab-recovery -o cat | sed -n 's/^job \\([0-9]*\\) .* is lost.*/\\1/p'"
        eventually(
            lambda: wanted <= set(self.lab.on("ctl", said).split()),
            lambda: f"{wanted} of {lost}: {self.lab.on('ctl', said)}",
            90,
        )


def hosts_of(where: str) -> list[str]:
    """The compute nodes of a hostlist such as `n[1-2]` or `n1,n3`."""
    return [node for node in NODES if re.search(rf"\b{node}\b", where) or in_range(where, int(node[1:]))]


def in_range(where: str, number: int) -> bool:
    """Whether the hostlist has brackets with this number in them."""
    inside = re.search(r"n\[([\d,-]+)\]", where)
    parts = inside.group(1).split(",") if inside else []
    return any(int(part.split("-")[0]) <= number <= int(part.split("-")[-1]) for part in parts)


@pytest.fixture(scope="module", params=in_turn("blackouts"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Cluster]:
    database = "ctl" if request.param == NEWEST else SERVER
    with stock.copy(request.param, nodes=4, database=database == "ctl", shared=("/srv/state",)) as made:
        made.on("ctl", "install -d -o slurm -g slurm -m 700 /srv/state")
        made.on("ctl", "ssh-keygen -q -t ed25519 -N '' -f /root/key")
        private, public = made.on("ctl", "cat /root/key"), made.on("ctl", "cat /root/key.pub")
        for node in (*NODES, SERVER):
            made.on(node, f"umask 077; cat >/root/key <<'END'\n{private}\nEND")
        made.on(SERVER, f"{SERVES} <<'END'\n{public}\nEND")
        text = made.inventory_path.read_text().replace("n[1-4]", "n[1-3]")
        found = Cluster(made, text, database)
        with found.switch:
            yield found


@pytest.mark.parametrize("seed", seeds())
def test_after_a_blackout_the_cluster_is_whole_within_two_minutes_and_no_job_that_was_saved_is_lost(
    cluster: Cluster, seed: int
) -> None:
    blackout = Blackout(seed, cluster.database)
    cluster.becomes(blackout.shape)
    cluster.rests()
    cluster.work(blackout)
    cut = cluster.loses(blackout)
    since, complaints = time.monotonic(), cluster.complaints()
    while complaints and time.monotonic() - since < PATIENCE:
        time.sleep(2)
        complaints = cluster.complaints()
    took = time.monotonic() - since
    lost = cluster.lost()
    became = f"{'; '.join(complaints) or 'whole'} after {took:.0f} s"
    note(cluster, f"{blackout}: {became}; {len(cluster.accepted)} jobs, lost {sorted(lost)}")
    assert complaints == [], blackout
    assert [name for name, (_, at) in lost.items() if not cut or at < cut - UNSAVED] == [], blackout
    cluster.has_named(lost)
    cluster.rests()
    # A record stays open while a job goes on that has the number of a lost one.
    cluster.lab.until("ctl", OPEN, "")
    if blackout.shape == "asleep":
        # A node that fell asleep meanwhile would be one that is lost.
        cluster.lab.on("ctl", AS_ANN.format("sbatch -J awake -o /dev/null -N3 --mem=50 --wrap 'sleep 600'"))
        cluster.lab.until("ctl", "squeue -h -n awake -o %T", "RUNNING", patience=WAKING)
    found = cluster.lab.checks()
    failed = [f"{one['check']} on {one['host']}: {one['cause']}" for one in found if one["outcome"] == "failed"]
    note(cluster, f"blackout {seed}: check-cluster: {'; '.join(failed) or 'green'}")
    assert failed == []


def note(cluster: Cluster, line: str) -> None:
    """Keep a line about what was played."""
    NOTED.mkdir(parents=True, exist_ok=True)
    with (NOTED / f"{cluster.lab.lab.suite}.txt").open("a") as file:
        file.write(f"{line}\n")
