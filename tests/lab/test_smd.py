"""A cluster on the stand-in for SchedMD's packages ("smd"): deployed, used, grown; hosts with other packages refused.

`make test-smd` plays the other lab tests on these packages, too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import Founded, found, succeeded
from lab_user import words_of
from listening import SLURM, listening, slurms
from stock import Stock

from slurmfab.base.exit_codes import FAILURE, LEFT_OUT, SOMETHING_TO_DO, WRONG_INPUT
from slurmfab.cluster.slurm.platform import DEBIAN, DEBIAN_SMD

pytestmark = pytest.mark.lab

SUITE = "trixie"
WANTED = """\
database: ctl
accounts: [{name: physics}]
users: [{name: ada, uid: 4001, accounts: physics}]
rest: ctl
monitoring: true
"""
NAMES = "dpkg-query -W -f '${db:Status-Status} ${Package}\\n' | sed -n 's/^installed //p'"
ON_RECORD = "sacct -X -n -P -a -o User,Account,State | sort -u"
STRANGE = r"""
cp -p /var/lib/dpkg/status /var/tmp/status
printf '%s\n' 'Package: slurmctld' 'Status: install ok installed' 'Version: 24.11.5-4' 'Architecture: amd64' \
    'Maintainer: x' 'Description: x' '' >>/var/lib/dpkg/status
"""
"""Shell script after which dpkg lists a package of Debian's beside SchedMD's, as after an installation by force."""


@pytest.fixture(scope="module")
def founded(stock: Stock) -> Iterator[Founded]:
    with stock.bare(SUITE, nodes=2, slurm_packages="smd", packages=("n2:munge,slurm-client",)) as lab:
        yield found(lab, f"{lab.inventory_path.read_text()}{WANTED}")


def test_a_cluster_on_schedmds_packages_when_deployed_then_it_has_no_other_and_a_plan_is_empty(
    founded: Founded,
) -> None:
    assert founded.phases >= {"packages", "users"}
    for host, role in (("ctl", "controller"), ("ctl", "database"), ("n1", "compute")):
        names = set(founded.lab.on(host, NAMES).split())
        assert {*DEBIAN_SMD.packages(role)} <= names
        assert not {*DEBIAN.slurm_packages} & names
    assert founded.lab.on("ctl", "scontrol show config | grep ^PluginDir").endswith("/usr/lib/x86_64-linux-gnu/slurm")
    succeeded(founded.lab.slurmfab("plan"))


def test_a_cluster_on_schedmds_packages_when_checked_then_all_checks_pass(founded: Founded) -> None:
    succeeded(founded.lab.slurmfab("check-cluster"))


def test_daemons_of_schedmds_packages_when_all_run_then_they_listen_where_slurmfab_says_alone(founded: Founded) -> None:
    """Their unit of slurmrestd has it listen on port 6820 of all addresses."""
    assert "SLURMRESTD_LISTEN=:6820" in founded.lab.on("ctl", "cat /usr/lib/systemd/system/slurmrestd.service")
    assert founded.lab.on("ctl", "systemctl is-active slurmrestd; stat -c %F /run/slurmrestd/*") == "active\nsocket"
    found, ports = listening(founded.lab, "ctl", "n1"), {"ctl": slurms("slurmctld", "slurmdbd"), "n1": slurms("slurmd")}
    for host, own in ports.items():
        exporter = f"prometheus-node-exporter on {founded.lab.lab.host(host).address}:9100"
        ours = {one for one in found[host] if one.partition(" ")[0] in (*SLURM, "slurmrestd", "munge", "sackd")}
        assert ours == own, found
        assert exporter in found[host], found
    assert {one for one in found["ctl"] if one.startswith("mariadb")} == {"mariadb on 127.0.0.1:3306"}


def test_a_job_of_a_user_when_it_has_ended_then_it_is_on_record(founded: Founded) -> None:
    assert founded.lab.on("ctl", "cd / && runuser -u ada -- srun -A physics id -un") == "ada"
    founded.lab.until("ctl", f"{ON_RECORD} | grep ada", "ada|physics|COMPLETED")


def test_a_host_with_packages_of_both_kinds_when_planned_then_it_is_refused_with_the_reason(founded: Founded) -> None:
    founded.lab.on("n1", STRANGE)
    try:
        done = founded.lab.slurmfab("plan")
    finally:
        founded.lab.on("n1", "cp -p /var/tmp/status /var/lib/dpkg/status")
    assert done.returncode == LEFT_OUT, words_of(done)
    assert "n1: it has two kinds of Slurm's packages" in words_of(done)


def test_a_host_with_debians_packages_when_added_then_it_is_refused_and_without_them_it_joins(
    founded: Founded,
) -> None:
    newcomer = (founded.lab.lab.host("n2").address, "--accept-new-host-keys")
    refused = founded.lab.slurmfab("add-node", *newcomer)
    assert refused.returncode in (FAILURE, WRONG_INPUT), words_of(refused)
    assert "n2: it has Slurm of " in words_of(refused)
    assert "apt-get remove slurm-client slurm-wlm-basic-plugins" in words_of(refused)
    # Its munge has a number of its own, too, which add-node refuses in its turn.
    founded.lab.on("n2", "apt-get -qq -y remove slurm-client slurm-wlm-basic-plugins munge && userdel munge")
    succeeded(founded.lab.slurmfab("add-node", *newcomer))
    assert founded.lab.on("ctl", "runuser -u slurm -- srun -N2 hostname | sort | xargs") == "n1 n2"
    planned = founded.lab.slurmfab("plan")
    assert planned.returncode != SOMETHING_TO_DO, words_of(planned)
