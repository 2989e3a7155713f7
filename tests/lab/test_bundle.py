"""Compute nodes that reach no mirror: they get their packages from a bundle that the controller has collected."""

from __future__ import annotations

import hashlib
import json
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import pytest
from fingerprints import AT_WORK, INSTALLS
from lab_cluster import AS_SLURM, DeployedLab, ended, succeeded
from lab_user import Person, snapshots, words_of
from stock import Stock, in_turn

from slurmfab import lab
from slurmfab.commands.bundle import archive
from slurmfab.on_hosts.agent.backup.archive import Archive
from slurmfab.on_hosts.agent.packages.bundle_place import INDEX

pytestmark = pytest.mark.lab

CLUSTER_FILE = """\
cluster: dark
ssh: {{user: root, key: {key}}}
addresses: {{ctl: {ctl}, n1: {n1}}}
controllers: [ctl]
nodes:
  - hosts: n1
containers: [podman, oci]
"""
CONTAINERS = "ls /usr/local/bin/sdocker /usr/local/bin/sbundle; dpkg-query -W -f '${Package} ' podman crun skopeo umoci"
OF_APT = "find /var/lib/apt /var/cache /var/lib/slurmfab -printf '%p %s %m %U\\n' | sort"
BROUGHT = "ls /var/lib/slurmfab/bundle 2>/dev/null || true"
WAYS_OUT = "ip route show default; ls /var/lib/apt/lists | grep -c Packages; ls /var/cache/apt/archives | grep -c deb"
JOBS = AS_SLURM + "srun -N{} hostname | sort | xargs"


@dataclass(frozen=True)
class Dark:
    """A controller that reaches its mirror, and two compute nodes that do not; the second is not in the cluster yet."""

    hosts: DeployedLab
    person: Person
    suite: str

    @property
    def file(self) -> Path:
        return self.person.cluster_file

    @property
    def bundle(self) -> Path:
        return archive.path_of(self.file, self.suite, self.hosts.on("ctl", "dpkg --print-architecture"))

    @property
    def lock(self) -> Path:
        return self.file.with_name(f"{self.file.stem}.lock.json")

    def names_bundle(self, name: str) -> None:
        """Have the cluster file name this bundle, and no other."""
        lines = [line for line in self.file.read_text().splitlines() if not line.startswith("bundle:")]
        self.file.write_text("\n".join([*lines, f"bundle: {name}", ""]))


@pytest.fixture(scope="module", params=in_turn("bundle"))
def dark(request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dark]:
    suite = request.param
    person = Person.at(tmp_path_factory.mktemp("dark"))
    with stock.bare(suite, nodes=2, offline=("n1", "n2")) as hosts:
        addresses = {name: hosts.lab.host(name).address for name in ("ctl", "n1")}
        person.writes(CLUSTER_FILE.format(key=hosts.lab.ssh_key, **addresses))
        person.has_seen(hosts.lab, "ctl", "n1", "n2")
        yield Dark(hosts, person, suite)


def test_a_host_without_a_mirror_when_there_is_no_bundle_then_it_is_left_out_and_told_of_bundles(dark: Dark) -> None:
    done = ended(dark.person.slurmfab("deploy"), 3)
    assert "n1: packages:" in words_of(done)
    assert "Offline hosts get packages from a bundle: slurmfab bundle" in words_of(done)


def test_a_bundle_when_it_is_made_then_it_is_whole_and_nothing_has_changed_where_it_was_collected(dark: Dark) -> None:
    before = snapshots(dark.hosts, "ctl"), dark.hosts.on("ctl", OF_APT)
    done = succeeded(dark.person.slurmfab("bundle"))
    assert (snapshots(dark.hosts, "ctl"), dark.hosts.on("ctl", OF_APT)) == before
    assert f"\nbundle: {dark.bundle.name}\n" in done.stdout
    made = archive.verified(dark.bundle)
    assert made.manifest.suite == dark.suite
    assert made.manifest.slurm == dark.hosts.on("ctl", "dpkg-query -W -f '${Version}' slurm-client")
    names = {*made.manifest.names}
    assert {"munge", "slurmctld", "slurmd", "slurm-client", "podman", "crun", "skopeo", "umoci"} <= names
    listed = dark.person.slurmfab("bundle", "--list")
    assert (listed.returncode, "not used" in listed.stdout) == (0, True)
    assert [path.name for path in dark.file.parent.iterdir() if ".new" in path.name] == []
    assert json.loads(dark.lock.read_text())["bundles"] == {dark.bundle.name: made.digest}


