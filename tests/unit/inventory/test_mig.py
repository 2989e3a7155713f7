"""The key `mig` of a group of nodes: what it may say, and what it makes of the lock, of jobs and of hosts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support import cluster, facts_of, host_facts, prepared

from slurmfab.base.errors import ClusterFileError, InputError
from slurmfab.base.paths import MIG_SETTINGS, MIG_UNIT
from slurmfab.cluster.facts import Gpu
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.nodes import remove
from slurmfab.core.engine.acceptance import work
from slurmfab.core.impact.approvals import Approvals
from slurmfab.core.impact.disruptive_changes import refusal
from slurmfab.core.plan import mig
from slurmfab.core.plan.mig import refuse_partial
from slurmfab.core.plan.phases import mig as phase
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.status.snapshot import Job
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.slurm.mig_instances import MigInstances

HEAD = 'cluster: lab\naddresses: {c1: 10.0.0.1, "n[1-2]": "10.0.0.[2-3]"}\ncontrollers: [c1]\n'
WITHOUT = HEAD + "nodes: [{hosts: n1}, {hosts: n2}]\n"
DIVIDED = HEAD + "nodes: [{hosts: n1, mig: [3g.20gb, 2g.10gb, 2g.10gb]}, {hosts: n2}]\n"
FIRST, SECOND = "0000:07:00.0", "0000:0b:00.0"
LAYOUT = ("3g.20gb", "2g.10gb", "2g.10gb")
WHOLE = (Gpu("/dev/nvidia0", "a100", FIRST), Gpu("/dev/nvidia1", "a100", SECOND))


def instances(number: int, slot: str, *profiles: str) -> tuple[Gpu, ...]:
    """The instances of a GPU, as the driver shows them."""
    return tuple(
        Gpu(
            f"/dev/nvidia{number}", f"a100_{profile}", slot, with_files=(f"/dev/nvidia-caps/nvidia-cap{number}{place}",)
        )
        for place, profile in enumerate(profiles)
    )


PARTS = (*instances(0, FIRST, *LAYOUT), *instances(1, SECOND, *LAYOUT))


def input_of(text: str, now: tuple[Gpu, ...], known: Lock | None = None, **facts: object) -> PlanInput:
    """The input of a plan where n1 has these GPUs; by default, the lock of a cluster that runs has whole ones."""
    said = cluster(text)
    before = pin(cluster(WITHOUT), Lock(), {**facts_of(said, prepared), "n1": prepared("n1", gpus=WHOLE)})
    found = {**facts_of(said, prepared), "n1": prepared("n1", gpus=now, **facts)}
    found["c1"] = replace(found["c1"], slurm_conf="NodeName=n1\nNodeName=n2\n", services={"slurmctld": "active"})
    return PlanInput(said, pin(said, known or before, found), found)


def kinds(found: tuple[Resource, ...]) -> list[str]:
    return [type(one).__name__ for one in found]


def job(nodes: str, gpus: int = 0) -> Job:
    return Job("7", "7", "ann", ("main",), "RUNNING", "", 1, 1, gpus, 1, "1:00", nodes, "train")


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("mig: [3g.20]", '"3g.20" is not a profile such as 1g.5gb'),
        ("mig: [4g.20gb, 4g.20gb]", "these instances need 8 slices of a GPU, and it has 7"),
        ("mig: []", "it names no instance; write off for whole GPUs"),
        ('mig: [7g.40gb], Gres: "gpu:2"', "with mig, slurmfab writes which GPUs there are; remove this key"),
        ("mig: [1c.3g.20gb]", "is not a profile"),
    ],
)
def test_a_layout_when_no_gpu_can_have_it_then_it_is_refused(group: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{HEAD}nodes: [{{hosts: n1, {group}}}]\n")
    assert words in str(refused.value)


def test_a_layout_when_gres_conf_is_kept_then_it_is_refused() -> None:
    with pytest.raises(ClusterFileError, match="keep_files leaves it as it is"):
        cluster(DIVIDED + "keep_files: true\n")


@pytest.mark.parametrize(
    ("said", "layout"), [("off", ()), ("7g.40gb", ("7g.40gb",)), ("[1g.10gb+me]", ("1g.10gb+me",))]
)
def test_a_layout_when_it_is_off_or_one_profile_then_it_is_read(said: str, layout: tuple[str, ...]) -> None:
    known = cluster(f"{HEAD}nodes: [{{hosts: n1, mig: {said}}}, {{hosts: n2}}]\n")
    assert (known.mig_of("n1"), known.mig_of("n2")) == (layout, None)


def test_gpus_when_they_are_not_divided_yet_then_the_node_goes_on_trial_and_the_lock_keeps_how_they_were() -> None:
    known = input_of(DIVIDED, WHOLE).lock.hosts["n1"]
    assert (known.gpus, known.on_trial) == (WHOLE, True)
    assert known.mig_before == {FIRST: (), SECOND: ()}


def test_gpus_when_they_are_divided_as_wanted_then_the_lock_takes_the_instances() -> None:
    before = input_of(DIVIDED, WHOLE).lock
    after = input_of(DIVIDED, PARTS, before, owned=("mig",))
    known = after.lock.hosts["n1"]
    assert (known.gpus, known.mig_before, known.on_trial) == (PARTS, {FIRST: (), SECOND: ()}, True)
    assert mig.to_divide(after) == {}
    assert "Gres=gpu:a100_3g.20gb:2,gpu:a100_2g.10gb:4" in after.whole_files["slurm.conf"]


def test_gpus_when_one_has_fallen_off_then_it_stays_in_the_lock_and_the_other_is_taken() -> None:
    before = input_of(DIVIDED, WHOLE).lock
    known = input_of(DIVIDED, PARTS[:3], before, owned=("mig",)).lock.hosts["n1"]
    assert known.gpus == (*PARTS[:3], WHOLE[1])


def test_gpus_when_a_boot_numbered_their_instances_otherwise_then_the_lock_follows() -> None:
    before = input_of(DIVIDED, PARTS, input_of(DIVIDED, WHOLE).lock, owned=("mig",)).lock
    other = tuple(replace(gpu, with_files=("/dev/nvidia-caps/nvidia-cap9",)) for gpu in PARTS)
    assert input_of(DIVIDED, other, before, owned=("mig",)).lock.hosts["n1"].gpus == other


def test_gpus_when_a_hand_divided_them_and_no_key_says_how_then_nothing_is_taken() -> None:
    known = input_of(WITHOUT, PARTS).lock.hosts["n1"]
    assert (known.gpus, known.mig_before, known.on_trial) == (WHOLE, {}, False)


def test_the_lock_when_no_gpu_is_divided_then_its_file_does_not_speak_of_it() -> None:
    assert "mig_before" not in locks.text_of(input_of(WITHOUT, WHOLE).lock)
    divided = input_of(DIVIDED, WHOLE).lock
    assert locks.parse(locks.text_of(divided).encode(), __file__) == divided  # type: ignore[arg-type]


def test_a_node_when_its_gpus_are_divided_then_it_is_drained_before_and_gets_program_files_instances_and_unit() -> None:
    planned = input_of(DIVIDED, WHOLE)
    drain = phase.drained(planned, "c1")
    assert [(one.nodes, one.for_change) for one in drain] == [(("n1",), True)]  # type: ignore[attr-defined]
    assert drain[0].text == "drained by a deployment for a change of MIG instances"  # type: ignore[attr-defined]
    found = phase.resources(planned, "n1")
    assert kinds(found) == ["Program", "OwnedFiles", "MigInstances", "Service"]
    files = {one.path: one.text for one in found[1].files}  # type: ignore[attr-defined]
    assert json.loads(files[MIG_SETTINGS]) == {FIRST: list(LAYOUT), SECOND: list(LAYOUT)}
    assert "Before=slurmd.service" in files[f"/etc/systemd/system/{MIG_UNIT}.service"]
    assert phase.resources(planned, "n2") == ()
    assert [host for host, _ in mig.notices(planned)] == ["n1"]


def test_a_node_when_its_gpus_are_right_then_it_is_not_drained() -> None:
    planned = input_of(DIVIDED, PARTS, input_of(DIVIDED, WHOLE).lock, owned=("mig",))
    assert phase.drained(planned, "c1") == ()


def test_the_drain_when_slurmctld_does_not_know_the_node_yet_then_it_is_left_out() -> None:
    planned = input_of(DIVIDED, WHOLE)
    fresh = replace(planned, facts={**planned.facts, "c1": host_facts("c1")})
    assert phase.drained(fresh, "c1") == ()


def test_the_key_when_it_goes_then_the_gpus_become_as_they_were_and_the_lock_forgets_at_last() -> None:
    divided = input_of(DIVIDED, PARTS, input_of(DIVIDED, WHOLE).lock, owned=("mig",)).lock
    going = input_of(WITHOUT, PARTS, divided, owned=("mig",), services={f"{MIG_UNIT}.service": "active"})
    found = phase.resources(going, "n1")
    assert kinds(found) == ["Service", "MigInstances", "Program", "OwnedFiles"]
    assert found[1].layouts == ((FIRST, ()), (SECOND, ()))  # type: ignore[attr-defined]
    assert mig.to_divide(going) == {"n1": (FIRST, SECOND)}
    gone = input_of(WITHOUT, WHOLE, going.lock)
    assert (gone.lock.hosts["n1"].gpus, gone.lock.hosts["n1"].mig_before) == (WHOLE, {})
    assert phase.resources(gone, "n1") == ()


def test_a_node_when_it_leaves_the_cluster_then_its_gpus_become_as_they_were() -> None:
    planned = input_of(DIVIDED, PARTS, input_of(DIVIDED, WHOLE).lock, owned=("mig",))
    known = Inventory(planned.cluster, planned.lock, Path("cluster.yaml"))
    found = remove.taken_back(known, planned.facts["n1"])
    assert [one.layouts for one in found if isinstance(one, MigInstances)] == [((FIRST, ()), (SECOND, ()))]
    assert "mig" in remove.left_on(planned.cluster, "n1")


def test_jobs_when_they_run_on_the_node_then_only_draining_helps() -> None:
    planned = input_of(DIVIDED, WHOLE)
    assert mig.disruptions(planned, [job("n2", gpus=1)]) == ()
    found = mig.disruptions(planned, [job("n[1-2]")])
    text = refusal(found, Approvals(allowed=frozenset({"node-gres"})))
    assert text.startswith("n1: GPUs divided into other MIG instances: ")
    assert text.endswith("To proceed anyway: add --drain-first.")
    assert refusal(found, Approvals(drain_first=True)) == ""


def test_a_run_when_it_is_about_some_of_the_hosts_then_it_divides_nothing() -> None:
    planned, before = input_of(DIVIDED, WHOLE), input_of(WITHOUT, WHOLE).lock
    with pytest.raises(InputError, match="n1: GPUs are to be divided"):
        refuse_partial(before, planned, ("c1", "n1"))
    refuse_partial(before, planned, ("c1", "n1", "n2"))
    refuse_partial(planned.lock, planned, ("n1",))


def test_the_test_job_when_gpus_are_divided_then_it_gets_an_instance_of_each_kind() -> None:
    known = Lock(hosts={"n1": HostLock(gpus=PARTS)})
    assert work(cluster(DIVIDED), known, "n1") == ("--gres=gpu:a100_3g.20gb:1,gpu:a100_2g.10gb:1", "hostname")
    assert work(cluster(WITHOUT), known, "n1") == ("hostname",)
