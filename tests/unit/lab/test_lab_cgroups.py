"""Where a lab's cgroups go on different machines."""

import os
from pathlib import Path

from slurmfab.lab import cgroups
from slurmfab.lab.layout import LabLayout

LAB = LabLayout("x")

HYBRID_MOUNTS = """\
30 27 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw
31 30 0:31 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
32 30 0:32 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
33 30 0:33 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,name=systemd
34 30 0:34 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
"""
HYBRID_OWN = "4:memory:/session/7\n3:cpu,cpuacct:/\n2:name=systemd:/\n0::/init\n"


def test_directories_when_controllers_are_mounted_one_by_one_then_all_are_below_this_process():
    assert cgroups.lab_directories(LAB, HYBRID_MOUNTS, HYBRID_OWN) == (
        Path("/sys/fs/cgroup/cpu,cpuacct/slurmfab-x"),
        Path("/sys/fs/cgroup/memory/session/7/slurmfab-x"),
        Path("/sys/fs/cgroup/systemd/slurmfab-x"),
        Path("/sys/fs/cgroup/unified/init/slurmfab-x"),
    )


def test_directories_when_the_mount_shows_only_a_part_then_paths_start_there():
    mounts = "31 30 0:31 /box/7 /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    found = cgroups.lab_directories(LAB, mounts, "4:memory:/box/7/deep\n")
    assert found == (Path("/sys/fs/cgroup/memory/deep/slurmfab-x"),)


def test_directories_when_there_is_the_unified_hierarchy_alone_then_they_are_at_its_top():
    mounts = "30 27 0:30 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
    own = "0::/user.slice/user-0.slice/session-1.scope\n"
    assert cgroups.lab_directories(LAB, mounts, own) == (Path("/sys/fs/cgroup/slurmfab-x"),)


def test_processes_when_subtrees_are_nested_then_all_are_found(tmp_path):
    for name, text in {"a": "11\n12\n", "a/b": "13\n", "c": ""}.items():
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / "cgroup.procs").write_text(text)
    assert cgroups.processes([tmp_path / "a", tmp_path / "c", tmp_path / "gone"]) == {11, 12, 13}


def test_remove_when_there_are_levels_then_they_go_from_below(tmp_path):
    (tmp_path / "lab/n1/system.slice").mkdir(parents=True)
    assert cgroups.remove(tmp_path / "lab")
    assert not (tmp_path / "lab").exists()
    assert cgroups.remove(tmp_path / "lab")


def test_folders_that_are_deeper_than_a_path_can_be_long_are_walked_and_removed(tmp_path: Path) -> None:
    (tmp_path / "n1").mkdir()
    before = Path.cwd()
    os.chdir(tmp_path / "n1")
    try:
        for _ in range(2500):
            Path("aa").mkdir()
            os.chdir("aa")
        Path("cgroup.procs").write_text("7\n")
        assert cgroups.processes([tmp_path / "n1"]) == {7}
        Path("cgroup.procs").unlink()
    finally:
        os.chdir(before)
    cgroups.thaw([tmp_path / "n1"])
    assert cgroups.remove(tmp_path / "n1")
    assert list(tmp_path.iterdir()) == []
