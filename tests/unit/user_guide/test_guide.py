"""The guide for users, as text and as a page.

`SLURMFAB_REGENERATE=1 pytest tests/unit/user_guide/test_guide.py` writes the texts anew; look at what changed.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from offered_clusters import example, known

from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.lock import Lock
from slurmfab.core.user_guide import writing
from slurmfab.core.user_guide.offer import offer

GUIDES = Path(__file__).parent / "guides"
CASES = {"small": False, "around-slurm": True, "accounting": True}
"""Examples of cluster files, and whether their nodes are known."""

NOTHING = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: n1}]\n"


def text_of(cluster_file: str) -> str:
    cluster = loading.parse(cluster_file, "cluster.yaml")
    return writing.markdown_text(offer(cluster, known(cluster)))


@pytest.mark.parametrize("name", CASES)
def test_a_guide_is_the_text_that_was_read_over(name: str) -> None:
    cluster = example(name)
    text = writing.markdown_text(offer(cluster, known(cluster) if CASES[name] else Lock()))
    path = GUIDES / f"{name}.md"
    if os.environ.get("SLURMFAB_REGENERATE"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    assert text == path.read_text()


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("containers: [podman]", "sdocker run"),
        ("containers: [oci]", "sbundle"),
        (
            "containers: [enroot]\npackages: {all: [enroot, nvslurm-plugin-pyxis]}",
            "--container-image=docker.io#library",
        ),
        ("containers: {use: [docker], docker: {users: [ann]}}\nusers: [{name: ann}]", "docker run --rm --init"),
        ("modules: lmod", "module avail"),
        ("mpi: pmix", "srun ./program"),
        ("scratch: {path: /scratch, size: 400G, variable: LOCAL}", '"$LOCAL"'),
        ("private_tmp: true", "`/tmp` and `/dev/shm` of a job are its own"),
        ("licenses: {matlab: 1}", "`--licenses=matlab:1` (there is 1)"),
        ("mail: {relay: smtp.example.org, from: slurm@example.org}", "## Mail about jobs"),
        ("database: c1", "sacct -j"),
        ("x11: true", "srun --x11"),
        (
            "slurm_conf: {PreemptType: preempt/partition_prio, PreemptMode: requeue}\n"
            "partitions: [{PartitionName: best, Nodes: ALL, PreemptMode: REQUEUE}]",
            "- `best`: its jobs may be stopped and queued again when jobs with a higher priority",
        ),
        (
            "partitions: [{PartitionName: p, Nodes: ALL, AllowGroups: staff, OverSubscribe: EXCLUSIVE, State: DRAIN}]",
            "starts no jobs at present; for the UNIX groups `staff` alone; each job gets whole nodes",
        ),
        ("user_ssh: hostbased", "`ssh` to compute nodes needs no key and no password"),
        ("registry: c1\ncontainers: [podman]", "`c1:5000/NAME:TAG`"),
        ("registry: c1\ncontainers: [podman]", "sdocker run -it c1:5000/tool:1 python"),
        ("registry: {host: c1, only: true}\ncontainers: [podman]", "podman login --authfile"),
        (
            "registry: {host: c1, anonymous_pull: true}\ncontainers: [apptainer]\npackages: {all: [apptainer]}",
            "docker://c1:5001/tool:1",
        ),
        ("scratch: {path: /scratch, size: 10G}", "`--gres=scratch:10` reserves 10 GB"),
        (
            "slurm_conf: {DefMemPerNode: 2048}\n"
            "partitions: [{PartitionName: p, Nodes: ALL, DefMemPerCPU: 256}, {PartitionName: q, Nodes: ALL}]",
            "gets 256M for each CPU in `p`; 2G on each node in `q`.",
        ),
        ("slurm_conf: {DefMemPerCPU: null}", "Without it, a job gets all memory of its nodes."),
        ("partitions: [{PartitionName: p, Nodes: ALL, MaxTime: 3}]", "--time=00:03:00 --pty bash"),
    ],
)
def test_a_guide_when_the_cluster_has_something_then_tells_of_it_and_otherwise_not(key: str, words: str) -> None:
    assert words in " ".join(text_of(f"{NOTHING}{key}\n").split())
    assert words not in " ".join(text_of(NOTHING).split())


def test_a_guide_when_the_registry_is_the_only_one_then_no_command_names_another() -> None:
    ways = "{use: [podman, oci, enroot, apptainer, docker], docker: {users: [ann]}}\nusers: [{name: ann}]"
    packages = "packages: {all: [enroot, nvslurm-plugin-pyxis, apptainer]}"
    text = text_of(f"{NOTHING}registry: {{host: c1, only: true}}\ncontainers: {ways}\n{packages}\n")
    assert not re.search(r"docker\.io|nvcr\.io", text)


def test_a_guide_when_nodes_are_small_then_no_example_asks_for_more_than_they_have() -> None:
    lines = "{hosts: n1, CPUs: 1, RealMemory: 900}"
    text = text_of(f"cluster: lab\ncontrollers: [c1]\nnodes: [{lines}]\n")
    assert set(re.findall(r"--mem=(\w+)", text)) == {"900M"}
    assert set(re.findall(r"--(?:cpus-per-task|ntasks)=(\d+)", text)) == {"1"}


def test_a_guide_when_there_are_no_commands_for_users_then_names_none() -> None:
    assert not re.search("sstatus|slint|sjob", text_of(NOTHING))
    assert "`sstatus`" in text_of(f"{NOTHING}user_tools: true\n")


def test_a_guide_when_a_text_of_the_site_holds_markup_then_it_is_text() -> None:
    cluster = loading.parse(
        NOTHING + "login: [l1]\nmotd: '<script>x</script> *Help*: https://wiki.example/lab'\n", "cluster.yaml"
    )
    page = writing.page(cluster, writing.markdown_text(offer(cluster, Lock())))
    assert "&lt;script&gt;x&lt;/script&gt; *Help*:" in page
    assert '<a href="https://wiki.example/lab">' in page


def test_a_page_when_read_then_loads_nothing_runs_nothing_and_its_links_lead_somewhere() -> None:
    cluster = example("accounting")
    page = writing.page(cluster, writing.markdown_text(offer(cluster, known(cluster))))
    assert not re.search(r"<script|<img|<link| src=| style=| on[a-z]+=", page)
    assert "default-src &#39;none&#39;" in page
    links = re.findall(r'href="#([^"]+)"', page)
    assert "what-to-avoid" in links
    assert [name for name in links if f'id="{name}"' not in page] == []
    assert len(set(re.findall(r'<h2 id="([^"]+)"', page))) == page.count("<h2")
