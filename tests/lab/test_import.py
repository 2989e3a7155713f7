"""Clusters made by hand are imported and then deployed: what ran before still runs, and what was set stays set."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hand_made import KINDS, PASSWORD, HandMade, Jobs, made_by_hand, submit, wait_for
from lab_cluster import ended, report, succeeded
from lab_user import PLATFORM, Person, words_of
from stock import Stock, in_turn
from suites import LIKE, SUITES

from slurmfab.cluster.slurm import versions
from slurmfab.cluster.slurm.platform import DNF
from slurmfab.core.plan.phases.restarts import PASSES_SIGPIPE_ON

pytestmark = pytest.mark.lab

WANTED_BY_PROOFS = r"directory:.*|accounts:.*|(owned-files|units-loaded):slurm(ctld|dbd)-user"
if LIKE:
    WANTED_BY_PROOFS += r"|shared-names:/var/log"
"""What any takeover changes on hosts: modes of directories, the slurm user's account, and that slurmctld and slurmdbd
do not start as root the next time. No user, login or name of a host is touched."""

IN_PLACES_OF_SLURM = {"no_other_user_leads_slurmd_elsewhere", "no_other_user_leads_starting_daemons_elsewhere"}
"""What checks find wrong with `own-ids`, whose daemons have logs and spool in a directory of slurm's; the second where
the packages start slurmctld as root, as Debian 12's do."""

IN_A_GROUPS_DIRECTORY = ("plain", "one-place", "opt", "source", "alone")
"""Clusters whose slurmd has its log in /var/log itself, where Ubuntu's syslog could make another once it is gone."""

SLURMD = re.compile("slurmd=[0-9]+")

STARTED_BY = "systemctl show -P User slurmctld | grep . || echo root"

STARTED_AGAIN = r"(owned-files|units-loaded):restarts|service:slurmd"
"""Where slurmd would let its jobs ignore SIGPIPE, as from Slurm 26.05 on, a takeover starts it again otherwise."""

SCRIPTS = "site-files:.*"
"""The takeover of `scripts` besides puts the scripts on hosts that lack them."""

KEPT = {
    "plain": ("SelectTypeParameters: CR_Core\n", "KillWait: 60", "state_directory: /var/spool/slurmctld"),
    "one-place": ("KillWait: 60", "state_directory: /var/spool/slurm\n", "SlurmdSpoolDir: /var/spool/slurm\n"),
    "accounts": (
        "database:",
        "host: n3",
        "AllowAccounts: physics,chemistry",
        "Gres: gpu:a100:2",
        "PriorityDecayHalfLife: 7-0",
        "# a week, as the users' meeting decided in 2019",
        "PurgeJobAfter: 36months",
        "unix_users: false",
        "name: lasers, parent: physics",
    ),
    "includes": (
        "PartitionName: long",
        "topology",
        "# for the theory group, since 2020",
        "SelectType: How jobs are scheduled: ask the HPC board",
        "KillWait: 45",
        "AuthAltTypes: auth/jwt",
    ),
    "configless": (
        "configless: true",
        "MemSpecLimit: 100",
        "DefMemPerNode: 200",
        "idle_on_node_suspend",
        "SUSPEND,GANG",
    ),
    "own-ids": (
        "hosts: node[1-2]",
        "SlurmctldPort: 7002",
        "state_directory: /srv/slurm/state",
        "FirstJobId: 50000",
        "slurm_conf_directory: /srv/shared",
    ),
    "own-user": ("slurm_user: hpc", "KillWait: 45", "database:"),
    "opt": ("AuthInfo: socket=/opt/munge/munge.socket.2", "KillWait: 45"),
    "source": ('slurm: {packages: none, version: "', "PluginDir: /opt/slurm/lib/slurm", "KillWait: 45"),
    "gang": ("PreemptMode: SUSPEND,GANG", "SuspendTime: 7200", "idle_on_node_suspend", "PartitionName: night"),
    "trees": ("Gres: gpu:tesla:2,shard:8", "ansys:4", "PreemptMode: REQUEUE", "topology"),
    "alone": ("Gres: gpu:tesla:2,mps:200", "hosts: localhost", "controllers: [localhost]", "slurm_user: root"),
    "scripts": ("prolog.sh", "job_submit.lua", "JobSubmitPlugins: lua", "HealthCheckInterval: 300"),
    "openhpc": ("packages: el-openhpc", "configless: true", "OverSubscribe: EXCLUSIVE", "epilog.clean", "slurm: 202"),
}
"""Texts in the cluster file that an import writes, by kind of cluster."""