def poisoned(good: Path, place: Path) -> Path:
    """A bundle as good as this one, for all that it says of itself, whose package munge leaves a mark as root."""
    bundle, tree, deb = archive.verified(good), place / "tree", place / "deb"
    debs = {name: good.read_bytes()[part.offset : part.offset + part.size] for name, part in bundle.parts.items()}
    index = debs.pop(INDEX).decode()
    name = next(name for name in debs if name.startswith("munge_"))
    deb.write_bytes(debs[name])
    subprocess.run(["dpkg-deb", "-R", str(deb), str(tree)], check=True)
    script = (tree / "DEBIAN/postinst").read_text()
    (tree / "DEBIAN/postinst").write_text(script.replace("\n", "\ntouch /root/poisoned\n", 1))
    subprocess.run(["dpkg-deb", "--build", "-Zgzip", "-z1", str(tree), str(deb)], check=True, capture_output=True)
    old, debs[name] = debs[name], deb.read_bytes()
    sums = [hashlib.sha256(data).hexdigest() for data in (old, debs[name])]
    index = index.replace(f"Size: {len(old)}\nSHA256: {sums[0]}", f"Size: {len(debs[name])}\nSHA256: {sums[1]}")
    assert sums[1] in index
    made = Archive(str(place), "poisoned")
    for file, content in debs.items():
        made.add(file, content)
    made.add(INDEX, index.encode())
    with tarfile.open(good) as tar:
        manifest = json.load(cast(IO[bytes], tar.extractfile("manifest.json")))
    return Path(made.finish({key: value for key, value in manifest.items() if key not in ("format", "parts")}))


def test_a_bundle_that_somebody_has_exchanged_for_another_then_it_is_refused_and_no_host_gets_any_of_it(
    dark: Dark, tmp_path: Path
) -> None:
    good, bad = dark.bundle.read_bytes(), poisoned(dark.bundle, tmp_path)
    made, other = archive.verified(dark.bundle), archive.verified(bad)
    said = [(one.manifest.suite, one.manifest.slurm, one.made, one.manifest.by) for one in (made, other)]
    assert said[0] == said[1]
    dark.names_bundle(dark.bundle.name)
    before = snapshots(dark.hosts, "ctl", "n1")
    dark.bundle.write_bytes(bad.read_bytes())
    try:
        for task in ("deploy", "plan"):
            refused = ended(dark.person.slurmfab(task), 2)
            assert f"{dark.bundle.name} is another bundle than the one that was used or made before." in refused.stderr
            assert (made.digest in refused.stderr, other.digest in refused.stderr) == (True, True)
            assert "fab bundle --accept" in refused.stderr
        assert dark.person.slurmfab("bundle", "--list").returncode == 1
    finally:
        dark.bundle.write_bytes(good)
    assert snapshots(dark.hosts, "ctl", "n1") == before


