"""What distributions do by default, and what machines have before slurmfab comes: none of it keeps a cluster away.

Ubuntu's rsyslog: Debian's package with the line of /usr/lib/tmpfiles.d/00rsyslog.conf and the user of rsyslog.conf that
Ubuntu's packaging of rsyslog has (debian/ there). A processor with efficiency cores: a stand-in below /sys/devices, by
which hwloc knows Intel's (cpu_core and cpu_atom); the slurmd that counts is real. Another installation: what
`make install` leaves in /usr/local, with programs that only tell a version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended, eventually
from lab_user import words_of
from stock import Stock
from suites import SUITES

from slurmfab.base.errors import LabError
from slurmfab.cluster.inventory.lock import load

pytestmark = pytest.mark.lab

UBUNTUS_LINE = "z /var/log 0775 root syslog -"
LIKE_UBUNTU = f"""set -e
adduser --quiet --system --group --no-create-home --home /nonexistent syslog
usermod --append --groups adm syslog
printf '%s\\n' '# Type Path Mode UID GID Age Argument' '{UBUNTUS_LINE}' >/usr/lib/tmpfiles.d/00rsyslog.conf
systemd-tmpfiles --create 00rsyslog.conf"""

RSYSLOG = """set -e
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update && apt-get -qq install rsyslog >/dev/null 2>&1
unit=/etc/systemd/system/rsyslog.service.d
mkdir -p $unit
printf '%s\\n' '[Service]' 'CapabilityBoundingSet=CAP_SETGID CAP_SETUID' >$unit/ubuntu.conf
systemctl daemon-reload
printf '%s\\n' '$FileOwner syslog' '$FileGroup adm' '$PrivDropToUser syslog' '$PrivDropToGroup syslog' \\
    >/etc/rsyslog.d/00-ubuntu.conf