COMMENT = "scontrol -o show job $(sbatch --parsable --hold --wrap true) | grep -o 'Comment=uid 0'"
SWITCHES = "scontrol show topology | grep -o 'SwitchName=[a-z0-9]*' | xargs"
TREE = "SwitchName=leaf1 SwitchName=leaf2 SwitchName=spine"
SCRIPTED = "render /var/log/site-prologs\nComment=uid 0"
WAYS = {
    "plain": ("n1", "ls /var/spool/slurmd/cred_state >/dev/null && echo kept", "kept"),
    "one-place": ("ctl", "stat -c %U /var/spool/slurm; scontrol show config | grep -c '/var/spool/slurm$'", "slurm\n2"),
    "accounts": (
        "n3",
        f"cd /etc/slurm; ls | grep -x slurm.conf; grep -h {PASSWORD} slurm*.conf",
        f"StoragePass={PASSWORD}",
    ),
    "includes": ("ctl", f"{SWITCHES}; scontrol token lifespan=60 | grep -o SLURM_JWT", f"{TREE}\nSLURM_JWT"),
    "configless": ("n1", "ls /etc/slurm/*.conf 2>/dev/null | grep -vc plugstack || :", "0"),
    "own-ids": ("ctl", "stat -c '%u %U' /srv/slurm/state/job_state", "1001 slurm"),
    "own-user": (
        "ctl",
        "stat -c %U:%G /var/lib/slurm/slurmctld/job_state /etc/slurm/slurmdbd.conf | xargs",
        "hpc:staff hpc:staff",
    ),
    "opt": (
        "n1",
        "readlink /etc/slurm; ps -C slurmd -o args= | grep -o -- '-f .*'",
        "/opt/slurm/etc\n-f /opt/slurm/etc/slurm.conf",
    ),
    "source": (
        "n1",
        "readlink /proc/$(systemctl show -P MainPID slurmd)/exe; dpkg-query -W 'slurm*' 2>/dev/null | wc -l",
        "/opt/slurm/sbin/slurmd\n0",
    ),
    "gang": ("n1", "grep -c enable_configless /etc/slurm/slurm.conf", "1"),
    "trees": ("n1", "grep -oh 'gpu:tesla:.*shard:[^ ]*' /etc/slurm/nodes.conf", "gpu:tesla:2,shard:8"),
    "alone": ("ctl", "grep -oh 'gpu:tesla:.*mps:[^ ]*' /etc/slurm/slurm.conf", "gpu:tesla:2,mps:200"),
    "openhpc": (
        "n1",
        "ls /etc/slurm; id -u slurm; cat /etc/sysconfig/slurmd",
        'slurm.epilog.clean\n202\nSLURMD_OPTIONS="--conf-server ctl"',
    ),
    "scripts": ("ctl", f"cd /tmp; srun -w n2 sh -c 'echo $SITE $(ls /var/log/site-prologs)'; {COMMENT}", SCRIPTED),
}
"""For each kind, a command on a host after the takeover, and what it prints where the site's way is kept."""


LEFT_TO_THE_SITE = {
    "accounts": ("accounts on hosts of ada, bob (unix_users: false)",),
    "includes": ("the package of auth/jwt, and its key /var/lib/slurm/slurmctld/jwt_hs256.key on ctl",),
    "source": ("Slurm itself (slurm: {packages: none})", "/opt/slurm/lib/slurm (PluginDir)"),
    "scripts": ("/usr/local/sbin/node-health (HealthCheckProgram)",),
}
"""What no script of an ejection makes besides the names of hosts, by kind."""

