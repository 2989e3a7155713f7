"""Labels of SELinux on the stand-in for Enterprise Linux: real attributes, by the real libselinux and a small policy.

The kernel here has no SELinux, so that nothing is denied and nothing enforced: hosts have a directory in the place of
the one by which such a kernel is known, and programs that record what they are asked in place of semanage and
setsebool. That a policy lets daemons work is proved nowhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import selinux_kernel
from lab_cluster import DeployedLab, ended, succeeded
from lab_user import words_of
from stock import Stock

from slurmfab.base.exit_codes import SOMETHING_TO_DO
from slurmfab.cluster.slurm.platform import EL_SMD

pytestmark = pytest.mark.lab

POLICY = r"""
/.* system_u:object_r:default_t:s0
/etc(/.*)? system_u:object_r:etc_t:s0
/etc/hosts -- system_u:object_r:net_conf_t:s0
/etc/ssh/ssh_host.*_key -- system_u:object_r:sshd_key_t:s0
/usr(/.*)? system_u:object_r:usr_t:s0
/usr/(.*/)?lib(64)?(/.*)? system_u:object_r:lib_t:s0
/var(/.*)? system_u:object_r:var_t:s0
/var/lib(/.*)? system_u:object_r:var_lib_t:s0
/var/log(/.*)? system_u:object_r:var_log_t:s0
/var/spool(/.*)? system_u:object_r:var_spool_t:s0
/home/[^/]+ -d system_u:object_r:user_home_dir_t:s0
/home/[^/]+/.+ system_u:object_r:user_home_t:s0
/home/[^/]+/\.ssh(/.*)? system_u:object_r:ssh_home_t:s0
/tmp/.* <<none>>
"""

SEMANAGE = """\
#!/bin/sh
# In place of semanage: it writes down what it is asked, and the rule where the real one compiles it to.
echo "$*" >>/root/asked
echo "$5 system_u:object_r:$4:s0" >>/etc/selinux/targeted/contexts/files/file_contexts.local
"""

HOST = f"""\
set -e
mkdir -p /etc/selinux/targeted/contexts/files
printf 'SELINUX=permissive\\nSELINUXTYPE=targeted\\n' >/etc/selinux/config
cat >/etc/selinux/targeted/contexts/files/file_contexts <<'END'{POLICY}END
cat >/usr/sbin/semanage <<'END'
{SEMANAGE}END
chmod 755 /usr/sbin/semanage
{selinux_kernel.APPEARS}
"""
"""Gives a host a policy and an SELinux that enforces nothing."""

KEYS = "/var/lib/slurm/home/.ssh"
RULE = r"fcontext --add --type ssh_home_t /var/lib/slurm/home/\.ssh(/.*)?"
TEXT = """\
slurm: {packages: el-smd, version: "24.11.*"}
users:
- name: ada
  uid: 4001
  keys:
  - "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIK0wmN/Cr3JXqmLW7u+g9pTh+wyqDHpSQEIQczXkVx9q"
"""


@pytest.fixture(scope="module")
def labelled(stock: Stock) -> Iterator[DeployedLab]:
    with stock.bare("trixie", nodes=1, slurm_packages=EL_SMD.word) as hosts:
        for host in ("ctl", "n1"):
            hosts.on(host, HOST)
        lines = hosts.inventory_path.read_text().splitlines(keepends=True)
        text = "".join(line for line in lines if not line.startswith("slurm:"))
        hosts.inventory_path.write_text(text + TEXT)
        succeeded(hosts.slurmfab("deploy"))
        # A kernel without SELinux gives no label to what daemons made meanwhile, such as munged's log.
        hosts.deploy()
        yield hosts


def types(hosts: DeployedLab, host: str, *paths: str) -> list[str]:
    """The types of the labels of paths on a host."""
    read = "import os,sys;[print(os.getxattr(p,'security.selinux').decode().split(':')[2]) for p in sys.argv[1:]]"
    return hosts.on(host, f'python3 -c "{read}" {" ".join(paths)}').split()


def test_files_when_deployed_then_each_has_the_label_of_its_path_and_a_second_run_changes_nothing(
    labelled: DeployedLab,
) -> None:
    assert types(labelled, "n1", "/etc/hosts", "/etc/slurm/slurm.conf", "/etc/munge/munge.key") == [
        "net_conf_t", "etc_t", "etc_t",
    ]  # fmt: skip
    keys = (KEYS, f"{KEYS}/authorized_keys", f"{KEYS}/id_ed25519")
    assert types(labelled, "n1", *keys) == ["ssh_home_t"] * len(keys)
    homes = ("/home/ada", "/home/ada/.ssh", "/home/ada/.ssh/authorized_keys")
    assert types(labelled, "n1", *homes) == ["user_home_dir_t", "ssh_home_t", "ssh_home_t"]
    assert labelled.deploy()["steps"] == []


def test_the_policy_when_deployed_then_it_learned_of_slurms_keys_once(labelled: DeployedLab) -> None:
    for host in ("ctl", "n1"):
        assert labelled.on(host, "cat /root/asked") == RULE


def test_a_label_when_changed_then_a_plan_shows_it_and_a_deployment_mends_it(labelled: DeployedLab) -> None:
    wrong = "import os;os.setxattr('/etc/slurm/slurm.conf','security.selinux',b'unconfined_u:object_r:tmp_t:s0')"
    labelled.on("n1", f'python3 -c "{wrong}"')
    planned = ended(labelled.slurmfab("plan"), SOMETHING_TO_DO)
    assert "label of /etc/slurm/slurm.conf: tmp_t -> etc_t" in planned.stdout
    labelled.deploy()
    assert types(labelled, "n1", "/etc/slurm/slurm.conf") == ["etc_t"]
    assert labelled.slurmfab("plan").returncode == 0


def test_a_file_when_a_change_is_undone_then_it_has_its_label_again(labelled: DeployedLab) -> None:
    text = labelled.inventory_path.read_text()
    labelled.inventory_path.write_text(text + "slurm_conf: {TCPTimeout: 7}\n")
    labelled.deploy()
    succeeded(labelled.slurmfab("rollback"))
    assert "TCPTimeout=7" not in labelled.on("ctl", "cat /etc/slurm/slurm.conf")
    assert types(labelled, "ctl", "/etc/slurm/slurm.conf") == ["etc_t"]
    labelled.inventory_path.write_text(text)


def test_a_denial_since_the_last_change_when_checked_then_the_process_the_file_and_a_repair_are_named(
    labelled: DeployedLab,
) -> None:
    def checked() -> str:
        return " ".join(words_of(labelled.slurmfab("check-cluster", "--only", "selinux", "--hosts", "n1")).split())

    sentence = "sshd may not open, read /var/lib/slurm/home/.ssh/authorized_keys (var_lib_t)"
    labelled.on("n1", selinux_kernel.denied(selinux_kernel.KEYS_DENIED, permissive=1))
    assert f"SELinux would deny this if it enforced: {sentence}" in checked()
    labelled.on("n1", selinux_kernel.denied(selinux_kernel.KEYS_DENIED))
    told = checked()
    assert sentence in told
    assert "restorecon -v /var/lib/slurm/home/.ssh/authorized_keys" in told


def test_a_host_that_enforces_when_planned_then_it_is_told_that_this_was_never_tried(labelled: DeployedLab) -> None:
    labelled.on("n1", "echo 1 >/sys/fs/selinux/enforce")
    try:
        told = words_of(labelled.slurmfab("plan"))
        assert "n1: SELinux enforces its policy there." in " ".join(told.split())
    finally:
        labelled.on("n1", "echo 0 >/sys/fs/selinux/enforce")
