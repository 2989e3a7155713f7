"""The survey of a found cluster: the cluster file that says what its files say, and what people should know of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from slurmfab.base.errors import ClusterFileError, InputError, SlurmfabError
from slurmfab.base.grouping import grouped
from slurmfab.base.hostlist import fold
from slurmfab.base.objections import objected
from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.slurm import keys
from slurmfab.cluster.slurm.platform import DEBIAN
from slurmfab.commands.accounts import export
from slurmfab.commands.import_cluster import cluster_text, database, devices, hearing, nodes, places, refusals, settings
from slurmfab.commands.import_cluster.account import Accountant
from slurmfab.commands.import_cluster.carried import Carried, carried
from slurmfab.commands.import_cluster.draft import Draft, comments_by_key
from slurmfab.commands.import_cluster.found import FoundCluster, Takeover
from slurmfab.commands.import_cluster.nodes import OWN_PARTITION
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.places import shared_directory
from slurmfab.commands.import_cluster.settings import Settled
from slurmfab.core.impact.slurm_diff import TEXT, Difference, differences, of_file
from slurmfab.core.plan.hand_made_files import MAIN, may_stay, texts_of
from slurmfab.core.plan.phases.daemons import renewal
from slurmfab.core.plan.phases.slurm_conf import has_own_files

MOST_TOLD, LONGEST_TOLD = 50, 400  # differences of one host's slurm.conf, and characters of each


def survey(found: FoundCluster, *, adopts_least: bool = True, keep_files: bool = False) -> Takeover:
    """Make the cluster file of a found cluster.

    `adopts_least`: whether it leaves out what the cluster does not have. `keep_files`: whether no deployment writes
    Slurm's files. Raises InputError if an essential part of it cannot be kept; the message has all reasons, and ways.
    """
    old = OldCluster(found)
    refusals.refuse(old, tuple(refusals.too_much(old)))  # before anything else looks at all of it
    reasons = refusals.reasons_against(old)
    refusals.refuse(old, (*reasons, *unsayable(old)) if reasons else ())
    taken = carried(old)
    draft = replace(first_draft(old, taken), adopts_least=adopts_least, keep_files=keep_files)
    without_accounts = settled_without_accounts(old, draft)
    objected(hearing.misnamed(old, without_accounts.plan_input.cluster), ("Nothing was written, here or on any host.",))
    settled, accounts_remarks = with_accounts(without_accounts, old)
    left_out = tuple(settings.dropped(settled.draft, old))
    left_out_because = {(file, key.lower()): why for file, key, why in left_out}
    remarks = (
        *(f"{key} of {file} is left out: {why}." for file, key, why in left_out),
        *nodes.remarks(old),
        *places.differing_ids(old),
        *database.remarks(old),
        *accounts_remarks,
        *taken.remarks,
        *other_variants(old),
        *other_ways_of_files(old),
        *lost_hosts(old),
        *changes(settled, old, left_out_because),
        *devices.remarks(old, settled.plan_input),
        *not_taken(settled),
    )
    account = tuple(Accountant(old, settled, taken, left_out_because).entries())
    return Takeover(cluster_text.text(settled.draft), taken.files, taken.programs, remarks, account)


def unsayable(old: OldCluster) -> tuple[str, ...]:
    """What a cluster file cannot say of a cluster that is refused anyway, so that people see all reasons at once."""
    if any(refusals.no_slurm_conf(old)):
        return ()
    try:
        settings.settle(first_draft(old, carried(old)), old)
    except ClusterFileError as error:
        told = (complaint.partition(": ")[2] for complaint in error.complaints)
        return tuple(f"{one.rstrip('.')}." for one in told if not one.startswith(refusals.TOLD))
    except SlurmfabError:
        return ()  # such as a release without tables, which is among the reasons
    return ()


def settled_without_accounts(old: OldCluster, draft: Draft) -> Settled:
    """The cluster file but for accounts. Raises InputError if the cluster file would be refused."""
    try:
        return settings.settle(draft, old)
    except ClusterFileError as error:
        lines = "\n".join(f"  - {complaint.partition(': ')[2]}" for complaint in error.complaints)
        raise InputError(
            f"The cluster with the controller {old.found.controller} cannot be imported as it is, because a cluster "
            f"file cannot say this:\n{lines}\nChange slurm.conf there first. Nothing was written, here or on any host."
        ) from error


def first_draft(old: OldCluster, taken: Carried) -> Draft:
    """The cluster file before the comparison of its files with the old ones."""
    where = places.places(old)
    state = old.state_directory
    slurmdbd_conf, ours = database.overrides(old)
    by_node = {node: {**given, **devices.node_settings(old, node)} for node, given in nodes.node_settings(old).items()}
    texts = {**old.texts, database.FILE: old.text_of(old.database_host, database.FILE)}
    return Draft(
        name=old.setting("ClusterName").lower(),
        controllers=where.controllers,
        ssh={key: value for key, value in old.found.ssh.items() if key != "endpoints"},
        endpoints=where.endpoints,
        addresses=where.addresses,
        slurm=slurm_packages(old),
        ids=places.ids(old),
        slurm_user=old.slurm_user,
        state_directory="" if state == refusals.DEFAULT_STATE and len(where.controllers) == 1 else state,
        slurm_conf_directory=shared_directory(old),
        database=database.section(old),
        nodes=by_node,
        node_comments=nodes.node_comments(old),
        future_nodes=nodes.future_settings(old),
        partitions=tuple(nodes.partitions(old)),
        own_partition=any(name.lower() == OWN_PARTITION for name in old.conf.partitions),
        configless=fetches(old),
        slurm_conf=decided_first(old),
        slurmdbd_conf=slurmdbd_conf,
        slurm_files=taken.slurm_files,
        scripts=taken.scripts,
        comments={(file, key): found for file, text in texts.items() for key, found in comments_by_key(text).items()},
        ours={(database.FILE, key): value for key, value in ours.items()},
    )


def slurm_packages(old: OldCluster) -> dict[str, str]:
    """The section `slurm`: empty for the distribution's packages."""
    kind = old.platform
    return {} if kind == DEBIAN else {"packages": kind.word, "version": f"{old.version}.*"}


