"""Hosts where firewalld is at work: its zone lets in the cluster's hosts and nobody else, and nothing of it is lost.

One lab goes through all of it, in this order; n2 has no firewalld. The stranger is a second address of n2's.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from lab_cluster import AS_SLURM, ended
from lab_user import words_of
from stock import Stock
from test_firewall import CONNECT, MANAGED, NAMED, Site

from slurmfab import lab
from slurmfab.on_hosts.agent.files import firewalld_zone

pytestmark = pytest.mark.lab

INSTALL = (
    "{ apt-get -qq update; DEBIAN_FRONTEND=noninteractive apt-get -qq --no-install-recommends install firewalld;"
    " systemctl enable --now firewalld; } >/dev/null 2>&1; firewall-cmd --state"
)
ZONE = f"firewall-cmd --info-zone={firewalld_zone.ZONE}"
LEFT = f"ls {firewalld_zone.PATH} /var/lib/slurmfab/owned/{firewalld_zone.OF}.json 2>/dev/null; true"


@pytest.fixture(scope="module")
def site(stock: Stock) -> Iterator[Site]:
    # Debian 12's firewalld does not start on a host of a lab.
    with stock.copy("trixie", database=True, nodes=2) as lab_with:
        stranger = lab_with.lab.host("n2").address.rpartition(".")[0] + ".251"
        lab_with.on("n2", f"ip address add {stranger}/24 dev eth0")
        made = Site(lab_with, lab_with.inventory_path.read_text(), stranger)
        made.deploy(NAMED)
        for host in ("ctl", "n1"):
            assert lab_with.on(host, INSTALL) == "running"
        yield made


def refused(site: Site, source: str, port: int = 6817) -> bool:
    """Whether connections from an address of n2's to the controller are refused by its firewall."""
    told = site.lab.on("n2", f"python3 -c '{CONNECT}' {source} {site.address('ctl')} {port}")
    return told == f"{port} EHOSTUNREACH"


def test_a_cluster_when_firewalld_blocks_it_then_a_plan_tells_whom(site: Site) -> None:
    site.write(f"{NAMED}firewall: checked\n")
    told = words_of(site.lab.slurmfab("plan"))
    assert "slurmctld on ctl port 6817" in told
    assert refused(site, site.address("n2"))


def test_settings_that_are_not_permanent_when_a_zone_is_new_then_they_are_not_lost(site: Site) -> None:
    site.lab.on("ctl", "firewall-cmd --quiet --add-port=9999/tcp")
    site.write(MANAGED)
    done = ended(site.lab.slurmfab("deploy"), 1)
    assert "firewalld has settings that are not permanent" in words_of(done)
    assert site.lab.on("ctl", f"firewall-cmd --list-ports; {LEFT}") == "9999/tcp"
    site.lab.on("ctl", "firewall-cmd --quiet --runtime-to-permanent")


def test_a_zone_when_deployed_then_hosts_reach_each_other_strangers_do_not_and_a_plan_is_empty(site: Site) -> None:
    planned = site.lab.slurmfab("plan")
    assert f'<source address="{site.address("n2")}"/>' in planned.stdout, words_of(planned)
    assert "firewalld-zone:firewalld" in site.deploy(MANAGED)
    assert site.lab.deploy()["steps"] == []
    assert site.lab.on("ctl", "firewall-cmd --list-ports") == "9999/tcp"
    assert site.lab.on("ctl", f"{AS_SLURM}srun -N2 hostname | sort").split() == ["n1", "n2"]
    assert refused(site, site.stranger)
    assert not refused(site, site.address("n2"))
    assert site.lab.on("n1", "nft list table inet slurmfab 2>/dev/null || true") == ""
    assert "reject" in site.lab.on("n2", "nft list table inet slurmfab")
    site.passes()


def test_an_address_that_somebody_removes_when_checked_then_that_is_told_and_a_deployment_brings_it_back(
    site: Site,
) -> None:
    site.lab.on("ctl", f"firewall-cmd --quiet --zone=slurmfab --remove-source={site.address('n2')}")
    site.lab.on("ctl", "firewall-cmd --quiet --add-port=9998/tcp")
    done = site.lab.slurmfab("check-cluster", "--only", "strangers_are_kept_out")
    assert (done.returncode, "firewalld on ctl does not let n2 in" in words_of(done)) == (1, True), words_of(done)
    assert site.deploy(MANAGED) == ["firewalld-zone:firewalld"]
    assert site.address("n2") in site.lab.on("ctl", ZONE)
    assert "9998/tcp" in site.lab.on("ctl", "firewall-cmd --list-ports"), "nothing was loaded anew"


def test_a_host_when_it_boots_then_the_zone_is_there(site: Site) -> None:
    before = site.lab.on("n1", ZONE)
    lab.kill_host(site.lab.lab, "n1")
    lab.start_host(site.lab.lab, "n1")
    site.lab.until("n1", ZONE, before)
    # Slurm keeps a node down that has rebooted without a word of it.
    site.lab.until("ctl", "scontrol update NodeName=n1 State=RESUME; sinfo -h -N -n n1 -o %t | uniq", "idle")
    assert site.lab.on("ctl", f"{AS_SLURM}srun -N2 hostname | sort").split() == ["n1", "n2"]


def test_networks_of_admins_when_firewalld_decides_about_ssh_then_they_are_refused(site: Site) -> None:
    site.write(f"{NAMED}firewall: {{admins: 192.0.2.0/24, users: 192.0.2.0/24}}\n")
    done = site.lab.slurmfab("plan")
    told = "ctl,n1: firewall: admins: firewalld is at work there and decides"
    assert (done.returncode, told in words_of(done)) == (2, True), done


def test_a_host_when_firewalld_has_ended_then_it_has_rules_of_nftables_in_place_of_the_zone(site: Site) -> None:
    site.lab.on("n1", "systemctl disable --quiet --now firewalld")
    assert {"firewall-rules:firewall", "firewalld-zone:firewalld"} <= {*site.deploy(MANAGED)}
    assert site.lab.on("n1", LEFT) == ""
    assert "reject" in site.lab.on("n1", "nft list table inet slurmfab")
    site.passes("--only", "network")


def test_without_the_key_nothing_is_left(site: Site) -> None:
    site.deploy(f"{NAMED}firewall: none\n")
    assert site.lab.deploy()["steps"] == []
    assert site.lab.on("ctl", LEFT) == ""
    assert site.address("n2") not in site.lab.on("ctl", f"{ZONE} || true")
    assert "9998/tcp" in site.lab.on("ctl", "firewall-cmd --list-ports")
    assert refused(site, site.address("n2"))
