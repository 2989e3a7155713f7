"""Checks of the configuration: identical files on all hosts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import pytest

from slurmfab.base.paths import SLURM_DIRECTORY
from slurmfab.base.program_name import FAB
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.cluster.inventory.slurm_settings import setting
from slurmfab.commands.checks.applies import DoesNotApply, Drifted
from slurmfab.commands.checks.hand_made import MAIN, OWN, PRIVATE, THERE, HandMade, need_files, texts
from slurmfab.commands.checks.hosts import CheckedHost, line_of
from slurmfab.commands.checks.munge import need_munged
from slurmfab.commands.checks.slurm import Slurm, need_answer
from slurmfab.commands.checks.wanted import FILES, deploy, files, scripts_around_jobs, site_files
from slurmfab.core.impact.drift_kinds import CHANGED_FILE, OLDER_FILE
from slurmfab.core.impact.slurm_diff import NODE_LINE, SETTING, TEXT, differences
from slurmfab.core.plan.phases import scripts
from slurmfab.on_hosts.agent.client import commands
from slurmfab.on_hosts.agent.client.commands import update_partition
from slurmfab.on_hosts.agent.core.reading import MADE_BY_SLURMFAB

INCLUDED = f"$(sed -n 's/^[[:space:]]*include[[:space:]]\\+\\([^[:space:]#]*\\).*/\\1/Ip' {MAIN} 2>/dev/null)"
HASHES = (
    f"{THERE}sha256sum {' '.join(FILES)} $own $(grep -ls '^{MADE_BY_SLURMFAB}' {PRIVATE}) {INCLUDED} 2>/dev/null || :"
)
"""Prints the hashes of Slurm's files and those that slurm.conf includes; in configless mode, `OWN` must not exist.

A job_container.conf that slurmfab did not write is ignored.
"""

LINKS = (
    f"cd {SLURM_DIRECTORY} 2>/dev/null && for name in {' '.join(FILES)}; do "
    '[ ! -L $name ] || echo "$name $(readlink $name)"; done; :'
)
"""Prints which of Slurm's files are links, and where these lead."""

SHARED = (
    f"cd {SLURM_DIRECTORY} 2>/dev/null && for name in $(echo %s); do "
    "[ -e $name ] || [ -L $name ] || continue; "
    'echo "$name $(readlink -f %s/$name || echo -) $(readlink -f $name || echo -)"; '
    "done; :"
)
"""Prints where each of these names (an argument) leads from the shared directory and from Slurm's directory."""


WAYS = {
    "slurmctldhost", "slurmctldport", "slurmctldaddr", "controlmachine", "controladdr", "backupcontroller",
    "backupaddr", "slurmdport", "port", "nodeaddr", "nodehostname", "authtype", "authinfo", "credtype", "clustername",
    "communicationparameters", "slurmuser", "",
}  # fmt: skip
"""The keys by which Slurm's daemons and commands find and believe one another."""

SCRIPTS = (
    f"for path in $(echo %s) {scripts.SCRIPTS.format('prolog')}/* {scripts.SCRIPTS.format('epilog')}/*; do "
    '[ -e "$path" ] || [ -L "$path" ] || continue; '
    'echo "$(stat -c %%U:%%a "$path") $(sha256sum <"$path" 2>/dev/null | cut -d" " -f1 || :) $path"; done | sort -u'
)
"""Prints owner with mode, SHA-256 and path of these files (an argument), and of all in the two directories."""


def test_partitions_are_as_wanted(cluster: Cluster, slurm: Slurm) -> None:
    """every partition is in the state of the cluster file"""
    states = slurm.partition_states()
    other = {
        one.name: wanted
        for one in cluster.partitions
        if not (wanted := (setting(one.settings, "State") or "UP").upper()).startswith(
            states.get(one.name, wanted).upper()
        )
    }
    found = "; ".join(f"partition {name} is {states[name].upper()} in slurmctld" for name in other)
    repair = "; ".join(" ".join(update_partition(name, f"State={state}")) for name, state in other.items())
    assert not other, f"{found}, and not in the cluster file: somebody changed it. Repair: {repair}"


