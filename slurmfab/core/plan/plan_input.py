"""The input of a plan: the cluster file, the lock, the facts of the hosts, and the user's approvals."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypedDict

from slurmfab.base.hostlist import fold
from slurmfab.base.ip_addresses import IPV4, IPV6, canonical, is_loopback
from slurmfab.base.objections import VERSION
from slurmfab.base.paths import JWT_KEY, MAIL_PROGRAM, RESUME_PROGRAM, SUSPEND_PROGRAM
from slurmfab.cluster.facts import Cgroup, HostFacts, weakest
from slurmfab.cluster.inventory import trusted_addresses
from slurmfab.cluster.inventory.cluster import Cluster, Partition
from slurmfab.cluster.inventory.deb_files import DebFile
from slurmfab.cluster.inventory.file_contents import Content
from slurmfab.cluster.inventory.filed_package import FiledPackage
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.cluster.inventory.slurm_files import SiteFile
from slurmfab.cluster.slurm import render
from slurmfab.cluster.slurm.conf_text import ConfText, parse
from slurmfab.cluster.slurm.gres import SHARED, gres_value
from slurmfab.cluster.slurm.job_submit_script import SCRIPT
from slurmfab.cluster.slurm.meaning import meaning
from slurmfab.cluster.slurm.node import Node
from slurmfab.cluster.slurm.oci import oci_conf
from slurmfab.cluster.slurm.places import DBD_PORT, slurmdbd_port
from slurmfab.cluster.slurm.platform import Platform, wanted
from slurmfab.cluster.slurm.render import NodePrograms, PowerSaving, topology_conf
from slurmfab.cluster.slurm.site_files import OCI, TOPOLOGY, readers
from slurmfab.cluster.slurm.versions import OLDEST, SlurmVersion, ignored_keys
from slurmfab.cluster.slurm.window import reached, reaches
from slurmfab.core.impact.slurm_diff import FILE, SETTING, THERE, Difference, differences
from slurmfab.core.plan import hand_made_files as by_hand
from slurmfab.core.plan.hand_made_files import ROOT_JOBS
from slurmfab.core.plan.slurm_series import series

PASSWORDS = ("JobCompPass", "AccountingStoragePass")
"""Keys of slurm.conf whose value is a password, which stays on the hosts (slurm.conf(5))."""

NO_HOSTS: frozenset[str] = frozenset()


class AccountingServer(TypedDict):
    """Values of `render.SlurmConf` about slurmdbd."""

    accounting_host: str
    accounting_port: int


@dataclass(frozen=True, kw_only=True)
class LocalInput:
    """What a plan takes from the deployer's machine, besides the cluster file and the lock."""

    stamp: str = ""  # who runs slurmfab and when, for the reasons of drained nodes, as in `ann@laptop 2026-11-21T09:00`
    # password for an external database server; empty if slurmfab manages MariaDB, because that password is generated
    # on the database's host and stays there
    database_password: str = field(default="", repr=False)
    mail_password: str = field(default="", repr=False)  # password for the relay of mail about jobs; empty for none
    directory_password: str = field(default="", repr=False)  # of the entry as which SSSD searches; empty for none
    directory_ca: str = ""  # the certificate of the directory's authority; empty without a directory
    # who may log in to the image registry, with hashes of passwords; empty for none
    registry_users: str = field(default="", repr=False)
    # name and text of each script that nodes run before (`prolog`) and after (`epilog`) a job, by this key
    scripts: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict, repr=False)
    slurm_files: tuple[SiteFile, ...] = field(default=(), repr=False)  # the site's own files in Slurm's directory
    own_files: tuple[Content, ...] = field(default=(), repr=False)  # the site's own files elsewhere on hosts
    # the packages beside the cluster file that it names, by their paths there
    deb_files: Mapping[str, DebFile] = field(default_factory=dict, repr=False)
    # the OpenPGP keys of repositories with Slurm's packages, by their paths in the cluster file
    slurm_keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    # Slurm's packages beside the cluster file, if they come from there, by the directory that the file names
    slurm_package_files: Mapping[str, tuple[FiledPackage, ...]] = field(default_factory=dict, repr=False)
    # password of the IPMI controllers of nodes; empty where none is needed
    power_password: str = field(default="", repr=False)


