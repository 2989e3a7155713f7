"""A first hour on look-alikes of Ubuntu: deploy as `ubuntu`, a busy dpkg, updates by themselves, a boot.

One lab goes through all of it, in this order: as Ubuntu 24.04, and as 26.04 by turns.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, eventually, report, succeeded
from lab_user import HOLD_LOCK, log_in, running_lab, words_of
from suites import LIKE

from slurmfab.lab import LabSpec
from slurmfab.lab.ubuntu_like import LIKES, USER

pytestmark = pytest.mark.lab

HOSTS = ("ctl", "n1", "n2")
TURN = os.environ["TURN"]
PLAYED = (LIKE,) if LIKE else tuple(LIKES) if TURN == "all" else (tuple(LIKES)[int(TURN) % len(LIKES)],)

MORE = """\
database: ctl
accounts: [{name: physics}]
users: [{name: ann, accounts: [physics]}]
user_ssh: hostbased
"""

REPOSITORY = """\
set -e
mkdir -p /srv/repository && cd /srv/repository && rm -f *
pack() {{
    tree=$(mktemp -d) && mkdir -p $tree/DEBIAN $tree/usr/lib
    printf 'Package: %s\\nVersion: {0}\\nArchitecture: all\\nMaintainer: Us <us@example.org>\\nDescription: x\\n' $1 \
        > $tree/DEBIAN/control
    cp "$(readlink -f /lib/*-linux-gnu/libdl.so.2)" $tree/usr/lib/lib$1.so
    chmod 755 $tree && dpkg-deb --root-owner-group -Znone --build $tree $1.deb >/dev/null
    (dpkg-deb -f $1.deb; echo "Filename: ./$1.deb"; echo "Size: $(stat -c %s $1.deb)"
     echo "SHA256: $(sha256sum $1.deb | cut -d' ' -f1)"; [ -z "$2" ] || echo "Phased-Update-Percentage: $2"
     echo) >> Packages
}}
pack tick
pack tock
pack phased {1}
echo 'deb [trusted=yes] file:/srv/repository ./' > /etc/apt/sources.list.d/own.list
mkdir -p /root/kept && mv /etc/apt/sources.list.d/ubuntu.sources /root/kept/ 2>/dev/null || :
apt-get -qq update
"""
"""A package source of the test's own: `tick`, `tock`, and `phased`, of which a share of machines gets a new version."""

PRELOADED = """\
apt-get -qq -y install tick phased >/dev/null
for unit in munge slurmctld slurmdbd slurmd; do
    mkdir -p /etc/systemd/system/$unit.service.d
    printf '[Service]\\nEnvironment=LD_PRELOAD=/usr/lib/libtick.so\\n' > /etc/systemd/system/$unit.service.d/own.conf
done
systemctl daemon-reload
# One after the other: systemd 260 restarts none of several if one of them is not there.
for unit in munge slurmdbd slurmctld slurmd; do systemctl try-restart $unit 2>/dev/null || :; done
echo 'Unattended-Upgrade::Origins-Pattern {"origin=*";};' > /etc/apt/apt.conf.d/52own
"""
"""Has Slurm's daemons use a library of `tick`."""

HABITS = {
    "stat -c '%U:%G %a' /var/log | cut -c1-16": "root:syslog",
    "systemctl is-active ssh.socket rsyslog systemd-networkd systemd-resolved snap-core24-1.mount | sort -u": "active",
    "readlink /etc/resolv.conf": "../run/systemd/resolve/stub-resolv.conf",
    "id -u ubuntu; stat -c %a /home/ubuntu": "1000\n750",
    "ls /etc/netplan /etc/ssh/sshd_config.d /etc/apt/sources.list.d": "50-cloud-init.conf",
    "grep -c 'manage_etc_hosts' /etc/hosts; grep '^127.0.1.1' /etc/hosts": "127.0.1.1 ctl ctl",
    "cloud-init status": "status: done",
    "cat /etc/ssh/sshd_config.d/60-cloudimg-settings.conf": "PasswordAuthentication no",
    "getent group admin netdev | wc -l; grep -c ^%admin /etc/sudoers": "2\n1",
    "apt-config dump binary::apt::AptCli APT::Update::Pre-Invoke": "apt-news.service",
}
"""What a host prints, or its part, before anything was deployed."""

