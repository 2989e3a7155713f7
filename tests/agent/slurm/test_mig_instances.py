"""GPUs divided by nvidia-smi: the lab's stand-in for it, in a temporary directory, as there is no GPU.

What NVIDIA's own program prints is in `tests/agent/facts`.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from slurmfab.lab.roots import SHIPPED
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, Outcome, apply
from slurmfab.on_hosts.agent.facts import nvidia_gpus
from slurmfab.on_hosts.agent.slurm import mig_instances
from slurmfab.on_hosts.agent.slurm.mig_instances import MigInstances

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"
H200 = Path(__file__).parent.parent / "facts/h200"
LAYOUT = ("2g.10gb", "3g.20gb", "2g.10gb")


class Machine(Context):
    """A host with two GPUs whose nvidia-smi is the lab's, with its files below a root."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.place, self.calls = root, list[str]()
        text = re.sub(r"/(etc/lab|run/lab|dev/nvidia|proc/driver)", rf"{root}/\1", (SHIPPED / "nvidia-smi").read_text())
        text = re.sub(r"mknod -m 0444 (\S*) .*", r"touch \1", text.replace("mountpoint -q", "test -d"))
        for folder in ("etc", "run", "dev", "proc/driver", "usr/bin"):
            (root / folder).mkdir(parents=True)
        for number in (0, 1):
            (root / f"dev/nvidia{number}").touch()
        (root / "etc/lab-gpus").write_text("0 A100-SXM4-40GB\n1 A100-SXM4-40GB\n")
        (root / "usr/bin/nvidia-smi").write_text(text)
        (root / "usr/bin/nvidia-smi").chmod(0o755)

    def run(
        self,
        argv: Sequence[str],
        stdin: bytes = b"",
        seconds: float = 60.0,
        env: Mapping[str, str] | None = None,
        account: tuple[int, int] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run this host's nvidia-smi; systemd has no unit that looks at GPUs."""
        if argv[0] == "systemctl":
            return subprocess.CompletedProcess(argv, 0, b"LoadState=not-found\nActiveState=inactive\n", b"")
        if argv[1] not in ("-q", "-L"):
            self.calls.append(" ".join(argv[1:]))
        return super().run([f"{self.place}/usr/bin/nvidia-smi", *argv[1:]], stdin, seconds, env, account)

    def write(self, path: str, text: str = "") -> None:
        (self.place / path).write_text(text)

    def divided(self, *layouts: tuple[str, tuple[str, ...]]) -> Outcome:
        self.calls.clear()
        return apply(MigInstances(layouts), self)


class RealGpu(Context):
    """A host whose nvidia-smi printed this for an H200 with driver 580.159, out of MIG mode."""

    def run(self, argv: Sequence[str], *_: object, **__: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(argv, 0, (H200 / "nvidia-smi-mig-lgip.txt").read_bytes(), b"")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(mig_instances, "PAUSES", ())
    return Machine(tmp_path)


def test_whole_gpus_when_they_are_divided_then_each_has_its_instances_and_nothing_is_done_again(
    machine: Machine,
) -> None:
    both = (FIRST, LAYOUT), (SECOND, ("7g.40gb",))
    done = machine.divided(*both)
    assert (done.status, [(one.actual, one.wanted) for one in done.changes]) == (
        CHANGED,
        [("whole", "2g.10gb, 2g.10gb, 3g.20gb"), ("whole", "7g.40gb")],
    )
    assert "mig -i 00000000:01:00.0 -cgi 3g.20gb,2g.10gb,2g.10gb -C" in machine.calls, "the largest come first"
    assert machine.divided(*both).status == OK
    assert machine.calls == []
    found = nvidia_gpus.mig_files(str(machine.place), 0)
    assert found[1, 0] == ["/dev/nvidia-caps/nvidia-cap10", "/dev/nvidia-caps/nvidia-cap11"]


def test_gpus_when_only_one_differs_then_the_other_is_left_alone(machine: Machine) -> None:
    machine.divided((FIRST, LAYOUT), (SECOND, ("7g.40gb",)))
    assert machine.divided((FIRST, LAYOUT), (SECOND, ("4g.20gb", "3g.20gb"))).status == CHANGED
    assert not [call for call in machine.calls if "01:00.0" in call]


def test_divided_gpus_when_they_become_whole_then_their_mode_is_off(machine: Machine) -> None:
    machine.divided((FIRST, LAYOUT))
    done = machine.divided((FIRST, ()))
    assert (done.status, done.changes[0].wanted) == (CHANGED, "whole")
    assert (machine.place / "etc/lab-mig-0").read_text() == "Disabled\n"


def test_a_mode_when_it_waits_for_a_reset_then_the_gpu_is_reset(machine: Machine) -> None:
    machine.write("etc/lab-mig-reset")
    assert machine.divided((FIRST, LAYOUT)).status == CHANGED
    assert "--gpu-reset -i 00000000:01:00.0" in machine.calls


def test_a_gpu_when_a_process_has_it_open_then_it_is_named_and_nothing_is_done(machine: Machine) -> None:
    (machine.place / "proc/4711/fd").mkdir(parents=True)
    (machine.place / "proc/4711/fd/3").symlink_to("/dev/nvidia1")
    (machine.place / "proc/4711/exe").symlink_to("/usr/bin/python3.11")
    machine.write("proc/4711/status", "Name:\tpython3\nUid:\t0\t0\t0\t0\n")
    done = machine.divided((FIRST, LAYOUT), (SECOND, LAYOUT))
    assert (done.status, machine.calls) == (FAILED, [])
    assert (
        "the GPU in slot 0000:02:00.0 (/dev/nvidia1) is in use, so no GPU was divided: PID 4711 (python3.11 of root)"
        in done.message
    )
    (machine.place / "proc/4711/exe").unlink()
    (machine.place / "proc/4711/exe").symlink_to("/usr/bin/nvidia-persistenced")
    assert machine.divided((FIRST, LAYOUT), (SECOND, LAYOUT)).status == CHANGED


def test_a_gpu_when_a_job_runs_on_the_node_then_nothing_is_done(machine: Machine) -> None:
    (machine.place / "proc/99").mkdir(parents=True)
    (machine.place / "proc/99/exe").symlink_to("/usr/sbin/slurmstepd")
    machine.write("proc/99/cmdline", "slurmstepd: [12.0]")
    machine.write("proc/99/status", "Name:\tslurmstepd\nUid:\t0\t0\t0\t0\n")
    done = machine.divided((FIRST, LAYOUT))
    assert (done.status, machine.calls) == (FAILED, [])
    assert done.message == "jobs run here (12), so no GPU was divided; run this again"


def test_a_gpu_when_it_is_busy_all_the_time_then_the_words_of_nvidia_smi_are_told(machine: Machine) -> None:
    machine.write("etc/lab-mig-busy", "0\n")
    done = machine.divided((FIRST, LAYOUT))
    assert (done.status, "In use by another client" in done.message) == (FAILED, True)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (("1g.12gb",), "has no profile 1g.12gb; it has 1g.5gb, 1g.5gb+me, 1g.10gb, 2g.10gb, 3g.20gb, 4g.20gb, 7g.40gb"),
        (("4g.20gb", "4g.20gb"), "Insufficient Resources"),
    ],
)
def test_a_gpu_when_it_cannot_have_the_instances_then_the_reason_is_told(
    machine: Machine, layout: tuple[str, ...], words: str
) -> None:
    done = machine.divided((FIRST, layout))
    assert done.status == FAILED
    assert words in done.message
    assert ("no profile" in words) == (not (machine.place / "etc/lab-mig-0").exists()), "its MIG mode was not touched"


