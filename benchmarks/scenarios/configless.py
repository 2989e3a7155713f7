"""One value changed where nodes fetch their files: a run about the controller alone, with a few and with many slurmd.

The hosts are a controller and one compute node, on which many more slurmd run, each under a name, at an address and a
port of its own, and with directories of its own. Nobody logs in for them: slurmctld carries the files to them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from ipaddress import IPv4Address

from benchmarks.clusters import Cluster
from benchmarks.measuring import Way
from benchmarks.programs import output_of, timed
from benchmarks.results import Sample, Target
from benchmarks.scenarios.running_cluster import FIRST_VALUE, KEY
from benchmarks.scenarios.scenario import Scenario, Setting

FEW, MANY = 4, 64
LOGIN = "ssh true, the controller"
BEARER = "n1"
PORT = 7000
LEFT_OUT = 3
"""The exit code of a deployment to hosts of which some cannot be logged in on."""

START = """
first=$1 count=$2 port=$3 server=$4
for number in $(seq "$count"); do
    address=$(echo "$first" | awk -F. -v n="$number" '{print $1 "." $2 "." $3 "." $4 + n}')
    ip address add "$address/24" dev eth0
    name=s$number
    setsid unshare --mount --uts sh -ec '
        hostname "$1"
        for place in /var/spool/slurmd /run/slurm /var/log/slurmd; do
            mkdir -p "$place"
            mount -t tmpfs tmpfs "$place"
        done
        exec slurmd -D -N "$1" --conf-server "$2"' slurmd "$name" "$server" </dev/null >/dev/null 2>&1 &
done
"""
"""Shell text: slurmd under several names on one host."""

READY = "test $(sinfo --noheader --Node --format='%N %T' | sort -u | grep -c ' idle$') = {}"
UNTIL = "for round in $(seq 600); do {} && exit 0; sleep 0.1; done; sinfo --all --long; exit 1"
HAVE_IT = (
    "test $(for pid in $(pgrep -f 'slurmd.*--conf-server'); do "
    "grep -sx '{key}={value}' /proc/$pid/root/var/spool/slurmd/conf-cache/slurm.conf; done | wc -l) -ge {count}"
)
"""Shell text: whether so many slurmd have a value in the files that they have fetched."""


@dataclass
class Crowd:
    """A cluster whose nodes fetch their files, most of which are slurmd on one host.

    Args:
        cluster: the hosts.
        size: how many slurmd there are in all.
        value: the value that was changed last.
    """

    cluster: Cluster
    size: int
    value: int = FIRST_VALUE

    def another(self) -> None:
        """Write another value into the cluster file."""
        self.value += 1
        self.cluster.change(KEY, self.value)

    def deploy(self) -> Sample:
        """Deploy to the controller alone, which ends when every slurmd has the value."""
        return self.cluster.slurmfab("deploy", "--hosts", "ctl")

    def require_value(self) -> None:
        """See that every slurmd has the value in its own files."""
        has_it = HAVE_IT.format(key=KEY, value=self.value, count=self.size)
        output_of(self.cluster.access.ssh(BEARER, has_it))


def crowd(setting: Setting, size: int) -> Crowd:
    """A cluster with this many slurmd.

    The deployment that makes them known cannot log in on those that are no hosts, and goes on with what the lock says.
    """
    setting.say(f"deploying to a lab with {size} slurmd on one host")
    cluster = setting.labs.fresh("f" if size == FEW else "g", 1, apt_lists=True)
    cluster.file.write_text(cluster.file.read_text() + "configless: true\n")
    cluster.slurmfab("deploy")
    add(cluster, size - 1)
    timed(cluster.command("deploy"), codes=(LEFT_OUT,))
    own = cluster.lab.host(BEARER).address
    words = (str(IPv4Address(own) + 50), str(size - 1), str(PORT), f"{cluster.lab.host('ctl').address}:6817")
    quoted = " ".join(words)
    output_of(cluster.access.ssh(BEARER, f"sh -ec '{START.replace(chr(39), QUOTE)}' start {quoted}"))
    output_of(cluster.access.ssh("ctl", UNTIL.format(READY.format(size))))
    return Crowd(cluster, size)


QUOTE = "'\\''"


def add(cluster: Cluster, count: int) -> None:
    """Write more nodes into the cluster file and the lock, as if they had been met: s1, s2 and so on."""
    first = IPv4Address(cluster.lab.host(BEARER).address) + 50
    places = "".join(f", s{number}: {first + number}" for number in range(1, count + 1))
    groups = "".join(f"  - {{hosts: s{number}, Port: {PORT + number}}}\n" for number in range(1, count + 1))
    text = cluster.file.read_text().replace(f"  - hosts: {BEARER}\n", f"  - hosts: {BEARER}\n{groups}")
    lines = [line.replace("}", f"{places}}}") if line.startswith("addresses: ") else line for line in text.splitlines()]
    cluster.file.write_text("\n".join(lines) + "\n")
    path = cluster.file.with_suffix(".lock.json")
    lock = json.loads(path.read_text())
    # Several slurmd on one host would take each other's control groups.
    nothing = {"version": "none", "controllers": [], "swap": False, "troubles": []}
    for number in range(1, count + 1):
        lock["hosts"][f"s{number}"] = {**lock["hosts"][BEARER], "hostname": f"s{number}", "cgroup": nothing}
    path.write_text(json.dumps(lock))


def name_of(size: int) -> str:
    """The way with so many slurmd."""
    return f"slurmfab, {size} slurmd"


def ways(setting: Setting) -> Iterable[Way]:
    """One login on the controller, and a value that every slurmd has in the end."""
    few, many = crowd(setting, FEW), crowd(setting, MANY)
    yield Way(LOGIN, lambda: timed(few.cluster.access.ssh("ctl", "true")))
    for one in (few, many):
        yield Way(name_of(one.size), one.deploy, one.another, partial(Crowd.require_value, one))


def tidy(setting: Setting) -> None:
    """Take both labs down."""
    for letter in "fg":
        setting.labs.remove(letter)


SCENARIO = Scenario(
    "configless",
    f"one slurm.conf value changed, `configless: true`, live at {FEW} and at {MANY} slurmd",
    ways,
    (Target(name_of(FEW), LOGIN), Target(name_of(MANY), LOGIN), Target(name_of(MANY), name_of(FEW), 2)),
    tidy=tidy,
    notes=(
        "`fab deploy --hosts ctl` uses one connection for any number of nodes. It ends when slurmctld reports that "
        "every slurmd has the files; afterwards each slurmd's copy is verified. All slurmd but one share a host, and "
        "all share the CPUs with slurmfab: the additional time for 64 is the CPU time of the slurmd.",
    ),
)
