"""The facts of a host, read below a temporary root or from texts of a kernel."""

from __future__ import annotations

import base64
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from slurmfab.cluster.facts import Account, Cgroup, Hardware, from_answer
from slurmfab.on_hosts.agent.facts import cgroups, facts, hardware

STATUS = """Package: munge
Status: install ok installed
Version: 0.5.15-2+deb12u1

Package: slurmd
Status: hold ok installed
Version: 22.05.8-4+deb12u3

Package: slurmctld
Status: deinstall ok config-files
Version: 22.05.8-4

Package: slurm-client-emulator
Status: install ok installed
Version: 1
"""


def write(root: Path, path: str, text: str) -> None:
    """A file below the scratch root, with its directories."""
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_facts_when_read_are_those_that_the_planner_takes(root: Path) -> None:
    write(root, "etc/os-release", 'ID=debian\nID_LIKE="a b"\nVERSION_CODENAME=bookworm\n')
    write(root, "var/lib/dpkg/status", STATUS)
    write(root, "etc/munge/munge.key", "key")
    write(root, "etc/ssh/ssh_host_ed25519_key.pub", "ssh-ed25519 AAAA root@n1\n")
    write(root, "var/lib/slurm/.ssh/id_ed25519.pub", "ssh-ed25519 BBBB slurm@n1\n")
    packages = ["munge", "slurmd", "slurmctld", "slurm-client"]
    answer = facts.read({"root": str(root), "users": ["slurm", "ghost"], "packages": packages})
    host = from_answer("n1", answer, 0.5)
    assert (host.os_id, host.os_like, host.codename, host.clock_offset) == ("debian", "a b", "bookworm", 0.5)
    assert host.accounts == {"slurm": Account(os.getuid(), os.getgid(), "/var/lib/slurm", "/bin/sh")}
    assert host.groups == {"slurm": os.getgid()}
    assert host.packages == {"munge": "0.5.15-2+deb12u1", "slurmd": "22.05.8-4+deb12u3"}
    assert host.ssh_host_keys == {"ssh-ed25519": "AAAA"}
    assert host.public_key == "ssh-ed25519 BBBB slurm@n1"
    assert (host.munge_key, host.slurm_conf, host.hardware, host.services) == ("", "", None, {})
    assert {0, os.getuid()} <= set(host.busy_uids)


@pytest.mark.parametrize(
    ("there", "sends"),
    [
        ((), ""),
        (("usr/bin/mail",), ""),
        (("usr/sbin/sendmail",), ""),
        (("usr/bin/mail", "usr/sbin/sendmail"), "/usr/bin/mail"),
        (("usr/bin/mailx", "usr/lib/sendmail"), "/usr/bin/mailx"),
    ],
)
def test_mail_is_sent_by_a_mailer_that_has_a_mail_system_behind_it(
    root: Path, there: tuple[str, ...], sends: str
) -> None:
    for path in there:
        write(root, path, "#!/bin/sh\n")
        (root / path).chmod(0o755)
    assert facts.read({"root": str(root)})["mail_program"] == sends


def test_the_munge_key_and_slurm_conf_when_asked_for_are_read(root: Path) -> None:
    write(root, "etc/munge/munge.key", "key")
    write(root, "etc/slurm/slurm.conf", "ClusterName=x\n")
    answer = facts.read({"root": str(root), "with_munge_key": True, "with_slurm_conf": True})
    assert base64.b64decode(answer["munge_key"]) == b"key"
    assert (answer["slurm_conf"], answer["gres_conf"], answer["cgroup_conf"]) == ("ClusterName=x\n", "", "")


def test_slurms_other_files_when_they_are_there_are_read_with_slurm_conf(root: Path) -> None:
    (root / "etc/slurm").mkdir(parents=True)
    for name in ("gres.conf", "cgroup.conf"):
        (root / "etc/slurm" / name).write_text(f"# {name}\n")
    answer = facts.read({"root": str(root), "with_slurm_conf": True})
    texts = [answer[name] for name in ("slurm_conf", "gres_conf", "cgroup_conf")]
    assert texts == ["", "# gres.conf\n", "# cgroup.conf\n"]


