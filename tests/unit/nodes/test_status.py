"""`fab status` asks the first controller that can be reached, once."""

from __future__ import annotations

from fake_slurm import FakeSlurm
from support import THREE_HOSTS, cluster, facts_of, prepared

from slurmfab.base.errors import Unreachable
from slurmfab.base.json_output import as_json
from slurmfab.commands.nodes.status import ask_controllers

TWO = cluster(THREE_HOSTS.replace("[c1]", "[c1, c2]\nstate_directory: /shared"))


def test_status_asks_only_the_primary_controller() -> None:
    asked: list[str] = []
    slurm = FakeSlurm(facts_of(cluster(), prepared), nodes={"n1": ("IDLE", "", "")}, looked=lambda: asked.append("c1"))
    status = ask_controllers(TWO, slurm)
    assert (status.exit_code, asked, slurm.requests) == (0, ["c1"], [])


def test_status_asks_the_backup_controller_if_the_primary_does_not_answer() -> None:
    lost = iter([True])

    def looked() -> None:
        if next(lost, False):
            raise Unreachable("c1", "nothing listens at port 22.")

    slurm = FakeSlurm(facts_of(cluster(), prepared), nodes={"n1": ("IDLE", "", "")}, looked=looked)
    status = ask_controllers(TWO, slurm)
    assert (status.exit_code, status.trouble()) == (0, "c1: nothing listens at port 22.")


def test_status_fails_if_no_controller_can_be_reached() -> None:
    def looked() -> None:
        raise Unreachable("c1", "nothing listens at port 22.")

    status = ask_controllers(cluster(), FakeSlurm({}, looked=looked))
    assert (status.exit_code, status.trouble()) == (1, "c1: nothing listens at port 22.")
    assert as_json(status)["error"] == "c1: nothing listens at port 22."
