"""What cannot be imported: all of it in one message, with what was found and what a way would be."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Sequence

from slurmfab.base.errors import HostlistError, InputError, SlurmfabError
from slurmfab.base.hostlist import expand, fold
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import CLUSTER_NAME
from slurmfab.cluster.inventory.rules.storage import taken
from slurmfab.cluster.slurm.conf_text import MOST_MEMBERS, MOST_NAMES, MOST_SIZE, parse
from slurmfab.cluster.slurm.platform import SOURCE, installed, unknown
from slurmfab.commands.import_cluster.old_cluster import OldCluster

PACKAGED = ("/usr/sbin/", "/usr/bin/", "/sbin/", "/bin/")  # where packages have Slurm's daemons

MUNGE = {"AuthType": "auth/munge", "CredType": "cred/munge", "CryptoType": "crypto/munge"}
SHOWN_NAMES = 5
DEFAULT_STATE = "/var/lib/slurm/slurmctld"
TOLD = ("cluster: ", "state_directory: ")  # how complaints about a cluster file begin that a reason here has in full
NO_HARDWARE = ("cloud", "future")  # states of nodes that exist only now and then (slurm.conf(5), State)


class Refused(InputError):
    """A cluster that cannot be imported, with the reasons."""

    reasons: tuple[str, ...] = ()


def reasons_against(old: OldCluster) -> tuple[str, ...]:
    """Why slurmfab cannot keep an essential part of a cluster; nothing if it can."""
    return tuple(found for rule in RULES for found in rule(old))


def refuse(old: OldCluster, reasons: Sequence[str]) -> None:
    """Refuse a cluster. `reasons`: why; nothing to accept it. Raises Refused: with one line for each reason."""
    if reasons:
        lines = "\n".join(f"  - {reason}" for reason in reasons)
        error = Refused(
            f"The cluster with the controller {old.found.controller} cannot be imported as it is:\n{lines}\n"
            "Nothing was written, here or on any host."
        )
        error.reasons = tuple(reasons)
        raise error


def too_much(old: OldCluster) -> Iterator[str]:
    """What is passed over would be missing in the cluster file, and go at the first deployment."""
    if not old.conf.is_whole:
        yield (
            f"the lines of its slurm.conf list more than {MOST_NAMES} nodes, or {MOST_MEMBERS} in all partitions, or "
            f"have more than {MOST_SIZE >> 20} MiB with their defaults, or a number of 1000 digits."
        )


def no_slurm_conf(old: OldCluster) -> Iterator[str]:
    """Without slurm.conf there is nothing to read."""
    if not old.text:
        yield (
            f"{old.found.controller} has no slurm.conf that its daemons use. Name the host on which slurmctld runs; "
            f"or make a new cluster of these hosts: {FAB} deploy --hosts."
        )
    elif not old.setting("SlurmctldHost"):
        yield "its slurm.conf has no SlurmctldHost."
    elif not old.setting("ClusterName"):
        yield "its slurm.conf has no ClusterName, by which slurmdbd and slurmctld's state know the cluster. Set it."
    elif not old.nodes:
        yield "its slurm.conf names no compute nodes."
    elif not old.conf.partitions:
        yield "its slurm.conf has no partition."


def other_distributions(old: OldCluster) -> Iterator[str]:
    """Systems that slurmfab does not know, hosts of two systems, and Slurm of no package on Enterprise Linux."""
    reasons: dict[str, list[str]] = {}
    for name, facts in old.found.facts.items():
        reason = unknown(facts.kinds, facts.codename)
        if not reason and not {*old.platform.like} & {*facts.kinds}:
            reason = (
                f"it runs {facts.os_id}, and slurmfab keeps Slurm of no package on Debian and Ubuntu alone. Move to "
                "the packages of the same version first, with slurm.conf in /etc/slurm (docs/enterprise-linux.md)."
                if old.platform == SOURCE
                else f"it runs {facts.os_id}, and {old.found.controller} another system: an import takes over hosts "
                f"of one. Remove it from slurm.conf first; later, {FAB} add-node."
            )
        if reason:
            reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield f"{fold(names)}: {reason}"


def other_programs(old: OldCluster) -> Iterator[str]:
    """Daemons of no package whose programs root does not find."""
    found: dict[str, list[str]] = {}
    for name, files in old.found.hosts.items():
        facts = old.found.facts[name]
        is_kept = installed(facts) == SOURCE or not {*SOURCE.like} & {*facts.kinds}
        if files.program and not files.program.startswith(PACKAGED) and not is_kept:
            found.setdefault(files.program, []).append(name)
    for program, names in found.items():
        version = next((old.found.hosts[name].version for name in names), "")
        place = posixpath.dirname(posixpath.dirname(program))
        yield (
            f"{fold(names)}: Slurm {version} runs from {program}, so it was built from source, and root finds its "
            f"commands nowhere. Daemons and files may stay as they are: ln -s {place}/sbin/* {SOURCE.programs}/; ln -s "
            f"{place}/bin/* {SOURCE.commands}/ on these hosts, where no package of Slurm's may be. Then import again. "
            "Or move to the packages of the same or a later version: drain, stop the daemons, apt-get install "
            "slurmctld slurmd, with the same slurm.conf in /etc/slurm and the same StateSaveLocation."
        )


def too_old(old: OldCluster) -> Iterator[str]:
    """Releases of Slurm without tables here."""
    try:
        old.version  # noqa: B018 - raises
    except SlurmfabError as error:
        yield f"{old.found.controller}: {error}"


def other_users(old: OldCluster) -> Iterator[str]:
    """A slurmd that is not root, a SlurmUser who is not everywhere with one UID, and one of slurmdbd's own."""
    slurmd = old.setting("SlurmdUser") or "root"
    if slurmd.partition("(")[0] not in ("root", "0"):
        yield f"SlurmdUser is {slurmd}, and slurmfab runs slurmd as root, without which no user's job can start there."
    user = old.slurm_user
    uids = {
        host: next((uid for uid, name in facts.uids.items() if name == user), None)
        for host, facts in old.found.facts.items()
    }
    if len({*uids.values()}) > 1:
        told = "; ".join(f"{host}: {'none' if uid is None else uid}" for host, uid in uids.items())
        yield f"{user}, which is SlurmUser, has not the same UID on all hosts ({told}). Make it so first."
    of_slurmdbd = parse(old.text_of(old.database_host, "slurmdbd.conf")).settings.get("slurmuser", user)
    if old.name_of(of_slurmdbd) != user:
        yield (
            f"SlurmUser is {user} in slurm.conf and {of_slurmdbd} in slurmdbd.conf, and slurmfab knows one user for "
            "both daemons. Change slurmdbd's by hand first."
        )