RUST = {
    "sudo --version": "sudo-rs",
    "ls --version | head -1": "uutils",
    "cp --version | head -1; gnucp --version | head -1": "GNU coreutils",
    "command -v chroot": "/usr/bin/chroot",
    "readlink /usr/bin/sudo /usr/sbin/visudo": "/etc/alternatives/sudo\n/etc/alternatives/visudo",
    "command -v cvtsudoers || cvtsudoers.ws --version": "cvtsudoers.ws version",
    "python3 --version": "Python 3.14",
}
"""The same for 26.04 alone."""

BARE = {
    "cat /etc/hosts": "127.0.0.1 localhost\n\n::1",
    "grep -c 127.0.1.1 /etc/hosts || ls /etc/ssh/sshd_config.d": "0\n60-cloudimg-settings.conf",
}
"""The same of the last node, whose cloud says nothing of the hosts file and of passwords."""

GO = "cd / && runuser -u {} -- ssh -n -o BatchMode=yes -o ConnectTimeout=20 n2 id -un 2>&1"
"""A login from host to host by a user without keys."""

STARTED = "systemctl show -P UserspaceTimestamp"
"""Prints when this boot of a host began."""

HELD = 600 if TURN == "all" else 20  # seconds for which the first update of a new machine holds dpkg's lock

MAIN_ALONE = "Package: slurm* munge libslurm*\\nPin: release *\\nPin-Priority: -1\\n"
"""Preferences by which a host finds no Slurm, as where Ubuntu's sources have no universe."""

DENIES_NAMESPACES = """\
set -e
mount -t tmpfs kernel /mnt
for one in /proc/sys/kernel/*; do
    here=/mnt/${one##*/}
    if [ -d "$one" ]; then mkdir "$here"; else touch "$here"; fi
    mount --rbind "$one" "$here"
done
echo 1 > /mnt/apparmor_restrict_unprivileged_userns
mount --rbind /mnt /proc/sys/kernel
mount -t tmpfs security /sys/kernel/security
mkdir /sys/kernel/security/apparmor
echo 'crun (unconfined)' > /sys/kernel/security/apparmor/profiles
mv /usr/sbin/apparmor_parser /usr/sbin/apparmor_parser.own
cat > /usr/sbin/apparmor_parser <<'END'
#!/bin/sh
# STAND-IN: the own parser reads the file, and this list is what the kernel has.
/usr/sbin/apparmor_parser.own --skip-kernel-load --skip-cache "$2" || exit
name="${2##*/} (unconfined)" list=/sys/kernel/security/apparmor/profiles
grep -vxF "$name" $list > $list.new || :
[ "$1" = --remove ] || echo "$name" >> $list.new
mv $list.new $list
END
chmod 755 /usr/sbin/apparmor_parser
"""
"""A stand-in for the one setting of Ubuntu's kernel by which AppArmor denies users namespaces, and for its profiles."""

OWN_SOURCES = "mv /root/kept/ubuntu.sources /etc/apt/sources.list.d/ && apt-get -qq update"
OWN_PROFILE = "/etc/apparmor.d/slurmfab.usr.bin.crun"
LOADED = "cat /sys/kernel/security/apparmor/profiles"

PIDS = "systemctl show -P MainPID {} | paste -sd ' '"


@pytest.fixture(scope="module", params=PLAYED)
def ubuntu(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeployedLab]:
    """A bare lab whose hosts are look-alikes."""
    spec = LabSpec(
        name=f"hlike{request.param[-5:-3]}",
        suite=LIKES[request.param].suite,
        nodes=2,
        like=request.param,
        ssh_user=USER,
    )
    with running_lab(spec, tmp_path_factory.mktemp("like")) as made:
        yield made


def test_a_host_has_the_habits_of_ubuntu(ubuntu: DeployedLab) -> None:
    ubuntu.until("ctl", "cloud-init status", "status: done")
    expected = {**HABITS, **(RUST if LIKES[ubuntu.lab.spec.like].rust else {})}
    printed = {command: ubuntu.on("ctl", command, check=False) for command in expected}
    assert {command: said for command, said in printed.items() if expected[command] not in said} == {}
    ubuntu.until("n2", "cloud-init status", "status: done")
    bare = {command: ubuntu.on("n2", command, check=False) for command in BARE}
    assert {command: said for command, said in bare.items() if BARE[command] not in said} == {}
    assert ubuntu.on("ctl", "systemctl --failed --plain --no-legend") == ""
    code, said = log_in(ubuntu, "root", ubuntu.lab.ssh_key, "n1", "id")
    assert (code, 'Please login as the user "ubuntu"' in said) == (142, True), said