def test_files_that_differ_between_nodes_when_made_by_hand_are_told_unasked(root: Path) -> None:
    write(root, "etc/slurm/gres.conf", "Name=gpu File=/dev/nvidia0\n")
    write(root, "etc/slurm/cgroup.conf", "# Made by slurmfab from the cluster file\n")
    write(root, "etc/slurm/slurm.conf", "ClusterName=x\nInclude nodes.conf\n")
    write(root, "etc/slurm/nodes.conf", "NodeName=n1\n")
    answer = facts.read({"root": str(root)})
    assert [answer[name] for name in ("gres_conf", "cgroup_conf")] == ["Name=gpu File=/dev/nvidia0\n", ""]
    assert answer["slurm_conf"] == ""
    assert answer["slurm_conf_digest"] == hashlib.sha256(b"ClusterName=x\nNodeName=n1\n").hexdigest()
    write(root, "etc/slurm/slurm.conf", "# Made by slurmfab from the cluster file\n")
    assert facts.read({"root": str(root)})["slurm_conf_digest"] == ""


def test_slurm_conf_when_it_includes_files_is_told_with_them(root: Path) -> None:
    write(root, "etc/slurm/slurm.conf", "include more.d/name.conf\nInclude nodes-%c.conf # all\nKillWait=30\n")
    write(root, "etc/slurm/more.d/name.conf", "ClusterName=Lab\nInclude ports.conf")
    write(root, "etc/slurm/more.d/ports.conf", "SlurmdPort=7000\n")
    write(root, "etc/slurm/nodes-lab.conf", "NodeName=n1\n")
    answer = facts.read({"root": str(root), "with_slurm_conf": True})
    assert answer["slurm_conf"] == "ClusterName=Lab\nSlurmdPort=7000\nNodeName=n1\nKillWait=30\n"
    assert [mark["cluster"] for mark in answer["slurm_use"]["marks"]] == ["Lab"]


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, ""),
        ({"etc/default/slurmd": 'SLURMD_OPTIONS="-v --conf-server ctl:6817"\n'}, "ctl:6817"),
        ({"etc/default/slurmd": "#SLURMD_OPTIONS=--conf-server ctl\n"}, ""),
        ({"etc/systemd/system/slurmd.service.d/own.conf": "ExecStart=/usr/sbin/slurmd --conf-server=a,b -D\n"}, "a,b"),
        ({"etc/default/slurmd": "SLURMD_OPTIONS=--conf-server ctl\n", "etc/slurm/slurm.conf": "ClusterName=x\n"}, ""),
        ({"etc/default/slurmd": "SLURMD_OPTIONS=--conf-server ctl\n", facts.CONFIGLESS_DROP_IN[1:]: "# ours\n"}, ""),
    ],
)
def test_a_server_of_configuration_files_that_the_site_gave_to_slurmd_is_told(
    root: Path, files: dict[str, str], expected: str
) -> None:
    for path, text in files.items():
        write(root, path, text)
    assert facts.read({"root": str(root)})["conf_server"] == expected


def test_services_when_some_do_not_exist_are_told_apart() -> None:
    shown = "\n\n".join(
        f"LoadState={load}\nActiveState={active}"
        for load, active in (("loaded", "active"), ("not-found", "inactive"), ("masked", "failed"))
    )
    assert facts.service_states(("munge", "slurmd", "slurmctld"), shown) == {"munge": "active", "slurmctld": "failed"}


def machine(root: Path, sockets: int, cores: int, threads: int, siblings: str = "core_cpus_list") -> None:
    """The sysfs of a machine, as Linux numbers its processors: second threads after all first ones."""
    number = sockets * cores
    for cpu in range(number * threads):
        core = cpu % number
        topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
        write(root, f"{topology}/physical_package_id", f"{core // cores}\n")
        write(root, f"{topology}/{siblings}", ",".join(str(core + number * thread) for thread in range(threads)) + "\n")
    write(root, "sys/devices/system/cpu/cpufreq/x", "")
    write(root, "proc/meminfo", "MemTotal:       2097663 kB\nMemFree: 1 kB\n")


@pytest.mark.parametrize("siblings", ["core_cpus_list", "thread_siblings_list"])
def test_hardware_when_read_has_the_words_and_numbers_of_slurmd(root: Path, siblings: str) -> None:
    machine(root, 2, 4, 2, siblings)
    assert hardware.read(str(root)) == {
        "CPUs": 16, "Boards": 1, "SocketsPerBoard": 2, "CoresPerSocket": 4, "ThreadsPerCore": 2, "RealMemory": 2048
    }  # fmt: skip
    assert from_answer("n1", {**facts.read({"root": str(root)})}, 0).hardware == Hardware(16, 1, 2, 4, 2, 2048)