CHANGED = ("accounts", "includes", "own-ids", "own-user", "opt")
"""Kinds on which a change after the takeover is deployed and rolled back."""

ROLLED_BACK = ("plain", "accounts", "alone", "own-user", "source")
"""Kinds whose first deployment is rolled back in every run; with `TURN=all` it is that of all others, too."""

ACCESS = (
    "find $(ls -d /etc/slurm /var/lib /var/log /var/spool /srv /opt 2>/dev/null) -maxdepth 2 \\( -path '*slurmfab*'"
    " -o -path '*/job[0-9]*' \\) -prune -o -type d -printf '%u:%g %m  %p\\n'"
)
DIGESTS = "find /etc/systemd/system /etc/slurm/ /etc/default -type f -exec sha256sum {} +"

OWN_FILES = "sha256sum /etc/slurm/*.conf | grep -v slurmdbd"


@dataclass(frozen=True)
class Imported:
    """A cluster made by hand, right after its import, and what it was before.

    Args:
        cluster: the cluster.
        admin: who imported it, and has its cluster file.
        jobs: its jobs before.
        daemons: process IDs of its daemons before.
        settings: what slurmctld made of slurm.conf before.
        words: what the import printed.
        plan: the plan right after it, as data.
        shown: what that plan printed.
        access: directories and files that a deployment may touch, before, as `access` has them.
    """

    cluster: HandMade
    admin: Person
    jobs: Jobs
    daemons: dict[str, str]
    settings: dict[str, str]
    words: str
    plan: dict[str, Any]
    shown: str
    access: dict[str, str]


@dataclass(frozen=True)
class Deployed:
    """The same cluster after the first deployment.

    Args:
        imported: the cluster and what it was before.
        report: of the deployment, as data.
        jobs: its jobs afterwards.
    """

    imported: Imported
    report: dict[str, Any]
    jobs: Jobs


def combinations() -> Iterator[Any]:
    """Each kind of cluster on one suite by turns, about half of them on each; with `TURN=all` on both.

    Those with packages of their own are on the suite that has them, and alone where the others are not tried; Ubuntu
    has no such packages.
    """
    for kind, made in KINDS.items():
        own, others = set() if LIKE else {"trixie"} & {*SUITES}, () if PLATFORM.manager == DNF else in_turn(kind)
        for suite in own if made.slurm_packages else others:
            yield pytest.param((kind, suite), id=f"{kind}-{suite}")


@pytest.fixture(scope="module", params=combinations())
def imported(
    request: pytest.FixtureRequest, stock: Stock, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Imported]:
    """A cluster made by hand and imported from its controller's address alone."""
    kind, suite = request.param
    admin = Person.at(tmp_path_factory.mktemp(kind))
    with made_by_hand(stock, kind, suite) as cluster:
        made = cluster.lab.lab
        admin.has_seen(made, *(host.name for host in made.hosts))
        before = cluster.jobs(), cluster.daemons(), cluster.settings()
        found = access(cluster)
        options = ("--user", made.spec.ssh_user, "--key", str(made.ssh_key))
        done = succeeded(admin.slurmfab("import", "--hosts", made.host("ctl").address, *options))
        planned = ended(admin.slurmfab("plan", "--json", "plan.json"), 4)
        plan = json.loads((admin.directory / "plan.json").read_text())
        yield Imported(cluster, admin, *before, words_of(done), plan, words_of(planned), found)


@pytest.fixture(scope="module")
def deployed(imported: Imported) -> Deployed:
    """The imported cluster, deployed to for the first time, without an edit."""
    done = report(imported.admin.slurmfab("deploy", "--json", "-"))
    return Deployed(imported, done, imported.cluster.jobs())


def access(cluster: HandMade) -> dict[str, str]:
    """Owners and modes of directories, and digests of units and Slurm's files, by host and path."""
    lines = {host: cluster.on(host, f"{ACCESS}; {DIGESTS}").splitlines() for host in cluster.hosts}
    return {
        f"{host} {path}": told
        for host, some in lines.items()
        for told, _, path in (one.partition("  ") for one in some)
    }


