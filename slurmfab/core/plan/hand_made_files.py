"""Slurm's files that were made by hand and say the same to Slurm as slurmfab's own: they are right as they are.

So a cluster that was made by hand keeps its files until a change of the cluster file changes what they say; then
slurmfab's files replace all of them. slurm.conf is the primary controller's on all hosts, but gres.conf and cgroup.conf
may differ between hosts, or be missing where they would say nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from slurmfab.base.errors import HostlistError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import expand, fold_in_order
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.slurm.conf_text import Settings, parse
from slurmfab.cluster.slurm.gres import GresLine, gres_by_node, is_same_gres
from slurmfab.cluster.slurm.meaning import SameHost
from slurmfab.core.impact.slurm_diff import NO_KEYS, NODE_LINE, SETTING, TEXT, Difference, of_file, says_the_same
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB

MAIN, GRES, CGROUP = "slurm.conf", "gres.conf", "cgroup.conf"
OF_EACH_HOST = (GRES, CGROUP)  # the files that may differ between hosts


ROOT_JOBS = "DisableRootJobs"  # the key of slurm.conf with which slurmctld refuses jobs of root, with `Invalid user id`
SERVES = "enable_configless"  # the option of SlurmctldParameters with which slurmctld serves its files (slurm.conf(5))

STATES = ("", "unknown", "idle", "down", "drain", "fail", "failing")
"""States of a node line that say nothing of what the node is, as CLOUD and FUTURE do."""


def is_hand_made(text: str) -> bool:
    """Whether there is a file that slurmfab did not write."""
    return bool(text) and not text.startswith(MADE_BY_SLURMFAB)


def texts_of(facts: HostFacts) -> dict[str, str]:
    """The texts of a host's files by name, as far as it told them; empty for a missing one."""
    return {**facts.slurm_files, "job_container.conf": facts.job_container_conf}


def alike(
    present: Mapping[str, str], rendered: Mapping[str, str], is_same_host: SameHost, ignored: frozenset[str] = NO_KEYS
) -> dict[str, str]:
    """The primary controller's files that stay, by name; an empty text for one that stays missing.

    `present`: its files by name, empty for a missing one. `rendered`: the files that slurmfab would write. `ignored`:
    the keys that Slurm ignores. Returns nothing if its slurm.conf is not hand-made or says something else.
    """
    main = present.get(MAIN, "")
    found_there = of_file(MAIN, main, rendered[MAIN], is_same_host, ignored=ignored)
    if not is_hand_made(main) or not all(map(may_stay, found_there)):
        return {}
    nodes = tuple(parse(rendered[MAIN]).nodes)
    found = {MAIN: main}
    for name in (name for name in rendered if name != MAIN):
        text = present.get(name, "")
        if not text.startswith(MADE_BY_SLURMFAB) and is_same_for(name, nodes, text, rendered[name], ignored):
            found[name] = text
    return found


def may_stay(one: Difference) -> bool:
    """Whether a hand-made slurm.conf is right with this difference: order, or how nodes are now, which Slurm keeps."""
    return one.kind == TEXT or is_runtime(one) or is_served_besides(one)


def is_served_besides(one: Difference) -> bool:
    """Whether slurmctld only serves its files besides (enable_configless), for whom the site knows."""
    if one.kind != SETTING or one.name.lower() != "slurmctldparameters":
        return False
    actual, wanted = (set(map(str.strip, filter(None, value.lower().split(",")))) for value in (one.actual, one.wanted))
    return actual - wanted == {SERVES} and wanted <= actual


def is_runtime(one: Difference) -> bool:
    """Whether the actual slurm.conf only says in which state nodes are (State=DOWN, DownNodes).

    slurmctld takes it for nodes of which it has no state yet; otherwise its own files count (slurm.conf(5)).
    """
    if one.kind == SETTING:
        return one.name.lower() == "downnodes" and not one.wanted
    return one.kind == NODE_LINE and one.key.lower() == "state" and one.actual.partition("+")[0].lower() in STATES


def is_same_for(
    name: str, nodes: Sequence[str], present: str, rendered: str, ignored: frozenset[str] = NO_KEYS
) -> bool:
    """Whether two texts of a file, of which the present one may be empty, say the same about some nodes."""
    if name != GRES:
        return is_same_text(name, present, rendered, ignored)
    was, will = devices(present), devices(rendered)
    return all(is_same_gres(was.get(node, was[""]), will.get(node, will[""])) for node in nodes)


@lru_cache(maxsize=16)
def is_same_text(name: str, present: str, rendered: str, ignored: frozenset[str]) -> bool:
    """Whether two texts of a file say the same to Slurm; cached, because most hosts have one text."""
    return says_the_same(name, present, rendered, ignored)


@lru_cache(maxsize=16)
def devices(gres_conf: str) -> Mapping[str, tuple[GresLine, ...]]:
    """The devices that a gres.conf gives to each node that it names, and under the empty name to any other."""
    return gres_by_node(parse(gres_conf))


def of_host(
    present: Mapping[str, str],
    node: str,
    rendered: Mapping[str, str],
    primary: Mapping[str, str],
    ignored: frozenset[str] = NO_KEYS,
) -> dict[str, str]:
    """The wanted texts of a host's files by name, where the primary controller's slurm.conf was made by hand.

    `present`: as told; slurmfab's own may be missing. `node`: empty if it is none. `primary`,
    `ignored`: of `alike`.
    """
    found: dict[str, str] = {}
    for name, text in rendered.items():
        own = present.get(name, "")
        may_stay = name in OF_EACH_HOST and not own.startswith(MADE_BY_SLURMFAB)
        if may_stay and (is_same_for(name, (node,), own, text, ignored) if node else not own or name == GRES):
            found.update({name: own} if own else {})
        else:
            found[name] = primary.get(name) or text
    return found


def may_keep_gres(present: str, node: str) -> bool:
    """Whether a hand-made gres.conf may stay where slurmfab would write none; `node` is empty on no compute node."""
    return is_hand_made(present) and (not node or is_same_for(GRES, (node,), present, ""))


def gres_of_nodes(texts: Mapping[str, str]) -> str:
    """One gres.conf for all nodes that says for each what its own says. `texts`: the own gres.conf of each node."""
    groups = grouped((text, node) for node, text in texts.items())
    return "".join(line for text, nodes in groups.items() for line in lines_for(text, nodes))


def lines_for(text: str, nodes: Iterable[str]) -> Iterable[str]:
    """The lines of a gres.conf that are about some nodes, each with their names."""
    conf = parse(text)
    for line in conf.lines:
        names = [node for node in nodes if node in named(line)] if "nodename" in line else nodes
        values = (f"{conf.spelled[key]}={value}" for key, value in line.items() if key != "nodename")
        if names:
            yield f"NodeName={fold_in_order(names)} {' '.join(values)}\n"


def named(line: Settings) -> frozenset[str]:
    """The nodes that a line names."""
    try:
        return frozenset(expand(line["nodename"]))
    except HostlistError:
        return frozenset((line["nodename"],))
