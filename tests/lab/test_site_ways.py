"""Valid ways of a site that slurmfab takes as they are: ports, directories, logs and units elsewhere, its own MariaDB.

One lab per Slurm goes through all of it, in this order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab, succeeded
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

WAYS = """
database: {host: ctl, user: slurmdbd, settings: false}
slurmdbd_conf: {DbdPort: 7019, LogFile: /srv/dbd/slurmdbd.log, PurgeJobAfter: 24months}
health: true
slurm_conf:
  SlurmctldPort: 7017
  SlurmdPort: 7018
  SlurmdSpoolDir: /srv/slurmd
  SlurmctldLogFile: /srv/log/slurmctld.log
  SlurmdLogFile: /srv/log/slurmd-%n.log
  SlurmctldPidFile: /var/run/slurmctld.pid
  SlurmdPidFile: /var/run/slurmd.pid
"""
DROP_IN = "/etc/systemd/system/{}.service.d/site.conf"
UNITS = ("slurmctld", "slurmd", "slurmdbd")
PIDS = "systemctl show --property=MainPID --value mariadb slurmdbd slurmctld slurmd | xargs"
CONF = "/etc/slurm/slurmdbd.conf"
MARIADB = """
cat >/etc/mysql/mariadb.conf.d/70-site.cnf <<END
[mariadbd]
loose_innodb_snapshot_isolation=OFF
innodb_lock_wait_timeout=900
END
systemctl enable --now --quiet mariadb
systemctl restart mariadb
"""
"""MariaDB as the site has set it up."""

BY_HAND = f"""
password=$(sed -n 's/^StoragePass=//p' {CONF})
cat >/root/by-hand <<END
# slurmdbd of this site
dbdhost = localhost
dbdport = 7019
slurmuser = slurm
logfile = /srv/dbd/slurmdbd.log
pidfile = $(sed -n 's/^PidFile=//p' {CONF})
storagetype = accounting_storage/mysql
storagehost = 127.0.0.1
storageuser = slurmdbd
storagepass = $password
purgejobafter = 24months
END
cat /root/by-hand >{CONF}
systemctl restart slurmdbd
timeout 60 sh -c 'until sacctmgr -nP show cluster format=cluster | grep -q .; do sleep 0.2; done'
"""


@pytest.fixture(scope="module", params=in_turn("site_ways"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    with stock.copy(request.param, nodes=1, database=True) as lab:
        for host in ("ctl", "n1"):
            for unit in UNITS:
                path = DROP_IN.format(unit)
                lab.on(host, f"mkdir -p $(dirname {path}); printf '[Service]\\nLimitCORE=0\\n' >{path}")
            lab.on(host, "systemctl daemon-reload")
        lab.on("ctl", "mkdir /srv/log; chown slurm:adm /srv/log; chmod 2750 /srv/log")
        if request.param == "bookworm":  # whose units start them as root, so that a log may be in a directory of root's
            lab.on("ctl", "mkdir /srv/dbd")
        lab.on("ctl", MARIADB)
        lab.on("ctl", "systemctl show --property=MainPID --value mariadb >/root/mariadb.pid")
        lab.inventory_path.write_text(lab.inventory_path.read_text() + WAYS)
        yield lab


def test_a_cluster_with_other_places_and_ports_is_deployed_and_passes_its_checks(site: DeployedLab) -> None:
    succeeded(site.slurmfab("deploy"))
    assert site.deploy()["steps"] == []
    words = "daemons,network,configuration,system,health,nodes,database,jobs"
    checks = json.loads(site.slurmfab("check-cluster", "--json", "-", "--only", words).stdout)["checks"]
    assert [one["cause"] for one in checks if one["outcome"] == "failed"] == []
    assert site.on("ctl", "ps -o user= -C slurmctld -C slurmdbd | sort -u") == "slurm"
    assert site.on("n1", "ls -d /srv/slurmd/cred_state* /srv/log/slurmd-n1.log | wc -l") >= "1"
    assert site.on("ctl", "test -s /srv/log/slurmctld.log && test -s /srv/dbd/slurmdbd.log && echo logs") == "logs"


def test_what_the_site_has_set_up_stays_as_it_was(site: DeployedLab) -> None:
    for host in ("ctl", "n1"):
        kept = site.on(host, f"cat {' '.join(map(DROP_IN.format, UNITS))} | grep -c LimitCORE=0")
        assert kept == str(len(UNITS))
    assert site.on("ctl", "stat -c '%U:%G %a' /srv/log") == "slurm:adm 2750"
    assert site.on("ctl", "ls /etc/mysql/mariadb.conf.d | grep -c slurmfab || :") == "0"
    assert site.on("ctl", "systemctl show --property=MainPID --value mariadb") == site.on(
        "ctl", "cat /root/mariadb.pid"
    )
    assert site.on("n1", "systemctl show --property=LimitCORE --value slurmd") == "0"


def test_errors_of_daemons_are_taken_from_the_logs_of_the_site(site: DeployedLab) -> None:
    text = site.inventory_path.read_text()
    site.inventory_path.write_text(
        text.replace("  SlurmctldPort", "  PriorityType: priority/unheard-of\n  SlurmctldPort")
    )
    done = site.slurmfab("deploy")
    said = done.stdout + done.stderr
    assert (done.returncode, "priority/unheard-of" in said) == (1, True), said
    assert "earlier files are back" in said
    site.inventory_path.write_text(text)
    assert site.deploy()["steps"] == []


def test_a_slurmdbd_conf_made_by_hand_stays_with_its_password_and_no_daemon_is_restarted(site: DeployedLab) -> None:
    site.on("ctl", BY_HAND)
    before = site.on("ctl", PIDS)
    assert site.deploy()["steps"] == []
    assert site.on("ctl", PIDS) == before
    assert site.on("ctl", f"cmp /root/by-hand {CONF} && echo same") == "same"


def test_its_first_change_brings_slurmfabs_file_with_the_same_password(site: DeployedLab) -> None:
    text = site.inventory_path.read_text()
    site.inventory_path.write_text(text.replace("24months", "36months"))
    succeeded(site.slurmfab("deploy"))
    assert site.on("ctl", f"grep -c PurgeJobAfter=36months {CONF}") == "1"
    before, after = "sed -n 's/^storagepass = //p' /root/by-hand", f"sed -n 's/^StoragePass=//p' {CONF}"
    assert site.on("ctl", before) == site.on("ctl", after) != ""
    assert site.deploy()["steps"] == []