def resources(told: dict[str, Any]) -> set[str]:
    """Resources that a run changed or would change, each after its host."""
    return {
        f"{step['host']} {one['id']}" for step in told["steps"] for one in step["outcomes"] if one["status"] != "ok"
    }


def ignores_sigpipe(cluster: HandMade) -> bool:
    """Whether jobs of the cluster's slurmd ignore SIGPIPE as long as its unit says nothing of that."""
    return versions.distribution_version(cluster.lab.lab.suite) >= PASSES_SIGPIPE_ON


def lines_of(associations: str) -> set[str]:
    """sacctmgr's lines without those of the slurm user, which gets an account for the tests of slurmfab."""
    return {line for line in associations.splitlines() if "slurm" not in line}


def test_an_import_when_a_cluster_was_made_by_hand_then_changes_nothing_there(imported: Imported) -> None:
    assert (imported.cluster.jobs(), imported.cluster.daemons()) == (imported.jobs, imported.daemons)
    assert imported.cluster.settings() == imported.settings


def test_an_import_when_it_is_done_then_the_cluster_file_has_what_the_site_has_set(imported: Imported) -> None:
    text = imported.admin.cluster_file.read_text()
    assert [kept for kept in KEPT[imported.cluster.kind] if kept not in text] == [], text
    assert f"cluster: {imported.cluster.cluster}\n" in text


def test_an_import_when_it_is_done_then_no_file_and_no_word_has_the_databases_password(imported: Imported) -> None:
    files = [path.read_text() for path in imported.admin.directory.rglob("*") if path.is_file()]
    assert [text for text in (*files, imported.words, imported.shown) if PASSWORD in text] == []


def test_the_plan_after_an_import_has_no_setting_of_slurms_and_no_danger(imported: Imported) -> None:
    assert imported.plan["slurm_conf"] == [], imported.shown
    assert imported.plan["dangers"] == []


def test_the_plan_after_an_import_when_slurms_files_are_right_then_touches_neither_them_nor_daemons(
    imported: Imported,
) -> None:
    also = f"|{SCRIPTS}" if imported.cluster.kind == "scripts" else ""
    also += f"|{STARTED_AGAIN}" if ignores_sigpipe(imported.cluster) else ""
    wanted = re.compile(WANTED_BY_PROOFS + also)
    others = {one for one in resources(imported.plan) if not wanted.fullmatch(one.partition(" ")[2])}
    assert others == set(), imported.shown
    assert imported.plan["daemons"] == ""


def test_a_deployment_after_an_import_when_jobs_run_and_wait_then_they_stay_with_ids_history_and_accounts(
    deployed: Deployed,
) -> None:
    before, after = deployed.imported.jobs, deployed.jobs
    assert lines_of(after.associations) == lines_of(before.associations)
    assert (after.jobs, after.processes) == (before.jobs, before.processes)
    # The deployment ends with a batch job of a user on each node with room.
    known, now = ({line.strip() for line in jobs.history.splitlines()} for jobs in (before, after))
    assert known <= now
    assert len(now - known) <= after.next_id - before.next_id <= len(deployed.imported.cluster.nodes)
    tally = deployed.report["jobs"] or {}
    assert [*tally.get("lost", ()), *tally.get("ended", ())] == []


def test_a_deployment_after_an_import_when_slurms_files_are_right_then_no_daemon_has_started_again(
    deployed: Deployed,
) -> None:
    imported = deployed.imported
    found, before = imported.cluster.daemons(), imported.daemons
    if ignores_sigpipe(imported.cluster):
        assert all(SLURMD.findall(found[node]) != SLURMD.findall(before[node]) for node in imported.cluster.nodes)
        found, before = ({host: SLURMD.sub("", one) for host, one in some.items()} for some in (found, before))
    assert found == before
    assert imported.cluster.settings() == imported.settings


def test_a_deployment_after_an_import_when_the_site_has_ways_of_its_own_then_they_are_kept(deployed: Deployed) -> None:
    host, command, shown = WAYS[deployed.imported.cluster.kind]
    assert deployed.imported.cluster.on(host, command) == shown


