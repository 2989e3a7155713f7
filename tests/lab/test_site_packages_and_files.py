"""Packages and files of the site's own on hosts, by role and group: put there, checked, and taken back.

One lab goes through all of it, in this order.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_cluster import AS_SLURM, ExtendedLab, ended, succeeded
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

OWN = """\
job_environment: {all: {SITE_A: it's one, SITE_B: two}, groups: [{hosts: n2, variables: {SITE_A: "2"}}]}
prolog: {n2: own/prolog.d}
packages:
  compute: [tree=2*]
  groups: [{hosts: n2, packages: [hello, ./own/site-tool_1%3a1.0_all.deb]}]
files:
  /etc/motd: {text: "Ours.\\n"}
  /etc/profile.d/site.sh: {source: own/site.sh, roles: [compute]}
  /etc/site/deep/hosts.txt: {source: own/hosts.j2, template: true, hosts: n1, owner: slurm, group: slurm, mode: 0640}
  /etc/tmpfiles.d/site.conf: {text: "d /srv/site-made 0750 slurm slurm\\n", hosts: n1}
  /etc/sysctl.d/90-site.conf: {text: "net.core.somaxconn = 4321\\n", hosts: n1}
  /etc/systemd/journald.conf.d/site.conf: {source: own/journald, roles: [controllers], restart: systemd-journald}
  /etc/apt/preferences.d/site: {text: "Package: cowsay\\nPin: release *\\nPin-Priority: -1\\n"}
"""
CONTROL = "Package: site-tool\nVersion: 1:{}\nArchitecture: all\nMaintainer: Us <us@example.org>\nDepends: sl\n"
"""sl is a package of the host's own sources, which the file cannot be installed without."""

SOURCES = {
    "site.sh": "export SITE=here\n",
    "hosts.j2": "{{ cluster }} {{ host }}: {{ hosts | join(' ') }}\n",
    "journald": "# nothing yet\n",
}
OF_NODES = """\
packages: {compute: [tree]}
files:
  /etc/motd: {text: "Ours.\\n", roles: [compute]}
  /etc/apt/preferences.d/site: {text: "Package: cowsay\\nPin: release *\\nPin-Priority: -1\\n"}
mounts: [{path: /srv/data, source: /opt, type: bind, roles: compute}]
health: true
node_logins: with_job
"""
BUSY = "systemd-run --quiet --unit=busy --property=WorkingDirectory=/srv/data sleep 3600"
LEFT = (
    "findmnt -n /srv/data; ls -d /var/lib/slurmfab/owned/* /etc/systemd/system/srv-data.mount"
    " /etc/apt/preferences.d/site /etc/pam.d/slurmfab* /etc/security/slurmfab* /usr/local/lib/slurmfab/*"
    " /etc/slurmfab-health.json /etc/munge/munge.key; grep slurmfab /etc/pam.d/sshd /etc/hosts;"
    " dpkg -l tree libpam-slurm-adopt | grep ^ii"
)
THERE = (
    "for one in tree hello site-tool; do [ ! -x /usr/bin/$one ] || echo $one; done;"
    " ls -d /etc/site /etc/profile.d/site.sh"
)


class Site(ExtendedLab):
    """A cluster, and what its file says without the site's own things."""

    def failures(self) -> list[str]:
        """What the checks of the site's own things, and of Slurm's files, complain of."""
        return [one["cause"] for one in self.lab.checks("configuration,site") if one["outcome"] == "failed"]


def make_package(folder: Path, version: str) -> None:
    """Write a package with a program, of 2 MB, so that it is sent in several pieces."""
    tree = folder / "tree"
    (tree / "DEBIAN").mkdir(parents=True, exist_ok=True)
    (tree / "DEBIAN/control").write_text(CONTROL.format(version))
    (tree / "usr/bin").mkdir(parents=True, exist_ok=True)
    (tree / "usr/bin/site-tool").write_bytes(f"#!/bin/sh\necho tool {version}\nexit\n".encode() + os.urandom(2 << 20))
    (tree / "usr/bin/site-tool").chmod(0o755)
    target = str(folder / "site-tool_1%3a1.0_all.deb")
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", str(tree), target], check=True, capture_output=True)


@pytest.fixture(scope="module", params=in_turn("site_packages_and_files"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2) as lab:
        lab.on("n1", "echo Theirs. >/etc/motd; chmod 600 /etc/motd; mount -o remount,bind,rw /proc/sys")
        own = lab.inventory_path.parent / "own"
        own.mkdir()
        (own / "prolog.d").mkdir()
        (own / "prolog.d/10-seen").write_text("#!/bin/sh\ntouch /run/site-prolog\n")
        make_package(own, "1.0")
        for name, text in SOURCES.items():
            (own / name).write_text(text)
        yield Site(lab, lab.inventory_path.read_text())


def test_packages_and_files_reach_the_hosts_that_they_are_for(site: Site) -> None:
    site.deploy(OWN)
    assert site.lab.on("ctl", f"{{ {THERE}; }} 2>/dev/null; cat /etc/motd") == "Ours."
    shown = site.lab.on("n1", f"{THERE}; cat /etc/motd").split()
    assert shown == ["tree", "/etc/profile.d/site.sh", "/etc/site", "Ours."]
    shown = site.lab.on("n2", f"hello; {{ {THERE}; }} 2>/dev/null; . /etc/profile.d/site.sh; echo $SITE").split()
    assert shown[-5:] == ["tree", "hello", "site-tool", "/etc/profile.d/site.sh", "here"]
    shown = site.lab.on("n1", "stat -c %U:%a /srv/site-made; cat /proc/sys/net/core/somaxconn").split()
    assert shown == ["slurm:750", "4321"]
    shown = site.lab.on("n1", "stat -c '%U %G %a' /etc/site/deep/hosts.txt; cat /etc/site/deep/hosts.txt").splitlines()
    assert shown == ["slurm slurm 640", f"{site.lab.lab.spec.name} n1: ctl n1 n2"]
    assert site.failures() == []


def test_jobs_find_the_variables_of_their_node_unless_they_have_set_them(site: Site) -> None:
    assert site.lab.on("ctl", AS_SLURM + "srun -w n1 sh -c 'echo $SITE_A $SITE_B'") == "it's one two"
    assert (
        site.lab.on("ctl", "cd /tmp && SITE_B=mine runuser -u slurm -- srun -w n2 sh -c 'echo $SITE_A $SITE_B'")
        == "2 mine"
    )
    assert (
        site.lab.on("n2", "ls /run/site-prolog /etc/slurm/prolog.d")
        == "/run/site-prolog\n\n/etc/slurm/prolog.d:\n10-seen"
    )
    assert site.lab.on("n1", "ls /run/site-prolog /etc/slurm/prolog.d 2>/dev/null; :") == ""
    job = "sbatch --parsable --wait -w n1 -o /tmp/site-job --wrap 'echo $SITE_A; srun sh -c \"echo \\$SITE_B\"'"
    site.lab.on("ctl", AS_SLURM + job)
    assert site.lab.on("n1", "cat /tmp/site-job") == "it's one\ntwo"


def test_a_package_and_a_file_that_somebody_removed_are_named_and_come_back(site: Site) -> None:
    site.lab.on("n1", "apt-get -qq -y remove tree >/dev/null 2>&1; echo mine >>/etc/profile.d/site.sh")
    found = "\n".join(site.failures())
    assert "tree is missing" in found
    assert "/etc/profile.d/site.sh differs from the cluster file" in found
    site.deploy(OWN)
    assert site.failures() == []


def test_another_version_of_a_package_in_a_file_is_planned_by_its_version_and_sent(site: Site) -> None:
    make_package(site.lab.inventory_path.parent / "own", "2.0")
    planned = words_of(site.lab.slurmfab("plan"))
    assert "1:2.0" in planned
    site.deploy(OWN)
    assert site.lab.on("n2", "site-tool; ls -d /var/lib/slurmfab/bundle 2>/dev/null; :") == "tool 2.0"
    assert site.failures() == []


def test_a_changed_file_restarts_the_unit_that_reads_it(site: Site) -> None:
    before = site.lab.on("ctl", "systemctl show --property=MainPID --value systemd-journald")
    source = site.lab.inventory_path.parent / "own/journald"
    source.write_text("# nothing at all\n")
    site.deploy(OWN)
    assert site.lab.on("ctl", "systemctl show --property=MainPID --value systemd-journald") != before


def test_a_setting_that_a_host_does_not_take_is_named_and_the_deployment_goes_on(site: Site) -> None:
    site.lab.inventory_path.write_text(f"{site.text}{OWN}".replace("somaxconn =", "no_such_setting ="))
    done = succeeded(site.lab.slurmfab("deploy"))
    assert "/etc/sysctl.d/90-site.conf is not in effect: sysctl " in " ".join(words_of(done).split())


def test_a_template_that_would_run_code_on_the_deployer_when_a_plan_is_made_then_is_refused_with_its_line(
    site: Site, tmp_path: Path
) -> None:
    source = site.lab.inventory_path.parent / "own/hosts.j2"
    source.write_text(f"\n{{{{ cycler.__init__.__globals__.os.popen('touch {tmp_path}/ran').read() }}}}\n")
    site.lab.inventory_path.write_text(f"{site.text}{OWN}")
    done = site.lab.slurmfab("plan")
    assert (done.returncode, (tmp_path / "ran").exists()) == (2, False)
    words = " ".join(words_of(done).split())
    assert "files./etc/site/deep/hosts.txt: own/hosts.j2, line 2: access to attribute" in words
    source.write_text(SOURCES["hosts.j2"])


def test_all_is_taken_back_with_the_keys(site: Site) -> None:
    site.lab.inventory_path.write_text(site.text)
    said = " ".join(words_of(site.lab.slurmfab("deploy")).split())
    assert "/etc/tmpfiles.d/site.conf is gone, and what it has set stays until the next boot" in said
    site.deploy("")
    for host in ("ctl", "n1", "n2"):
        assert (
            site.lab.on(host, f"{{ {THERE} /etc/apt/preferences.d/site /etc/systemd/journald.conf.d; }} 2>/dev/null; :")
            == ""
        )
    assert site.lab.on("n1", "cat /etc/motd; stat -c %a /etc/motd") == "Theirs.\n600"
    assert site.lab.on("ctl", AS_SLURM + "srun -w n1 sh -c 'echo $SITE_A.'") == "."
    assert site.lab.on("n1", "ls /usr/local/lib/slurmfab 2>/dev/null | grep -c task-prolog; :") == "0"
    assert site.failures() == []


def test_a_removed_node_keeps_none_of_it_and_nobody_is_hurt(site: Site) -> None:
    before = site.lab.on("n2", "cat /etc/motd /etc/pam.d/sshd")
    site.deploy(OF_NODES)
    assert "Ours." in site.lab.on("n2", "findmnt -n /srv/data >&2; cat /etc/motd")
    assert "slurmfab" in site.lab.on("n2", "cat /etc/pam.d/sshd")
    site.lab.on("n2", BUSY)
    done = ended(site.lab.slurmfab("remove-node", "n2"), 1)
    assert "/srv/data is not unmounted: it is in use by busy.service" in words_of(done)
    site.lab.on("n2", "systemctl stop busy")
    succeeded(site.lab.slurmfab("remove-node", "n2"))
    assert site.lab.on("n2", f"{{ {LEFT}; }} 2>/dev/null; :") == ""
    assert site.lab.on("n2", "cat /etc/motd /etc/pam.d/sshd") == before
    assert site.lab.on("ctl", AS_SLURM + "srun -w n1 hostname") == "n1"
    assert site.lab.on("n1", "cat /etc/motd") == "Ours."