def decided_first(old: OldCluster) -> dict[str, str | None]:
    """Keys of slurm.conf without which a cluster file would be refused before anything is compared."""
    names = ["preempttype", *(settings.ACCOUNTING if not database.section(old) else ())]
    return {keys.SLURM_CONF[name].name: old.setting(name) for name in names if old.setting(name)}


def fetches(old: OldCluster) -> bool:
    """Whether most compute nodes fetch Slurm's files from slurmctld."""
    controllers = {name for name, _ in old.controllers}
    ways = [old.files(node).configless for node in old.nodes if node in old.found.hosts and node not in controllers]
    return ways.count(True) > ways.count(False)


OF_ACCOUNTS = "JobSubmitPlugins"
"""A key that slurmfab writes by itself in a cluster with accounts; settled anew, it comes again if it is needed."""


def with_accounts(settled: Settled, old: OldCluster) -> tuple[Settled, tuple[str, ...]]:
    """The cluster file with QOS, accounts and users, and remarks about those that it could not have."""
    if not settled.draft.database or not old.found.accounts:
        return settled, ()
    known = Inventory(settled.plan_input.cluster, settled.plan_input.lock, Path(settings.WHERE))
    answer, gone = database.of_people(old.found.accounts, old.found.people)
    remarks = (database.remark(gone, old.found.controller),) if gone else ()
    others = {key: value for key, value in settled.draft.slurm_conf.items() if key != OF_ACCOUNTS}
    try:
        draft = replace(settled.draft, accounts=export.text(known, answer), slurm_conf=others)
        return settings.settle(draft, old), remarks
    except ClusterFileError as error:
        reasons = "; ".join(complaint.partition(": ")[2] for complaint in error.complaints)
        return settled, (
            f"QOS, accounts and users are not in the cluster file: {reasons}. They stay in slurmdbd as they are; mend "
            f"that with sacctmgr, then add what {FAB} accounts-export prints.",
        )


def other_variants(old: OldCluster) -> Iterator[str]:
    """Yield the hosts whose slurm.conf says something else than the controller's, with the differences."""
    ours = old.files(old.found.controller).slurm_conf
    found: dict[tuple[str, ...], list[str]] = {}
    for host, files in old.found.hosts.items():
        if host == old.found.controller or files.configless or not files.slurm_conf:
            continue
        unlike = differences({"slurm.conf": files.slurm_conf}, {"slurm.conf": ours})
        told = tuple(str(one)[:LONGEST_TOLD] for one in unlike if one.kind != TEXT)
        told = (*told[:MOST_TOLD], *((f"and {len(told) - MOST_TOLD} more",) if len(told) > MOST_TOLD else ()))
        if told:
            found.setdefault(told, []).append(host)
    for told, hosts in found.items():
        yield (
            f"slurm.conf of {fold(hosts)} differs from the controller's, which counts: {'; '.join(told)}. A deployment "
            "gives all hosts the same file, unless keep_files is set."
        )