def test_check_cluster_when_an_imported_cluster_is_deployed_then_finds_nothing_wrong(deployed: Deployed) -> None:
    done = deployed.imported.admin.slurmfab("check-cluster", "--json", "check.json")
    told = json.loads((deployed.imported.admin.directory / "check.json").read_text())
    failed = {one["check"] for one in told["checks"] if one["outcome"] == "failed"}
    by_root = deployed.imported.cluster.on("ctl", STARTED_BY) == "root"
    wanted = IN_PLACES_OF_SLURM if deployed.imported.cluster.kind in ("own-ids", "one-place") else set()
    wanted = wanted if by_root else wanted - {"no_other_user_leads_starting_daemons_elsewhere"}
    if LIKE and deployed.imported.cluster.kind in IN_A_GROUPS_DIRECTORY:
        wanted = {*wanted, "no_other_user_leads_slurmd_elsewhere"}
        assert "SlurmdLogFile: /var/log/slurmd/slurmd.log}` in the cluster file" in words_of(done)
    assert not [one["cause"] for one in told["checks"] if " waited for " in one["cause"]], "test jobs pass users' jobs"
    # A job that runs since before the import can leave no room for the checks' own jobs.
    unseen = any(one["outcome"] == "not run" for one in told["checks"])
    assert (done.returncode, failed) == (1 if wanted else 5 if unseen else 0, wanted), words_of(done)
    # slurmd's own link to what it has fetched.
    assert "/run/slurm/conf" not in words_of(done) + deployed.imported.shown + deployed.imported.words


def test_a_second_plan_when_an_imported_cluster_is_deployed_then_has_nothing_to_do(deployed: Deployed) -> None:
    succeeded(deployed.imported.admin.slurmfab("plan"))


def test_a_first_change_of_a_setting_when_it_is_rolled_back_then_the_sites_own_files_are_there_again(
    deployed: Deployed,
) -> None:
    cluster, admin = deployed.imported.cluster, deployed.imported.admin
    if cluster.kind not in CHANGED:
        pytest.skip("it is played where Slurm's files are most of all the site's own")
    text, own = admin.cluster_file.read_text(), {host: cluster.on(host, OWN_FILES) for host in cluster.hosts}
    admin.writes(re.sub("KillWait: .*", "KillWait: 77", text))
    report(admin.slurmfab("deploy", "--json", "-"))
    changed = {host: cluster.on(host, OWN_FILES) for host in cluster.hosts}
    assert [host for host in cluster.hosts if changed[host] == own[host]] == []
    assert "KillWait                = 77 sec" in cluster.settings()["configuration"]
    report(admin.slurmfab("rollback", "--json", "-"))
    assert {host: cluster.on(host, OWN_FILES) for host in cluster.hosts} == own
    assert (cluster.settings(), admin.cluster_file.read_text()) == (deployed.imported.settings, text)
    assert (cluster.jobs().jobs, cluster.jobs().processes) == (deployed.jobs.jobs, deployed.jobs.processes)


def test_a_batch_job_when_slurmctld_and_slurmd_share_a_directory_then_runs_after_the_deployment_as_before(
    deployed: Deployed,
) -> None:
    cluster = deployed.imported.cluster
    if cluster.kind != "one-place":
        pytest.skip("the others have a directory for each")
    assert cluster.on("ctl", "stat -c '%U %a' /var/spool/slurm") == "slurm 755"
    shared = "/var/spool/slurm stays as it is (of slurm, mode 0755): StateSaveLocation and SlurmdSpoolDir share it"
    assert shared in deployed.imported.shown
    job = submit(cluster.lab, "ada", "-w", "ctl", wrap="srun hostname")
    wait_for(cluster.lab, job, "COMPLETED None")


