"""Keys of slurm.conf and cgroup.conf for the cluster file: those in which slurmfab's files differ from the old ones.

Nothing is decided key by key: slurmfab's files are rendered as in a deployment and compared with the old ones in
Slurm's sense, and each difference becomes a key of the cluster file, until no difference is left that a key can mend.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.rules.slurm_conf import CONFIGLESS_OPTION
from slurmfab.cluster.inventory.slurm_settings import SLURM_CONF_KEYS_OF_SLURMFAB
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.cluster.slurm.versions import SlurmVersion, complaints, ignored_keys, is_ignored
from slurmfab.commands.import_cluster import cluster_text, nodes
from slurmfab.commands.import_cluster.draft import Draft, Overrides
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.core.impact.slurm_diff import NODE_LINE, SETTING, TABLES, TEXT, Difference, differences
from slurmfab.core.plan.plan_input import PASSWORDS, PlanInput

WHERE = "the cluster file of the import"
MOST_ROUNDS = 12  # how often the files are rendered at most; two or three times are usual

ACCOUNTING = ("accountingstoragetype", "accountingstoragehost", "accountingstorageport")
"""Keys that the section `database` writes."""

RECORDS = ("accountingstoreflags", "accountingstoragetres")
"""Further ones that say what is recorded; the rest of what comes with it changes which jobs run, and when."""

ELSEWHERE = frozenset(key.lower() for key in SLURM_CONF_KEYS_OF_SLURMFAB)
SEVERAL, SEVERAL_SINCE = ("prolog", "epilog"), SlurmVersion(24, 5)
"""Keys that may be repeated in slurm.conf, and since when; before, the last line counts (slurm.conf(5), Prolog)."""

OVERRIDDEN = {"slurm.conf": "slurm_conf", "cgroup.conf": "cgroup_conf"}
"""The section of the cluster file with the keys of a file."""


@dataclass(frozen=True)
class Settled:
    """A cluster file whose files are as near to the old ones as can be."""

    draft: Draft
    plan_input: PlanInput  # what a plan would be made from, with the lock of the import
    left: tuple[Difference, ...]  # the differences that no key mends


def settle(draft: Draft, old: OldCluster) -> Settled:
    """Add to a draft what makes its files say the same to Slurm as the old ones; ClusterFileError if refused."""
    for _ in range(MOST_ROUNDS):
        cluster = loading.parse(cluster_text.text(draft), WHERE)
        plan_input = PlanInput(cluster, first_lock(cluster, old), old.found.facts)
        before = {file: text for file, text in old.texts.items() if file in OVERRIDDEN}
        left = differences(before, plan_input.rendered, plan_input.is_same_host, plan_input.ignored_keys)
        better = corrected(draft, old, plan_input, left)
        if better == draft:
            break
        draft = better
    if not draft.database and not {key.lower() for key in draft.slurm_conf} & {*ACCOUNTING}:
        draft = replace(draft, of_database=defaults_of_database(draft, old))
        cluster = loading.parse(cluster_text.text(draft), WHERE)
        plan_input = PlanInput(cluster, first_lock(cluster, old), old.found.facts)
    return Settled(draft, plan_input, tuple(one for one in left if one.kind != TEXT))


def defaults_of_database(draft: Draft, old: OldCluster) -> dict[str, str]:
    """What slurmfab would write with a database and accounts, beside records: limits, priorities, and a plugin."""
    grown = replace(draft, database={"host": draft.controllers[0]}, accounts="accounts: [{name: any}]\n")
    cluster = loading.parse(cluster_text.text(grown), WHERE)
    rendered = PlanInput(cluster, first_lock(cluster, old), old.found.facts).rendered
    known = {*parse(old.text).settings, *ACCOUNTING, *RECORDS}
    return {
        one.name: one.wanted
        for one in differences({"slurm.conf": old.text}, {"slurm.conf": rendered["slurm.conf"]})
        if one.kind == SETTING and one.name.lower() not in known
    }


def corrected(draft: Draft, old: OldCluster, plan_input: PlanInput, left: Sequence[Difference]) -> Draft:
    """A cluster file with a key for each difference that a key can mend."""
    ours = {file: parse(plan_input.rendered[file]).settings for file in OVERRIDDEN}
    values = dict(draft.ours)
    found: dict[str, dict[str, str | None]] = {
        "slurm.conf": dict(draft.slurm_conf),
        "cgroup.conf": dict(draft.cgroup_conf),
    }
    for one in left:
        low = one.name.lower()
        if one.kind == SETTING and not reason_against(draft, old, one.file, one.name, one.actual):
            value = without_option(one.actual) if low == "slurmctldparameters" else one.actual
            values.setdefault((one.file, low), ours[one.file].get(low, ""))
            found[one.file] |= {one.name: value or None} if value or not one.actual else {}
    by_node = dict(draft.nodes)
    for one in left:
        for name in one.nodes if one.kind == NODE_LINE and one.key and not one.is_added else ():
            if name not in by_node:
                continue  # it is not there yet: its keys are in the draft as far as they can be
            actual = old.node_setting(name, one.key)
            by_node[name] = nodes.corrected(old, by_node[name], name, one.key, actual)
    return replace(
        draft,
        slurm_conf=in_order(found["slurm.conf"], old, "slurm.conf"),
        cgroup_conf=in_order(found["cgroup.conf"], old, "cgroup.conf"),
        nodes=by_node,
        ours=values,
    )


def without_option(value: str) -> str:
    """A value of SlurmctldParameters without the option that `configless` writes."""
    return ",".join(word for word in value.split(",") if word.strip().lower() != CONFIGLESS_OPTION)


def in_order(found: Mapping[str, str | None], old: OldCluster, file: str) -> Overrides:
    """Keys in the order of the old file, then those that it leaves out."""
    order = {key: number for number, key in enumerate(parse(old.texts[file]).settings)}
    return dict(sorted(found.items(), key=lambda item: (item[1] is None, order.get(item[0].lower(), 0))))


def reason_against(draft: Draft, old: OldCluster, file: str, key: str, value: str) -> str:
    """Why a key cannot be in its section of the cluster file; empty if it can.

    `file`: `slurm.conf` or `cgroup.conf`. `key`: spelled as in the manual. `value`: its value in the old file; empty
    for none.
    """
    low = key.lower()
    if low in ELSEWHERE and file == "slurm.conf":
        return "it has a place of its own in the cluster file"
    if low in ACCOUNTING and draft.database:
        return "it comes from the key database"
    if low in SEVERAL and "," in value and old.version < SEVERAL_SINCE:
        return f"Slurm {old.version} runs the program of the last line alone; write one that runs all of them"
    if file == "slurm.conf" and low in {one.lower() for one in PASSWORDS}:
        return "a password does not come into the cluster file; it stays in slurm.conf on the hosts"
    section = OVERRIDDEN[file]
    asked: dict[str, dict[str, str | None]] = {"slurm_conf": {}, "cgroup_conf": {}}
    asked[section] = {key: value or None}
    found = complaints(old.version, asked["slurm_conf"], asked["cgroup_conf"], (), ())
    return found[0].partition(": ")[2] if found else ""


def dropped(draft: Draft, old: OldCluster) -> Iterator[tuple[str, str, str]]:
    """Yield file, key and reason of each key that the installed Slurm or the cluster file has no place for."""
    for file in OVERRIDDEN:
        conf = parse(old.texts[file])
        for low, value in conf.settings.items():
            if low in (*ELSEWHERE, *ACCOUNTING):
                continue
            name = TABLES[file][low].name if low in TABLES[file] else conf.spelled[low]
            if is_ignored(low, value, ignored_keys(old.version)):
                yield file, name, f"Slurm {old.version} ignores this key, so its line may stay where it is"
            elif why := reason_against(draft, old, file, name, value):
                yield file, name, why
