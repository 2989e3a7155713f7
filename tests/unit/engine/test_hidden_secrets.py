"""Passwords in Slurm's files: no outcome of a host and no plan has them, and their digests still compare."""

from __future__ import annotations

from slurmfab.base.json_output import as_json
from slurmfab.cluster.slurm.versions import SlurmVersion
from slurmfab.core.engine.report import outcome_from
from slurmfab.core.impact.forecast import Forecast, labelled
from slurmfab.core.impact.slurm_diff import differences
from slurmfab.on_hosts.agent.core.resource import describe

SECRET = "Nobody+Learns+Th1s"
CONF = "ClusterName=lab\nJobCompPass={}\nKillWait=30\n"


def told(before: str, after: str) -> dict[str, object]:
    change = describe("slurm.conf", CONF.format(before), CONF.format(after), key="key of a plan")
    one = {"name": change.name, "diff": change.diff, "digest": change.digest}
    return {"id": "slurm-files:/etc/slurm", "status": "would change", "changes": [one], "message": f'"Pass={before}" ?'}


def test_a_password_that_changes_in_a_file_then_is_in_no_outcome_and_its_line_is() -> None:
    outcome = outcome_from(told(SECRET, "other"), "ctl")
    assert SECRET not in repr(outcome)
    assert "-JobCompPass=(hidden)\n+JobCompPass=(hidden)" in outcome.changes[0].diff


def test_two_passwords_then_have_two_digests() -> None:
    first, second = (outcome_from(told(SECRET, new)).changes[0] for new in ("one", "two"))
    assert first.diff == second.diff
    assert first.digest != second.digest


def test_a_password_that_changes_then_is_hidden_in_what_a_plan_says_of_slurm() -> None:
    found = differences({"slurm.conf": CONF.format(SECRET)}, {"slurm.conf": CONF.format("")})
    assert list(map(str, found)) == ["JobCompPass: (hidden) -> (default)"]
    assert SECRET not in str(as_json(Forecast(labelled(found, SlurmVersion(24, 11)))))
