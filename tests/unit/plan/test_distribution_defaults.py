"""What distributions do by default keeps no host away: preflight and safe paths, with the defaults of each in a table.

Owners and modes of Debian 12 and 13 are those of trees that mmdebstrap made; Ubuntu's /var/log is from its packaging of
rsyslog (debian/00rsyslog.conf, which becomes /usr/lib/tmpfiles.d/00rsyslog.conf), whose line is the same from 22.04 to
24.04, and is taken for granted for 26.04; Enterprise Linux's are from its packages `filesystem` and `setup`. No Ubuntu
and no Enterprise Linux was at hand.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, facts_of, host_facts, plan_input

from slurmfab.base.paths import SLURM_SPOOL, SLURMD_LOGS
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.plan.preflight import judging
from slurmfab.on_hosts.agent.core.resource import Context, apply
from slurmfab.on_hosts.agent.core.safe_paths import refuse_others
from slurmfab.on_hosts.agent.files.directory import Directory
from slurmfab.on_hosts.agent.files.root_log import RootLog
from slurmfab.on_hosts.agent.files.shared_names import SharedNames

EL = '\nslurm: {packages: el-smd, version: "24.11.*", source: {uris: "https://a.example/el", key: slurm.asc}}\n'
SMD = '\nslurm: {packages: smd, version: "25.11.*"}\n'
RSYSLOG = "z /var/log 0775 root syslog -\n"
SYSTEM = {0: "root", 1: "daemon", 6: "man", 33: "www-data", 101: "messagebus", 992: "polkitd", 998: "systemd-network"}


@dataclass(frozen=True)
class Defaults:
    """What a new machine of a release is like, where slurmfab looks."""

    os_id: str
    codename: str
    os_like: str = "debian"
    slurm: str = ""  # what the cluster file says for it
    logs: int = 0o755  # mode of /var/log
    tmpfiles: str = ""  # the line for it in /usr/lib/tmpfiles.d
    shared: tuple[tuple[str, int], ...] = ()  # other directories in which a group may write
    facts: dict[str, Any] = field(default_factory=dict)

    def cluster(self) -> Cluster:
        return cluster(THREE_HOSTS + self.slurm)

    def host(self, name: str) -> HostFacts:
        """A new machine: Debian and Ubuntu give its name to 127.0.1.1, and ufw is there and off."""
        system = {"os_id": self.os_id, "os_like": self.os_like, "codename": self.codename}
        users = {**SYSTEM, 1000: "ubuntu"}
        return host_facts(name, **{**system, "uids": users, "gids": {**users, 110: "syslog"}, **self.facts})


MAIL, STAFF = ("/var/mail", 0o2775), ("/var/local", 0o2775)
UBUNTU: dict[str, Any] = {"logs": 0o775, "tmpfiles": RSYSLOG, "shared": (MAIL, STAFF)}
ROCKY: dict[str, Any] = {"slurm": EL, "facts": {"architecture": "x86_64", "enforces_selinux": True}}
DEFAULTS = {
    "Debian 12": Defaults("debian", "bookworm", "", shared=(MAIL, STAFF)),
    "Debian 13": Defaults("debian", "trixie", "", shared=(MAIL,)),
    "Ubuntu 22.04": Defaults("ubuntu", "jammy", slurm=SMD, **UBUNTU),
    "Ubuntu 24.04": Defaults("ubuntu", "noble", **UBUNTU),
    "Ubuntu 26.04": Defaults("ubuntu", "resolute", **UBUNTU),
    "Rocky 9": Defaults("rocky", "el9", "rhel centos fedora", shared=(MAIL,), **ROCKY),
    "Rocky 10": Defaults("rocky", "el10", "rhel centos fedora", shared=(MAIL,), **ROCKY),
}
EACH = pytest.mark.parametrize("defaults", DEFAULTS.values(), ids=DEFAULTS)


@EACH
def test_a_new_machine_of_each_release_is_refused_by_no_preflight(defaults: Defaults) -> None:
    known = defaults.cluster()
    facts = facts_of(known, defaults.host)
    assert judging.left_out(known, Lock(), facts, ()) == {}
    if not defaults.slurm:  # with other packages, keys of a source are files beside the cluster file
        judging.refuse_unfit(plan_input(known, facts), known.hosts, ())


def test_ubuntu_22_04_with_its_own_slurm_is_refused_with_the_packages_to_take_in_its_place() -> None:
    jammy = DEFAULTS["Ubuntu 22.04"]
    reasons = judging.left_out(cluster(), Lock(), facts_of(cluster(), jammy.host), ())
    assert set(reasons) == set(cluster().hosts)
    for reason in reasons.values():
        assert "(jammy) has Slurm 21.08" in reason
        assert "slurm: {packages: smd," in reason


@EACH
@pytest.mark.needs_root("only root gives directories to groups")
def test_directories_in_which_each_release_lets_a_group_write_are_made_safe_or_in_nobodys_way(
    defaults: Defaults, tmp_path: Path
) -> None:
    for path in ("etc", "usr/lib/tmpfiles.d", "var/log", "var/spool", "var/lib", "var/cache", "srv"):
        (tmp_path / path).mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\n")
    (tmp_path / "var/log").chmod(defaults.logs)
    for path, mode in defaults.shared:
        (tmp_path / path[1:]).mkdir()
        (tmp_path / path[1:]).chmod(mode)
    if defaults.tmpfiles:
        (tmp_path / "usr/lib/tmpfiles.d/00rsyslog.conf").write_text(defaults.tmpfiles)
    context = Context(str(tmp_path))
    resources = (
        SharedNames("/var/log"),
        Directory(SLURMD_LOGS, for_root=True),
        Directory(SLURM_SPOOL, for_root=True),
        RootLog(f"{SLURMD_LOGS}/slurmd.log"),
        Directory("/var/lib/slurmfab/backups", mode=0o700, alone=True),
    )
    assert [outcome.message for one in resources if (outcome := apply(one, context)).status == "failed"] == []
    assert [apply(one, context).status for one in resources] == ["ok"] * len(resources)
    assert (tmp_path / "var/log").stat().st_mode & 0o1777 == (0o1775 if defaults.tmpfiles else 0o755)
    # What is above none of ours stays as it is.
    for path, mode in defaults.shared:
        assert (tmp_path / path[1:]).stat().st_mode & 0o7777 == mode


@pytest.mark.needs_root("only root gives directories to groups")
def test_a_directory_that_the_site_names_below_one_of_a_group_is_refused_with_mode_and_group(tmp_path: Path) -> None:
    shared = tmp_path / "local"
    shared.mkdir()
    os.chown(shared, 0, 50)
    shared.chmod(0o2775)
    with pytest.raises(
        Exception, match=r"local/backups can be exchanged by whoever may write to .*/local \(root:.* 2775\)"
    ):
        refuse_others(f"{shared}/backups")