def test_a_deployment_when_it_leaves_users_scripts_unreadable_then_says_so_fails_and_leaves_nothing_behind(
    deployed: Deployed,
) -> None:
    cluster, admin = deployed.imported.cluster, deployed.imported.admin
    if cluster.kind != "one-place":
        pytest.skip("it is played where slurmfab leaves the mode of slurmd's directory to the site")
    text, before = admin.cluster_file.read_text(), cluster.jobs()
    # slurmd gives its directory the mode 0755 when it starts, so nothing that restarts it is changed.
    admin.writes(re.sub("hosts_file: .*\n", "", text))
    cluster.on("ctl", "chmod 0700 /var/spool/slurm")
    done = admin.slurmfab("deploy")
    cluster.on("ctl", "chmod 0755 /var/spool/slurm")
    admin.writes(text)
    assert done.returncode == 1, words_of(done)
    assert re.search(
        r"user-job:ctl: the batch job \d+ of \w+ is FAILED .*slurm_script: Permission denied\. Users have to be able"
        r" to read their scripts in SlurmdSpoolDir: namei -l /var/spool/slurm there\. To try again: ",
        words_of(done),
    ), words_of(done)
    assert "Next: fix the cause, then: slurmfab check-cluster --only jobs" in words_of(done), words_of(done)
    assert "user-job:n1" not in words_of(done)
    left = "ls /tmp | grep slurmfab-check; squeue -h -o %j | grep slurmfab-check; :"
    assert [cluster.on(host, left) for host in cluster.hosts] == [""] * len(cluster.hosts)
    assert cluster.jobs().processes == before.processes
    report(admin.slurmfab("deploy", "--json", "-"))


ACCOUNTED = """
unix_users: false
database: {host: ctl}
accounts: [{name: physics}]
users: [{name: ada, accounts: [physics]}]
"""
SHORTLY = "squeue --all -h -t PENDING,RUNNING -o '%i %T %u %P %r' | sort"
ENFORCES = "  AccountingStorageEnforce: null"


def test_a_database_when_it_comes_to_a_cluster_without_one_then_takes_nobody_the_right_to_run_jobs(
    deployed: Deployed,
) -> None:
    cluster, admin = deployed.imported.cluster, deployed.imported.admin
    if cluster.kind != "one-place":
        pytest.skip("it is played where ctl computes, without accounting")
    before, shown, text = cluster.jobs(), cluster.on("ctl", SHORTLY), admin.cluster_file.read_text() + ACCOUNTED
    admin.writes(text)
    report(admin.slurmfab("deploy", "--json", "-"))
    brought = "AccountingStorageEnforce +=.*assoc|PriorityWeight.*= [1-9]|JobSubmitPlugins +=.*lua"
    assert cluster.on("ctl", f"scontrol show config | grep -E '{brought}' || :") == ""
    # What squeue shows for jobs without a QOS is another word where there is a database.
    known = cluster.on("ctl", SHORTLY)
    assert known == shown
    assert cluster.jobs().processes == before.processes
    hers = submit(cluster.lab, "bob", wrap="hostname")
    wait_for(cluster.lab, hers, "COMPLETED None")
    # Once the admin wants accounts to be needed, those who have none are named first.
    admin.writes("".join(line for line in text.splitlines(keepends=True) if not line.startswith(ENFORCES)))
    refused = admin.slurmfab("deploy")
    assert (refused.returncode, cluster.on("ctl", SHORTLY)) == (1, shown), words_of(refused)
    assert "AccountingStorageEnforce: no account for " in words_of(refused), words_of(refused)
    waiting = next(iter(cluster.pending))
    assert f"job {waiting} of bob, pending in debug" in words_of(refused)
    report(admin.slurmfab("deploy", "--json", "-", "--allow", "jobs-without-account"))
    admin.writes(text)
    report(admin.slurmfab("deploy", "--json", "-"))


def test_a_new_node_when_the_site_brings_names_and_users_then_what_it_lacks_is_said_before_it_joins(
    deployed: Deployed,
) -> None:
    cluster, admin = deployed.imported.cluster, deployed.imported.admin
    if cluster.kind != "one-place":
        pytest.skip("it is played where a host is left")
    cluster.on("n3", "sed -i '/ n1$/d; / ctl$/d' /etc/hosts; userdel ada")
    cluster.on("ctl", "sed -i '/ n3$/d' /etc/hosts")
    for host, name in (("n3", "ctl"), ("n3", "n1"), ("ctl", "n3")):
        # systemd-resolved, where it is, looks only every two seconds whether the file has changed.
        cluster.lab.until(host, f"getent hosts {name} || echo unknown", "unknown")
    done = succeeded(admin.slurmfab("add-node", cluster.lab.lab.host("n3").address))
    lacking, added = words_of(done).find("n3: it does not know the users ada"), words_of(done).find("added n3")
    assert 0 <= lacking < added, words_of(done)
    for host, names in (("n3", "ctl,n1"), ("ctl", "n3")):
        assert f"{host}: it does not know the names {names} (hosts_file: false)" in words_of(done), words_of(done)


