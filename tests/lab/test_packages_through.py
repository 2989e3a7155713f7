"""Compute nodes that reach no mirror: their packages come through the controller, which fetches each file once."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from fingerprints import AT_WORK
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import HOLD_LOCK, Person, wait_for_dpkg, words_of
from lying_agent import honest_again, make_liar
from stock import Stock, in_turn

from slurmfab import lab

pytestmark = pytest.mark.lab

CLUSTER_FILE = """\
cluster: through
ssh: {{user: root, key: {key}}}
addresses: {addresses}
controllers: [ctl]
nodes:
  - hosts: n[1-3]
packages: {{through: controller}}
"""
HOSTS = ("ctl", "n1", "n2", "n3")
KEPT = "ls -A /var/cache/slurmfab-fetched /var/lib/slurmfab/bundle 2>/dev/null | wc -l"
OWN_SETTINGS = "grep -rilE 'proxy|Methods' /etc/apt | wc -l; ip route show default | wc -l"
JOBS = AS_SLURM + "srun -N{} hostname | sort | xargs"
NO_WAY = "ip route %s unreachable %s/32"
KEYS = "/usr/share/keyrings /etc/apt/trusted.gpg.d"
NO_KEYS = f"for place in {KEYS}; do mv $place $place.kept && mkdir $place; done"
OWN_KEYS = f"for place in {KEYS}; do rmdir $place && mv $place.kept $place; done"


LARGEST = (
    "apt-cache dumpavail | awk '/^Package:/ {p=$2} /^Version:/ {v=$2} /^Architecture:/ {a=$2} /^Size:/ {s=$2} "
    '/^$/ {print s, p "_" v "_" a ".deb"}\' | sort -rn | head -n 200'
)
PLACE, ROOM = "/var/cache/slurmfab-fetched", 200 << 20  # where the controller fetches packages; bytes
LIE = """
def lie(told):
    if any(" " in one for one in told.get("bundle", {{}}).get("lacking", ())):
        told["bundle"]["lacking"] += {}
    return told
