"""Compute nodes whose root alters what the agent says: what becomes of the run, and of the other hosts."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from lab_cluster import DeployedLab
from lab_user import words_of
from lying_agent import honest_again, make_liar
from stock import shared_in_turn

from slurmfab.inventory.loading import lock_path

pytestmark = [pytest.mark.lab, shared_in_turn("deployed_lab", "lying_agents")]

FACTS = "def lie(told):\n    if 'facts' in told:\n        {}\n        return told\n"
KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGx5aW5nbHlpbmdseWluZ2x5aW5nbHlpbmdseWlu"
EVIL = "6.6.6.6"
ROUNDS = (
    {
        "n1": (FACTS.format(f"told['facts']['ssh_host_keys'] = {{'@cert-authority * ssh-ed25519': '{KEY}'}}"),
               "its facts were refused: ssh_host_keys"),
        "n2": (FACTS.format("told['facts']['gpus'][0]['cores'] = '0\\nNodeName=n1 Name=gpu File=/dev/null'"),
               "its facts were refused: gpus.0.cores"),
        "n3": (FACTS.format("told['facts']['hostname'] = 'n1'"), "it calls itself n1, as n1 does"),
    },
    {
        "n1": ("def lie(told):\n    while 'facts' in told:\n        sys.stdout.buffer.write(b'x' * 65536)\n",
               "its answer to 'facts' exceeds"),
        "n2": ("def lie(told):\n    return b'{\"facts\": ' + b'[' * 500000 + b'\\n' if 'facts' in told else told\n",
               "its answer is nested too deeply"),
        "n3": (FACTS.format(f"told['facts']['public_key'] += '\\nssh-ed25519 {KEY} slurm@n3'"),
               "its facts were refused: public_key"),
    },
    {
        "n1": ("def lie(told):\n    return {'outcome': [told['outcome']]} if 'outcome' in told else told\n",
               "its outcome was refused"),
        "n2": ("def lie(told):\n    return {**told, 'evil': 1} if 'outcome' in told else told\n",
               "its answer to 'apply' contains 'evil', which is unknown"),
        "n3": (FACTS.format(f"told['facts']['hostname'] = 'n3\\n{EVIL} packages.example.org'"),
               "its facts were refused: hostname"),
    },
)  # fmt: skip
"""By round and host: what its agent says instead of the truth, and the words of the line that tells of the host."""

FILES = "/etc/hosts /etc/ssh/ssh_known_hosts /etc/slurm/*.conf /var/lib/slurm/home/.ssh/authorized_keys"


@pytest.fixture
def liars(deployed_lab: DeployedLab) -> Iterator[DeployedLab]:
    """The cluster; its compute nodes are honest again afterwards."""
    yield deployed_lab
    for node in ("n1", "n2", "n3"):
        honest_again(deployed_lab, node)


@pytest.mark.parametrize("lies", ROUNDS, ids=["lines of others", "endless", "outcomes"])
def test_nodes_that_lie_when_deployed_then_each_is_left_out_with_its_reason_and_the_controller_is_done(
    liars: DeployedLab, lies: dict[str, tuple[str, str]]
) -> None:
    for node, (lie, _) in lies.items():
        make_liar(liars, node, lie)
    before = liars.on("ctl", f"sha256sum {FILES}")
    liars.on("ctl", "sed -i '/^KillWait/d' /etc/slurm/cgroup.conf && echo '# spoilt' >>/etc/slurm/cgroup.conf")
    done = liars.slurmfab("deploy")
    said = words_of(done)
    assert (done.returncode, "Traceback" in said) == (3, False), said
    for node, (_, reason) in lies.items():
        assert f"{node}: {reason}" in said, said
    assert liars.on("ctl", f"sha256sum {FILES}") == before
    assert liars.on("ctl", f"grep -l -e '{KEY}' -e '{EVIL}' -e cert-authority {FILES} || true") == ""
    lock = lock_path(liars.inventory_path).read_text()
    assert not any(word in lock for word in (KEY, EVIL, "cert-authority", "NodeName"))
    assert sorted(json.loads(lock)["hosts"]) == ["ctl", "n1", "n2", "n3"]


def test_nodes_that_lied_when_they_are_honest_again_then_nothing_has_to_be_changed(deployed_lab: DeployedLab) -> None:
    done = deployed_lab.slurmfab("deploy")
    assert (done.returncode, "nothing changed on 4 hosts" in words_of(done)) == (0, True), words_of(done)


def test_a_fifo_in_the_place_of_the_munge_key_when_deployed_then_nobody_waits_for_it(
    deployed_lab: DeployedLab,
) -> None:
    key = "/etc/munge/munge.key"
    deployed_lab.on("n1", f"mv {key} /root/kept.key && mkfifo -m 400 {key}")
    try:
        done = deployed_lab.slurmfab("deploy")
    finally:
        deployed_lab.on("n1", f"rm {key} && cp -a /root/kept.key {key}")
    assert done.returncode == 3, words_of(done)
    assert f"n1: file:{key}: {key} is not a regular file" in words_of(done)
    deployed_lab.deploy()
