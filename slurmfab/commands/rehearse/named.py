"""What slurm.conf names, and Slurm does not judge: programs that may not be there, and words of lists of parameters."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.slurm.site_files import ON_CONTROLLERS, ON_NODES
from slurmfab.commands.rehearse.hand_made import stand_in_lines

Shell = Callable[[str, str], str]  # runs a script as root on a host of the twin, and returns what it prints

OURS = "/etc/slurm/"  # what slurm.conf names here comes by `slurm_files`
LISTS = (
    "AccountingStoreFlags", "CommunicationParameters", "JobAcctGatherParams", "LaunchParameters", "MpiParams",
    "PreemptParameters", "SchedulerParameters", "SlurmctldParameters", "SlurmdParameters", "SwitchParameters",
    "TaskPluginParam", "TopologyParam",
)  # fmt: skip
"""Keys of slurm.conf with words of which Slurm passes over those that it does not know."""

_WORD = re.compile(r"(?:^|,)\s*([A-Za-z]\w+)")

SEARCH = """\
places="$(dirname "$(find /usr/lib* -name select_cons_tres.so -print -quit)") $(command -v slurmctld slurmd srun)"
for word in {words}; do grep --quiet --recursive --fixed-strings --ignore-case "$word" $places || echo "$word"; done
"""
"""A script that prints which words are in no program of Slurm, and in none of its plugins."""


def programs(cluster: Cluster) -> Iterator[tuple[str, str, str]]:
    """Yield key, path and host of each program that slurm.conf has by the key `slurm_conf`; no patterns of several."""
    for keys, hosts in ((ON_NODES, cluster.compute_nodes), (ON_CONTROLLERS, cluster.controllers)):
        for key in keys:
            path = (cluster.slurm_conf.get(key) or "").partition(" ")[0]
            if path.startswith("/") and "*" not in path:
                yield from ((key, path, host) for host in hosts)


def stand_ins(cluster: Cluster, there: Sequence[str], shell: Shell) -> None:
    """Make programs that do nothing on a twin, in place of the site's own, which the deployed slurm.conf names."""
    for host in there:
        paths = {path for _, path, one in programs(cluster) if one == host and not path.startswith(OURS)}
        if left := sorted(paths - {*cluster.files}):
            shell("".join(map(stand_in_lines, left)), host)


def missing(former: Cluster, known: Cluster, there: Sequence[str], shell: Shell) -> Iterator[str]:
    """Yield a sentence for each program that slurm.conf newly names, and a host of the twin has not."""
    old = {(key, path) for key, path, _ in programs(former)}
    first: dict[tuple[str, str], str] = {}
    for key, path, host in programs(known):
        if host in there and (key, path) not in old:
            first.setdefault((key, path), host)
    for (key, path), host in first.items():
        if shell(f"[ -x {shlex.quote(path)} ] || echo no", host).strip():
            yield f"{key}: the twin's {host} has no program {path}, or may not execute it. Have the hosts got it?"


def words(cluster: Cluster) -> set[tuple[str, str]]:
    """The words of slurm.conf's lists of parameters, each with its key."""
    texts = ((key, cluster.slurm_conf.get(key) or "") for key in LISTS)
    return {(key, word) for key, text in texts for word in _WORD.findall(text)}


def unknown_words(former: Cluster, known: Cluster, there: Sequence[str], shell: Shell) -> Iterator[str]:
    """Yield a sentence for each new word of a list of parameters that no program of Slurm has."""
    new = sorted(words(known) - words(former))
    if not new:
        return
    hosts = [known.controller, *[host for host in known.compute_nodes if host in there][:1]]
    script = SEARCH.format(words=shlex.join(word for _, word in new))
    strange = set.intersection(*({*shell(script, host).split()} for host in hosts))
    yield from (
        f"{key}: no program of this Slurm has the word {word}, so it has no effect."
        for key, word in new if word in strange
    )  # fmt: skip
