"""What the plan of an upgrade says to people: headings, times, refusals, and what to know beforehand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import cluster

from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.commands.upgrade import hints, making, planning, refusals
from slurmfab.commands.upgrade.asked import Asked, HostState, Offer, SpankPlugin
from slurmfab.commands.upgrade.conversion import estimate
from slurmfab.commands.upgrade.plan import Conversion, HostVersions, SlurmUser, Target, UpgradePlan, UpgradeStep

SITE = """\
cluster: lab
controllers: [c1]
database: {host: c1}
nodes: [{hosts: "n[1-3]"}]
"""
OLD, NEW = SlurmVersion(24, 11), SlurmVersion(26, 5)
GIB, MIB = 1 << 30, 1 << 20
NODES = UpgradeStep("nodes", ("n1", "n2"), {}, {}, "replaces slurmd", lines=("n1: one",))
DATABASE = UpgradeStep("slurmdbd", ("c1",), {}, {}, "starts the new slurmdbd")


def plan(**differing: Any) -> UpgradePlan:
    """A plan from 24.11 to 26.05 in which one step is left to do."""
    there = UpgradePlan(Target("26.05.*", "", NEW), OLD, {}, (NODES,))
    return replace(there, **differing)


def of_suite(series: SlurmVersion, **differing: Any) -> UpgradePlan:
    return plan(target=Target("", "sid", series), **differing)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (plan(), "Upgrade from Slurm 24.11 to 26.05. No jobs now."),
        (
            plan(jobs={"RUNNING": 2, "PENDING": 1}),
            "Upgrade from Slurm 24.11 to 26.05. Jobs now: 1 pending, 2 running.",
        ),
        (of_suite(NEW), "Upgrade from Slurm 24.11 to 26.05 of the suite sid. No jobs now."),
        (plan(steps=()), "Every host that answered has Slurm 26.05 and runs it. Nothing is to be upgraded."),
        (plan(steps=(), refusals=("no",)), "Upgrade from Slurm 24.11 to 26.05. No jobs now."),
        (
            of_suite(OLD, refusals=("no",)),
            "Slurm 24.11, and nothing newer is known of the suite sid. No jobs now.",
        ),
        (of_suite(OLD), "Upgrade from Slurm 24.11 to 24.11 of the suite sid. No jobs now."),
        (of_suite(NEW, refusals=("no",)), "Upgrade from Slurm 24.11 to 26.05 of the suite sid. No jobs now."),
        (plan(target=Target("26.05.*", "", OLD), refusals=("no",)), "Upgrade from Slurm 24.11 to 24.11. No jobs now."),
    ],
)
def test_a_plan_begins_with_from_where_to_where_and_the_jobs(there: UpgradePlan, words: str) -> None:
    assert planning.text(there, 0).splitlines()[0] == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3540, "59 min"),
        (3600, "1.0 h"),
        (172_799, "48.0 h"),
        (172_800, "2 days"),
    ],
)
def test_a_time_is_told_in_the_unit_that_people_would_use(seconds: float, words: str) -> None:
    assert planning.duration(seconds) == words


def test_the_conversion_is_told_at_the_step_of_slurmdbd_alone() -> None:
    conversion = Conversion({"lab_job_table": 1_000_000, "lab_step_table": 500_000}, 3 * GIB, (17.0, 330.0))
    shown = [*planning.steps_text(plan(steps=(DATABASE, NODES), conversion=conversion))]
    assert shown[0] == "Steps:"
    assert shown[1] == "  1. slurmdbd on c1: starts the new slurmdbd."
    assert "The database has 3.0 GiB and about 1,500,000 rows" in shown[2]
    assert "may take 17 s to 6 min: a guess from 100,000 to 5,000 rows a second" in " ".join(shown[2].split())
    assert shown[3:5] == ["  2. nodes on n[1-2]: replaces slurmd.", "     - n1: one"]
    assert "At the end, fab check-cluster runs. In all, this may take" in shown[5]
    assert [*planning.steps_text(plan(steps=(DATABASE,)))][1:-1] == ["  1. slurmdbd on c1: starts the new slurmdbd."]


def test_a_plan_that_is_done_has_no_steps_and_no_check() -> None:
    assert [*planning.steps_text(plan(steps=()))] == []
    files = UpgradeStep("files", ("c1",), {}, {}, "brings these differences")
    assert [*planning.steps_text(plan(steps=(files,)))] == ["Steps:", "  1. files on c1: brings these differences."]


def test_hosts_with_equal_versions_are_one_row_with_what_runs_and_what_is_older() -> None:
    there = HostVersions({}, {"slurmd": "24.11.5"}, {"slurmd": "24.11.5"}, {"slurmd": "26.05.5-1"})
    both = HostVersions(
        {}, {"slurmdbd": "24.11.5", "slurmctld": "24.11.5"}, {"slurmdbd": "24.11.5", "slurmctld": "24.11.3"}
    )
    assert [*planning.rows({"n1": there, "c1": both, "n2": there, "x": HostVersions()})] == [
        ("n[1-2]", "24.11.5", "slurmd", "26.05.5"),
        ("c1", "24.11.5", "slurmctld 24.11.3, slurmdbd", "-"),
        ("x", "none", "-", "-"),
    ]


def test_refusals_warnings_and_the_way_back_are_lists_below_their_titles() -> None:
    shown = planning.text(plan(refusals=("too old",), warnings=("held",), way_back=("by hand",)), 0)
    assert "\n\nRefused, nothing was changed:\n  - too old\n\n" in shown
    assert "\n\nTo know before it begins:\n  - held\n\n" in shown
    assert shown.endswith("\n\nThe way back:\n  - by hand")
    assert planning.listed("Title:", ()) == ""


@pytest.mark.parametrize(
    ("have", "rows", "seconds"),
    [
        (OLD, {"a": 100_000, "b": 400_000}, (7.0, 130.0)),
        (OLD, {}, (2.0, 30.0)),
        (NEW, {"a": 1}, None),
        (SlurmVersion(26, 11), {"a": 1}, None),
    ],
)
def test_a_conversion_takes_longer_the_more_rows_there_are_and_none_within_a_series(
    have: SlurmVersion, rows: dict[str, int], seconds: tuple[float, float] | None
) -> None:
    found = estimate(have, NEW, rows, 5)
    assert (found and (found.rows, found.bytes, found.seconds)) == (seconds and (rows, 5, seconds))


# --- What is refused


def asked(hosts: dict[str, HostState], offer: Offer | None = None, **more: Any) -> Asked:
    """What hosts of one release say, and what apt offers them."""
    wanted = SlurmPackages(version="26.05.*")
    return replace(Asked(cluster(SITE), wanted, "26.05.*", "", hosts, dict.fromkeys(hosts, offer or Offer())), **more)


def state(version: str = "24.11.5", *daemons: str, **differing: Any) -> HostState:
    names = daemons or ("slurmd",)
    programs = dict.fromkeys(names, version)
    return replace(HostState("trixie", dict.fromkeys(names, f"{version}-1"), (), programs, programs), **differing)


def test_the_oldest_series_is_that_of_any_daemon_command_or_state() -> None:
    there = {"c1": state("24.11.5", "slurmctld"), "n1": state("24.05.2"), "n2": state("24.11.5")}

    def oldest(hosts: dict[str, HostState]) -> str:
        return str(refusals.oldest(asked(hosts), making.versions_of(asked(hosts))))

    assert oldest(there) == "24.05"
    assert oldest({"c1": there["c1"], "n2": there["n2"]}) == "24.11"
    assert oldest({"c1": replace(there["c1"], state="23.11"), "n2": there["n2"]}) == "23.11"
    assert oldest({"n1": replace(state("26.05.1"), running={"slurmd": "24.11.5"})}) == "24.11"
    assert oldest({"n1": replace(state("24.11.5"), programs={}, running={})}) == "24.11", "of commands alone"
    assert oldest({}) == "None"


def test_members_are_daemons_that_are_installed_and_the_commands() -> None:
    stray = HostVersions({"slurmd": "24.11.5-1"}, {"slurmd": "24.11.5"}, {"slurmctld": "23.02.1"})
    assert refusals.members({"n1": stray}) == {"slurmd": [OLD], "commands": [OLD]}


def test_a_daemon_that_is_too_old_for_the_others_already_is_named() -> None:
    hosts = {"c1": state("26.05.5", "slurmctld"), "n1": state("26.05.5"), "n2": state("23.11.1")}
    told = [*refusals.of_window(asked(hosts), making.versions_of(asked(hosts)), NEW)]
    assert "From Slurm 23.11 to 26.05 is further than Slurm allows" in told[0]
    assert [one.partition(" is ")[0] for one in told[1:]] == []
    near = {"c1": state("24.11.5", "slurmctld"), "n1": state("24.11.5")}
    assert [*refusals.of_window(asked(near), making.versions_of(asked(near)), NEW)] == []


@pytest.mark.parametrize(
    ("hosts", "is_refused"),
    [
        ({"c1": state("26.05.5", "slurmctld"), "n1": state("26.05.5")}, False),
        ({"c1": state("26.05.5", "slurmctld"), "n1": state("24.11.5")}, True),
        ({"c1": state("26.05.5", "slurmctld"), "n1": replace(state("24.11.5"), release="sid")}, True),
    ],
)
def test_hosts_without_an_offer_are_refused_unless_they_have_the_version(
    hosts: dict[str, HostState], is_refused: bool
) -> None:
    there = asked(hosts)
    told = [*refusals.of_source(there, making.versions_of(there))]
    assert bool([one for one in told if "none of the package sources has Slurm 26.05.*." in one]) is is_refused
    assert all(one.startswith("n1 (") for one in told), "c1 has it"


def test_a_source_that_has_other_versions_is_told_with_some_of_them() -> None:
    there = asked({"n1": state()}, Offer(offered=tuple(f"24.11.{one}" for one in range(7))))
    (told,) = refusals.of_source(there, making.versions_of(there))
    assert told.startswith("n1 (trixie): none of the package sources has Slurm 26.05.*; they have 24.11.0, 24.11.1, ")
    assert "24.11.4. Name a source" in told
    suite = asked({"n1": state()}, Offer(trouble="E: no such suite"), version="", suite="sid")
    (told,) = refusals.of_source(suite, making.versions_of(suite))
    assert told == "n1 (trixie): apt would not install Slurm from the suite sid: E: no such suite"


def test_the_way_when_the_step_is_too_far_goes_by_series_that_are_known() -> None:
    told = refusals.too_far(SlurmVersion(22, 5), NEW, has_database=False)
    assert "fab upgrade --to 23.11." in told
    assert "accounting database does not come along" not in told
    assert "accounting database does not come along" in refusals.too_far(SlurmVersion(22, 5), NEW, has_database=True)


@pytest.mark.parametrize(
    ("free", "offer", "is_told"),
    [
        ({"/var/cache": 599 * MIB}, {"slurmd": "26.05.5-1"}, True),
        ({"/var/cache": 600 * MIB}, {"slurmd": "26.05.5-1"}, False),
        ({"/var/cache": 0}, {"slurmd": "26.05.5-1"}, True),
        ({"/var/cache": -1}, {"slurmd": "26.05.5-1"}, False),
        ({"/var/cache": 599 * MIB}, {}, False),
        ({"/var/lib/mysql": 599 * MIB}, {"slurmd": "26.05.5-1"}, False),
    ],
)
def test_room_is_wanted_where_packages_would_come(free: dict[str, int], offer: dict[str, str], is_told: bool) -> None:
    there = asked({"n1": state(free=free, place="/var/lib/mysql")}, Offer(offer))
    told = [*refusals.of_room(there)]
    assert bool(told) is is_told
    assert all(one.startswith("n1: ") and "an upgrade needs 600 MiB there" in one for one in told)


@pytest.mark.parametrize(
    ("place", "size", "free", "is_told"),
    [
        ("/srv/mysql/", 2 * GIB, {"/srv/mysql": 3 * GIB - 1}, True),
        ("/srv/mysql/", 2 * GIB, {"/srv/mysql": 3 * GIB}, False),
        ("/srv/mysql/", 2 * GIB, {"/srv/mysql": 0}, True),
        ("", 2 * GIB, {"/var/lib/mysql": GIB}, True),
        ("", 0, {"/var/lib/mysql": 0}, False),
        ("", 2 * GIB, {"/var/lib/mysql": -1}, False),
        ("", 2 * GIB, {}, False),
    ],
)
def test_a_database_wants_half_as_much_room_again_beside_it(
    place: str, size: int, free: dict[str, int], is_told: bool
) -> None:
    told = [*refusals.of_database_room("c1", HostState("", place=place, bytes=size, free=free))]
    assert bool(told) is is_told


# --- What to know beforehand


def jobs(*rows: tuple[str, str, str, str, str]) -> Asked:
    return asked({"c1": state("24.11.5", "slurmctld", jobs=rows)})


def test_jobs_on_terminals_are_named_some_of_them_and_batch_jobs_are_not() -> None:
    many = jobs(*((str(number), "ann", "RUNNING", "0", "n1") for number in range(10)))
    (told,) = hints.of_jobs(many)
    assert told.startswith("srun or salloc waits for 0 of ann, 1 of ann, ")
    assert "7 of ann and 2 more. These jobs go on" in told
    (exactly,) = hints.of_jobs(jobs(*((str(number), "ann", "PENDING", "0", "") for number in range(8))))
    assert "7 of ann. These jobs go on" in exactly
    assert [*hints.of_jobs(jobs(("7", "ann", "RUNNING", "1", "n1"), ("8", "ann", "COMPLETED", "0", "n1")))] == []
    assert [*hints.of_jobs(jobs(("9", "ann", "CONFIGURING", "0", "n1")))] != []


def test_a_slurmctld_that_does_not_tell_its_jobs_is_told_with_its_reason() -> None:
    there = asked({"c1": state("24.11.5", "slurmctld", no_jobs="it is down")})
    assert [*hints.of_jobs(there)] == ["slurmctld could not tell its jobs: it is down"]
    assert [*hints.of_jobs(asked({"c1": state()}))] == []
    assert [*hints.of_jobs(asked({}))] == []
    assert making.job_counts(asked({})) == {}


def test_held_packages_and_those_that_come_along_are_named() -> None:
    hosts = {host: state(held=("slurmd", "curl")) for host in ("n1", "n2")}
    others = {f"lib{number}": "1" for number in reversed(range(10))}
    told = [*hints.of_packages(asked(hosts, Offer({"slurmd": "26.05.5-1"}, others)))]
    assert told[0].startswith("n[1-2]: slurmd is held.")
    assert told[1:] == [
        "n[1-2]: these packages come along: " + ", ".join(f"lib{number} 1" for number in range(8)) + " and 2 more."
    ]
    eight = {name: others[name] for name in sorted(others)[:8]}
    (line,) = hints.of_packages(asked({"n1": state()}, Offer({"slurmd": "26.05.5-1"}, eight)))
    assert line.endswith("lib7 1.")
    assert [*hints.of_packages(asked({"n1": state()}))] == []


def test_daemons_that_run_older_programs_are_told_once_for_hosts_with_the_same() -> None:
    older = HostVersions({}, {"slurmd": "24.11.5"}, {"slurmd": "24.11.3"})
    fine = HostVersions({}, {"slurmd": "24.11.5"}, {"slurmd": "24.11.5", "slurmrestd": "24.11.3"})
    (told,) = hints.of_daemons({"n1": older, "n2": older, "n3": fine})
    assert told.startswith("n[1-2]: slurmd still runs version 24.11.3, although 24.11.5 is installed")


def user(program: str, pid: str = "7", *, is_old: bool = True, unit: str = "") -> SlurmUser:
    return SlurmUser(pid, unit, program, "ann", is_old)


def test_processes_without_a_service_are_counted_and_only_if_their_files_go_or_are_gone() -> None:
    some = (*(user(f"p{number}") for number in range(10)), user("p0", "8"))
    (told,) = hints.of_users({"n1": HostVersions(users=some)})
    assert told.startswith("n1: p0 of ann (2 processes), p1 of ann, ")
    assert "and 2 more: no service, so this keeps Slurm's old files until it ends." in told
    (told,) = hints.of_users({"n1": HostVersions(users=some[:8])})
    assert told.endswith("p7 of ann: no service, so this keeps Slurm's old files until it ends.")
    assert [*hints.of_users({"n1": HostVersions(users=(user("srun", unit="x.service"),))})] == []
    now = HostVersions(users=(user("srun", is_old=False),))
    assert [*hints.of_users({"n1": now})] == []
    assert [*hints.of_users({"n1": replace(now, offered={"slurmd": "26.05.5-1"})})] != []


def test_plugins_of_no_package_are_told_where_the_host_gets_another_slurm() -> None:
    own = SpankPlugin("/opt/a.so", True, False)
    optional = SpankPlugin("/opt/b.so", False, False)
    slurms = SpankPlugin("/usr/lib/slurm/spank_pbs.so", True, True)
    there = state(spank=(own, optional, slurms), foreign=("a", "ours"))
    told = [*hints.of_plugins(asked({"n1": there, "n2": there}, Offer({"slurmd": "26.05.5-1"})))]
    assert [one.partition(". ")[0].partition(", which")[0] for one in told] == [
        "n[1-2]: the plugin ours belongs to no package of Slurm's",
        "n[1-2]: plugstack.conf requires the SPANK plugin /opt/a.so",
        "n[1-2]: the SPANK plugin /opt/b.so has to be of Slurm's own series: Slurm leaves it out until it is built "
        "for the new one.",
    ]
    assert [*hints.of_plugins(asked({"n1": there}))] == [], "nothing is to be upgraded there"
    assert [*hints.of_plugins(asked({"n1": there}, Offer(others={"libx": "1"})))] != []


@pytest.mark.parametrize(
    ("conf", "named"),
    [
        ("JobSubmitPlugins=lua,all_partitions\n", {"job_submit_lua", "job_submit_all_partitions"}),
        ("JobSubmitPlugins=/opt/x.so\n", set()),
        ("MpiDefault=pmix\nCliFilterPlugins=lua\n", {"mpi_pmix", "cli_filter_lua"}),
        ("SelectType=select/cons_tres\nTaskPlugin=task/cgroup,task/affinity\n",
         {"select_cons_tres", "task_cgroup", "task_affinity"}),
        ("Prolog=task/cgroup\n", set()),
    ],
)  # fmt: skip
def test_plugins_are_known_by_the_keys_of_slurm_conf_that_name_them(conf: str, named: set[str]) -> None:
    assert {*hints.plugins_named(conf)} == named


def test_keys_that_slurm_does_not_know_now_either_are_no_news() -> None:
    conf = "ClusterName=x\nFrontendName=x\nNodeName=n1 CPUs=2\n"
    old = state("26.05.5", "slurmctld")
    new = asked({"c1": old}, slurm_conf=conf, is_hand_made=True)
    assert [*hints.key_refusals(new, NEW)] == []
    before = asked({"c1": state("24.11.5", "slurmctld")}, slurm_conf=conf, is_hand_made=True)
    (told,) = hints.key_refusals(before, NEW)
    assert told.startswith("slurm.conf: FrontendName")
    assert told.endswith("Change that in the controller's file first.")
    assert [*hints.key_refusals(replace(before, is_hand_made=False), NEW)] == []


# --- The way back


@pytest.mark.parametrize(
    ("daemons", "is_converted", "words"),
    [
        (("slurmdbd", "slurmctld"), True, ["Until slurmdbd", "After the conversion", "After the new slurmctld"]),
        (("slurmdbd", "slurmctld"), False, ["After the new slurmctld"]),
        (("slurmctld",), True, ["After the new slurmctld"]),
        (("slurmd",), True, []),
    ],
)
def test_the_way_back_names_what_is_lost_from_which_stage_on(
    daemons: tuple[str, ...], is_converted: bool, words: list[str]
) -> None:
    step = UpgradeStep("controllers", ("c1",), {}, {"c1": daemons}, "")
    told = making.way_back((step,), Conversion({}, 1, (1, 2)) if is_converted else None)
    assert [one[: len(begin)] for one, begin in zip(told, words, strict=False)] == words
    assert told[len(words) :] == (
        "fab upgrade --back BACKUP, which lies beside the cluster file, does it at any time.",
    )


def test_a_database_that_could_not_be_asked_or_is_empty_has_no_conversion_to_tell() -> None:
    there = state("24.11.5", "slurmdbd", bytes=5, rows={"a": 1})
    assert making.conversion(asked({"c1": there}), NEW) is not None
    assert making.conversion(asked({"c1": replace(there, bytes=0)}), NEW) is None
    assert making.conversion(asked({}), NEW) is None
    assert making.conversion(asked({"c1": replace(there, programs={}, running={})}), NEW) is None
    of_old = replace(there, running={"slurmdbd": "24.11.5"}, programs={"slurmdbd": "26.05.5"})
    assert making.conversion(asked({"c1": of_old}), NEW) is not None, "the one that runs has the database"


@pytest.mark.parametrize(
    ("versions", "wanted", "series"),
    [
        ({"n1": HostVersions(offered={"slurmd": "26.05.5-1"})}, "24.11.*", "26.05"),
        ({"n1": HostVersions({"slurmd": "24.11.5-1"})}, "26.05.*", "26.05"),
        ({"n1": HostVersions({"slurmd": "24.11.5-1"})}, "", "24.11"),
        ({"n1": HostVersions()}, "", "26.05"),
    ],
)
def test_an_upgrade_leads_to_what_is_offered_or_wanted_or_there(
    versions: dict[str, HostVersions], wanted: str, series: str
) -> None:
    assert str(making.target_series(asked({}, version=wanted), versions)) == series


def test_a_series_that_slurmfab_does_not_know_is_the_first_refusal() -> None:
    there = asked({"n1": state(free={"/": 0})}, Offer({"slurmd": "31.05.1-1"}))
    first, *others = making.make(there).refusals
    assert first.startswith("slurmfab does not know Slurm 31.05 and its rules yet.")
    assert others


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("", ""),
        ("nodes: [{hosts: 'n[1-3]', AutoDetect: nvml}]\n", ""),
        ("nodes: [{hosts: 'n[1-3]', NoSuchKey: 1}]\n", "NoSuchKey"),
        ("partitions: [{PartitionName: a, Nodes: ALL, NoSuchKey: 1}]\n", "NoSuchKey"),
        ("slurmdbd_conf: {NoSuchKey: 1}\n", "slurmdbd_conf.NoSuchKey"),
        ("cgroup_conf: {NoSuchKey: 1}\n", "cgroup_conf.NoSuchKey"),
    ],
)
def test_keys_of_the_cluster_file_that_the_new_slurm_does_not_know_are_refused(more: str, words: str) -> None:
    text = SITE.replace('nodes: [{hosts: "n[1-3]"}]\n', "") + more if more.startswith("nodes") else SITE + more
    told = [*hints.key_refusals(replace(asked({}), cluster=cluster(text)), NEW)]
    assert bool(told) is bool(words)
    assert all(words in one and one.endswith("Change that in the cluster file first.") for one in told)