def other_authentication(old: OldCluster) -> Iterator[str]:
    """Anything else than munge."""
    for key, wanted in MUNGE.items():
        found = old.setting(key)
        if found and found.lower() not in (wanted, "cred/munge"):
            yield f"{key} is {found}, and slurmfab sets up {wanted} alone. Change it on all hosts first."


def odd_names(old: OldCluster) -> Iterator[str]:
    """Names that are none of hosts, which would mean something else to other programs."""
    names = dict.fromkeys((*old.nodes, *(host for host, _ in old.controllers)))
    odd = [name for name in names if not is_host_name(name)]
    if odd:
        yield f"{', '.join(map(ascii, odd[:SHOWN_NAMES]))}: NodeName and SlurmctldHost have to be names of hosts."


def is_host_name(name: str) -> bool:
    """Whether a name is that of one host."""
    try:
        return expand(name) == (name,)
    except HostlistError:
        return False


def more_than_one_slurmd(old: OldCluster) -> Iterator[str]:
    """Several slurmd on one host, as for tests, and front ends."""
    if old.setting("FrontendName"):
        yield "FrontendName: front ends stand for nodes without slurmd, and slurmfab manages a slurmd on each node."
    hosts = Counter(old.node_setting(node, "nodehostname") or node for node in old.nodes)
    several = [host for host, count in hosts.items() if count > 1]
    if several:
        yield (
            f"{fold(several)}: several nodes of slurm.conf are this one host (NodeHostName), with a slurmd each, as "
            "for tests of Slurm. slurmfab manages one slurmd on a host."
        )