def test_a_first_deployment_as_ubuntu_waits_for_an_unattended_upgrade_and_names_a_missing_universe(
    ubuntu: DeployedLab,
) -> None:
    ubuntu.inventory_path.write_text(ubuntu.inventory_path.read_text() + MORE)
    ubuntu.on("n1", f"printf '{MAIN_ALONE}' > /etc/apt/preferences.d/main-alone")
    ubuntu.on("n2", f'systemd-run --quiet python3 -c "{HOLD_LOCK}"')
    ubuntu.until("n2", "ls /tmp/held", "/tmp/held")
    ubuntu.on("n2", f"systemd-run --quiet --on-active={HELD} touch /tmp/release")
    said = words_of(ended(ubuntu.slurmfab("deploy"), 3))
    assert "n1: failed: packages" in said
    assert "Ubuntu has Slurm in universe" in said, said
    assert "n2: failed" not in said, said

    ubuntu.on("n1", "rm /etc/apt/preferences.d/main-alone")
    assert report(ubuntu.slurmfab("deploy", "--json", "-"))["steps"]
    assert report(ubuntu.slurmfab("deploy", "--json", "-"))["steps"] == []
    checked = succeeded(ubuntu.slurmfab("check-cluster"))
    assert "one job runs on all nodes at once" in checked.stdout
    assert ubuntu.on("ctl", "cd /tmp && runuser -u ann -- srun -N2 hostname | sort").split() == ["n1", "n2"]
    assert "physics" in ubuntu.on("ctl", "sacct -a -n -X -o account")


def test_users_log_in_from_host_to_host_unless_they_may_become_root(ubuntu: DeployedLab) -> None:
    for host in ("n1", "n2"):
        ubuntu.on(host, "useradd --create-home --groups admin adele")
    assert ubuntu.on("n1", GO.format("ann")).splitlines()[-1] == "ann"
    for user in (USER, "adele"):
        assert "Permission denied" in ubuntu.on("n1", GO.format(user), check=False)


def test_updates_restart_daemons_when_they_come_by_themselves_and_not_within_a_run_and_no_job_ends(
    ubuntu: DeployedLab,
) -> None:
    with ThreadPoolExecutor() as pool:
        tuple(pool.map(lambda host: ubuntu.on(host, REPOSITORY.format("1.0", "") + PRELOADED), HOSTS))
        tuple(pool.map(lambda host: ubuntu.on(host, REPOSITORY.format("1.1", "0")), HOSTS))
    ubuntu.until("ctl", "sinfo -h -o '%D %t'", "2 idle")
    ubuntu.on("n1", "touch /run/reboot-required")  # as needrestart makes it on Ubuntu, which names no package
    told = ended(ubuntu.slurmfab("update", "--plan"), 4).stdout
    assert "/run/reboot-required asks for it" in told
    ubuntu.on("n1", "rm /run/reboot-required")
    assert "tick 1.0 -> 1.1" in told
    assert "phased" not in told
    job = ubuntu.on("ctl", AS_SLURM + "sbatch --parsable -N2 -o /dev/null --wrap 'srun sleep 600'")
    ubuntu.until("ctl", f"squeue -h -j {job} -o %T", "RUNNING")
    watched = {"ctl": "munge slurmdbd slurmctld", "n1": "munge slurmd", "n2": "munge slurmd"}
    before = {host: ubuntu.on(host, PIDS.format(units)).split() for host, units in watched.items()}
    # A run that installs something leaves daemons alone that use a replaced library; the next update looks after them.
    for host in HOSTS:
        ubuntu.on(host, "dpkg --install /srv/repository/tick.deb")
    ubuntu.deploy_file(ubuntu.inventory_path.read_text() + "packages: {all: [tock]}\n")
    assert {host: ubuntu.on(host, PIDS.format(units)).split() for host, units in watched.items()} == before
    assert ubuntu.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
    with ThreadPoolExecutor() as pool:
        said = "\n".join(pool.map(lambda host: ubuntu.on(host, "unattended-upgrade -v 2>&1"), HOSTS))
    # Of what it may take, unattended-upgrades takes phased versions too; Ubuntu lets it take security updates alone.
    assert {ubuntu.on(host, "dpkg-query -W tick phased | xargs") for host in HOSTS} == {"phased 1.1 tick 1.1"}, said
    after = {host: ubuntu.on(host, PIDS.format(units)).split() for host, units in watched.items()}
    same = [pid for host in HOSTS for pid in before[host] if pid in after[host] or pid == "0"]
    assert same == [], said
    assert "0" not in [pid for pids in after.values() for pid in pids]
    # needrestart does so after each package that it unpacks, where many libraries are old.
    ubuntu.on("n2", "for _ in $(seq 12); do systemctl restart munge slurmd || exit; done")
    ubuntu.until("ctl", "sinfo -h -o '%D %t'", "2 mix")
    assert ubuntu.on("ctl", f"squeue -h -j {job} -o %T") == "RUNNING"
    ubuntu.on("ctl", f"scancel {job}")
    assert report(ubuntu.slurmfab("deploy", "--json", "-"))["steps"] == []