def test_an_upgrade_when_slurm_is_of_no_package_then_is_refused_with_a_way(deployed: Deployed) -> None:
    if deployed.imported.cluster.kind != "source":
        pytest.skip("the others have packages")
    done = deployed.imported.admin.slurmfab("upgrade", "--to", "26.05")
    assert (done.returncode, "Slurm is of no package here" in words_of(done)) == (2, True), words_of(done)
    assert "Or move to packages:" in words_of(done)


def test_a_waiting_job_of_before_when_it_is_released_then_runs_and_the_next_id_follows(deployed: Deployed) -> None:
    cluster, before = deployed.imported.cluster, deployed.imported.jobs
    held = next(job for job, reason in cluster.pending.items() if reason == "JobHeldUser")
    cluster.on("ctl", f"scontrol release {held}")
    wait_for(cluster.lab, held, "RUNNING None")
    options = ("-p", "batch", "--mem=50") if cluster.accounting else ()
    assert int(submit(cluster.lab, "ada", *options, wrap="hostname")) >= before.next_id


def test_a_running_job_of_before_when_it_is_cancelled_then_its_end_is_in_the_history(deployed: Deployed) -> None:
    cluster = deployed.imported.cluster
    running = cluster.running[0]
    cluster.on("ctl", f"scancel {running}")
    done = f"^{running}|CANCELLED" if cluster.accounting else f"^JobId={running} .*CANCELLED"
    cluster.lab.until("ctl", f"{cluster.history_command} | grep -c '{done}'", "1")


def test_an_ejection_when_the_site_gives_hosts_more_than_the_file_has_then_says_what(
    deployed: Deployed, tmp_path: Path
) -> None:
    place = tmp_path / "scripts"
    said = words_of(ended(deployed.imported.admin.slurmfab("eject", "--to", str(place)), 3))
    kind = deployed.imported.cluster.kind
    for words in ("names and addresses of the hosts (hosts_file: false)", *LEFT_TO_THE_SITE.get(kind, ())):
        assert words in " ".join(said.split()), said


def test_the_first_deployment_when_it_is_rolled_back_then_all_is_as_found_and_the_cluster_goes_on(
    deployed: Deployed,
) -> None:
    cluster, admin = deployed.imported.cluster, deployed.imported.admin
    if cluster.kind == "one-place":
        pytest.skip("a node has joined there since")
    if cluster.kind not in ROLLED_BACK and os.environ["TURN"] != "all":
        pytest.skip("some kinds are enough of one run")
    runs = json.loads(admin.slurmfab("history", "--json", "-").stdout)["runs"]
    assert [one["command"] for one in runs[:2]] == ["import", "deploy"]
    words = ("--run", runs[1]["run"]) if len(runs) > 2 else ()
    jobs, daemons = cluster.jobs(), cluster.daemons()
    shown = ended(admin.slurmfab("rollback", *words, "--dry-run", "--json", "plan.json"), 4)
    planned = json.loads((admin.directory / "plan.json").read_text())
    assert any(one.partition(" ")[2].startswith("earlier-directory:") for one in resources(planned)), words_of(shown)
    done = report(admin.slurmfab("rollback", *words, "--json", "-"))
    assert resources(done) == resources(planned)
    found = access(cluster)
    assert {path: found.get(path) for path in deployed.imported.access} == deployed.imported.access
    assert (cluster.jobs(), cluster.daemons(), cluster.settings()) == (jobs, daemons, deployed.imported.settings)
    ended(admin.slurmfab("plan"), 4)