@dataclass(frozen=True)
class PlanInput(LocalInput):
    """All values that a plan depends on; the same input always gives the same plan."""

    cluster: Cluster
    lock: Lock  # recorded facts and decisions; it has an entry for every host that has ever answered
    # facts by host name, of the hosts that answered in this run; other hosts are not changed
    facts: Mapping[str, HostFacts]
    # whether the UIDs and GIDs of slurm and munge may be changed on hosts where they differ from the lock
    move_ids: bool = False
    prune: bool = False  # whether accounts, users and QOS that the cluster file does not name are removed
    files_stay: bool = False  # whether this run leaves Slurm's files, and GPUs' instances, as they are
    # hosts that this run does not change, or no longer, whether they answered or not
    outside: frozenset[str] = NO_HOSTS
    # hosts that are left out since what they say is in the way of others, each with what is doubted; empty for anything
    doubted: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The hosts of the cluster whose own hostname is in the lock, whether they answer now or not."""
        return tuple(filter(self.is_member, self.cluster.hosts))

    def heard(self, hosts: Iterable[str]) -> tuple[str, ...]:
        """Those of some hosts whose word, or what the lock has of it, counts for the others."""
        return tuple(host for host in hosts if host not in self.doubted)

    def is_member(self, host: str) -> bool:
        """Whether a host of the cluster is one of these."""
        return host in self.lock.hosts and bool(self.lock.hosts[host].hostname)

    @cached_property
    def compute_nodes(self) -> tuple[str, ...]:
        """The compute nodes whose hardware is in the lock; slurm.conf names only these."""
        known = frozenset(self.members)
        return tuple(host for host in self.cluster.compute_nodes if host in known and self.host(host).hardware)

    @cached_property
    def _compute_nodes(self) -> frozenset[str]:
        return frozenset(self.compute_nodes)

    @cached_property
    def _named_nodes(self) -> frozenset[str]:
        return frozenset((*self.compute_nodes, *self.cluster.future_settings))

    def is_compute_node(self, host: str) -> bool:
        """Whether slurm.conf names the host as a compute node."""
        return host in self._compute_nodes

    def owns(self, host: str, of: str) -> bool:
        """Whether a host has told that it has files of slurmfab's for a capability, such as `mounts`."""
        return host in self.facts and of in self.facts[host].owned

    def has_program(self, host: str, name: str) -> bool:
        """Whether a host has told that it has the program of this directory below slurmfab's."""
        return host in self.facts and name in self.facts[host].programs

    def is_on_trial(self, host: str) -> bool:
        """Whether the host is a new compute node that has not passed its test job yet."""
        return self.is_compute_node(host) and self.host(host).on_trial

    @cached_property
    def changes_nodes(self) -> bool:
        """Whether the wanted slurm.conf names other nodes than the primary controller's actual one."""
        before, wanted = self.conf_before, self.conf_wanted
        return before.nodes.keys() != wanted.nodes.keys() or before.future.keys() != wanted.future.keys()

    @cached_property
    def conf_before(self) -> ConfText:
        """The parsed slurm.conf that the primary controller has now; empty if it has none."""
        return parse(self.controller_facts.slurm_conf)

    @cached_property
    def conf_wanted(self) -> ConfText:
        """The parsed wanted slurm.conf, the same for all hosts."""
        return parse(self.whole_files["slurm.conf"])

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """The differences between the primary controller's actual files and the wanted ones, as Slurm reads them.

        Empty if the controller has no slurm.conf, because nothing is in effect then. Of devices, what each node has
        by a gres.conf of its own counts. Files that are kept do not change.
        """
        if self.keeps_files or self.files_stay:
            return ()
        before = {**self.controller_facts.slurm_files, by_hand.GRES: self.gres_before}
        after = {**self.whole_files, by_hand.GRES: self.gres_after}
        right = {name for name, text in before.items() if not text and name in self.hand_made}
        if self.hand_made and by_hand.is_same_for(
            by_hand.GRES, self.compute_nodes, before[by_hand.GRES], after[by_hand.GRES]
        ):
            right |= {by_hand.GRES}
        compared = {name: before[name] for name in before if name not in right}
        found = differences(compared, after, self.is_same_host, self.ignored_keys)
        return (*found, *self.site_differences) if self.controller_facts.slurm_conf else found

    def is_files_change(self, node: str) -> bool:
        """Whether the cluster file now says otherwise than Slurm's files what a node in service is.

        What is wrong with such a node is most often a mistake in the file; else it is what the node says of itself.
        """
        if node not in self.conf_before.nodes:
            return False
        said = {key.lower() for key in self.cluster.settings_of(node)}
        found = (one for one in self.differences if node in one.nodes and not one.is_added)
        return any(one.kind not in (SETTING, FILE) and (one.key.lower() in said or not one.key) for one in found)

    @property
    def keeps_files(self) -> bool:
        """Whether Slurm's files stay as they are on all hosts (`keep_files`): the primary controller has some."""
        return self.cluster.keep_files and bool(self.controller_facts.slurm_conf)

    @cached_property
    def kept_differences(self) -> tuple[Difference, ...]:
        """What files that are kept say otherwise than the cluster file does, for this Slurm and for earlier ones."""
        if not self.keeps_files:
            return ()
        before = {**self.controller_facts.slurm_files, by_hand.GRES: self.gres_before}
        if by_hand.is_same_for(by_hand.GRES, self.compute_nodes, before[by_hand.GRES], self.gres_after):
            del before[by_hand.GRES]
        if not before[by_hand.CGROUP] and not self.is_compute_node(self.cluster.controller):
            del before[by_hand.CGROUP]
        least: tuple[Difference, ...] | None = None
        for rendered in self.comparable_files():
            after = {**rendered, by_hand.GRES: self.gres_after}
            found = differences(before, after, self.is_same_host, self.ignored_keys)
            found = tuple(one for one in found if not by_hand.may_stay(one))
            least = found if least is None or len(found) < len(least) else least
            if not least:
                break
        return least or ()

    @cached_property
    def gres_before(self) -> str:
        """A gres.conf of what each node has now, hand-made ones too; silent nodes count as right."""
        present, rendered = self.controller_facts.slurm_files, self.rendered.get(by_hand.GRES, "")
        if self.has_one_gres or not (self.keeps_files or by_hand.is_hand_made(present["slurm.conf"])):
            return present[by_hand.GRES]
        texts = {node: self.facts[node].gres_conf if node in self.facts else rendered for node in self.compute_nodes}
        return by_hand.gres_of_nodes(texts)

    @property
    def has_one_gres(self) -> bool:
        """Whether all nodes read one gres.conf: slurmctld's, or that of a shared directory."""
        return self.cluster.configless or self.cluster.slurm_conf_directory is not None

    @property
    def gres_after(self) -> str:
        """One gres.conf that says for each node what it will have."""
        return self.rendered.get(by_hand.GRES, "")

    @cached_property
    def site_differences(self) -> tuple[Difference, ...]:
        """The site's own files that differ on the primary controller, of those that daemons read when they start."""
        if self.keeps_files:
            return ()
        facts = self.controller_facts
        wanted = {one.name: digest(one.text) for one in self.site_files}
        names = sorted({*wanted, *facts.written_site_files})
        actual = {name: facts.site_files.get(name, "") for name in names if readers(name)}
        return tuple(
            Difference(name, FILE, name, actual=THERE if there else "", wanted=THERE if name in wanted else "")
            for name, there in actual.items()
            if there != wanted.get(name, "")
        )

    @cached_property
    def site_files(self) -> tuple[SiteFile, ...]:
        """The site's own files, topology.conf and oci.conf; a job submit script that ours contains is left out."""
        switches = self.cluster.topology
        text = topology_conf(switches, self._named_nodes) if switches else ""
        files = (one for one in self.slurm_files if one.name != SCRIPT or not self.cluster.explains_refusals)
        directories = self.cluster.scratch.variables if self.cluster.scratch else ()
        oci = (SiteFile(OCI, oci_conf(self.oldest_slurm, directories)),) if self.cluster.uses_oci else ()
        return (*files, *((SiteFile(TOPOLOGY, text),) if switches else ()), *oci)

    @property
    def submit_script(self) -> str:
        """The text of slurmfab's job submit script, followed by the site's own."""
        site = next((one.text for one in self.slurm_files if one.name == SCRIPT), "")
        return render.job_submit_script(self.cluster.name, site)

    def is_same_host(self, one: str, other: str) -> bool:
        """Whether names or addresses are one host's (`localhost`: the controller), or SlurmUser's name and number."""
        return one == other or bool(self._named(one) & self._named(other))

    def _named(self, name: str) -> frozenset[str]:
        """What a name or address of slurm.conf means."""
        found = self._aliases.get(canonical(name.lower()), NO_HOSTS)
        return found | {self.cluster.controller} if is_loopback(name) else found

    @cached_property
    def _aliases(self) -> Mapping[str, frozenset[str]]:
        """The hosts that have a name or an address, by this in lower case; and SlurmUser by its number and its name."""
        controller, user = self.cluster.controller, self.cluster.slurm_user
        found: dict[str, set[str]] = {}
        uids = self.facts[controller].uids if controller in self.facts else {}
        for uid in (uid for uid, name in uids.items() if name == user):
            found |= {str(uid): {f"user {user}"}, user.lower(): {f"user {user}"}}
        given = {address: host for host, address in self.cluster.addresses.items()}
        for host in self.cluster.hosts:
            known = self.lock.hosts.get(host, HostLock())
            told = (address for address in known.addresses if given.get(canonical(address), host) == host)
            for name in (host, self.address(host), known.hostname, *told):
                found.setdefault(name.lower(), set()).add(host)
        return {name: frozenset(hosts) for name, hosts in found.items() if name}

    @cached_property
    def other_settings(self) -> tuple[Difference, ...]:
        """The differences in settings alone; differences in nodes can be ten thousand."""
        return tuple(difference for difference in self.differences if difference.kind == SETTING)

    @cached_property
    def names_and_addresses(self) -> str:
        """The lines of /etc/hosts for all hosts with an IP address; an address that is a name needs DNS."""
        return "".join(
            f"{self.address(name)} {' '.join(self.names(name))}\n"
            for name in self.members
            if is_numeric(self.address(name))
        )

    def slurm_owner(self, host: str) -> tuple[str, str]:
        """The user of slurmctld and slurmdbd, and its group on a host."""
        user = self.cluster.slurm_user
        known = self.facts[host].accounts.get(user) if host in self.facts else None
        return user, self.facts[host].gids.get(known.gid, user) if known and user != "slurm" else user

    @cached_property
    def controller_facts(self) -> HostFacts:
        """The facts of the primary controller. Raises KeyError if the primary controller did not answer."""
        return self.facts[self.cluster.controller]

    def platform_of(self, host: str) -> Platform:
        """The kind of Slurm's packages that the cluster file asks for on a host."""
        return wanted(self.cluster, host)

    @cached_property
    def slurm_version(self) -> SlurmVersion:
        """The Slurm version on the primary controller; before it is installed, the one that it gets."""
        return series(self.controller_facts, self.cluster)

    def slurm_of(self, host: str) -> SlurmVersion:
        """The series of Slurm on a host: what it has or gets; of one that is silent, as the lock knows it."""
        fact = self.facts.get(host)
        if fact and (fact.codename or fact.slurm_version):
            return series(fact, self.cluster)
        known = self.lock.hosts[host].slurm if host in self.lock.hosts else ""
        return SlurmVersion.parse(known) if known else self.slurm_version

    @cached_property
    def oldest_slurm(self) -> SlurmVersion:
        """The oldest series that reads Slurm's files, during an upgrade too, of those that slurmctld talks to."""
        own = {self.slurm_of(host) for host in self.members if self.doubted.get(host) != VERSION}
        return min((self.slurm_version, *(one for one in own if reaches(self.slurm_version, one))))

    def setting_before(self, key: str) -> str:
        """The value of a key (in any case) in the primary controller's actual slurm.conf; empty if it is not set."""
        return self.conf_before.settings.get(key.lower(), "")

    @property
    def state_before(self) -> str:
        """The StateSaveLocation of the actual slurm.conf; empty if there is no slurm.conf or it does not set it."""
        return self.setting_before("StateSaveLocation")

    @property
    def moves_state(self) -> bool:
        """Whether slurmctld's state has to be copied to another directory."""
        before = self.state_before
        return bool(before) and posixpath.normpath(before) != posixpath.normpath(self.cluster.state_directory)

    @property
    def renames_cluster(self) -> bool:
        """Whether the actual slurm.conf has another ClusterName than the cluster file; Slurm ignores its case."""
        return self.setting_before("ClusterName").lower() not in ("", self.cluster.name)

    def host(self, name: str) -> HostLock:
        """The lock's entry for a host. Raises KeyError if the host has never answered."""
        return self.lock.hosts[name]

    def address(self, name: str) -> str:
        """The address of a host from the cluster file; its name if the file gives no address."""
        return self.cluster.addresses.get(name) or name

    @cached_property
    def uses_ipv6(self) -> bool:
        """Whether Slurm reaches a host of the cluster by an IPv6 address."""
        return any(self.families(name) == {IPV6} for name in self.members)

    def families(self, name: str) -> Set[int]:
        """The families (`IPV4`, `IPV6`) by which others reach a host, all of its own for a name; empty if unknown."""
        address = self.address(name)
        return families_of((address,)) if is_numeric(address) else self.own_families(name)

    def own_families(self, name: str) -> Set[int]:
        """The families of the addresses that a host has, as it last told; empty if it never did."""
        return families_of(self.host(name).addresses)

    def trusted_addresses(self, name: str) -> tuple[str, ...]:
        """The addresses of a host that others trust; empty if none is known."""
        return trusted_addresses.of_host(self.cluster, self.host(name), name)

    def names(self, name: str) -> tuple[str, ...]:
        """The name of a host in the cluster file, then its own hostname if that differs; none that all hosts have."""
        return tuple(one for one in dict.fromkeys((name, self.host(name).hostname)) if not is_loopback(one))

    def public_key(self, name: str) -> str:
        """The SSH public key of a host's slurm user, from the facts or else the lock; empty if it has none."""
        return self.facts[name].public_key if name in self.facts else self.host(name).public_key

    @cached_property
    def rendered(self) -> Mapping[str, str]:
        """The text of each of Slurm's files by its name, as slurmfab writes them."""
        return render.render(self.slurm_conf)

    @cached_property
    def hand_made(self) -> Mapping[str, str]:
        """Texts of files by their name that slurmfab did not write, and that say the same to Slurm as its own would.

        They are the primary controller's, and they stay until the cluster file changes what they say; an upgrade of
        Slurm, which reads what was right for the series before, changes nothing. If its slurm.conf does not say the
        same, there are none. Files that are kept are among them, whatever they say.
        """
        present = by_hand.texts_of(self.controller_facts)
        if self.keeps_files:
            return {name: present.get(name, "") for name in self.rendered}
        if not by_hand.is_hand_made(present[by_hand.MAIN]):
            return {}
        found = (
            by_hand.alike(present, rendered, self.is_same_host, self.ignored_keys)
            for rendered in self.comparable_files()
        )
        return next(filter(None, found), {})

    @cached_property
    def ignored_keys(self) -> frozenset[str]:
        """The keys that every Slurm that reads these files ignores, so that lines with them say nothing."""
        return ignored_keys(self.oldest_slurm)

    def comparable_files(self) -> Iterator[Mapping[str, str]]:
        """Yield the texts that hand-made files are compared with: this Slurm's, then earlier ones', which may stay."""
        # The line about private directories is the only one of slurmfab's own that a newer Slurm may refuse.
        older = () if self.cluster.private_tmp else reversed(reached(self.oldest_slurm))
        for version in (self.oldest_slurm, *(one for one in older if one >= OLDEST)):
            yield render.render(replace(self.comparable_conf, version=str(version), oldest=str(version)))

    @cached_property
    def comparable_conf(self) -> render.SlurmConf:
        """Wanted values to compare with hand-made files, which may let root run jobs if the file is silent on it."""
        main, own = by_hand.texts_of(self.controller_facts)[by_hand.MAIN], self.slurm_conf.slurm_conf
        if not by_hand.is_hand_made(main) or ROOT_JOBS.lower() in {key.lower() for key in own}:
            return self.slurm_conf
        found = parse(main).settings.get(ROOT_JOBS.lower())
        return replace(self.slurm_conf, slurm_conf={**own, ROOT_JOBS: found})

    @cached_property
    def files(self) -> tuple[tuple[str, str], ...]:
        """Name and text of each of Slurm's files as the primary controller has them; other hosts': see `files_of`."""
        texts = {**self.rendered, **self.hand_made}
        return tuple((name, texts[name]) for name in self.rendered if texts[name])

    @property
    def whole_files(self) -> Mapping[str, str]:
        """The texts of `files` by name, with all that they include."""
        return dict(self.files)

    def files_of(self, host: str) -> tuple[tuple[str, str], ...]:
        """Name and text of each of Slurm's files on a host with local files: the same on all, but for hand-made."""
        if not self.hand_made or self.has_one_gres:
            return self.files
        present = by_hand.texts_of(self.facts[host]) if host in self.facts else {}
        node = host if self.is_compute_node(host) else ""
        texts = by_hand.of_host(present, node, self.rendered, self.hand_made, self.ignored_keys)
        # slurmctld compares the bytes of slurm.conf and of what it includes, so a host with others gets all of them.
        parts = {} if self.is_as_found(host, by_hand.MAIN) else self.controller_facts.slurm_conf_parts
        return tuple({**parts, **{name: parts.get(name, text) for name, text in texts.items()}}.items())

    def is_as_found(self, host: str, name: str) -> bool:
        """Whether a host keeps the hand-made file of this name that it has."""
        if self.keeps_files:
            return True
        if host in self.facts and (site := {one.name: one for one in self.site_files}.get(name)):
            facts = self.facts[host]
            return name not in facts.written_site_files and facts.site_files.get(name) == digest(site.text)
        if not self.hand_made or host not in self.facts:
            return False
        if name == by_hand.MAIN:
            return self.facts[host].slurm_conf_digest == hashlib.sha256(self.hand_made[name].encode()).hexdigest()
        own = by_hand.texts_of(self.facts[host]).get(name, "")
        return by_hand.is_hand_made(own) and dict(self.files_of(host)).get(name) == own

    @cached_property
    def passwords_there(self) -> Mapping[str, str]:
        """The passwords in the controller's slurm.conf that stay, as facts in the deployer's memory alone."""
        before = self.facts[self.cluster.controller].slurm_conf if self.cluster.controller in self.facts else ""
        if not any(key.lower() in before.lower() for key in PASSWORDS):
            return {}
        present = parse(before).settings
        mentioned = {key.lower() for key in self.cluster.slurm_conf}
        known = (key for key in PASSWORDS if key.lower() not in mentioned)
        return {key: present[key.lower()] for key in known if present.get(key.lower())}

    @cached_property
    def slurm_conf(self) -> render.SlurmConf:
        """The values from which Slurm's files are rendered."""
        controllers = [name for name in self.cluster.controllers if name in self.members]
        rest = self.cluster.rest
        return render.SlurmConf(
            **{key: getattr(self.cluster, key) for key in render.KEYS_AS_THEY_ARE},
            cluster_name=self.cluster.name,
            controllers=tuple((self.host(name).hostname, self.address(name)) for name in controllers),
            version=str(self.slurm_version),
            oldest=str(self.oldest_slurm),
            nodes=(*map(self.node, self.compute_nodes), *map(self.future_node, self.cluster.future_settings)),
            partitions=tuple(map(self.partition, self.cluster.partitions)),
            slurm_conf={**self.passwords_there, **self.cluster.slurm_conf},
            cgroup=weakest(tuple(self.host(name).cgroup or Cgroup("none") for name in self.compute_nodes)),
            spool_directory=self.lock.spool_directory,
            qos=tuple(qos.settings for qos in self.cluster.qos),
            mail_programs=self.mail_programs(controllers),
            tokens=f"jwt_key={JWT_KEY},max_token_lifespan={rest.token_lifetime}" if rest else "",
            mpi=self.cluster.mpi.kind if self.cluster.mpi else "none",
            mail_domain=self.cluster.mail.domain if self.cluster.mail else "",
            **self.accounting_server,
            enforces_limits=self.cluster.has_accounts,
            has_switches=bool(self.cluster.topology),
            programs=node_programs(self.cluster),
            power=power_saving(self.cluster),
            longest_check=self.cluster.gpu_checks.minutes if self.cluster.gpu_checks else 0,
            ipv6=self.uses_ipv6,
            local_groups="docker" in self.cluster.container_ways,
            openmetrics=self.cluster.monitoring is not None and self.cluster.monitoring.openmetrics,
            platform=self.platform_of(self.cluster.controller),
        )

    def mail_programs(self, controllers: Iterable[str]) -> tuple[str, ...]:
        """The program that sends mail on each of these controllers: slurmfab's with `mail`, else what they have."""
        if self.cluster.mail:
            return (MAIL_PROGRAM,)
        return tuple(self.host(name).mail_program for name in controllers)

    @property
    def accounting_server(self) -> AccountingServer:
        """Where slurmdbd is, for slurm.conf; its port if the cluster file sets another one than Slurm's default."""
        port = slurmdbd_port(self.cluster.slurmdbd_conf)
        host = self.address(self.cluster.database.host) if self.cluster.database else ""
        return {"accounting_host": host, "accounting_port": 0 if port == DBD_PORT else port}

    def node(self, name: str) -> Node:
        """The values of a compute node's line in slurm.conf; the host must be in `compute_nodes`."""
        pinned = self.host(name)
        assert pinned.hardware is not None, "compute_nodes holds only hosts with known hardware"
        scratch = self.cluster.scratch.of_node(name) if self.cluster.scratch else 0
        settings = self.cluster.settings_of(name)
        shares = self.has_plain_shares(name, gres_value(settings) or "")
        place = name, self.address(name), pinned.hostname
        return Node(*place, pinned.hardware, pinned.gpus, settings, scratch, shares)

    def future_node(self, name: str) -> Node:
        """The values of the line of a node that is not there yet."""
        return Node(name, self.address(name), name, None, settings=self.cluster.future_settings[name])

    def has_plain_shares(self, node: str, gres: str) -> bool:
        """Whether a node's Gres has untyped shares, whose type Slurm takes for another Gres, needing a drain."""
        if not any(f"{name}:" in gres for name in SHARED) or self.cluster.controller not in self.facts:
            return False
        present = self.conf_before.nodes
        return node in present and meaning("gres", present[node].of(node, "gres"), {}) == meaning("gres", gres, {})

    def partition(self, one: Partition) -> tuple[str, str, Mapping[str, str]]:
        """Name, value of `Nodes=` and other keys of a partition's line in slurm.conf."""
        return one.name, self.partition_nodes(one.nodes), one.settings

    def partition_nodes(self, nodes: tuple[str, ...] | str) -> str:
        """The value of a partition's `Nodes=`, without hosts whose hardware is not known yet; `ALL` stays as it is."""
        return nodes if isinstance(nodes, str) else fold(node for node in nodes if node in self._named_nodes)


