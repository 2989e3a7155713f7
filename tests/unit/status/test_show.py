"""Whom `status` asks: the first controller that can be reached, once."""

from __future__ import annotations

from fake_slurm import FakeSlurm
from support import THREE_HOSTS, cluster, facts_of, prepared

from slurmfab.errors import Unreachable
from slurmfab.status.show import look

TWO = cluster(THREE_HOSTS.replace("[c1]", "[c1, c2]\nstate_directory: /shared"))


def test_a_look_asks_the_primary_controller_and_nobody_else() -> None:
    asked: list[str] = []
    slurm = FakeSlurm(facts_of(cluster(), prepared), nodes={"n1": ("IDLE", "", "")}, looked=lambda: asked.append("c1"))
    status = look(TWO, slurm)
    assert (status.exit_code, asked, slurm.requests) == (0, ["c1"], [])


def test_a_look_when_the_primary_is_lost_asks_the_backup_and_says_so() -> None:
    lost = iter([True])

    def looked() -> None:
        if next(lost, False):
            raise Unreachable("c1", "nothing listens at port 22.")

    slurm = FakeSlurm(facts_of(cluster(), prepared), nodes={"n1": ("IDLE", "", "")}, looked=looked)
    status = look(TWO, slurm)
    assert (status.exit_code, status.trouble()) == (0, "c1: nothing listens at port 22.")


def test_a_look_when_no_controller_can_be_reached_says_so_and_fails() -> None:
    def looked() -> None:
        raise Unreachable("c1", "nothing listens at port 22.")

    status = look(cluster(), FakeSlurm({}, looked=looked))
    assert (status.exit_code, status.trouble()) == (1, "c1: nothing listens at port 22.")
    assert status.as_json()["error"] == "c1: nothing listens at port 22."
