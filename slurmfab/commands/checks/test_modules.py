"""Checks of environment modules: the command `module` in a user's login shell, and the directories of MODULEPATH."""

from __future__ import annotations

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.checks.hosts import CheckedHost, last_words
from slurmfab.commands.checks.wanted import deploy

USER = "nobody"  # an ordinary user whom every host has

ASKED = 'module --version >/dev/null 2>&1 || { echo "$(module --version 2>&1)"; exit 1; }; echo "PATH=$MODULEPATH"'
"""What a login shell of bash is asked."""

LOGIN = f"runuser -u {USER} -- env -i HOME=/ USER={USER} PATH=/usr/bin:/bin bash -lc %s"


def test_module_is_a_command(module_host: CheckedHost, cluster: Cluster) -> None:
    """`module` works in users' login shells, with the directories of the cluster file"""
    assert cluster.modules is not None, "the argument asks for it"
    done = module_host.run(LOGIN, ASKED)
    assert done.rc == 0, (
        f"module does not work in a login shell of {USER}: {last_words(done)}. Repair: {deploy(module_host.name)}"
    )
    found = done.stdout.rpartition("PATH=")[2].strip().split(":")
    missing = [path for path in cluster.modules.path if path not in found]
    assert not missing, (
        f"MODULEPATH lacks {', '.join(missing)} in a login shell of {USER}. Repair: {deploy(module_host.name)}; "
        "if that changes nothing, another file in /etc/profile.d sets MODULEPATH"
    )


def test_directories_of_modules_are_there(module_host: CheckedHost, cluster: Cluster) -> None:
    """users can read the directories of MODULEPATH"""
    assert cluster.modules is not None, "the argument asks for it"
    for path in cluster.modules.path:
        done = module_host.run("runuser -u %s -- ls -- %s >/dev/null", USER, path)
        assert done.rc == 0, (
            f"{USER} cannot read {path}: {last_words(done)}. Repair: mount or make it, or take it out of modules.path"
        )