"""


@dataclass(frozen=True)
class Through:
    """A controller that reaches its mirror, and three compute nodes that do not."""

    hosts: DeployedLab
    person: Person


TRUSTING = """\
cd /etc/apt/sources.list.d
echo 'deb [trusted=true] http://mirror.example/one ./' >own.list
echo ' deb [ trusted=1 ] mirror+file:/etc/apt/mirrors-own ./' >>own.list
printf 'Types: deb\\nURIs: http://mirror.example/two\\nSuites: ./\\ntrusted: on\\n' >own.sources
"""
"""Sources that nobody signs, none of them with `trusted=yes`."""


@pytest.fixture(scope="module", params=in_turn("packages_through"))
def through(
    request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Through]:
    person = Person.at(tmp_path_factory.mktemp("through"))
    with stock.bare(request.param, nodes=3, offline=HOSTS[1:]) as hosts:
        addresses = ", ".join(f"{name}: {hosts.lab.host(name).address}" for name in HOSTS)
        person.writes(CLUSTER_FILE.format(key=hosts.lab.ssh_key, addresses=f"{{{addresses}}}"))
        person.has_seen(hosts.lab, *HOSTS)
        yield Through(hosts, person)


def test_nodes_without_a_mirror_when_they_are_deployed_then_the_controller_fetches_each_file_once_for_all(
    through: Through,
) -> None:
    lab.kill_host(through.hosts.lab, "n3")
    # The nodes have no way to the controller either: what they get comes by SSH from here.
    controller = through.hosts.lab.host("ctl").address
    for node in ("n1", "n2"):
        through.hosts.on(node, NO_WAY % ("add", controller))
    process = through.person.start("deploy", "--verbose")
    words, _ = process.communicate()
    for node in ("n1", "n2"):
        through.hosts.on(node, NO_WAY % ("delete", controller))
    told = re.search(r"ctl fetched (\d+) files of packages \(\d[^)]*\) once for n\[1-2\]", words)
    assert told, words
    assert int(told[1]) > 10
    assert through.hosts.on("n1", "dpkg-query -W -f '${db:Status-Abbrev}' slurmd").strip() == "ii"
    assert through.hosts.on("n1", OWN_SETTINGS).split() == ["0", "0"]
    for host in ("ctl", "n1", "n2"):
        assert through.hosts.on(host, KEPT) == "0"
    ended(through.person.slurmfab("deploy"), 3)
    assert through.hosts.on("ctl", JOBS.format(2)) == "n1 n2"


def test_a_second_deployment_when_nothing_is_missing_then_nothing_is_fetched_or_changed(through: Through) -> None:
    done = through.person.slurmfab("deploy", "--hosts", "ctl,n1,n2")
    assert "nothing changed" in words_of(done)
    assert "fetched" not in words_of(done)


def test_a_node_that_knows_no_key_that_signed_the_lists_then_its_own_apt_refuses_what_the_controller_fetched(
    through: Through,
) -> None:
    lab.start_host(through.hosts.lab, "n3")
    through.hosts.on("n3", NO_KEYS)
    try:
        done = through.person.slurmfab("deploy")
    finally:
        through.hosts.on("n3", OWN_KEYS)
    assert done.returncode == 3, words_of(done)
    assert re.search(r"n3: .*(signature|signed|NO_PUBKEY)", words_of(done)), words_of(done)
    assert through.hosts.on("n3", "dpkg-query -W slurmd 2>/dev/null | wc -l") == "0"


def test_a_node_whose_apt_trusts_a_source_without_a_signature_however_that_is_spelt_then_gets_nothing(
    through: Through,
) -> None:
    through.hosts.on("n3", TRUSTING)
    try:
        done = through.person.slurmfab("deploy")
    finally:
        through.hosts.on("n3", "rm /etc/apt/sources.list.d/own.*")
    assert done.returncode == 3, words_of(done)
    places = ", ".join(f"/etc/apt/sources.list.d/own.{rest}" for rest in ("list:1", "list:2", "sources:1"))
    assert f"n3: {places}: apt takes packages from there without a signature" in words_of(done), words_of(done)
    assert through.hosts.on("n3", "dpkg-query -W slurmd 2>/dev/null | wc -l") == "0"


def test_a_node_that_says_that_it_lacks_the_largest_packages_of_all_then_it_alone_goes_without(
    through: Through,
) -> None:
    lines = (line.split() for line in through.hosts.on("ctl", LARGEST).splitlines())
    largest = {name.replace(":", "%3a"): int(size) for size, name in lines}
    assert sum(largest.values()) > ROOM, "the mirror has too little for this lie"
    text = through.person.cluster_file.read_text()
    through.person.writes(text.replace("{through: controller}", "{through: controller, compute: [busybox-static]}"))
    through.hosts.on("ctl", f"mkdir -p {PLACE} && mount -t tmpfs -o size={ROOM} tmpfs {PLACE}")
    make_liar(through.hosts, "n3", LIE.format([f"{'a' * 64} {name}" for name in largest]))
    try:
        done = through.person.slurmfab("deploy")
        assert done.returncode == 3, words_of(done)
        cannot = r"n3: ctl cannot fetch the packages that it lacks: .*the disk is full: they need \d+ MiB"
        assert re.search(cannot, words_of(done)), words_of(done)
        assert [through.hosts.on(node, "busybox echo hi") for node in ("n1", "n2")] == ["hi", "hi"]
    finally:
        honest_again(through.hosts, "n3")
        through.hosts.on("ctl", f"umount {PLACE}; rmdir {PLACE}")
        through.person.writes(text)


def test_a_run_that_is_killed_then_the_next_one_completes_it_and_leaves_nothing(through: Through) -> None:
    through.hosts.on("n3", f'systemd-run --quiet python3 -c "{HOLD_LOCK}"')
    through.hosts.until("n3", "ls /tmp/held", "/tmp/held")
    process = through.person.start("deploy")
    try:
        wait_for_dpkg(through.hosts, "n3")
    finally:
        process.kill()
        process.communicate()
        through.hosts.on("n3", "touch /tmp/release")
    through.hosts.until("n3", AT_WORK, "0")
    succeeded(through.person.slurmfab("deploy"))
    assert through.hosts.on("ctl", JOBS.format(3)) == "n1 n2 n3"
    for host in HOSTS:
        assert through.hosts.on(host, KEPT) == "0"
