"""A plan in a file: what is in it, who may read it, and which files are taken for none."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
from support import MUNGE_KEY, FakeHosts, cluster, facts_of, prepared, run_over, situation

from slurmfab.agent.resource import Change, Outcome
from slurmfab.consent import Consent
from slurmfab.deploy import look
from slurmfab.errors import InputError
from slurmfab.plans import saved_plan
from slurmfab.plans.saved_plan import Files, SavedPlan
from slurmfab.report import Step
from slurmfab.run import Run


def looked(**more: object) -> Run:
    """A look at three hosts, on one of which slurmd does not run, while another does not answer."""
    facts = facts_of(cluster(), prepared)
    facts["c1"] = dataclasses.replace(facts["c1"], munge_key=MUNGE_KEY)
    lock = situation(cluster(), facts).lock
    del facts["n2"]
    wrong = {"n1": {"service:slurmd", "file:/etc/munge/munge.key"}, "c1": {"service:slurmctld"}}
    run = run_over(FakeHosts(facts, wrong=wrong), cluster(), lock=lock, digest_key="key", **more)
    look(run)
    return run


def made(**more: object) -> SavedPlan:
    return saved_plan.of_run(looked(**more), Files("aa", "bb"))


def test_a_plan_holds_what_differs_on_whom_and_from_when_it_is() -> None:
    plan = made(consent=Consent(move_ids=True))
    assert (plan.cluster, plan.hosts, plan.files, plan.move_ids) == ("lab", "c1,n[1-2]", Files("aa", "bb"), True)
    assert Path(plan.cluster_file).is_absolute()
    assert set(plan.shown) == {
        ("n1", "munge", "file:/etc/munge/munge.key"),
        ("n1", "slurmd", "service:slurmd"),
        ("c1", "slurmctld", "service:slurmctld"),
    }
    assert plan.lost == {"n2": "nothing listens at port 22."}
    assert not plan.is_empty


def test_a_plan_when_read_again_is_the_same_and_its_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = made()
    saved_plan.save(plan, path)
    assert saved_plan.load(path) == plan
    assert path.stat().st_mode & 0o777 == 0o600
    assert MUNGE_KEY not in path.read_text()


def test_equal_differences_are_in_the_file_once_for_all_hosts() -> None:
    change = Change("mode", "0600", "0644")
    steps = [
        Step("users", f"n{number}", (Outcome("user:slurm", "would change", (change,), seconds=number / 10),))
        for number in range(1, 9)
    ]
    (one,) = saved_plan.differences(steps)
    assert one.hosts == "n[1-8]"


def test_hosts_are_asked_for_digests_only_for_a_plan_that_is_saved() -> None:
    keyed = looked().transport.requests  # type: ignore[attr-defined]
    assert {request.get("digest_key") for _, request in keyed if request["op"] == "apply"} == {"key"}
    plain = run_over(FakeHosts(facts_of(cluster(), prepared)), cluster())
    look(plain)
    assert not any("digest_key" in request for _, request in plain.transport.requests)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "There is no file .*plan.json. `fab plan --save"),
        ("hello", "is no saved plan"),
        ("[]", "is no saved plan"),
        ('{"version": 1}', "is no saved plan"),
        ('{"format": "slurmfab plan", "version": 2}', r"another format \(2, this slurmfab knows 1\)"),
        ('{"format": "slurmfab plan", "version": 1}', "is damaged: slurmfab: Field required"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_with_the_way_to_one(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=words) as refused:
        saved_plan.load(path)
    assert "fab plan --save" in str(refused.value)


def test_a_plan_is_not_written_over_a_file_that_is_none(tmp_path: Path) -> None:
    other, old = tmp_path / "cluster.yaml", tmp_path / "plan.json"
    other.write_text("cluster: lab\n")
    old.write_text(json.dumps({"format": saved_plan.FORMAT, "version": 0}))
    with pytest.raises(InputError, match=r"is no saved plan\. Name another one"):
        saved_plan.refuse_other_file(other)
    saved_plan.refuse_other_file(old)
    saved_plan.refuse_other_file(tmp_path / "new.json")


def test_the_key_of_the_digests_is_another_one_each_time_and_is_shown_nowhere_else() -> None:
    assert saved_plan.new_key() != saved_plan.new_key()
    assert "digest_key" not in repr(made())
    run = looked()
    assert "digest" not in json.dumps(run.report().as_json())