def test_files_are_the_controllers(
    other: CheckedHost, controller: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock
) -> None:
    """Slurm's files are the same as the controller's"""
    need_files(other, others, cluster, lock)
    theirs, reference = hashes(other), hashes(controller)
    names = (name for name in (*reference, *theirs) if name != OWN and theirs.get(name) != reference.get(name))
    right = HandMade(cluster, lock, other, controller)
    differing = [name for name in dict.fromkeys(names) if not right.stays(name)]
    wrong = [
        f"{name} {'differs from' if name in theirs else 'is missing, unlike'} {controller.name}'s"
        for name in differing
        if name in reference
    ]
    wrong += [f"{name} exists here but not on {controller.name}" for name in differing if name not in reference]
    wrong += (
        [f"{OWN} exists, so Slurm's commands read it instead of the files that slurmd fetched"] if OWN in theirs else []
    )
    if wrong:
        repair = f"correct it on {other.name} (keep_files)" if cluster.keep_files else deploy(other.name)
        sign = "ways" if OWN in theirs else sign_of_texts(texts(other), texts(controller))
        raise Drifted(CHANGED_FILE, f"{'; '.join(wrong)}. Repair: {repair}", sign)


def test_files_are_no_links(host: CheckedHost, controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Slurm's files are files, and no links to others"""
    if cluster.slurm_conf_directory:
        raise DoesNotApply(f"they are links to {cluster.slurm_conf_directory}")
    right = HandMade(cluster, lock, host, controller)
    links = dict(line.split(" ", 1) for line in host.as_found.ask(LINKS).splitlines())
    wrong = [f"{name} is a symbolic link to {place}" for name, place in links.items() if not right.is_kept(name)]
    assert not wrong, f"{'; '.join(wrong)}; a change there is not slurmfab's. Repair: {deploy(host.name)}"


def test_files_are_links_to_the_shared_directory(
    host: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock
) -> None:
    """Slurm's files are links to those in the shared directory"""
    shared = cluster.slurm_conf_directory
    if not shared or not lock.slurm:
        raise DoesNotApply("the cluster file has no slurm_conf_directory")
    need_files(host, others, cluster, lock)
    names = " ".join((*FILES, *cluster.site_file_names))
    places = (line.split(" ") for line in host.as_found.ask(SHARED, names, shared).splitlines())
    wrong = [name for name, wanted, actual in places if actual in ("-", "") or actual != wanted]
    if wrong:
        raise Drifted(
            CHANGED_FILE,
            f"{', '.join(wrong)} in {SLURM_DIRECTORY} {'is no link' if len(wrong) == 1 else 'are no links'} to a file "
            f"in {shared}, where slurmfab changes it for all hosts. Repair: {deploy(host.name)}",
        )


def test_files_are_as_the_cluster_file_says(controller: CheckedHost, cluster: Cluster, lock: Lock) -> None:
    """Slurm's files on the controller match the cluster file"""
    wanted = files(cluster, lock)
    if not wanted:
        pytest.skip("nothing has been deployed yet.")
    right = HandMade(cluster, lock, controller, controller)
    if cluster.keep_files:
        otherwise = "; ".join(f"{one.file}: {one}" for one in right.kept_differences)
        if otherwise:
            raise Drifted(
                CHANGED_FILE,
                f"{otherwise} (now -> in the cluster file). keep_files leaves these files to you. Repair: correct them "
                f"on all hosts, or the cluster file; or remove keep_files, and {FAB} plan shows what is written",
            )
        return
    actual = hashes(controller)
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in wanted.items()}
    names = (name for name in (*wanted, *actual) if actual.get(name) != digests.get(name))
    differing = [name for name in dict.fromkeys(names) if not right.stays(name)]
    wrong = [
        f"{name} differs from the cluster file" if name in actual else f"{name} is missing"
        for name in differing
        if name in wanted
    ]
    wrong += [f"{name} exists, but the cluster file does not call for it" for name in differing if name not in wanted]
    if wrong:
        raise Drifted(
            CHANGED_FILE,
            f"{'; '.join(wrong)}: the file was edited on the host, or the cluster file was edited and not deployed. "
            f"Repair: {FAB} plan shows the difference, {FAB} deploy removes it",
            sign_of_texts(texts(controller), wanted),
        )