def test_containers_where_apparmor_denies_namespaces_get_a_profile_unless_there_is_one(ubuntu: DeployedLab) -> None:
    before = ubuntu.inventory_path.read_text()
    with ThreadPoolExecutor() as pool:
        tuple(pool.map(lambda host: ubuntu.on(host, OWN_SOURCES), HOSTS))
    ubuntu.on("n1", DENIES_NAMESPACES)
    ubuntu.deploy_file(before + "containers: [oci]\n")
    # The package apparmor has one for crun, as on Ubuntu.
    assert ubuntu.on("n1", f"ls {OWN_PROFILE} 2>&1 || {LOADED}").endswith("\ncrun (unconfined)")

    ubuntu.on("n1", "mkdir -p /etc/apparmor.d/disable && ln -s ../crun /etc/apparmor.d/disable/crun")
    said = words_of(succeeded(ubuntu.slurmfab("deploy")))
    assert "n1: AppArmor denies user namespaces" in said, said
    assert "(kernel.apparmor_restrict_unprivileged_userns is 1), and no package has a profile for /usr/bin/crun" in said
    assert "  userns," in ubuntu.on("n1", f"cat {OWN_PROFILE}")
    assert "slurmfab.usr.bin.crun (unconfined)" in ubuntu.on("n1", LOADED)
    assert ubuntu.on("n2", f"ls {OWN_PROFILE} 2>/dev/null || echo none") == "none"
    assert report(ubuntu.slurmfab("deploy", "--json", "-"))["steps"] == []

    ubuntu.on("n1", "cd /etc/apparmor.d; rm disable/crun; cp crun /root; sed -i s/userns,// crun")
    refused = words_of(ended(ubuntu.slurmfab("deploy"), 3))
    assert "/etc/apparmor.d/crun, the profile of /usr/bin/crun, lacks the rule `userns,`" in refused, refused
    ubuntu.on("n1", "mv /root/crun /etc/apparmor.d/crun")
    succeeded(ubuntu.slurmfab("deploy"))
    assert ubuntu.on("n1", f"ls {OWN_PROFILE} 2>/dev/null; {LOADED}") == "crun (unconfined)"
    ubuntu.deploy_file(before)


def test_after_a_boot_cloud_init_has_written_hosts_and_they_are_as_wanted(ubuntu: DeployedLab) -> None:
    written = {host: ubuntu.on(host, "stat -c %Y /etc/hosts") for host in HOSTS}
    started = {host: ubuntu.on(host, STARTED) for host in HOSTS}
    for host in HOSTS:
        ubuntu.on(host, "systemctl --no-block reboot")

    def is_done(host: str) -> bool:
        """Whether a host has booted, and cloud-init has done its part; by SSH, which holds up no shutdown."""
        with suppress(subprocess.TimeoutExpired):
            _, said = log_in(ubuntu, USER, ubuntu.lab.ssh_key, host, f"{STARTED}; cloud-init status")
            now = said.splitlines()
            return now[-1:] == ["status: done"] and now[0] != started[host]
        return False

    for host in HOSTS:
        eventually(partial(is_done, host), f"{host} has booted", patience=180)
    assert "Your system has configured 'manage_etc_hosts' as True." in ubuntu.on("n1", "cat /etc/hosts")
    assert [host for host in HOSTS if ubuntu.on(host, "stat -c %Y /etc/hosts") == written[host]] == ["n2"]
    ubuntu.until("ctl", "sinfo -h -o '%D %t'", "2 idle", patience=120)
    assert report(ubuntu.slurmfab("deploy", "--json", "-"))["steps"] == []
    succeeded(ubuntu.slurmfab("check-cluster"))
