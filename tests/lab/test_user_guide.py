"""The guide for users, played: an ordinary user runs each command that it shows, and its numbers are those of Slurm."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

import container_standins
import pytest
from lab_cluster import DeployedLab
from stock import Stock, in_turn

pytestmark = pytest.mark.lab

KEYS = """\
partitions:
  - {PartitionName: short, Nodes: n1, Default: YES, MaxTime: 20, DefMemPerCPU: 256}
  - {PartitionName: gpu, Nodes: n2, DefMemPerNode: 512}
scratch: {path: /scratch, size: 10G}
user_ssh: hostbased
user_tools: true
users: [{name: ann, uid: 3000}]
"""
WITH_CONTAINERS = """\
users: [{{name: ann, uid: 3000}}]
packages: {{all: [{apptainer}, busybox-static]}}
containers: [podman, oci, apptainer]
user_tools: true
registry: {{host: ctl, directory: /srv/images}}
"""
PASSWORD = "not-in-any-dictionary"
HASH = f"perl -e 'print crypt(q({PASSWORD}), q($2y$05$) . q(abcdefghijklmnopqrstuu))'"
IMAGE = """\
set -e; mkdir -p image/bin image/usr/bin image/tmp; cd image
printf 'FROM scratch\\nCOPY . /\\nENV PATH=/bin:/usr/bin\\n' >Dockerfile; cp /bin/busybox bin
for name in sh id ls cat env; do ln -sf /bin/busybox bin/$name; done; ln -sf /bin/env usr/bin/env
printf '#!/bin/sh\\necho trained by "$1"\\n' >bin/python; chmod 755 bin/python; touch ../train.py
"""
"""Makes the directory of an image whose `python` says what it was called with."""

OPTIONS = ("cpus-per-task", "ntasks", "mem", "gres")
ON_A_TERMINAL = "printf 'exit\\n' | script -qec {} /dev/null"


@dataclass(frozen=True)
class Site:
    """A cluster and its guide.

    Args:
        lab: the cluster.
        text: the guide as Markdown.
    """

    lab: DeployedLab
    text: str

    def ann(self, script: str, host: str = "ctl") -> str:
        """What a script prints that an ordinary user runs; it has to succeed."""
        return self.lab.on(host, f"runuser -l ann -c {shlex.quote(script)}")

    def blocks(self, kind: str) -> list[str]:
        """The blocks of code of this kind."""
        found = re.findall(r"^```(\w*)\n(.*?)^```$", self.text, re.MULTILINE | re.DOTALL)
        return [text for name, text in found if name == kind]

    def words(self) -> list[str]:
        """What stands in backquotes between the blocks."""
        return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```$", "", self.text, flags=re.MULTILINE | re.DOTALL))

    def memory(self, partition: str) -> str:
        """What Slurm gives a job of one CPU that asks for no memory there."""
        return self.ann(
            f"srun -n1 -p {partition} sh -c 'scontrol show job $SLURM_JOB_ID | grep -oE \"MinMemory.*=[0-9]+M\"'"
        )


def guide_of(lab: DeployedLab) -> str:
    """The guide that users find on the controller."""
    return lab.on("ctl", "cat /usr/share/doc/*-users/guide.md")


@pytest.fixture(scope="module", params=in_turn("user_guide"))
def site(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    with stock.copy(request.param, nodes=2, gpus=("n2:2",), shared=("/home",)) as lab:
        head = lab.inventory_path.read_text().partition("partitions:")[0]
        lab.inventory_path.write_text(head + KEYS)
        lab.deploy()
        yield Site(lab, guide_of(lab))


def test_each_script_and_command_of_the_guide_then_works_for_an_ordinary_user(site: Site) -> None:
    first, *others = site.blocks("bash")
    site.ann(f"cat > first.sh <<'END'\n{first}END")
    job = site.ann("sbatch --parsable --output=/dev/null first.sh")
    assert [command for command in site.words() if command.startswith("sbatch ")] == ["sbatch first.sh"]
    assert "slint first.sh" in site.words()
    site.ann("slint first.sh")
    files = "mkdir -p data; echo '#!/bin/sh' > program; chmod +x program; tar cf data.tar data"
    for script in others:
        site.ann(f"cat > run.sh <<'END'\nset -e\ncd\n{files}\n{script}END\nsrun bash run.sh")
    commands = [line for block in site.blocks("") for line in block.splitlines()]
    assert len([line for line in commands if line.startswith("srun ")]) == 2, commands
    for command in commands:
        if command.startswith("srun "):
            site.ann(ON_A_TERMINAL.format(shlex.quote(command)))
    asked = [
        words.replace("4711", job) for words in site.words() if re.match(r"(squeue|scontrol show|sinfo|sstatus)", words)
    ]
    assert len(asked) >= 5, asked
    for words in asked:
        site.ann(words)


def test_each_option_with_a_number_in_the_guide_then_is_one_that_some_node_can_give(site: Site) -> None:
    shown = [words for words in site.words() if re.match(rf"--({'|'.join(OPTIONS)})=", words)]
    assert "--gres=scratch:10" in shown, shown
    for option in shown:
        partition = "-p gpu " if "gpu" in option else ""
        site.ann(f"srun {partition}{option} true")


def test_the_memory_that_the_guide_promises_then_is_what_slurm_gives(site: Site) -> None:
    assert "a job gets 256M for each CPU in `short`; 512M on each node in `gpu`." in " ".join(site.text.split())
    assert site.memory("short") == "MinMemoryCPU=256M"
    assert site.memory("gpu") == "MinMemoryNode=512M"


def test_ssh_within_the_cluster_then_needs_no_key_where_the_guide_says_so_and_nowhere_else(site: Site) -> None:
    told = "`ssh` to compute nodes needs no key and no password when you are on one of the hosts above"
    assert told in " ".join(site.text.split())
    login = "ssh -o BatchMode=yes {} hostname"
    assert (site.ann(login.format("n1")), site.ann(login.format("n2"), "n1")) == ("n1", "n2")
    assert "denied" in site.ann(f"{login.format('ctl')} 2>&1 || true", "n1")


@pytest.fixture(scope="module", params=in_turn("user_guide"))
def with_containers(request: pytest.FixtureRequest, stock: Stock) -> Iterator[Site]:
    """A cluster with three ways of running containers, and images of its own; Apptainer is a stand-in."""
    with stock.copy(request.param, nodes=1, gpus=("n1:1",), shared=("/home",)) as lab:
        beside = lab.inventory_path.parent
        (beside / "registry.htpasswd").write_text(f"ann:{lab.on('ctl', HASH)}\n")
        (beside / "registry.htpasswd").chmod(0o600)
        keys = WITH_CONTAINERS.format(apptainer=f"./{container_standins.apptainer(beside).name}")
        lab.inventory_path.write_text(lab.inventory_path.read_text() + keys)
        lab.deploy()
        yield Site(lab, guide_of(lab))


def test_containers_and_images_of_the_guide_then_work_for_an_ordinary_user(with_containers: Site) -> None:
    site = with_containers
    chapter = site.text.partition("## Containers")[2].partition("\n## ")[0]
    logins, sending, *examples = re.findall(r"^```\n(.*?)^```$", chapter, re.MULTILINE | re.DOTALL)
    (login, of_apptainer) = logins.splitlines()
    assert (login.split()[0], of_apptainer.split()[0]) == ("podman", "apptainer")
    assert "denied" in site.ann("skopeo inspect docker://ctl:5000/tool:1 2>&1 || echo denied")
    site.ann(f"echo {PASSWORD} | {login} --username ann --password-stdin")
    site.ann(f"echo {PASSWORD} | {of_apptainer}")
    site.ann(f"cat >image.sh <<'END'\n{IMAGE}{sending}END\nsrun bash image.sh")
    assert len(examples) == 3, examples
    podman, of_slurm, apptainer = (example.strip().splitlines() for example in examples)
    shell, command = podman
    assert shell.endswith("--pty bash"), shell
    ran = shell.removesuffix("--pty bash") + f"script -qec {shlex.quote(command)} /dev/null"
    assert "trained by train.py" in site.ann(ran)
    for steps in (of_slurm, apptainer):
        assert "trained by train.py" in site.ann("\n".join(["set -e", *steps]))