def test_a_gpu_when_its_driver_tells_no_profiles_without_mig_mode_then_the_mode_goes_back(machine: Machine) -> None:
    machine.write("etc/lab-mig-old")
    assert "has no profile 1g.12gb; it has 1g.5gb," in machine.divided((FIRST, ("1g.12gb",))).message
    assert (machine.place / "etc/lab-mig-0").read_text() == "Disabled\n"
    assert machine.divided((FIRST, LAYOUT)).status == CHANGED


def test_instances_when_the_profiles_are_not_told_then_the_present_ones_stay(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.divided((FIRST, LAYOUT))
    before = (machine.place / "run/lab-mig-0").read_text()
    real = machine.run

    def silent(argv: Sequence[str], *more: object, **others: object) -> subprocess.CompletedProcess[bytes]:
        if "-lgip" in argv:
            return subprocess.CompletedProcess(argv, 6, b"Unknown Error\n", b"")
        return real(argv, *more, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(machine, "run", silent)
    done = machine.divided((FIRST, ("7g.40gb",)))
    assert (done.status, "Unknown Error" in done.message) == (FAILED, True)
    assert (machine.place / "run/lab-mig-0").read_text() == before


def test_profiles_when_a_real_gpu_tells_them_then_all_are_read_without_mig_mode() -> None:
    told = mig_instances.offered(RealGpu(), mig_instances.GpuState("00000000:00:06.0", 0, "Disabled", ()))
    assert told == ["1g.18gb", "1g.18gb+me", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"]


def test_instances_when_a_profile_is_unknown_then_the_present_ones_stay(machine: Machine) -> None:
    machine.divided((FIRST, LAYOUT))
    assert machine.divided((FIRST, ("9g.90gb",))).status == FAILED
    assert machine.divided((FIRST, LAYOUT)).status == OK


def test_a_gpu_when_it_has_no_mig_or_is_gone_then_that_is_said(machine: Machine) -> None:
    machine.write("etc/lab-gpus", "0 T1000\n1 A100-SXM4-40GB\n")
    done = machine.divided((FIRST, LAYOUT))
    assert "cannot be divided: nvidia-smi shows no MIG mode for it" in done.message
    (machine.place / "dev/nvidia1").unlink()
    assert machine.divided((SECOND, LAYOUT)).message == "nvidia-smi shows no GPU in slot 0000:02:00.0"


def test_instances_when_a_hand_divided_them_again_then_they_are_left(machine: Machine) -> None:
    machine.write("etc/lab-mig-0", "Enabled\n")
    machine.write("run/lab-mig-0", "1 1c.3g.20gb\n")
    done = machine.divided((FIRST, LAYOUT))
    assert (done.status, "(1c.3g.20gb), which slurmfab could not make anew" in done.message) == (FAILED, True)