rm -f /var/log/syslog
systemctl restart rsyslog"""

HYBRID = """set -e
mount -t tmpfs hybrid /mnt
for one in /sys/devices/*; do mkdir /mnt/${one##*/}; mount --rbind $one /mnt/${one##*/}; done
mkdir /mnt/cpu_core /mnt/cpu_atom
last=$(($(getconf _NPROCESSORS_ONLN) - 1))
echo 0-$((last - 1)) >/mnt/cpu_core/cpus
echo $last >/mnt/cpu_atom/cpus
mount --rbind /mnt /sys/devices"""

BUILT = """set -e
printf '%s\n' '#!/bin/sh' 'echo slurm 21.08.8' >/usr/local/sbin/slurmd
install -m 755 /usr/local/sbin/slurmd /usr/local/bin/srun
chmod 755 /usr/local/sbin/slurmd
mkdir -p /usr/local/lib/slurm
printf '%s\\n' '[Service]' 'ExecStart=/usr/local/sbin/slurmd -D' '[Install]' 'WantedBy=multi-user.target' \\
    >/etc/systemd/system/slurmd.service
systemctl daemon-reload
systemctl enable --quiet slurmd"""

REMOVAL = " To remove it, while no job runs there: "
UNIT = "/etc/systemd/system/slurmd.service"
BOOT = "awk '{print $22}' /proc/1/stat; cat /proc/sys/kernel/random/boot_id"
ACCESS = "stat -c '%U:%G %a' /var/log"
AS_SYSLOG = "setpriv --reuid=syslog --regid=syslog --clear-groups "


@pytest.fixture(scope="module", params=SUITES)
def hosts(request: pytest.FixtureRequest, stock: Stock) -> Iterator[DeployedLab]:
    """Bare hosts: ctl and n1 as rsyslog has it on Ubuntu, n2 with another installation, n3 with efficiency cores."""
    with stock.bare(request.param, nodes=3) as made:
        for host in ("ctl", "n1"):
            made.on(host, LIKE_UBUNTU)
            assert made.on(host, ACCESS) == "root:syslog 775"
        made.on("n1", RSYSLOG)
        made.on("n2", BUILT)
        made.on("n3", HYBRID)
        yield made


@pytest.fixture(scope="module")
def first(hosts: DeployedLab) -> str:
    """What the first deployment said, which left n2 out."""
    return words_of(ended(hosts.slurmfab("deploy"), 3))


@pytest.fixture(scope="module")
def whole(hosts: DeployedLab, first: str) -> DeployedLab:
    """The cluster with n2, where what the message says to type was typed."""
    told = next(line for line in first.splitlines() if line.startswith("n2: ") and REMOVAL in line)
    hosts.on("n2", told.partition(REMOVAL)[2].removesuffix("."))
    hosts.deploy()
    return hosts


def test_another_installation_when_first_deployed_to_then_is_told_with_true_paths_and_nothing_is_changed_there(
    hosts: DeployedLab, first: str
) -> None:
    told = next(line for line in first.splitlines() if line.startswith("n2: ") and REMOVAL in line)
    named = [word.strip(".,;:") for word in told.split() if word.startswith("/") and "(" not in word]
    assert {"/usr/local/sbin/slurmd", "/usr/local/bin/srun", "/usr/local/lib/slurm", UNIT} <= {*named}
    for path in {*named}:
        hosts.on("n2", f"test -e {path}")
    assert "Upgrade the" not in told
    assert hosts.on("n2", "dpkg-query -W slurmd 2>/dev/null; ls -d /etc/slurm 2>/dev/null; :") == ""


def test_another_installation_when_removed_as_told_then_the_host_joins_with_its_packages(whole: DeployedLab) -> None:
    assert whole.on("n2", "systemctl show --property=FragmentPath --value slurmd").endswith(
        "lib/systemd/system/slurmd.service"
    )
    assert whole.on("ctl", AS_SLURM + "srun -w n2 hostname") == "n2"


def test_a_directory_of_logs_that_a_group_shares_when_deployed_then_stays_the_groups_and_only_owners_rename(
    whole: DeployedLab,
) -> None:
    for host in ("ctl", "n1"):
        assert whole.on(host, ACCESS) == "root:syslog 1775"
        assert "1775" in whole.on(host, "cat /etc/tmpfiles.d/00rsyslog.conf")
        assert whole.on(host, "cat /usr/lib/tmpfiles.d/00rsyslog.conf").endswith(UBUNTUS_LINE)
    assert whole.on("n2", ACCESS) == "root:root 755"
    whole.on("n2", "test ! -e /etc/tmpfiles.d/00rsyslog.conf")


def test_a_member_of_the_group_when_it_would_lead_slurms_daemons_elsewhere_then_the_kernel_refuses(
    whole: DeployedLab,
) -> None:
    for host, directory in (("n1", "slurmd"), ("ctl", "slurm"), ("n1", "munge")):
        path = f"/var/log/{directory}"
        for attempt in (f"mv {path} {path}.old", f"rmdir {path}"):
            assert "permitted" in whole.on(host, f"LC_ALL=C {AS_SYSLOG}{attempt} 2>&1; :"), attempt
        assert whole.on(host, f"test -d {path} && ! test -L {path} && echo there") == "there"
    # What the group is for goes on.
    whole.on("n1", f"{AS_SYSLOG}touch /var/log/own && {AS_SYSLOG}mv /var/log/own /var/log/own.1 && rm /var/log/own.1")
    whole.on("n1", "logger said-by-somebody")
    whole.until("n1", "grep -c said-by-somebody /var/log/syslog", "1")
    assert whole.on("n1", "stat -c %U /var/log/syslog") == "syslog"


def test_efficiency_cores_when_slurmd_leaves_them_out_then_slurm_conf_does_and_the_line_to_add_is_told(
    whole: DeployedLab, first: str
) -> None:
    cores = int(whole.on("n3", "getconf _NPROCESSORS_ONLN"))
    counted = int(whole.on("n3", "slurmd -C | grep -oP 'CPUs=\\K[0-9]+'"))
    assert counted in (cores - 1, cores)
    leaves = counted < cores  # from Slurm 23.02 on
    assert whole.on("ctl", "scontrol show node n3 | grep -oE 'CPUTot=[0-9]+|State=[A-Z+_]+' | paste -sd ' '") == (
        f"CPUTot={counted} State=IDLE"
    )
    assert (f"n3: slurmd counts {counted} of its {cores} processors" in first) == leaves
    assert ("slurm_conf: {SlurmdParameters: allow_ecores}" in first) == leaves
    known = load(whole.inventory_path.with_name(whole.inventory_path.stem + ".lock.json")).hosts["n3"]
    assert known.hardware is not None
    assert (known.hardware.CPUs, known.kernel and known.kernel.CPUs) == (counted, cores if leaves else None)


def test_efficiency_cores_when_the_cluster_file_has_them_then_it_is_refused_before_or_they_are_used(
    whole: DeployedLab,
) -> None:
    cores = int(whole.on("n3", "getconf _NPROCESSORS_ONLN"))
    leaves = int(whole.on("n3", "slurmd -C | grep -oP 'CPUs=\\K[0-9]+'")) < cores
    before = whole.inventory_path.read_text()
    file = before + "slurm_conf: {SlurmdParameters: allow_ecores}\n"
    try:
        if leaves:
            mine = f"  - hosts: n[1-2]\n  - {{hosts: n3, CPUs: {cores}}}\n"
            assert "  - hosts: n[1-3]\n" in before
            whole.inventory_path.write_text(before.replace("  - hosts: n[1-3]\n", mine))
            refused = words_of(ended(whole.slurmfab("deploy"), 2))
            assert f"n3: the cluster file gives CPUs={cores}" in refused
            assert "slurm_conf: {SlurmdParameters: allow_ecores}" in refused
        whole.deploy_file(file)
        shows = "scontrol show node n3 | grep -oE 'CPUTot=[0-9]+|State=[A-Z+_]+' | paste -sd ' '"
        whole.until("ctl", shows, f"CPUTot={cores} State=IDLE")
        assert whole.on("ctl", AS_SLURM + f"srun -w n3 -n {cores} hostname").split() == ["n3"] * cores
    finally:
        whole.deploy_file(before)
    counted = cores - 1 if leaves else cores
    whole.until(
        "ctl",
        "scontrol show node n3 | grep -oE 'CPUTot=[0-9]+|State=[A-Z+_]+' | paste -sd ' '",
        f"CPUTot={counted} State=IDLE",
    )


def boot_again(lab: DeployedLab, host: str) -> None:
    """Reboot a host, and wait until its daemons run."""
    before = lab.on(host, BOOT)
    lab.on(host, "systemctl reboot")
    running = f'test "$({BOOT})" != "{before}" && systemctl is-active slurmctld slurmd | grep -c ^active'

    def is_back() -> bool:
        with suppress(LabError):  # it is off for a moment
            return lab.on(host, running, check=False) == "1"
        return False

    eventually(is_back, f"{host} has booted again")


def test_a_cluster_with_such_hosts_when_booted_again_then_the_plan_is_empty_and_all_checks_pass(
    whole: DeployedLab,
) -> None:
    for host in ("ctl", "n1"):
        boot_again(whole, host)
        assert whole.on(host, ACCESS) == "root:syslog 1775"
    whole.until("n1", "systemctl is-active rsyslog", "active")
    # slurmctld sets a node down that boots without its doing; a deployment gives it back, and does nothing else.
    assert {step["phase"] for step in whole.deploy()["steps"]} <= {"nodes"}
    whole.until("ctl", "sinfo -h -o '%D %t'", "3 idle")
    assert whole.deploy()["steps"] == []
    wrong = [one for one in whole.checks() if one["outcome"] == "failed"]
    assert wrong == []


def test_the_packages_when_they_set_the_mode_again_then_it_is_that_of_the_copy(whole: DeployedLab) -> None:
    whole.on("n1", "systemd-tmpfiles --create 00rsyslog.conf")  # as its package does on each upgrade
    assert whole.on("n1", ACCESS) == "root:syslog 1775"
    whole.on("n1", "rm /usr/lib/tmpfiles.d/00rsyslog.conf && chgrp root /var/log && chmod 755 /var/log")
    whole.deploy()
    whole.on("n1", "test ! -e /etc/tmpfiles.d/00rsyslog.conf")
    assert whole.on("n1", ACCESS) == "root:root 755"