def test_hardware_when_a_processor_is_offline_does_not_count_it(root: Path) -> None:
    machine(root, 1, 2, 1)
    write(root, "sys/devices/system/cpu/cpu2/online", "0\n")
    found = hardware.read(str(root))
    assert found is not None
    assert found["CPUs"] == 2


def test_hardware_when_sysfs_does_not_tell_is_unknown(root: Path) -> None:
    machine(root, 1, 2, 1)
    (root / "sys/devices/system/cpu/cpu1/topology/core_cpus_list").unlink()
    assert hardware.read(str(root)) is None


COUNT = "NodeName=n1 CPUs=8 Boards=1 SocketsPerBoard=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=2048\nUpTime=1"
SLURMD = "/usr/sbin/slurmd"


def slurmd(root: Path, says: str, code: int = 0) -> None:
    """A slurmd that notes that it was asked; not where the file of a running one hides the count."""
    write(root, SLURMD[1:], f"#!/bin/sh\necho asked >>{root}/asked\ncat <<'END'\n{says}\nEND\nexit {code}\n")
    (root / SLURMD[1:]).chmod(0o755)
    (root / "run").mkdir(exist_ok=True)


def counted(root: Path, *parameters: str) -> dict[str, Any]:
    return hardware.facts(str(root), {"slurm_programs": (SLURMD,), "slurmd_parameters": parameters})


def asked(root: Path) -> int:
    return len((root / "asked").read_text().splitlines())


def test_hardware_when_slurmd_counts_otherwise_then_its_count_decides_and_is_asked_once_until_something_changes(
    root: Path,
) -> None:
    machine(root, 2, 4, 2)
    slurmd(root, COUNT)
    for _ in range(3):
        found = counted(root)
        assert (found["hardware"]["CPUs"], found["kernel"]["CPUs"], found["ecores"]) == (8, 16, "")
    assert asked(root) == 1
    write(root, hardware.TOPOLOGY[1:], "<topology/>")  # slurmd has started
    assert counted(root)["hardware"]["CPUs"] == 8
    machine(root, 2, 2, 2)
    assert counted(root)["hardware"]["CPUs"] == 8
    slurmd(root, COUNT.replace("CPUs=8", "CPUs=16"))
    assert counted(root)["hardware"]["CPUs"] == 16
    assert asked(root) == 4


@pytest.mark.parametrize(
    ("says", "code"),
    [
        ("", 0),
        ("slurmd: error", 1),
        ("NodeName=n1 CPUs=8", 0),
        (COUNT.replace("CPUs=8", "CPUs=0"), 0),
        ("x=1" * 999, 0),
    ],
)
def test_hardware_when_slurmd_tells_no_count_then_is_that_of_sysfs(root: Path, says: str, code: int) -> None:
    machine(root, 2, 4, 2)
    slurmd(root, says, code)
    assert (counted(root)["hardware"]["CPUs"], counted(root)["kernel"]) == (16, None)


@pytest.mark.parametrize(
    ("parameters", "sockets", "cores", "cpus"),
    [
        ((), 2, 2, 8),
        (("allow_ecores",), 2, 4, 16),
        (("config_overrides",), 2, 4, 16),
        (("l3cache_as_socket", "allow_ecores"), 4, 2, 16),
        (("l3cache_as_socket",), 4, 1, 8),
        (("numa_node_as_socket",), 1, 4, 8),
        (("shutdown_on_reboot",), 2, 2, 8),
    ],
)
def test_hardware_when_parameters_of_slurmd_change_the_count_then_is_counted_with_them(
    root: Path, parameters: tuple[str, ...], sockets: int, cores: int, cpus: int
) -> None:
    machine(root, 2, 4, 2)
    for cpu in range(16):
        write(root, f"sys/devices/system/cpu/cpu{cpu}/cache/index3/shared_cpu_list", f"{cpu % 8 // 2}\n")
    write(root, "sys/devices/system/node/node0/cpulist", "0-15\n")
    write(root, "sys/devices/system/node/node1/cpulist", "\n")  # of memory alone
    slurmd(root, COUNT)
    found = counted(root, *parameters)["hardware"]
    assert (found["SocketsPerBoard"], found["CoresPerSocket"], found["CPUs"]) == (sockets, cores, cpus)