def test_site_files_are_as_the_cluster_file_says(host: CheckedHost, inventory: Inventory) -> None:
    """the site's own files in Slurm's directory match the cluster file"""
    files = site_files(inventory, host.name)
    if not files:
        raise DoesNotApply("the cluster file has no such files for this host")
    answer = host.as_found.ask(f"cd {SLURM_DIRECTORY} 2>/dev/null && sha256sum {' '.join(files)} 2>/dev/null; :")
    actual = {name: value for value, name in (line.split() for line in answer.splitlines())}
    wrong = [
        f"{name} {'differs from' if name in actual else 'is missing, unlike in'} the cluster file"
        for name, wanted in files.items()
        if actual.get(name) != wanted
    ]
    if wrong:
        ours = f"{FAB} plan shows the difference, {FAB} deploy"
        repair = f"correct it on {host.name} (keep_files)" if inventory.cluster.keep_files else ours
        raise Drifted(CHANGED_FILE, f"{'; '.join(wrong)}. Repair: {repair}")


def test_scripts_around_jobs_are_as_the_cluster_file_says(node: CheckedHost, inventory: Inventory) -> None:
    """what runs before and after jobs is what the cluster file says: prolog.d and epilog.d, and nothing else"""
    wanted = scripts_around_jobs(inventory, node.name) if inventory.lock.slurm else {}
    if not wanted:
        raise DoesNotApply("the cluster file has no scripts for this node")
    answer = node.as_found.ask(SCRIPTS, " ".join(wanted))
    actual = {path: (access, value) for access, value, path in (line.split(" ", 2) for line in answer.splitlines())}
    wrong = [
        f"{path} {'is missing, unlike in' if path not in actual else 'differs from'} the cluster file"
        for path, value in wanted.items()
        if actual.get(path, ("", ""))[1] != value
    ]
    wrong += [f"{path} is not in the cluster file" for path in actual if path not in wanted]
    wrong += [
        f"{path} belongs to {access.replace(':', ', with mode ', 1)} instead of root, with mode 755"
        for path, (access, value) in actual.items()
        if wanted.get(path) == value and access != "root:755"
    ]
    if wrong:
        repair = f"{FAB} plan shows the difference, {deploy(node.name)} removes it"
        raise Drifted(CHANGED_FILE, f"{'; '.join(wrong)}. Repair: {repair}")


def test_slurmctld_runs_with_this_file(
    host: CheckedHost, controller: CheckedHost, others: Mapping[str, CheckedHost], cluster: Cluster, lock: Lock
) -> None:
    """slurm.conf is the one that slurmctld has loaded"""
    need_files(host, others, cluster, lock)
    need_munged(host)
    need_answer(host)
    shown = host.as_found.ask(line_of(commands.SHOW_CONFIG))
    value = next((line.partition("=")[2] for line in shown.splitlines() if line.startswith("HASH_VAL")), "missing")
    if value.strip() == "Match":
        return
    if hashes(host).get(MAIN) == hashes(controller).get(MAIN):
        raise Drifted(
            OLDER_FILE,
            "its slurm.conf matches the one on the controller's disk but not the one that slurmctld has loaded: "
            f"slurmctld runs with an older file. Repair: {FAB} deploy",
        )
    raise Drifted(
        CHANGED_FILE,
        "its slurm.conf matches neither the one that slurmctld has loaded nor the one on the controller's disk. "
        f"Repair: {deploy(host.name)}, or {FAB} deploy if the one on {controller.name} differs from the cluster file",
    )


def sign_of_texts(actual: Mapping[str, str], wanted: Mapping[str, str]) -> str:
    """What differs between two hosts' files, as a word of `resting`."""
    if not actual.get(MAIN):
        return "missing"
    found = [one for one in differences(actual, {name: wanted.get(name, "") for name in actual}) if one.kind != TEXT]
    if not found:
        return "words"
    # A whole line of a node that is there in one of them alone has no key.
    keys = {(one.name if one.kind == SETTING else one.key if one.kind == NODE_LINE else "-").lower() for one in found}
    return "ways" if keys & WAYS else "settings"


def hashes(host: CheckedHost) -> dict[str, str]:
    """SHA-256 sums of the existing Slurm files on a host, by file name, or by path for a superfluous slurm.conf."""
    return {name: value for value, name in (line.split() for line in host.as_found.ask(HASHES).splitlines())}