def nodes_that_come_and_go(old: OldCluster) -> Iterator[str]:
    """Nodes that exist only while a program keeps them."""
    found = [node for node in old.nodes if old.node_setting(node, "state").lower().startswith(NO_HARDWARE)]
    if found:
        yield (
            f"{fold(found)}: nodes with State=CLOUD come and go, and slurmfab manages hosts that stay. "
            "Remove these lines from slurm.conf before the import, if they are no longer needed."
        )


def federations(old: OldCluster) -> Iterator[str]:
    """Clusters that share their jobs."""
    if old.found.federation:
        yield (
            f"it is in the federation {old.found.federation}, whose clusters share their job ids. Take it out "
            f"first: sacctmgr modify federation {old.found.federation} set clusters-={old.setting('ClusterName')}."
        )


def shared_state(old: OldCluster) -> Iterator[str]:
    """State among files of other programs, which a deployment would close to them; Slurm's default is such a place."""
    path = posixpath.normpath(old.state_directory)
    if not old.text or not path.startswith("/") or not taken(path):
        return
    user, default = old.slurm_user, "" if old.setting("StateSaveLocation") else ", Slurm's own default"
    state = f"find {path} -mindepth 1 -maxdepth 1 -user {user} \\( -type f -o -name 'hash.*' \\)"
    yield (
        f"StateSaveLocation is {path}{default}, which {taken(path)}. Give the state a directory of its own on all "
        f"controllers; jobs run on meanwhile: systemctl stop slurmctld; install -d -o {user} -m 0700 {DEFAULT_STATE}; "
        f"{state} -exec mv -t {DEFAULT_STATE} {{}} +; then StateSaveLocation={DEFAULT_STATE} in slurm.conf on all "
        "hosts; systemctl start slurmctld. Then import again."
    )


def other_places(old: OldCluster) -> Iterator[str]:
    """A slurm.conf that the packages' programs do not find by themselves."""
    for path, hosts in old.unusual_confs.items():
        folder = posixpath.dirname(path)
        yield (
            f"{fold(hosts)}: slurm.conf is {path}, where Slurm's commands do not find it by themselves. The files may "
            f"stay there, and the daemons as they are: make {SLURM_DIRECTORY} a link to that directory on these hosts: "
            f"mv {SLURM_DIRECTORY} {SLURM_DIRECTORY}.before && ln -s {folder} {SLURM_DIRECTORY}. Then import again."
        )


def odd_cluster_names(old: OldCluster) -> Iterator[str]:
    """A name that a cluster file cannot have, with the way to rename the cluster without losing a job."""
    name = old.setting("ClusterName")
    if name and not CLUSTER_NAME.fullmatch(name.lower()):
        new = re.sub("[^a-z0-9_-]", "-", name.lower())[:40]
        recorded = f" slurmdbd has the records until then under {name}." if old.database_host else ""
        yield (
            f"ClusterName is {name}, and slurmfab takes at most 40 letters, digits, - and _. Another name alone ends "
            f"slurmctld (CLUSTER NAME MISMATCH). Rename it so that no job is lost: on {old.found.controller} systemctl "
            f"stop slurmctld; rm {old.state_directory}/clustername; then ClusterName={new} in slurm.conf on all hosts, "
            f"systemctl restart slurmd there, and systemctl start slurmctld.{recorded}"
        )


RULES = (
    no_slurm_conf,
    odd_cluster_names,
    shared_state,
    other_distributions,
    other_programs,
    too_old,
    other_users,
    other_authentication,
    odd_names,
    more_than_one_slurmd,
    nodes_that_come_and_go,
    federations,
    other_places,
)
