"""The plan of an upgrade, from what hosts say: steps, refusals and warnings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from support import cluster

from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT, SOMETHING_TO_DO
from slurmfab.base.json_output import as_json
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.commands.upgrade import planning
from slurmfab.commands.upgrade.asked import Asked, HostState, Offer, SpankPlugin
from slurmfab.commands.upgrade.making import make
from slurmfab.commands.upgrade.plan import SlurmUser, UpgradePlan

SITE = """\
cluster: lab
addresses: {ctl: 10.0.0.1, login: 10.0.0.5, "n[1-2]": "10.0.0.[2-3]"}
controllers: [ctl]
login: [login]
database: {host: ctl}
nodes: [{hosts: "n[1-2]"}]
"""
GIB = 1 << 30
COMMANDS = ("slurm-client", "slurm-wlm-basic-plugins")
DAEMONS = {"ctl": ("slurmctld", "slurmdbd"), "n1": ("slurmd",), "n2": ("slurmd",), "login": ()}
ROOM = {"/var/cache/apt/archives": 50 * GIB, "/var/lib/mysql": 50 * GIB}


def state(host: str, version: str = "24.11.5", **differing: Any) -> HostState:
    """A host with one version of everything."""
    daemons = dict.fromkeys(DAEMONS[host], version)
    packages = dict.fromkeys((*daemons, *COMMANDS), f"{version}-4")
    database = {"rows": {"lab_job_table": 2_000_000}, "bytes": GIB, "place": "/var/lib/mysql/", "jobs": ()}
    has = database if host == "ctl" else {}
    return HostState(
        "trixie amd64", packages, (), daemons, daemons, ("mpi_pmix", "mpi_pmi2"), free=ROOM, **has, **differing
    )


def asked(
    version: str = "26.05.5", have: str = "24.11.5", wanted: str = "26.05.*", file: str = SITE, **more: Any
) -> Asked:
    """What hosts say that have one version and would get another."""
    hosts = {host: state(host, have) for host in DAEMONS}
    names = {name for one in hosts.values() for name in one.packages}
    offer = Offer(dict.fromkeys(names, f"{version}-1"), plugins=("mpi_pmi2",))
    target = SlurmPackages(version=wanted)
    return replace(Asked(cluster(file), target, wanted, "", hosts, dict.fromkeys(hosts, offer)), **more)


def steps(plan: UpgradePlan) -> dict[str, tuple[str, tuple[str, ...], dict[str, tuple[str, ...]]]]:
    """Hosts, hosts with new packages, and daemons of each step."""
    return {one.what: (",".join(one.hosts), tuple(one.packages), dict(one.daemons)) for one in plan.steps}


def test_a_plan_follows_slurms_order_and_gives_each_host_its_packages_once() -> None:
    plan = make(asked())
    assert steps(plan) == {
        "backup": ("ctl", (), {}),
        "slurmdbd": ("ctl", ("ctl",), {"ctl": ("slurmdbd",)}),
        "controllers": ("ctl", (), {"ctl": ("slurmctld",)}),
        "nodes": ("n1,n2", ("n1", "n2"), {"n1": ("slurmd",), "n2": ("slurmd",)}),
        "others": ("login", ("login",), {}),
    }
    assert plan.refusals == ()
    assert (str(plan.have), str(plan.target.series)) == ("24.11", "26.05")
    assert plan.exit_code == SOMETHING_TO_DO
    assert plan.conversion is not None
    assert plan.conversion.seconds == (22.0, 430.0)


def test_slurmd_is_started_on_compute_nodes_alone_where_a_controller_has_its_package_too() -> None:
    there = asked()
    ctl = there.hosts["ctl"]
    both = replace(
        ctl, packages={**ctl.packages, "slurmd": "24.11.5-4"}, programs={**ctl.programs, "slurmd": "24.11.5"}
    )
    hosts = {**there.hosts, "ctl": both}
    assert steps(make(replace(there, hosts=hosts)))["controllers"] == ("ctl", (), {"ctl": ("slurmctld",)})
    computing = cluster(SITE.replace('hosts: "n[1-2]"', 'hosts: "ctl,n[1-2]"'))
    found = steps(make(replace(there, cluster=computing, hosts=hosts)))
    assert found["controllers"] == ("ctl", (), {"ctl": ("slurmctld", "slurmd")})


def test_nothing_is_left_to_do_where_every_host_has_the_version_and_runs_it() -> None:
    there = asked(have="26.05.5")
    plan = make(replace(there, offers=dict.fromkeys(DAEMONS, Offer())))
    assert (plan.steps, plan.refusals, plan.warnings, plan.exit_code) == ((), (), (), DONE)
    silent = make(replace(there, offers=dict.fromkeys(DAEMONS, Offer()), silent={"n3": "no answer"}))
    assert silent.exit_code == LEFT_OUT


def test_an_upgrade_goes_on_where_it_was_interrupted() -> None:
    there = asked()
    done = {host: state(host, "26.05.5") for host in ("ctl", "n1")}
    again = {**there.hosts, **done}
    again["ctl"] = replace(done["ctl"], running={"slurmdbd": "26.05.5", "slurmctld": "24.11.5"})
    found = steps(make(replace(there, hosts=again, offers=dict.fromkeys(DAEMONS, offer_for(there)))))
    assert found == {
        "backup": ("ctl", (), {}),
        "controllers": ("ctl", (), {"ctl": ("slurmctld",)}),
        "nodes": ("n2", ("n2",), {"n2": ("slurmd",)}),
        "others": ("login", ("login",), {}),
    }


def offer_for(there: Asked) -> Offer:
    """What apt offers, with the new version as it is installed on some hosts already."""
    return replace(there.offers["n1"], versions=dict.fromkeys(there.offers["n1"].versions, "26.05.5-4"))


def test_a_step_that_is_too_large_names_the_series_between_and_the_way_with_an_empty_queue() -> None:
    (reason,) = make(asked(have="22.05.8")).refusals
    assert "22.05 -> 23.11 -> 24.11 -> 26.05" in reason
    assert "Series between: 23.11 and 24.11" in reason
    assert "with an empty queue" in reason
    assert "upgrade --to 23.11" in reason


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("an older version", {"version": "24.11.5", "have": "26.05.5", "wanted": "24.11.*"}, "Slurm cannot go back"),
    (
        "state of an older slurmctld",
        {"hosts": {"ctl": state("ctl", state="23.11")}},
        "From Slurm 23.11 to 26.05 is further than Slurm allows",
    ),
    (
        "no source",
        {"offers": dict.fromkeys(DAEMONS, Offer(offered=("24.11.5-4",)))},
        "none of the package sources has Slurm 26.05.*; they have 24.11.5-4",
    ),
    (
        "apt refuses",
        {"offers": dict.fromkeys(DAEMONS, Offer(trouble="libc6 is too old"))},
        "apt would not install Slurm 26.05.*: libc6 is too old",
    ),
    (
        "packages that go",
        {"offers": dict.fromkeys(DAEMONS, Offer({"slurmd": "26.05.5-1"}, removed=("libpmix2t64",)))},
        "apt would remove libpmix2t64",
    ),
    ("a key that goes", {"file": SITE + "slurm_conf: {FrontendName: x}\n"}, "no longer knows this key"),
    ("a plugin that goes", {"slurm_conf": "ClusterName=x\nMpiDefault=pmix\n"}, "MpiDefault needs the plugin mpi_pmix"),
    (
        "a plugin of the site's own that slurm.conf names",
        {
            "slurm_conf": "ClusterName=x\nJobSubmitPlugins=lua,ours\n",
            "hosts": {"ctl": replace(state("ctl"), foreign=("job_submit_ours",))},
        },
        "JobSubmitPlugins needs the plugin job_submit_ours, which no package",
    ),
    ("a plugin of a key", {"file": SITE + "mpi: pmix\n"}, "mpi needs the plugin mpi_pmix"),
    (
        "a hand-made key that goes",
        {"slurm_conf": "ClusterName=lab\nFrontendName=x\nNodeName=n1 CPUs=2\n", "is_hand_made": True},
        "slurm.conf: FrontendName",
    ),
    (
        "no room for the database",
        {"hosts": {"ctl": replace(state("ctl"), free={"/var/lib/mysql": GIB})}},
        "its conversion may need 1.5 GiB",
    ),
    ("another kind of packages", {"hosts": {"n2": HostState("trixie amd64")}}, "n2: there is none of Slurm's packages"),
    (
        "no room for packages",
        {"hosts": {"n1": replace(state("n1"), free={"/var/cache/apt/archives": 1 << 20})}},
        "n1: 1 MiB are free for /var/cache/apt/archives",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason"), [one[1:] for one in REFUSED], ids=[one[0] for one in REFUSED])
def test_what_slurm_or_apt_do_not_allow_is_refused(changes: dict[str, Any], reason: str) -> None:
    given = dict(changes)
    hosts = given.pop("hosts", {})
    there = asked(**{name: given.pop(name) for name in ("version", "have", "wanted", "file") if name in given})
    plan = make(replace(there, hosts={**there.hosts, **hosts}, **given))
    assert any(reason in one for one in plan.refusals), plan.refusals
    assert plan.way_back == ()
    assert plan.exit_code == FAILURE


WARNED: list[tuple[str, dict[str, HostState], str]] = [
    ("a held package", {"n1": replace(state("n1"), held=("slurmd",))}, "n1: slurmd is held"),
    (
        "a plugin of the site's own",
        {"n1": replace(state("n1"), foreign=("job_submit_ours",))},
        "n1: the plugin job_submit_ours belongs to no package",
    ),
    (
        "a required SPANK plugin",
        {"n1": replace(state("n1"), spank=(SpankPlugin("/opt/x.so", True, False),))},
        "plugstack.conf requires the SPANK plugin /opt/x.so",
    ),
    (
        "a job that somebody waits for",
        {"ctl": replace(state("ctl"), jobs=(("7", "ann", "RUNNING", "0", "n1"), ("8", "bob", "RUNNING", "1", "n1")))},
        "srun or salloc waits for 7 of ann.",
    ),
    (
        "a daemon that was not restarted",
        {"n2": replace(state("n2"), running={"slurmd": "24.11.3"})},
        "n2: slurmd still runs version 24.11.3, although 24.11.5 is installed",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("hosts", "words"), [one[1:] for one in WARNED], ids=[one[0] for one in WARNED])
def test_what_people_should_know_before_it_begins_is_told(hosts: dict[str, HostState], words: str) -> None:
    there = asked()
    plan = make(replace(there, hosts={**there.hosts, **hosts}))
    assert plan.refusals == ()
    assert any(words in one for one in plan.warnings), plan.warnings


REST, SRUN = SlurmUser("7", "slurmrestd", "slurmrestd", "rest", False), SlurmUser("8", "", "srun", "ann", False)


def test_services_that_use_slurms_files_are_restarted_when_all_daemons_are_new() -> None:
    there = asked()
    hosts = {host: replace(there.hosts[host], users=(REST, SRUN)) for host in ("ctl", "n1")}
    plan = make(replace(there, hosts={**there.hosts, **hosts}))
    assert steps(plan)["others"] == ("ctl,n1,login", ("login",), {"ctl": ("slurmrestd",), "n1": ("slurmrestd",)})
    assert "ctl,n1: srun of ann: no service, so this keeps Slurm's old files until it ends." in plan.warnings


def test_a_host_whose_service_still_uses_the_old_files_is_not_done() -> None:
    there = replace(asked(have="26.05.5"), offers=dict.fromkeys(DAEMONS, Offer()))
    left = replace(there.hosts["ctl"], users=(replace(REST, is_old=True),))
    plan = make(replace(there, hosts={**there.hosts, "ctl": left}))
    assert steps(plan)["others"] == ("ctl", (), {"ctl": ("slurmrestd",)})
    ends = replace(there.hosts["ctl"], users=(replace(REST, is_old=False), replace(SRUN, is_old=True)))
    done = make(replace(there, hosts={**there.hosts, "ctl": ends}))
    assert done.is_done
    assert "To know:\n  - ctl: srun of ann: no service" in planning.text(done, 0)


def test_nodes_that_are_out_of_service_are_told_with_what_becomes_of_them() -> None:
    plan = make(replace(asked(), out_of_service={"n1": "drained (broken fan)"}))
    (told,) = plan.warnings
    assert told.startswith("n1: drained (broken fan). Its slurmd gets the new Slurm, too; no job proves it")


def test_a_host_with_other_packages_gets_what_apt_would_install_there() -> None:
    there = asked()
    own = replace(there.offers["n1"], others={"libhwloc-plugins": "2.15.0-2"})
    plan = make(replace(there, offers={**there.offers, "n2": own}))
    lines = next(step.lines for step in plan.steps if step.what == "nodes")
    assert "n2: comes along: libhwloc-plugins 2.15.0-2" in lines
    assert (plan.hosts["n1"].others, plan.hosts["n2"].others) == ({}, {"libhwloc-plugins": "2.15.0-2"})


def test_a_plugin_that_slurms_packages_have_themselves_is_no_news() -> None:
    there = asked()
    own = replace(state("n1"), spank=(SpankPlugin("/usr/lib/x/slurm-wlm/spank_pbs.so", True, True),))
    assert make(replace(there, hosts={**there.hosts, "n1": own})).warnings == ()


def test_a_plan_as_text_says_who_has_what_the_steps_and_the_way_back() -> None:
    shown = planning.text(make(asked()), 0)
    assert "Upgrade from Slurm 24.11 to 26.05. No jobs now." in shown
    assert "n[1-2]  24.11.5  slurmd               26.05.5" in shown
    assert "2. slurmdbd on ctl: starts the new slurmdbd" in shown
    assert "about 2,000,000 rows in its big tables. Its conversion may take 22 s to 7 min" in shown
    assert "The way back:\n  - Until slurmdbd has converted its database" in shown


def test_a_plan_as_json_has_hosts_steps_and_reasons() -> None:
    values = as_json(make(asked()))
    assert values["exit_code"] == SOMETHING_TO_DO
    assert values["hosts"]["n1"]["offered"]["slurmd"] == "26.05.5-1"
    assert [step["what"] for step in values["steps"]] == ["backup", "slurmdbd", "controllers", "nodes", "others"]
    assert values["conversion"] is not None


def test_lines_of_the_last_step_are_a_diff_and_those_of_others_a_list() -> None:
    plan = make(asked())
    last = replace(plan.steps[-1], what="files", lines=("+one",))
    shown = planning.text(replace(plan, steps=(*plan.steps, last)), 0)
    assert "\n     +one\n" in shown
    assert "\n     - ctl: slurmdbd starts with the new files\n" in shown


def test_a_plugin_is_missed_on_hosts_of_its_release_alone_and_may_have_another_name_in_slurmfabs_files() -> None:
    there = asked(slurm_conf="MpiDefault=pmix\n")
    told = "MpiDefault needs the plugin mpi_pmix, which the new packages for trixie amd64 do not have"
    assert [one for one in make(there).refusals if one.startswith(told)]
    bare = {host: replace(one, plugins=()) for host, one in there.hosts.items()}
    other = {**bare, "n1": replace(there.hosts["n1"], release="sid amd64")}
    assert not [one for one in make(replace(there, hosts=other)).refusals if "trixie amd64 do not have" in one]
    flat = {host: replace(one, plugins=("topology_default",)) for host, one in there.hosts.items()}
    offers = dict.fromkeys(DAEMONS, replace(there.offers["n1"], plugins=("topology_flat",)))
    renamed = replace(there, slurm_conf="TopologyPlugin=topology/default\n", hosts=flat, offers=offers)
    for is_hand_made in (False, True):
        refused = [
            one for one in make(replace(renamed, is_hand_made=is_hand_made)).refusals if "topology_default" in one
        ]
        assert bool(refused) is is_hand_made


def test_a_daemon_that_did_not_come_up_with_the_new_slurm_is_started_by_the_same_command() -> None:
    there = asked(have="26.05.5", version="26.05.5")
    ended = {**there.hosts, "ctl": replace(there.hosts["ctl"], running={"slurmctld": "26.05.5"})}
    under_way = replace(there, hosts=ended, offers={}, is_under_way=True)
    assert steps(make(under_way)) == {"backup": ("ctl", (), {}), "slurmdbd": ("ctl", (), {"ctl": ("slurmdbd",)})}
    assert make(replace(under_way, is_under_way=False)).steps == ()
    assert make(replace(under_way, hosts=there.hosts)).steps == ()
