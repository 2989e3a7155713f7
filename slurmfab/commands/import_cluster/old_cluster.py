"""A found cluster as slurm.conf describes it: its texts, and which host is meant by which name."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from slurmfab.base.ip_addresses import canonical, is_loopback
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.cluster.slurm.conf_text import INCLUDE, ConfText, parse
from slurmfab.cluster.slurm.platform import DEBIAN, Platform, installed
from slurmfab.cluster.slurm.versions import SlurmVersion, distribution_version
from slurmfab.commands.import_cluster.found import FoundCluster, FoundFile, HostFiles
from slurmfab.core.plan.plan_input import is_numeric

SLURMDBD = "accounting_storage/slurmdbd"


@dataclass(frozen=True)
class OldCluster:
    """A found cluster."""

    found: FoundCluster  # what the hosts have shown

    @cached_property
    def text(self) -> str:
        """The slurm.conf of the primary controller, with the files that it includes."""
        return self.found.facts[self.found.controller].slurm_conf or self.files(self.found.controller).slurm_conf

    @cached_property
    def included(self) -> Mapping[str, frozenset[str]]:
        """By host, the paths of the files that its slurm.conf includes."""
        return {
            host: frozenset(
                posixpath.join(self.directory, found[1].strip())
                for file in files.files
                for found in map(INCLUDE.match, file.text.splitlines() if file.path.endswith(".conf") else ())
                if found
            )
            for host, files in self.found.hosts.items()
        }

    @cached_property
    def conf(self) -> ConfText:
        """The parsed slurm.conf of the primary controller."""
        return parse(self.text)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The files that are compared with slurmfab's, by name; empty for a missing one."""
        facts = self.found.facts[self.found.controller]
        name = self.found.controller
        return {
            "slurm.conf": self.text,
            "cgroup.conf": facts.cgroup_conf or self.text_of(name, "cgroup.conf"),
            "gres.conf": facts.gres_conf or self.text_of(name, "gres.conf"),
        }

    @cached_property
    def version(self) -> SlurmVersion:
        """The installed Slurm on the controller."""
        facts = self.found.facts[self.found.controller]
        return SlurmVersion.parse(facts.slurm_version) if facts.slurm_version else distribution_version(facts.codename)

    @cached_property
    def platform(self) -> Platform:
        """What Slurm is packaged as on the controller."""
        return installed(self.found.facts[self.found.controller]) or DEBIAN

    def files(self, host: str) -> HostFiles:
        """What a host has; nothing for one that did not answer."""
        return self.found.hosts.get(host, HostFiles(()))

    def file(self, host: str, name: str) -> FoundFile | None:
        """A file of a host, by its name."""
        return self.files(host).file(name)

    def text_of(self, host: str, name: str) -> str:
        """The text of a file of a host; empty if it has none."""
        file = self.file(host, name)
        return file.text if file else ""

    def setting(self, key: str) -> str:
        """The value of a key of slurm.conf; empty if it is not set."""
        return self.conf.settings.get(key.lower(), "")

    @property
    def state_directory(self) -> str:
        """The directory of slurmctld's state; Slurm's default if slurm.conf has none (slurm.conf(5))."""
        return self.setting("StateSaveLocation") or "/var/spool"

    @cached_property
    def slurm_user(self) -> str:
        """The name of SlurmUser."""
        return self.name_of(self.setting("SlurmUser") or "root")

    def name_of(self, user: str) -> str:
        """The name of a user whom a file names by name or number, perhaps with the other one in brackets."""
        name = user.partition("(")[0]
        return self.found.facts[self.found.controller].uids.get(int(name), name) if name.isdecimal() else name

    @property
    def unusual_confs(self) -> dict[str, list[str]]:
        """The hosts whose daemons read a slurm.conf in a directory that is not /etc/slurm, by its path."""
        found: dict[str, list[str]] = {}
        for host, files in self.found.hosts.items():
            main = files.file("slurm.conf")
            if main and not files.configless and main.path != f"{SLURM_DIRECTORY}/slurm.conf":
                found.setdefault(main.path, []).append(host)
        return found

    @cached_property
    def directory(self) -> str:
        """The directory of slurm.conf on the primary controller."""
        file = self.file(self.found.controller, "slurm.conf")
        return file.path.rpartition("/")[0] if file else "/etc/slurm"

    @cached_property
    def controllers(self) -> tuple[tuple[str, str], ...]:
        """Host and address of each controller, the primary first; the address is empty if slurm.conf has none."""
        found = []
        for number, entry in enumerate(self.setting("SlurmctldHost").split(",")):
            name, _, address = entry.strip().rstrip(")").partition("(")
            host = self.found.controller if number == 0 else self.host_named(name) or short(name)
            address = address or (name if "." in name else "")
            found.append((host, "" if is_loopback(address) else address))
        return tuple(found)

    @cached_property
    def database_host(self) -> str:
        """The host of slurmdbd; empty if there is none, or if slurm.conf names one that is not known."""
        if self.setting("AccountingStorageType").lower() != SLURMDBD:
            return ""
        return self.host_named(self.setting("AccountingStorageHost") or "localhost")

    @property
    def database_address(self) -> str:
        """The address of slurmdbd's host in slurm.conf, if that is a name with a domain or an IP address."""
        named = self.setting("AccountingStorageHost")
        return named if self.database_host and ("." in named or ":" in named) and not is_loopback(named) else ""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The compute nodes, in the order of slurm.conf."""
        return tuple(self.conf.nodes)

    def node_setting(self, node: str, key: str) -> str:
        """The value of a key for a compute node; empty if its line does not set it."""
        return self.conf.nodes[node].of(node, key.lower())

    def hostname(self, host: str) -> str:
        """The host's own short name: what it said, else NodeHostName, else its name."""
        if host in self.found.facts:
            return self.found.facts[host].hostname
        named = self.node_setting(host, "nodehostname") if host in self.conf.nodes else ""
        return short(named or host)

    @cached_property
    def _names(self) -> dict[str, str]:
        """The host of each name and address, in lower case; what hosts tell of themselves counts last."""
        found: dict[str, str] = {}
        hosts = dict.fromkeys((self.found.controller, *self.found.hosts, *self.nodes, *self.found.unreachable))
        for host in hosts:
            for name in (host, short(host), self.found.addresses.get(host, "")):
                found.setdefault(canonical(name.lower()), host)
        for node in self.nodes:
            for key in ("nodeaddr", "nodehostname"):
                found.setdefault(canonical(self.node_setting(node, key).lower()), node)
        for host, facts in self.found.facts.items():
            for name in (facts.hostname, *facts.addresses):
                found.setdefault(canonical(name.lower()), host)
        return found

    def host_named(self, name: str) -> str:
        """The host that has a name or an address; empty for none."""
        if not name:
            return ""
        if is_loopback(name):
            return self.found.controller
        low = canonical(name.lower())
        return self._names.get(low) or ("" if is_numeric(low) else self._names.get(short(low), ""))


def short(name: str) -> str:
    """A host name without its domain; an address as it is."""
    return name if is_numeric(name) else name.partition(".")[0]
