"""A plan in a file: what is in it, who may read it, and which files are taken for none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import MUNGE_KEY, FakeHosts, cluster, facts_of, plan_input, prepared, run_over, with_key

from slurmfab.base.errors import InputError
from slurmfab.base.json_output import as_json
from slurmfab.core.engine import saved_plan
from slurmfab.core.engine.converge import dry_run
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.run import Run
from slurmfab.core.engine.saved_plan import Files, SavedPlan
from slurmfab.core.impact.approvals import Approvals
from slurmfab.on_hosts.agent.core.resource import Change, Outcome


def looked(**more: object) -> Run:
    """A look at three hosts, on one of which slurmd does not run, while another does not answer."""
    facts = with_key()
    lock = plan_input(cluster(), facts).lock
    del facts["n2"]
    wrong = {"n1": {"service:slurmd", "file:/etc/munge/munge.key"}, "c1": {"service:slurmctld"}}
    run = run_over(FakeHosts(facts, wrong=wrong), cluster(), lock=lock, digest_key="key", **more)
    dry_run(run)
    return run


def made(**more: object) -> SavedPlan:
    return saved_plan.from_run(looked(**more), Files("aa", "bb"))


def test_a_plan_holds_the_differences_the_hosts_and_the_time() -> None:
    plan = made(approvals=Approvals(move_ids=True))
    assert (plan.cluster, plan.hosts, plan.files, plan.move_ids) == ("lab", "c1,n[1-2]", Files("aa", "bb"), True)
    assert Path(plan.cluster_file).is_absolute()
    assert set(plan.shown) == {
        ("n1", "munge", "file:/etc/munge/munge.key"),
        ("n1", "slurmd", "service:slurmd"),
        ("c1", "slurmctld", "service:slurmctld"),
    }
    assert plan.lost == {"n2": "nothing listens at port 22."}
    assert not plan.is_empty


def test_a_plan_is_the_same_when_read_again_and_only_its_owner_may_read_it(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan = made()
    saved_plan.save(plan, path)
    assert saved_plan.load(path) == plan
    assert path.stat().st_mode & 0o777 == 0o600
    assert MUNGE_KEY not in path.read_text()


def test_equal_differences_are_saved_once() -> None:
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
    dry_run(plain)
    assert not any("digest_key" in request for _, request in plain.transport.requests)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "There is no file .*plan.json. `fab plan --save"),
        ("hello", "is not a saved plan"),
        ("[]", "is not a saved plan"),
        ('{"version": 1}', "is not a saved plan"),
        ('{"format": "slurmfab plan", "version": 2}', r"another format version \(2, this slurmfab reads 1\)"),
        ('{"format": "slurmfab plan", "version": 1}', "is damaged: slurmfab: Field required"),
    ],
)
def test_a_file_that_is_not_a_plan_is_refused_with_advice(tmp_path: Path, text: str | None, words: str) -> None:
    path = tmp_path / "plan.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(InputError, match=words) as refused:
        saved_plan.load(path)
    assert "fab plan --save" in str(refused.value)


def test_a_plan_does_not_replace_a_file_that_is_not_a_plan(tmp_path: Path) -> None:
    other, old = tmp_path / "cluster.yaml", tmp_path / "plan.json"
    other.write_text("cluster: lab\n")
    old.write_text(json.dumps({"format": saved_plan.FORMAT, "version": 0}))
    with pytest.raises(InputError, match=r"is not a saved plan\. Give another file name"):
        saved_plan.refuse_other_file(other)
    saved_plan.refuse_other_file(old)
    saved_plan.refuse_other_file(tmp_path / "new.json")


def test_each_plan_has_another_digest_key_that_is_not_shown() -> None:
    assert saved_plan.new_key() != saved_plan.new_key()
    assert "digest_key" not in repr(made())
    run = looked()
    assert "digest" not in json.dumps(as_json(run.report()))


def test_a_plan_replaces_a_saved_plan_and_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "one.plan"
    saved_plan.refuse_other_file(path)
    saved_plan.save(made(), path)
    assert saved_plan.is_plan(path)
    saved_plan.refuse_other_file(path)
    for text in ("notes", "{}", '{"format": "another"}'):
        path.write_text(text)
        assert saved_plan.is_plan(path) is False
        with pytest.raises(InputError, match="this file exists and is not a saved plan"):
            saved_plan.refuse_other_file(path)
