"""A plugin of pytest that gives a site's own checks the hosts of its cluster, without `fab check-cluster`.

    pytest -p slurmfab.testinfra configs/checks
    pytest -p slurmfab.testinfra --hosts gpu configs/checks/test_drivers.py

`host` runs once for each host, `node` for each compute node, `login_host`, `gpu_node` and so on likewise. They are
testinfra's hosts over slurmfab's way there: pinned keys, user, jump hosts, relays, sudo.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import loading
from slurmfab.commands.checks.hosts import CheckedHost, shell_on
from slurmfab.commands.checks.places_of_checks import places_of
from slurmfab.commands.checks.site_hosts import SiteHosts
from slurmfab.commands.checks.slurm import Slurm
from slurmfab.core.engine import session
from slurmfab.core.status import selection
from slurmfab.hosts.hidden_input import hidden_input
from slurmfab.hosts.sudo_password import SudoPassword


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options, in the place of testinfra's own plugin, which knows no cluster."""
    pluginmanager.set_blocked("pytest11.testinfra")
    pluginmanager.set_blocked("testinfra")
    group = parser.getgroup("slurmfab")
    group.addoption("--hosts", default="", metavar="WORDS", help="only these: a hostlist, a role, a partition, a state")
    group.addoption("--cluster", default="", metavar="FILE", help="cluster file (default: as slurmfab's)")
    group.addoption("--ask-sudo-password", action="store_true", help="ask for the password of sudo on the hosts")


def pytest_configure(config: pytest.Config) -> None:
    """Read the cluster file, and give the checks its hosts. Raises pytest.UsageError if that is not possible."""
    try:
        config.pluginmanager.register(site_hosts(config), "slurmfab-hosts")
    except InputError as error:
        raise pytest.UsageError(str(error)) from None


def site_hosts(config: pytest.Config) -> SiteHosts:
    """The hosts that the command line names; each is connected to when the first check needs it."""
    known = loading.load_named(config.getoption("cluster"))
    password = ""
    if config.getoption("ask_sudo_password"):
        capture = config.pluginmanager.getplugin("capturemanager")
        capture.suspend(in_=True)  # the password may come from standard input
        password = hidden_input.ask("sudo password: ")
        hidden_input.show()
        capture.resume()
    transport, sudo = session.ssh_to(known), SudoPassword(None, password)
    config.add_cleanup(transport.close)

    def chosen(words: str, option: str = "on") -> tuple[str, ...]:
        nodes = cache(lambda: selection.ask_nodes(known, transport))
        return selection.chosen(known, words, nodes=nodes, option=option)

    @cache
    def find(name: str) -> CheckedHost:
        return CheckedHost(name, shell_on(name, transport, sudo))

    def slurm() -> Iterator[Slurm]:
        made = Slurm(find(known.cluster.controller), known.cluster)
        yield made
        made.cancel()

    selected = chosen(config.getoption("hosts"), "--hosts")
    return SiteHosts(
        places_of(known, selected),
        find,
        chosen,
        {
            "controller": lambda: find(known.cluster.controller),
            "cluster": lambda: known.cluster,
            "lock": lambda: known.lock,
            "slurm": slurm,
        },
    )