def test_efficiency_cores_are_told_as_the_kernel_numbers_them(root: Path) -> None:
    machine(root, 1, 4, 1)
    write(root, hardware.EFFICIENCY[1:], "2-3\n")
    slurmd(root, COUNT.replace("CPUs=8", "CPUs=2"))
    answer = facts.read({"root": str(root), "slurm_programs": (SLURMD,)})
    found = from_answer("n1", answer, 0)
    assert found.hardware is not None
    assert found.kernel is not None
    assert (found.hardware.CPUs, found.kernel.CPUs, found.ecores) == (2, 4, "2-3")


def test_remains_of_another_installation_are_told_by_the_paths_that_are_there(root: Path) -> None:
    for path in ("usr/local/sbin/slurmd", "usr/local/bin/srun", "usr/local/bin/site-tool", "usr/local/lib/slurm/a.so"):
        write(root, path, "")
    write(root, "usr/local/lib/libslurm.so.42", "")
    write(root, "usr/local/lib/libslurp.so", "")
    write(root, "usr/sbin/slurmctld", "")
    unit = "[Service]\nExecStart={} -D\n"
    write(root, "etc/systemd/system/slurmd.service", unit.format("/usr/local/sbin/slurmd"))
    write(root, "etc/systemd/system/slurmctld.service", unit.format("/usr/sbin/slurmctld"))  # the site's, of packages
    write(root, "etc/systemd/system/slurmdbd.service", unit.format("/usr/sbin/slurmdbd"))  # which is not there
    write(root, "etc/systemd/system/slurmd.service.d/site.conf", "[Service]\nExecStart=/opt/slurmd\n")
    write(root, "etc/systemd/system/cron.service", unit.format("/opt/cron"))
    left = (
        "/usr/local/sbin/slurmd", "/usr/local/bin/srun", "/usr/sbin/slurmctld", "/usr/local/lib/libslurm.so.42",
        "/usr/local/lib/slurm", "/etc/systemd/system/slurmd.service", "/etc/systemd/system/slurmdbd.service",
    )  # fmt: skip
    programs = ("/usr/sbin/slurmctld", "/usr/local/sbin/slurmd")
    assert (
        from_answer("n1", facts.read({"root": str(root), "is_new": True, "slurm_programs": programs}), 0).remains
        == left
    )
    write(root, "var/lib/dpkg/status", "Package: slurmctld\nStatus: install ok installed\nVersion: 24.11.5-4\n\n")
    request = {"root": str(root), "is_new": True, "slurm_programs": programs, "packages": ("slurmctld",)}
    found = from_answer("n1", facts.read(request), 0)
    assert found.packages == {"slurmctld": "24.11.5-4"}
    assert found.remains == tuple(path for path in left if path != "/usr/sbin/slurmctld")


def test_a_command_of_the_sites_own_beside_the_packages_is_no_other_installation(root: Path) -> None:
    write(root, "usr/local/bin/squeue", "#!/bin/sh\nexec /usr/bin/squeue --me\n")
    assert from_answer("n1", facts.read({"root": str(root), "is_new": True}), 0).remains == ()
    write(root, "usr/local/sbin/slurmd", "")
    found = from_answer("n1", facts.read({"root": str(root), "is_new": True}), 0).remains
    assert found == ("/usr/local/sbin/slurmd", "/usr/local/bin/squeue")


V1 = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\ncgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n"
V1 += "cgroup /sys/fs/cgroup/cpuset cgroup rw,cpuset 0 0\ncgroup /sys/fs/cgroup/devices cgroup rw,devices 0 0\n"
V1_SYSTEMD = V1 + "cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0\n"
ALL = ("cpuset", "memory", "devices")


