"""The plan of an update: hosts with equal plans together, what stays as it is, and the exit code."""

from __future__ import annotations

from typing import Any

import pytest
from support import cluster

from slurmfab.base.answers import values
from slurmfab.base.errors import InputError
from slurmfab.base.json_output import as_json
from slurmfab.commands.nodes.batches import batch_size, batches
from slurmfab.commands.update.host_updates import Daemon, HostUpdates, Kept, groups, may_reboot, slurms_own
from slurmfab.commands.update.plan import UpdatePlan, plan_text
from slurmfab.on_hosts.agent.packages.updates import Candidate

SSL = Candidate("libssl3", "3.0.15", "3.0.17", True)
TAR = Candidate("tar", "1.34", "1.35", False)
KERNEL = Candidate("linux-image-9", "", "9", False)
EVERYWHERE = """\
cluster: lab
controllers: [c1, c2]
state_directory: /shared
database: d1
login: [l1]
nodes: [{hosts: 'n[1-4]'}]
"""


def plan(hosts: dict[str, HostUpdates], **more: Any) -> UpdatePlan:
    return UpdatePlan("lab", hosts, **more)


def lines(hosts: dict[str, HostUpdates], *, verbose: bool = False, **more: Any) -> list[str]:
    return plan_text(plan(hosts, **more), verbose=verbose).splitlines()


def test_hosts_with_the_same_updates_share_their_lines_whatever_the_age_of_their_lists() -> None:
    same = [HostUpdates((TAR, SSL, KERNEL), age=age) for age in (5.0, 90.0)]
    assert lines({"n1": same[0], "n2": same[1], "n3": HostUpdates()}) == [
        "n[1-2]: 2 packages to update, 1 new that they need, 1 for security",
        "  libssl3 3.0.15 -> 3.0.17 (security)",
        "  linux-image-9 (new) -> 9",
        "  tar 1.34 -> 1.35",
        "n3: no package to update",
        "lab: updates or restarts for 2 of 3 hosts.",
    ]


def test_what_is_not_updated_is_told_with_the_reason() -> None:
    kept = (Kept("slurmd", "22", "23", "slurm"), Kept("tar", "1", "2", "held"), Kept("x", "1", "2", "apt"))
    told = lines({"n1": HostUpdates(kept=kept, removed=("tock",))})
    assert [line.partition(":")[2].partition(": ")[0] for line in told if "not updated" in line] == [
        " slurmd 22 (there is 23)",
        " tar 1 (there is 2)",
        " x 1 (there is 2)",
    ]
    assert "  not removed: tock, which apt's full upgrade would remove" in told


@pytest.mark.parametrize(
    ("one", "line"),
    [
        (HostUpdates(reboot=("kernel 1 runs, 2 is installed",)), "needs a reboot (--reboot): kernel 1 runs"),
        (HostUpdates(daemons=(Daemon("init", ("libc.so.6",)), Daemon("dbus", ("x",)))), "systemd itself, dbus use"),
        (
            HostUpdates(daemons=(Daemon("munge", ("libssl.so.3",)),)),
            "restart of munge, which uses replaced libssl.so.3",
        ),
        (HostUpdates(unfinished="tar half-configured"), "not finished: tar half-configured"),
        (HostUpdates(age=3 * 86400.0 + 9), "its package lists are 3 days old, so newer versions may be missing"),
        (HostUpdates(age=-1.0), "its package lists were never fetched"),
        (
            HostUpdates(trouble="a package source is not trusted"),
            "not all package lists were fetched: a package source",
        ),
    ],
)
def test_each_thing_that_an_admin_has_to_know_has_a_line(one: HostUpdates, line: str) -> None:
    assert any(line in said for said in lines({"n1": one}))


def test_of_many_packages_those_for_security_are_named_unless_all_are_wanted() -> None:
    many = (*(Candidate(f"p{number:02}", "1", "2", False) for number in range(20)), SSL)
    told = lines({"n1": HostUpdates(many)})
    assert (told[1], told[-2]) == ("  libssl3 3.0.15 -> 3.0.17 (security)", "  and 11 more (--verbose lists them)")
    assert len(lines({"n1": HostUpdates(many)}, verbose=True)) == 23


@pytest.mark.parametrize(
    ("hosts", "more", "code"),
    [
        ({"n1": HostUpdates()}, {}, 0),
        ({"n1": HostUpdates((TAR,))}, {}, 4),
        ({"n1": HostUpdates(daemons=(Daemon("munge", ("x",)),))}, {}, 4),
        ({"n1": HostUpdates(daemons=(Daemon("dbus", ("x",)),))}, {}, 0),
        ({"n1": HostUpdates(reboot=("x",))}, {}, 0),
        ({"n1": HostUpdates(reboot=("x",))}, {"reboots": True}, 4),
        ({"n1": HostUpdates(unfinished="x")}, {}, 4),
        ({"n1": HostUpdates()}, {"left_drained": ("n1",)}, 4),
        ({"n1": HostUpdates((TAR,))}, {"lost": {"n2": "no answer."}}, 3),
        ({}, {"lost": {"n2": "broken."}, "are_harmless": False}, 1),
    ],
)
def test_the_exit_code_is_that_of_a_plan(hosts: dict[str, HostUpdates], more: dict[str, Any], code: int) -> None:
    assert plan(hosts, **more).exit_code == as_json(plan(hosts, **more))["exit_code"] == code


def test_an_answer_of_the_agent_becomes_a_plan_and_a_wrong_one_is_refused() -> None:
    answer: dict[str, Any] = {
        "packages": [["libssl3", "3.0.15", "3.0.17", True]],
        "kept": [["slurmd", "22", "23", "slurm"]],
        "removed": ["tock"],
        "reboot": [],
        "stale": {"munge": ["libssl.so.3"]},
        "age": 5.0,
        "unfinished": "",
        "trouble": "",
    }
    model = values("updates")
    assert model is not None
    found = HostUpdates.from_answer(model.validate_python(answer))
    assert (found.versions, found.restarted[0].unit) == (("libssl3=3.0.17",), "munge")
    with pytest.raises(ValueError, match="packages"):
        model.validate_python({**answer, "packages": [["a b", "1", "2", True]]})
    with pytest.raises(ValueError, match="kept"):
        model.validate_python({**answer, "kept": [["a", "1", "2", "whim"]]})


def test_the_order_is_nodes_then_logins_then_backup_database_and_primary() -> None:
    known = cluster(EVERYWHERE)
    found = groups(known, known.hosts)
    assert [(group.name, group.hosts) for group in found] == [
        ("compute nodes", ("n1", "n2", "n3", "n4")),
        ("login hosts", ("l1",)),
        ("controllers and database", ("c2", "d1", "c1")),
    ]
    assert [host for host in known.hosts if may_reboot(known, host)] == ["n1", "n2", "n3", "n4"]


def test_a_batch_is_a_number_or_a_part_of_the_hosts() -> None:
    assert [batch_size(text, 64) for text in ("10%", "1", "100%", "1%", "99")] == [7, 1, 64, 1, 99]
    assert batch_size("10%", 0) == 1
    assert list(batches(("a", "b", "c"), 2)) == [("a", "b"), ("c",)]
    for text in ("0", "0%", "101%", "-1", "ten", "", "1.5%"):
        with pytest.raises(InputError, match="--at-once"):
            batch_size(text, 9)


def test_slurms_own_packages_are_those_of_every_kind() -> None:
    assert {"slurmd", "slurm-smd-slurmd", "slurm-wlm-basic-plugins"} <= set(slurms_own())