def other_ways_of_files(old: OldCluster) -> Iterator[str]:
    """Yield what people should know where some nodes fetch Slurm's files and others do not, and of links."""
    controllers = {name for name, _ in old.controllers}
    own = [node for node in old.nodes if node in old.found.hosts and node not in controllers]
    most = fetches(old)
    other = [node for node in own if old.files(node).configless != most]
    if other:
        way = "have files of their own" if most else "fetch their files from slurmctld (configless)"
        yield f"{fold(other)} {way}, unlike most nodes; a deployment makes them like the others."
    file = old.file(old.found.controller, "slurm.conf")
    if file and file.link and not shared_directory(old):
        yield (
            f"{file.path} is a link to {file.link}. When slurm.conf changes, slurmfab writes a file into "
            f"{SLURM_DIRECTORY} of each host; if all hosts share that directory: slurm_conf_directory: "
            f"{file.link.rpartition('/')[0]}."
        )


def lost_hosts(old: OldCluster) -> Iterator[str]:
    """Yield the hosts that did not answer, or are left out."""
    for host, reason in old.found.unreachable.items():
        kept = "It stays in slurm.conf as it is there" if host in old.conf.nodes else "It stays as slurm.conf names it"
        if host in old.found.doubted:
            yield f"{host} is left out: {reason.rstrip('.')}. {kept}; mend that, then deploy again."
        else:
            yield f"{host} did not answer: {reason.rstrip('.')}. {kept}; deploy again when it answers."


def not_taken(settled: Settled) -> Iterator[str]:
    """Yield what the cluster did not have and does not get."""
    if settled.draft.adopts_least:
        lines = "; ".join(f"{what} ({line})" for line, what in cluster_text.NOT_TAKEN.items())
        yield f"Not taken: {lines}. To take one, remove its line from the cluster file."
        account = (
            ", and the slurm user gets an account, for test jobs" if settled.plan_input.cluster.has_accounts else ""
        )
        yield (
            "Taken all the same: owners and modes of Slurm's directories, and daemons that start as the slurm user, "
            f"without which another user could become root ({cluster_text.GUARD} leaves them){account}."
        )


def changes(settled: Settled, old: OldCluster, known: dict[tuple[str, str], str]) -> Iterator[str]:
    """Yield which files the first plan writes anew, on which hosts and because of which lines; nothing where all stay.

    Args:
        settled: the cluster file, and the differences that no key mends.
        old: the cluster, with what each host has.
        known: by file and key in lower case, why a key is left out.
    """
    plan_input = settled.plan_input

    def told(differences: Iterable[Difference]) -> str:
        return "; ".join(
            f"{one.file}: {one}" + (f" ({why})" if (why := known.get((one.file, one.name.lower()), "")) else "")
            for one in differences
        )

    if settled.draft.keep_files:
        if because := [one for one in settled.left if not may_stay(one)]:
            yield (
                f"{', '.join(plan_input.rendered)} stay as they are (keep_files), and check-cluster will tell what they"
                f" say otherwise: {told(because)}."
            )
        return
    pairs: list[tuple[tuple[str, ...], str]] = []
    lines: dict[Difference, None] = {}
    for host in (name for name in plan_input.facts if has_own_files(plan_input, name)):
        present = {**texts_of(plan_input.facts[host]), MAIN: old.files(host).slurm_conf}
        wanted = {**dict(plan_input.files_of(host)), MAIN: plan_input.whole_files[MAIN]}
        written = tuple(name for name in plan_input.rendered if wanted.get(name, "") != present.get(name, ""))
        pairs += [(written, host)] if written else []
        for name in written:
            texts = present.get(name, ""), wanted.get(name, "")
            found = of_file(name, *texts, plan_input.is_same_host, wanted[MAIN], plan_input.ignored_keys)
            lines |= dict.fromkeys(one for one in found if not may_stay(one) or one.kind == TEXT)
    for names, hosts in grouped(pairs).items():
        nodes = [host for host in hosts if plan_input.is_compute_node(host)]
        restarts = renewal(plan_input, hosts) or (f"slurmd on {fold(nodes)} restarts." if nodes else "")
        because = [one for one in lines if one.file in names and one.kind != TEXT]
        because = because or [one for one in lines if one.file in names]
        yield (
            f"The first deployment will write {', '.join(names)} anew on {fold(hosts)}, and comments and order of the "
            f"hand-made files go, because of these lines: {told(because)}. {restarts}".rstrip()
            + " To leave the files as they are, set keep_files: true; check-cluster tells these lines then."
        )