@pytest.mark.parametrize(
    ("mounts", "files", "expected"),
    [
        (V1_SYSTEMD, ["memory/memory.memsw.limit_in_bytes", "cpuset/x", "devices/x"], Cgroup("v1", ALL, True)),
        (V1_SYSTEMD, ["memory/x", "cpuset/x"], Cgroup("v1", ("cpuset", "memory"))),
        (V1 + "cgroup2 /sys/fs/cgroup/systemd cgroup2 rw 0 0\n", ["memory/x", "cpuset/x"], Cgroup("hybrid")),
        (V1, ["memory/x", "cpuset/x", "devices/x"], Cgroup("none")),
        ("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", ["system.slice/memory.swap.max"], Cgroup("v2", ALL, True)),
        ("proc /proc proc rw 0 0\n", [], Cgroup("none")),
    ],
)
def test_control_groups_when_mounted_are_seen_as_slurm_sees_them(
    root: Path, mounts: str, files: list[str], expected: Cgroup
) -> None:
    write(root, "proc/self/mounts", mounts)
    write(root, "sys/fs/cgroup/cgroup.controllers", "cpuset cpu io memory pids\n")
    for file in files:
        write(root, f"sys/fs/cgroup/{file}", "")
    assert from_answer("n1", facts.read({"root": str(root)}), 0).cgroup == expected


def test_control_groups_when_v2_has_no_controllers_are_not_usable(root: Path) -> None:
    write(root, "proc/self/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")
    write(root, "sys/fs/cgroup/cgroup.controllers", "\n")
    assert not Cgroup(**{**cgroups.read(str(root)), "swap": False}).is_usable  # type: ignore[arg-type]


def test_addresses_when_listed_by_the_kernel_are_without_loopback() -> None:
    trie = "Main:\n  |-- 10.0.0.0\n     /24 link UNICAST\n  |-- 10.0.0.7\n     /32 host LOCAL\n"
    trie += "  |-- 127.0.0.1\n     /32 host LOCAL\n"
    assert facts.ipv4_addresses(trie + trie) == ["10.0.0.7"]
    table = "fd000000000000000000000000000002 02 40 00 80 eth0\nfe800000000000000000000000000002 02 40 20 80 eth0\n"
    assert facts.ipv6_addresses(table) == ["fd00::2"]


@pytest.mark.parametrize("flags", ["01", "21", "08", "40", "c0"])
def test_addresses_when_temporary_or_unusable_are_left_out_so_that_tomorrows_plan_is_todays(flags: str) -> None:
    table = (
        f"fd0000000000000000000000000000ab 02 40 00 {flags} eth0\nfd000000000000000000000000000002 02 40 00 80 eth0\n"
    )
    assert facts.ipv6_addresses(table) == ["fd00::2"]


def test_a_boot_when_asked_for_twice_is_the_same_and_names_the_kernels_mark() -> None:
    mark = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert facts.boot() == facts.boot()
    assert facts.boot().startswith(f"{mark} ")


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("etc/systemd/system/slurmd.service.d/site.conf", "[Service]\nRestart=always\n", ["slurmd"]),
        ("etc/systemd/system/munge.service", "[Service]\n Restart = no\n", ["munge"]),
        ("run/systemd/system/slurmdbd.service.d/x.conf", "[Service]\nRestart=no\n", ["slurmdbd"]),
        ("etc/systemd/system/slurmd.service.d/site.conf", "[Service]\n#Restart=always\nRestartSec=1\n", []),
        ("etc/systemd/system/slurmd.service.d/site.conf.old", "[Service]\nRestart=always\n", []),
        ("etc/systemd/system/slurmd.service.d/10-slurmfab.conf", "[Service]\nRestart=on-failure\n", []),
        ("etc/systemd/system/slurmd.service.d/slurmfab-configless.conf", "[Service]\nRestart=on-failure\n", []),
        ("lib/systemd/system/munge.service", "[Service]\nRestart=on-abort\n", []),
    ],
)
def test_the_daemons_that_a_site_has_started_again_itself_are_told(
    root: Path, path: str, text: str, found: list[str]
) -> None:
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text(text)
    assert facts.restarted_by_others(str(root)) == found


def test_members_of_a_group_when_their_names_are_odd_then_each_is_one_printable_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {"phys": ["ann", "x\nphys:x:0:eve", "\u2028", "", "Zed", "y" * 9999]}
    monkeypatch.setattr(facts, "printed", lambda _: json.dumps(told))
    found = facts.members("", ["phys"])["phys"]
    assert found[:3] == ["'\\u2028'", "'x\\nphys:x:0:eve'", "Zed"]
    assert found[3:] == ["ann", "y" * 255]


def test_members_of_groups_when_one_does_not_exist_then_are_those_of_the_others() -> None:
    assert facts.members("", ["root", "no-such-group"]) == {"root": facts.members("", ["root"])["root"]}
    assert facts.members("", []) == {}