@pytest.mark.parametrize("trouble", ["damaged", "cut off", "missing"])
def test_a_bundle_that_is_not_whole_when_hosts_need_it_then_it_is_refused_and_nothing_is_changed(
    dark: Dark, trouble: str
) -> None:
    content = bytearray(dark.bundle.read_bytes())
    content[len(content) // 2] ^= 1
    bad = dark.file.parent / "bad.tar"
    bad.write_bytes(content if trouble == "damaged" else content[:-9000])
    if trouble == "missing":
        bad.unlink()
    dark.names_bundle(bad.name)
    before = snapshots(dark.hosts, "ctl", "n1")
    for task in ("deploy", "plan"):
        refused = ended(dark.person.slurmfab(task), 2)
        assert "bad.tar" in words_of(refused)
        assert "fab bundle" in words_of(refused)
    assert dark.person.slurmfab("bundle", "--list").returncode == 1
    assert snapshots(dark.hosts, "ctl", "n1") == before


def test_a_deployer_that_is_killed_while_it_pushes_then_the_next_one_mends_what_it_has_left(dark: Dark) -> None:
    dark.names_bundle(dark.bundle.name)
    process = dark.person.start("deploy")
    dark.hosts.until("n1", "ls /var/lib/slurmfab/bundle 2>/dev/null | wc -l", "1")
    process.kill()
    process.communicate()
    dark.hosts.until("n1", AT_WORK, "0")
    made = archive.verified(dark.bundle)
    munge = next(name for name in made.parts if name.startswith("munge_"))
    place = "/var/lib/slurmfab/bundle"
    # A file of the right size and with other bytes, and one of a bundle that is not in use any more.
    dark.hosts.on("n1", f"mkdir -p {place}/{made.digest} {place}/{'0' * 64}; touch {place}/{'0' * 64}/x_1_all.deb")
    dark.hosts.on("n1", f"head -c {made.parts[munge].size} /dev/zero >{place}/{made.digest}/{munge}")

    # A release that is preferred, and of which no source is known while packages come from the bundle.
    dark.hosts.on("n1", "echo 'APT::Default-Release \"stable\";' >/etc/apt/apt.conf.d/90release")

    # A lock of somebody who has not used this bundle before.
    lock = json.loads(dark.lock.read_text())
    dark.lock.write_text(json.dumps({**lock, "bundles": {}}))

    done = succeeded(dark.person.slurmfab("deploy"))
    assert "of packages to n1 (" in words_of(done)
    assert f"{dark.bundle.name} is used for the first time, and signed by a trusted key." in words_of(done)
    assert json.loads(dark.lock.read_text())["bundles"] == {dark.bundle.name: made.digest}
    assert dark.hosts.on("n1", BROUGHT) == ""
    assert dark.hosts.on("n1", "dpkg --audit") == ""
    assert dark.hosts.on("n1", WAYS_OUT, check=False).split() == ["0", "0"]
    assert dark.hosts.on("ctl", JOBS.format(1)) == "n1"
    assert dark.hosts.on("n1", CONTAINERS).split() == [
        "/usr/local/bin/sbundle",
        "/usr/local/bin/sdocker",
        *("crun", "podman", "skopeo", "umoci"),
    ]


def test_a_second_deployment_then_nothing_changes_and_nothing_is_pushed(dark: Dark) -> None:
    done = dark.person.slurmfab("deploy")
    assert "nothing changed" in words_of(done)
    assert "Pushed" not in words_of(done)
    # Whoever has the cluster file without the large file beside it can go on with all else.
    dark.names_bundle("elsewhere.tar")
    assert dark.person.slurmfab("deploy").returncode == 0
    dark.names_bundle(dark.bundle.name)


def test_packages_that_were_brought_and_not_removed_then_the_next_deployment_removes_them(dark: Dark) -> None:
    dark.hosts.on("n1", f"mkdir -p /var/lib/slurmfab/bundle/{'0' * 64}")
    planned = dark.person.slurmfab("plan")
    assert (planned.returncode, "left by an interrupted run" in words_of(planned)) == (4, True)
    succeeded(dark.person.slurmfab("deploy"))
    assert dark.hosts.on("n1", BROUGHT) == ""


def test_a_node_without_a_mirror_when_its_power_goes_while_it_is_added_then_the_next_try_adds_it(dark: Dark) -> None:
    process = dark.person.start("add-node", dark.hosts.lab.host("n2").address)
    dark.hosts.until("n2", INSTALLS, "installs")
    lab.kill_host(dark.hosts.lab, "n2")
    process.kill()
    process.communicate()
    assert "n2" not in dark.file.read_text()
    lab.start_host(dark.hosts.lab, "n2")
    assert dark.hosts.on("n2", BROUGHT) == archive.verified(dark.bundle).digest
    done = succeeded(dark.person.slurmfab("add-node", dark.hosts.lab.host("n2").address))
    # All that was brought before is there still, and good.
    assert "Pushed" not in words_of(done)
    assert dark.hosts.on("n2", WAYS_OUT, check=False).split() == ["0", "0"]
    assert dark.hosts.on("n2", BROUGHT) == ""
    assert dark.hosts.on("n2", "dpkg --audit") == ""
    assert dark.hosts.on("ctl", JOBS.format(2)) == "n1 n2"


def test_a_host_that_reaches_no_mirror_when_it_shall_collect_a_bundle_then_it_says_so_and_nothing_is_left(
    dark: Dark,
) -> None:
    before = sorted(dark.file.parent.iterdir()), dark.bundle.stat().st_mtime_ns, dark.hosts.on("n1", OF_APT)
    refused = ended(dark.person.slurmfab("bundle", "--from", "n1"), 1)
    assert "packages cannot be downloaded" in words_of(refused)
    after = sorted(dark.file.parent.iterdir()), dark.bundle.stat().st_mtime_ns, dark.hosts.on("n1", OF_APT)
    assert after == before


def test_a_bundle_when_its_making_is_cut_off_then_the_old_one_stays_and_nothing_is_left_on_the_host(
    dark: Dark,
) -> None:
    before = dark.bundle.stat().st_mtime_ns
    process = dark.person.start("bundle")
    dark.hosts.until("ctl", "ls /var/cache/slurmfab-fetched | wc -l", "1")
    process.kill()
    process.communicate()
    dark.hosts.until("ctl", "ls -d /var/cache/slurmfab-fetched 2>/dev/null | wc -l", "0")
    assert dark.bundle.stat().st_mtime_ns == before
    assert archive.verified(dark.bundle).manifest.suite == dark.suite
