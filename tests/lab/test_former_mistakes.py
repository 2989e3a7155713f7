"""A former cluster file had a mistake: once the file is right, one deployment gets the hosts out of what came of it.

Each row leaves hosts in a state of a phase that a later phase, or an earlier one, has to mend.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from lab_cluster import AS_SLURM, DeployedLab, ended
from lab_user import words_of
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

DATABASE = "\ndatabase: ctl\n"
NEVER_STARTS = """
database: ctl
files: {/etc/systemd/system/%s.service.d/site.conf: {text: "[Service]\\nExecStartPre=/bin/false\\n"}}
"""
SAME_PORT = (
    "slurm_conf.SlurmctldPort: port 6817-6827 of slurmctld and port 6819 of slurmdbd (database) are the same on ctl"
)


@dataclass(frozen=True)
class Mistake:
    """What a cluster file once said beside the right things, and what came of it.

    Args:
        wrong: the end of the file with the mistake.
        code: exit code of the deployment with it.
        after: a script on ctl after that deployment, such as a restart of a daemon; empty for none.
    """

    wrong: str
    code: int
    after: str = ""


MISTAKES = {
    "slurmctld has the port of a database that comes": Mistake("\nslurm_conf: {SlurmctldPort: 6817-6827}\n", 0),
    "slurmdbd never starts": Mistake(NEVER_STARTS % "slurmdbd", 0, "systemctl restart slurmdbd || :"),
    "slurmctld never starts": Mistake(NEVER_STARTS % "slurmctld", 0, "systemctl restart slurmctld || :"),
    "a mount fails": Mistake(
        f"{DATABASE}mounts: [{{path: /mnt/data, source: tmpfs, type: tmpfs, options: [size=x]}}]\n", 1
    ),
    "slurmd has no directory": Mistake(f"{DATABASE}slurm_conf: {{SlurmdSpoolDir: /proc/none}}\n", 3),
    "slurmctld has no state": Mistake(f"{DATABASE}state_directory: /etc/hostname/state\n", 1),
}
"""By what it does, in the order in which the lab has them: the first brings the database."""


@pytest.fixture(scope="module", params=in_turn("former_mistakes"))
def cluster(request: pytest.FixtureRequest, stock: Stock) -> Iterator[tuple[DeployedLab, str]]:
    with stock.copy(request.param, nodes=1) as lab:
        text = lab.inventory_path.read_text()
        lab.deploy()
        yield lab, text


@pytest.mark.parametrize("name", MISTAKES)
def test_a_deployment_when_the_former_file_had_a_mistake_then_gets_out_of_what_came_of_it(
    cluster: tuple[DeployedLab, str], name: str
) -> None:
    (lab, text), mistake = cluster, MISTAKES[name]
    lab.inventory_path.write_text(text + mistake.wrong)
    done = ended(lab.slurmfab("deploy"), mistake.code)
    lab.on("ctl", mistake.after or ":")
    lab.inventory_path.write_text(text + DATABASE)
    assert lab.deploy()["hosts"], words_of(done)
    assert lab.deploy()["steps"] == []
    assert lab.on("ctl", f"{AS_SLURM}srun -N1 hostname") == "n1"


def test_a_plan_when_two_daemons_of_a_host_have_one_port_then_is_refused_with_both_lines(
    cluster: tuple[DeployedLab, str],
) -> None:
    lab, text = cluster
    lab.inventory_path.write_text(text + DATABASE + MISTAKES[next(iter(MISTAKES))].wrong)
    said = words_of(ended(lab.slurmfab("plan"), 2))
    assert SAME_PORT in said, said
    assert "database: port 6819 of slurmdbd and port 6817-6827 of slurmctld" in said, said
