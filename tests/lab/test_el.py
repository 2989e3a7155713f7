"""A cluster on the stand-in for Enterprise Linux, with the real rpm and dnf: deployed, used, grown, healed, refused.

No host of it is a real Enterprise Linux: `slurmfab/lab/el_standin.py` says what that proves, and what not.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import DeployedLab, Founded, blackout_heals, ended, found, succeeded
from lab_user import words_of
from stock import Stock
from suites import SHARES

from slurmfab.base.exit_codes import FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.cluster.slurm.platform import EL, EL_OPENHPC, EL_SMD, PLATFORMS, Platform
from slurmfab.lab.el_standin import KEY, KILLER, PLACE, SLURMS
from slurmfab.on_hosts.agent.dnf import slurm_repository

pytestmark = pytest.mark.lab

TURN = os.environ["TURN"]
KINDS = tuple(SLURMS) if TURN == "all" else (tuple(SLURMS)[int(TURN) // SHARES % len(SLURMS)],)
"""The kinds of packages, or one of them by turns."""

SLURM = 'slurm: {{packages: {}, version: "24.11.*"{}}}\n'
SOURCES = {
    EL_SMD.name: f', source: {{uris: "file:{PLACE}/{SLURMS[EL_SMD.word][0]}", key: slurm.asc}}',
    EL.name: "",  # the host's own, as with epel-release
    EL_OPENHPC.name: ", source: {directory: rpms}",
}
"""Where each kind comes from: all ways are tried."""
WANTED = """\
database: ctl
accounts: [{name: physics}]
users: [{name: ada, uid: 4001, accounts: physics}]
"""
NAMES = "rpm --query --all --queryformat '%{NAME}\\n'"
ON_RECORD = "sacct -X -n -P -a -o User,Account,State | sort -u"


SITES_OWN = """\
set -e
for version in 1 2; do
    printf '%s\\n' 'Name: site-tool' "Version: $version" 'Release: 1' 'Summary: a tool' 'License: none' \\
        'BuildArch: noarch' '%description' 'a tool' '%files' >/tmp/site-tool.spec
    rpmbuild -bb --quiet --define '_rpmdir /srv/site' /tmp/site-tool.spec
done
createrepo_c --quiet /srv/site
printf '%s\\n' '[site]' 'name=site' 'baseurl=file:///srv/site' 'gpgcheck=0' >/etc/yum.repos.d/site.repo
dnf -q -y install site-tool-1
"""
"""Makes a source of the site's own with a tool in two versions, and installs the first."""


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> Platform:
    return PLATFORMS[request.param]


@pytest.fixture(scope="module")
def founded(stock: Stock, kind: Platform) -> Iterator[Founded]:
    with stock.bare("trixie", nodes=2, slurm_packages=kind.word) as lab:
        for host in ("ctl", "n1", "n2") if SOURCES[kind.name] else ():
            # Slurm's packages are to come from the source that the cluster file names.
            lab.on(host, f"rm {slurm_repository.FOLDER}/lab-{SLURMS[kind.word][0]}.repo")
        if kind == EL_OPENHPC:
            shutil.copytree(rpms(lab, kind), lab.inventory_path.parent / "rpms")
        (lab.inventory_path.parent / "slurm.asc").write_text(f"{lab.on('ctl', f'cat {KEY}')}\n")
        lines = lab.inventory_path.read_text().splitlines(keepends=True)
        text = "".join(line for line in lines if not line.startswith("slurm:"))
        yield found(lab, f"{text}{slurm(kind)}{WANTED}")


def slurm(kind: Platform) -> str:
    """The key `slurm` of the cluster file."""
    return SLURM.format(kind.word, SOURCES[kind.name])


def rpms(lab: DeployedLab, kind: Platform) -> Path:
    """The directory of a kind's RPMs on a host of the lab, by its path here."""
    (found,) = Path(f"/proc/{lab.lab.host('n1').pid}/root{PLACE}/{SLURMS[kind.word][0]}").glob("[!r]*")
    return found


def test_a_cluster_on_rpms_when_deployed_then_it_has_names_and_places_of_the_kind_and_a_plan_is_empty(
    founded: Founded, kind: Platform
) -> None:
    assert founded.phases >= {"packages", "users"}
    for host, role in (("ctl", "controller"), ("ctl", "database"), ("n1", "compute")):
        assert {*kind.packages(role)} <= {*founded.lab.on(host, NAMES).split()}
    assert founded.lab.on("ctl", "scontrol show config | grep ^PluginDir").endswith("/usr/lib64/slurm")
    assert "innodb_lock_wait_timeout" in founded.lab.on("ctl", f"cat {kind.database_settings}")
    succeeded(founded.lab.slurmfab("plan"))


def test_a_cluster_on_rpms_when_deployed_then_the_agent_ran_on_the_python_of_enterprise_linux_9(
    founded: Founded,
) -> None:
    for host in ("ctl", "n1"):
        assert founded.lab.on(host, "python3 -I -c 'import sys; print(*sys.version_info[:2])'") == "3 9"


def test_a_cluster_on_rpms_when_deployed_again_then_nothing_changes(founded: Founded) -> None:
    assert founded.lab.deploy()["steps"] == []


def test_a_cluster_on_rpms_when_checked_then_all_checks_pass(founded: Founded) -> None:
    succeeded(founded.lab.slurmfab("check-cluster"))