def node_programs(cluster: Cluster) -> NodePrograms:
    """The programs that slurmd runs on compute nodes: prolog, epilog, health check, and the variables of jobs."""
    interval = cluster.health.interval if cluster.health else 0
    has_both = cluster.has_own_scripts
    has_variables = cluster.job_environment is not None or cluster.scratch is not None or cluster.hides_pmix
    return NodePrograms(
        has_both or cluster.prolog is not None,
        has_both or cluster.epilog is not None,
        interval,
        has_task_prolog=has_variables,
    )


def power_saving(cluster: Cluster) -> PowerSaving | None:
    """The nodes that slurmctld may switch off and on; `None` for none."""
    power = cluster.power
    if power is None:
        return None
    may_sleep = set(power.nodes) - set(power.always_on)
    return PowerSaving(
        SUSPEND_PROGRAM,
        RESUME_PROGRAM,
        fold(node for node in cluster.compute_nodes if node not in may_sleep),
        power.suspend_timeout,
        power.resume_timeout,
        power.rate,
    )


def digest(text: str) -> str:
    """The SHA-256 (hexadecimal) of a file with this text."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def families_of(addresses: Iterable[str]) -> Set[int]:
    """The families of some IP addresses; quick, for 10,000 nodes."""
    return {IPV6 if ":" in address else IPV4 for address in addresses}


def is_numeric(address: str) -> bool:
    """Whether an address is an IP address, as /etc/hosts requires."""
    return ":" in address or address.replace(".", "").isdecimal()