def test_a_job_of_a_user_when_it_has_ended_then_it_is_on_record(founded: Founded) -> None:
    assert founded.lab.on("ctl", "cd / && runuser -u ada -- srun -A physics id -un") == "ada"
    founded.lab.until("ctl", f"{ON_RECORD} | grep ada", "ada|physics|COMPLETED")


def test_a_dnf_that_was_killed_when_deployed_again_then_its_packages_are_whole(
    founded: Founded, kind: Platform
) -> None:
    names = f"{kind.client} {kind.daemon_packages['slurmd']}"
    files = " ".join(f"{PLACE}/{SLURMS[kind.word][0]}/*/{name}-2*.rpm" for name in names.split())
    reinstall = f"dnf -q -y --disableexcludes=all reinstall {files if kind == EL_OPENHPC else names}"
    assert founded.lab.on("n1", f"touch {KILLER}; {reinstall} >/dev/null 2>&1; echo $?; rm {KILLER}") == "137"
    planned = ended(founded.lab.slurmfab("plan"), SOMETHING_TO_DO)
    assert "unfinished" in words_of(planned)
    checked = founded.lab.slurmfab("check-cluster", "--hosts", "n1")
    assert f"{kind.client} unfinished" in words_of(checked)
    founded.lab.deploy()
    assert founded.lab.on("n1", f"rpm --verify --nodeps {names} | grep /usr/; dnf -q check") == ""
    assert founded.lab.slurmfab("plan").returncode == 0


def test_all_packages_when_upgraded_by_hand_then_slurm_is_not_among_them_if_it_is_from_its_own_source(
    founded: Founded, kind: Platform
) -> None:
    held = founded.lab.on("n1", f"cat {slurm_repository.PATH} 2>/dev/null | grep ^excludepkgs= || true")
    offered = founded.lab.on("n1", f"dnf -q repoquery {kind.client} --available")
    if kind == EL:
        assert (held, offered[:6]) == ("", "slurm-")  # of the host's own source, which is not slurmfab's
    else:
        assert offered == ""
        assert held == (f"excludepkgs={' '.join(kind.slurm_packages)}" if kind == EL_SMD else "")


def test_a_host_of_another_release_or_kind_when_planned_then_it_is_refused_with_the_reason(
    founded: Founded, kind: Platform
) -> None:
    lab, text = founded.lab, founded.lab.inventory_path.read_text()
    lab.on("n1", "sed -i.before s/platform:el9/platform:el8/ /usr/lib/os-release")
    try:
        old = lab.slurmfab("plan")
    finally:
        lab.on("n1", "mv /usr/lib/os-release.before /usr/lib/os-release")
    assert old.returncode == LEFT_OUT, words_of(old)
    assert "n1: it runs rocky (el8); of Enterprise Linux, slurmfab knows 9 and 10" in words_of(old)
    lab.inventory_path.write_text(text.replace(slurm(kind), ""))
    try:
        other = lab.slurmfab("plan")
    finally:
        lab.inventory_path.write_text(text)
    assert "it runs rocky, and the cluster file is for the distribution's packages" in words_of(other)


def test_packages_when_updated_then_newer_ones_are_there_and_slurm_stays(founded: Founded, kind: Platform) -> None:
    founded.lab.on("n1", SITES_OWN)
    slurmd = f"rpm --query {kind.daemon_packages['slurmd']}"
    before = founded.lab.on("n1", slurmd)
    planned = ended(founded.lab.slurmfab("update", "--hosts", "n1", "--plan"), SOMETHING_TO_DO)
    assert "site-tool" in words_of(planned)
    succeeded(founded.lab.slurmfab("update", "--hosts", "n1", "--yes"))
    assert founded.lab.on("n1", "rpm --query site-tool") == "site-tool-2-1.noarch"
    assert founded.lab.on("n1", slurmd) == before
    founded.lab.until("ctl", "sinfo -h -n n1 -o %t", "idle")


def test_a_node_when_the_source_is_away_then_that_is_said_and_with_the_source_it_joins(
    founded: Founded, kind: Platform
) -> None:
    place, name = f"{PLACE}/{SLURMS[kind.word][0]}", kind.daemon_packages["slurmd"]
    beside = founded.lab.inventory_path.parent
    newcomer = (founded.lab.lab.host("n2").address, "--accept-new-host-keys")
    away = [path.rename(beside / path.name) for path in (beside / "rpms").glob(f"{name}-*")]
    founded.lab.on("n2", f"mv {place} {place}-away")
    refused = founded.lab.slurmfab("add-node", *newcomer)
    assert refused.returncode in (FAILURE, LEFT_OUT), words_of(refused)
    source = slurm_repository.NAME if kind == EL_SMD else f"lab-{SLURMS[kind.word][0]}"
    told = f"n2: it lacks {name}, and the directory" if away else f"the package source {source} cannot be reached (Curl"
    assert told in words_of(refused)
    for path in away:
        path.rename(beside / "rpms" / path.name)
    founded.lab.on("n2", f"mv {place}-away {place}")
    succeeded(founded.lab.slurmfab("add-node", *newcomer))
    assert founded.lab.on("ctl", "runuser -u slurm -- srun -N2 hostname | sort | xargs") == "n1 n2"
    succeeded(founded.lab.slurmfab("plan"))


def test_a_cluster_on_rpms_after_a_blackout_then_is_whole_without_a_hand(founded: Founded) -> None:
    blackout_heals(founded.lab)
