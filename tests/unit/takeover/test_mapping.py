"""What becomes of single things of an old cluster: hosts, slurmdbd, devices, keys that have no place, comments."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import pytest
from found_clusters import BIG, FOUR_CORES, GPUS, SLURMDBD, address, conf, found
from support import prepared

from slurmfab.cluster.facts import Account, Gpu
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.commands.import_cluster import database
from slurmfab.commands.import_cluster.carried import PACKAGED_PLUGSTACK
from slurmfab.commands.import_cluster.draft import old_lines
from slurmfab.commands.import_cluster.first_lock import first_lock
from slurmfab.commands.import_cluster.found import FoundCluster, FoundFile, Takeover
from slurmfab.commands.import_cluster.old_cluster import OldCluster
from slurmfab.commands.import_cluster.refusals import Refused
from slurmfab.commands.import_cluster.survey import survey
from slurmfab.core.impact.hardware_changes import differences
from slurmfab.core.plan.pinned import pin
from slurmfab.core.plan.plan_input import PlanInput

BASE = """\
ClusterName=lab
SlurmctldHost=ctl
SlurmUser=slurm
StateSaveLocation=/srv/slurm/state
NodeName=n[1-2] Sockets=1 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=15000
PartitionName=main Nodes=ALL
"""
DBD = SLURMDBD.format(slurmdbd="/run/slurmdbd/slurmdbd.pid")
WITH_DATABASE = f"{BASE}AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=db\n"


def taken(text: str = BASE, *where_else: Any, **other: Any) -> Takeover:
    """The import of a cluster; the arguments are those of `cluster`."""
    return survey(cluster(text, *where_else, **other))


def cluster(
    text: str = BASE,
    names: tuple[str, ...] = ("ctl", "n1", "n2"),
    files: Mapping[str, tuple[FoundFile, ...]] | None = None,
    **other: Any,
) -> FoundCluster:
    """A found cluster with this slurm.conf on all hosts, and more files on some."""
    texts = {name: (conf("slurm.conf", text), *(files or {}).get(name, ())) for name in names}
    return found(other.pop("slurm", "24.11"), texts, **other)


def parsed(one: Takeover) -> Cluster:
    return loading.parse(one.text, "cluster.yaml")


def plan_of_import(one: Takeover, found: FoundCluster) -> PlanInput:
    """What the first plan after the import is made from."""
    known = parsed(one)
    return PlanInput(known, first_lock(known, OldCluster(found)), found.facts)


def where(one: Takeover, key: str) -> str:
    """Where a key went."""
    return next(entry.where for entry in one.account if entry.key == key)


def about(one: Takeover, words: str) -> list[str]:
    """The remarks with these words."""
    return [remark for remark in one.remarks if words in remark]


def with_database(dbd: str = DBD, **other: Any) -> Takeover:
    return taken(WITH_DATABASE, ("ctl", "db", "n1", "n2"), {"db": (conf("slurmdbd.conf", dbd, 0o600),)}, **other)


def test_two_controllers_share_the_old_state_directory() -> None:
    text = BASE.replace("SlurmctldHost=ctl\n", "SlurmctldHost=ctl(10.0.0.1)\nSlurmctldHost=c2.example.org(10.0.0.2)\n")
    one = parsed(taken(text, ("ctl", "c2", "n1", "n2")))
    assert (one.controllers, one.state_directory) == (("ctl", "c2"), "/srv/slurm/state")
    assert one.addresses["c2"] == "10.0.0.2"


def test_addresses_of_slurm_conf_count_and_ssh_keeps_its_own_way() -> None:
    text = BASE.replace("NodeName=n[1-2]", "NodeName=n[1-2] NodeAddr=192.168.7.[1-2]")
    one = parsed(taken(text))
    assert one.addresses["n1"] == "192.168.7.1"
    assert one.ssh.endpoints["n1"] == address("n1")


@pytest.mark.parametrize("state", ["UNKNOWN", "FUTURE"])
def test_numbers_of_a_node_that_would_end_slurmctld_are_left_out_and_told(state: str) -> None:
    line = f"NodeName=n3 Sockets=256 CoresPerSocket=256 RealMemory=9000 Feature=big State={state}\n"
    one = taken(BASE + line)
    (told,) = about(one, "are not in the cluster file: 256 sockets of 256 cores of 1 threads are 65536 CPUs")
    assert told.startswith("CPUs, sockets, cores and threads of n3 ")
    known = parsed(one)
    settings = known.future_settings["n3"] if state == "FUTURE" else known.settings_of("n3")
    assert settings == {"RealMemory": "9000", "Feature": "big"}
    hardware = first_lock(known, OldCluster(cluster(BASE + line))).hosts.get("n3")
    assert state == "FUTURE" or (hardware and hardware.hardware and hardware.hardware.processors == (1, 1, 1, 1, 1))


def test_a_slurm_conf_that_stands_for_too_much_is_refused_on_the_controller_and_told_of_a_node() -> None:
    much = "".join(f"PartitionName=p{one} Nodes=x{one}n[1-65000]\n" for one in range(100))
    with pytest.raises(Refused, match=r"the lines of its slurm\.conf list more than 262144 nodes, or 1048576 in all"):
        taken(BASE + much)
    liar = {"n2": (conf("slurm.conf", BASE + much),)}
    texts = {name: liar.get(name, (conf("slurm.conf", BASE),)) for name in ("ctl", "n1", "n2")}
    (told,) = about(survey(found("24.11", texts)), "slurm.conf of n2 differs")
    assert "partition p49: removed; and 50 more. A deployment" in told


def test_nodes_with_other_names_than_their_hosts_keep_both() -> None:
    text = BASE.replace("NodeName=n[1-2]", "NodeName=node[1-2] NodeHostName=n[1-2]")
    hosts = {f"node{number}": {"hostname": f"n{number}"} for number in (1, 2)}
    cluster_found = cluster(text, ("ctl", "node1", "node2"), hosts=hosts)
    one = survey(cluster_found)
    lock = first_lock(parsed(one), OldCluster(cluster_found))
    assert parsed(one).compute_nodes == ("node1", "node2")
    assert lock.hosts["node1"].hostname == "n1"
    assert not about(one, "NodeHostname")


def test_a_node_that_tells_the_address_or_name_of_another_then_is_not_taken_for_it() -> None:
    text = BASE.replace("NodeName=n[1-2]", "NodeName=n[1-2] NodeAddr=192.168.7.[1-2]")
    told = {"hostname": "n2", "addresses": ("192.168.7.2", "192.168.7.9")}
    old = OldCluster(cluster(text, hosts={"n1": told}))
    assert [old.host_named(name) for name in ("192.168.7.2", "n2", "192.168.7.9")] == ["n2", "n2", "n1"]


def test_a_node_that_does_not_answer_stays_with_the_values_of_slurm_conf() -> None:
    lost = cluster(names=("ctl", "n1"), unreachable={"n2": "nothing listens at port 22."})
    one = survey(lost)
    lock = first_lock(parsed(one), OldCluster(lost))
    assert lock.hosts["n2"].hardware == dataclasses.replace(lost.facts["n1"].hardware, RealMemory=15000)  # type: ignore[type-var]
    assert lock.hosts["n2"].cgroup == lost.facts["n1"].cgroup
    assert about(one, "n2 did not answer: nothing listens at port 22. It stays in slurm.conf as it is there")


def test_ids_that_differ_between_hosts_are_told() -> None:
    ids = {"accounts": {**prepared("n2").accounts, "munge": Account(451, 451, "/", "/bin/sh")}}
    assert about(taken(hosts={"n2": ids}), "munge has several UIDs: 450 on ctl, n1; 451 on n2.")


def test_a_local_database_keeps_its_settings_and_its_user() -> None:
    one = parsed(with_database(DBD.replace("StorageUser=slurm", "StorageUser=acct")))
    assert one.database
    assert (one.database.host, one.database.settings, one.database.user) == ("db", False, "acct")
    assert one.slurmdbd_conf == {"DebugLevel": "verbose", "PurgeJobAfter": "36months"}


def test_a_database_server_elsewhere_keeps_its_password() -> None:
    one = with_database(DBD.replace("StorageHost=localhost", "StorageHost=10.9.9.9\nStoragePort=3307"))
    database = parsed(one).database
    assert database
    assert (database.external, database.keep_password) == ("10.9.9.9:3307", True)
    assert where(one, "StorageHost") == "database"


def test_a_database_host_by_its_address_is_that_host() -> None:
    text = WITH_DATABASE.replace("AccountingStorageHost=db", f"AccountingStorageHost={address('db')}")
    one = taken(text, ("ctl", "db", "n1", "n2"), {"db": (conf("slurmdbd.conf", DBD, 0o600),)})
    assert parsed(one).database_hosts == ("db",)
    assert about(one, "The first deployment") == []


def test_hosts_that_slurm_conf_names_with_their_domain_keep_it() -> None:
    text = WITH_DATABASE.replace("=ctl", "=ctl.example.org").replace("=db", "=db.example.org")
    one = taken(text, ("ctl", "db", "n1", "n2"), {"db": (conf("slurmdbd.conf", DBD, 0o600),)})
    assert (parsed(one).controllers, parsed(one).database_hosts) == (("ctl",), ("db",))
    assert parsed(one).addresses["db"] == "db.example.org"
    assert parsed(one).ssh.endpoints["db"] == address("db")
    assert about(one, "The first deployment") == []


def test_lines_that_slurmdbd_conf_leaves_out_stay_out() -> None:
    dbd = "DbdHost=db\nStorageType=accounting_storage/mysql\nDbdPort=7031\n"
    text = f"{WITH_DATABASE}AccountingStoragePort=7031\n"
    one = taken(text, ("ctl", "db", "n1", "n2"), {"db": (conf("slurmdbd.conf", dbd, 0o600),)})
    assert parsed(one).slurmdbd_conf == {"DbdPort": "7031", "LogFile": None, "PidFile": None}
    assert where(one, "AccountingStoragePort") == "database, slurmdbd_conf"


@pytest.mark.parametrize(
    ("text", "names", "reason"),
    [
        (WITH_DATABASE, ("ctl", "n1", "n2"), "AccountingStorageHost=db is no host that the import knows"),
        (WITH_DATABASE.replace("=db", "=n1"), ("ctl", "n1", "n2"), "n1, the host of slurmdbd, is a compute node"),
        (WITH_DATABASE, ("ctl", "db", "n1", "n2"), "db has no slurmdbd.conf that could be read"),
        (f"{WITH_DATABASE}AccountingStorageBackupHost=n9\n", ("ctl", "db", "n1", "n2"), "db has no slurmdbd.conf"),
    ],
)
def test_a_slurmdbd_that_cannot_be_managed_stays_in_slurm_conf(text: str, names: tuple[str, ...], reason: str) -> None:
    one = taken(f"{text}PartitionName=q Nodes=ALL QOS=high\n", names)
    assert parsed(one).database is None
    assert parsed(one).slurm_conf["AccountingStorageType"] == "accounting_storage/slurmdbd"
    assert about(one, reason)


def test_users_whom_the_controller_does_not_know_stay_in_slurmdbd_alone() -> None:
    answer = {
        "associations": [["a", "", {}], ["a", "ada", {}], ["a", "left", {}], ["root", "root", {}]],
        "accounts": [["a", "root", "", "", ["ada", "left"]]],
        "partitioned": [["a", "left", "p"]],
    }
    kept, gone = database.of_people(answer, {"ada"})
    assert gone == ("left",)
    assert kept == {
        "associations": [["a", "", {}], ["a", "ada", {}], ["root", "root", {}]],
        "accounts": [["a", "root", "", "", ["ada"]]],
        "partitioned": [],
    }
    assert database.of_people(answer, None) == (answer, ())


def test_accounts_that_a_cluster_file_cannot_have_stay_in_slurmdbd() -> None:
    answer: dict[str, Any] = {
        "clusters": ["lab"], "qos": {}, "levels": {}, "defaults": {}, "partitioned": [],
        "accounts": [["root", "", "", "", []], ["a", "missing", "", "", ["ada"]], ["missing", "gone", "", "", []]],
        "associations": [],
    }  # fmt: skip
    answer["accounts"].append(["b", "root", "", "", ["nobody"]])
    one = with_database(accounts=answer)
    assert "accounts:" not in one.text
    assert about(one, "QOS, accounts and users are not in the cluster file: accounts[0].coordinators")


def test_autodetect_and_devices_that_nobody_discovers_come_from_gres_conf() -> None:
    text = BASE.replace("RealMemory=15000", "RealMemory=15000 Gres=gpu:4") + "GresTypes=gpu\n"
    gpus = {"hardware": BIG, "gpus": GPUS, "gpu_plugins": ("nvml",)}
    files = {
        "n1": (conf("gres.conf", "AutoDetect=nvml\n"),),
        "n2": (conf("gres.conf", "Name=gpu File=/dev/nvidia[0-3],/dev/accel/accel0\n"),),
    }
    one = taken(text, files=files, hosts={"n1": gpus, "n2": gpus})
    assert [group.settings.get("AutoDetect") for group in parsed(one).nodes] == ["nvml", None]
    assert parsed(one).nodes[1].settings["File"] == "/dev/accel/accel0"


def test_gpus_of_a_node_without_gres_stay_unused_and_are_told() -> None:
    one = taken(hosts={"n1": {"hardware": BIG, "gpus": GPUS}})
    assert about(one, "n1: there are GPUs, and slurm.conf gives no Gres, so jobs cannot ask for them.")
    assert about(one, "The first deployment") == []


@pytest.mark.parametrize(
    ("line", "key", "reason"),
    [
        ("FastSchedule=2", "FastSchedule", "Slurm 24.11 refuses 2: it was removed"),
        ("HealthCheckTimeout=5", "HealthCheckTimeout", "Slurm 24.11 does not know this key (added in 26.05)"),
        ("PowerPlugin=power/none", "PowerPlugin", "Slurm 24.11 ignores this key"),
        ("Frobnicate=1", "Frobnicate", "no such key in Slurm 24.11"),
        ("JobCompPass=secret", "JobCompPass", "a password does not come into the cluster file"),
    ],
)
def test_a_key_without_a_place_is_left_out_with_the_reason(line: str, key: str, reason: str) -> None:
    one = taken(f"{BASE}{line}\n")
    assert about(one, f"{key} of slurm.conf is left out: ")
    assert about(one, reason)
    assert where(one, key).startswith(f"left out: {reason.split(': ', maxsplit=1)[0]}")
    assert "secret" not in one.text


@pytest.mark.parametrize(
    "line",
    [
        "JobCompPass=secret",
        "Prolog=/a\nProlog=/b",
        "DownNodes=n2 Reason=broken",
        "FastSchedule=1",
        'AuthInfo="cred_expire=1200","ttl=1500"',
        "NodeName=n[3] NodeAddr=n[3] CPUs=4",
        "PartitionName=first Nodes=n1 Default=YES\nPartitionName=last Nodes=n2 Default=yes",
        "NodeName=n3 CPUs=4 State=DOWN",
        "NodeName=n3 CPUs=4 State=DRAIN",
        "SlurmctldParameters=enable_configless",
        "SlurmctldParameters=cloud_dns,enable_configless",
    ],
)
def test_files_with_a_line_of_other_peoples_habits_stay_and_no_deployment_is_announced(line: str) -> None:
    found = cluster(f"{BASE}{line}\n", names=("ctl", "n1", "n2", "n3"))
    one = survey(found)
    assert plan_of_import(one, found).hand_made["slurm.conf"] == f"{BASE}{line}\n"
    assert about(one, "The first deployment") == []
    assert "secret" not in one.text + "".join(entry.shown for entry in one.account)


@pytest.mark.parametrize("line", ["PropagatePrioProcess=7 SallocDefaultCommand=1", "FastSchedule=2"])
def test_what_cannot_stay_then_is_told_with_the_files_the_daemons_and_the_lines(line: str) -> None:
    found = cluster(f"{BASE}{line}\n", names=("ctl", "n1", "n2", "n3"))
    one = survey(found)
    assert not plan_of_import(one, found).hand_made
    (told,) = about(one, "The first deployment will write slurm.conf, cgroup.conf anew on ctl,n[1-3]")
    assert line.rsplit(maxsplit=1)[-1].partition("=")[0].lower() in told.lower()
    assert "scontrol reconfigure renews slurmctld on ctl and slurmd on n[1-" in told


def test_two_default_partitions_then_the_last_is_the_default_as_slurm_takes_it() -> None:
    one = taken(BASE + "PartitionName=first Nodes=n1 Default=YES\nPartitionName=last Nodes=n2 Default=yes\n")
    assert [one.name for one in parsed(one).partitions if one.settings.get("Default")] == ["last"]
    assert about(one, "Default=YES of first is not in the cluster file: Slurm takes the last, last.")


def test_a_key_that_slurm_ignores_then_stays_with_its_file_and_is_told() -> None:
    files = dict.fromkeys(("ctl", "n1", "n2"), (conf("cgroup.conf", "CgroupAutomount=yes\nConstrainCores=yes\n"),))
    found = cluster(f"{BASE}PowerPlugin=power/none\n", files=files)
    one = survey(found)
    assert about(one, "The first deployment") == []
    assert about(one, "CgroupAutomount of cgroup.conf is left out: Slurm 24.11 ignores this key, so its line may stay")
    assert plan_of_import(one, found).hand_made.keys() == {"slurm.conf", "cgroup.conf"}
    assert "CgroupAutomount: yes" in survey(cluster(files=files, slurm="22.05")).text


def test_files_of_one_node_when_they_say_otherwise_then_are_told_as_the_plan_writes_them() -> None:
    files = {"ctl": "yes", "n1": "yes", "n2": "no"}
    found = cluster(files={name: (conf("cgroup.conf", f"ConstrainCores={word}\n"),) for name, word in files.items()})
    (told,) = about(survey(found), "The first deployment will write cgroup.conf anew on n2,")
    assert "cgroup.conf: ConstrainCores: no -> yes. slurmd on n2 restarts." in told


def test_what_cannot_stay_when_files_are_kept_then_stays_and_is_told() -> None:
    found = cluster(f"{BASE}FastSchedule=2\n", names=("ctl", "n1", "n2", "n3"))
    one = survey(found, keep_files=True)
    assert parsed(one).keep_files
    assert about(one, "The first deployment will write") == []
    (told,) = about(one, "slurm.conf, cgroup.conf stay as they are (keep_files)")
    assert "FastSchedule" in told
    kept = plan_of_import(one, found)
    assert kept.differences == ()
    assert [one.name for one in kept.kept_differences] == ["FastSchedule"]


def test_several_prologs_are_one_line_each_where_slurm_runs_all_and_told_where_it_does_not() -> None:
    text = f"{BASE}Prolog=/a\nProlog=/b\n"
    assert parsed(taken(text)).slurm_conf["Prolog"] == "/a,/b"
    rendered = plan_of_import(taken(text), cluster(text)).rendered["slurm.conf"]
    assert "Prolog=/a\nProlog=/b\n" in rendered
    assert about(taken(text, slurm="22.05"), "Slurm 22.05 runs the program of the last line alone")


def test_keys_are_spelled_as_in_the_manual() -> None:
    assert parsed(taken(f"{BASE}slurmdtimeout=77\n")).slurm_conf["SlurmdTimeout"] == "77"


def test_a_file_that_differs_between_nodes_stays_where_it_is() -> None:
    files = {
        "n1": (conf("acct_gather.conf", "a\n"), conf("sub/deep/file", "x\n")),
        "n2": (conf("acct_gather.conf", "b\n"), conf("jwt_hs256.key", "secret")),
    }
    one = taken(files=files)
    assert one.files == {}
    assert about(one, "/etc/slurm/acct_gather.conf stays where it is: it differs between hosts (n1; n2).")
    assert about(one, "/etc/slurm/sub/deep/file stays where it is: its name is not FILE or DIRECTORY/FILE")


EVIL = conf("plugstack.conf.d/zz-site.conf", "optional /home/shared/evil.so\n")
SCRIPT = conf("prolog.d/zz-evil.sh", "#!/bin/sh\n", 0o755)


@pytest.mark.parametrize("file", [EVIL, SCRIPT], ids=["plugin", "program"])
@pytest.mark.parametrize("silent", [(), ("n1", "n3")], ids=["all answer", "alone"])
def test_a_file_that_one_node_alone_has_stays_there_and_is_told_with_the_way_to_add_it(
    file: FoundFile, silent: tuple[str, ...]
) -> None:
    names = tuple(name for name in ("ctl", "n1", "n2", "n3") if name not in silent)
    one = taken(BASE.replace("n[1-2]", "n[1-3]"), names, {"n2": (file,)})
    name = file.path.removeprefix("/etc/slurm/")
    assert (one.files, one.programs, parsed(one).slurm_files, parsed(one).prolog) == ({}, (), {}, None)
    (told,) = about(one, f"{file.path} stays where it is: it is on n2, and neither on ctl nor on most other hosts.")
    assert f"copy it to slurm_files/{name} beside the cluster file" in told
    assert f"slurm_files: {{{name}: slurm_files/{name}}}" in told


def test_a_file_that_most_nodes_have_alike_comes_along_and_the_mode_and_text_of_one_do_not() -> None:
    names, text = ("ctl", "n1", "n2", "n3"), BASE.replace("n[1-2]", "n[1-3]")
    file, other = conf("acct_gather.conf", "a\n"), conf("acct_gather.conf", "a\n", 0o755)
    one = taken(text, names, {"n1": (other,), "n2": (file,), "n3": (file,)})
    assert (one.files, one.programs) == ({"slurm_files/acct_gather.conf": b"a\n"}, ())
    assert about(one, "/etc/slurm/acct_gather.conf of n1 differs from that of most hosts")
    assert taken(text, names, {"n1": (file,), "n2": (other,)}).files == {}


def test_a_file_of_the_controllers_comes_along_whatever_a_node_has_of_that_name() -> None:
    ours = conf("topology.conf", "SwitchName=s Nodes=n[1-2]\n")
    for theirs in (conf("topology.conf", "x" * 300000), conf("topology.conf", "x", 0o755)):
        one = taken(files={"ctl": (ours,), "n1": (theirs,)})
        assert (one.files, one.programs) == ({"slurm_files/topology.conf": ours.text.encode()}, ())
        assert about(one, "/etc/slurm/topology.conf of n1 differs from that of the controller")
    including = taken(files={"ctl": (ours,), "n1": (conf("x.conf", "Include topology.conf\n"),)})
    assert [*including.files] == ["slurm_files/topology.conf"]


def test_a_file_of_the_controllers_alone_then_is_told_where_it_comes_to_and_what_slurmctld_reads_stays_there() -> None:
    script = conf("job_submit.lua", "return 0\n")
    one = taken(BASE + "JobSubmitPlugins=lua\n", files={"ctl": (script, conf("mpi.conf", "a\n"))})
    assert {*one.files} == {"slurm_files/job_submit.lua", "slurm_files/mpi.conf"}
    assert about(one, "/etc/slurm/mpi.conf comes to n[1-2], too, with a deployment")
    assert about(one, "job_submit.lua") == []


def test_a_job_submit_script_that_nothing_reads_stays_where_it_is() -> None:
    one = taken(files={"ctl": (conf("job_submit.lua", "return 0\n"),)})
    assert one.files == {}
    assert about(one, "JobSubmitPlugins does not name lua")


def test_scripts_that_a_program_of_slurmfab_runs_then_are_those_of_the_cluster_file_again() -> None:
    program = "Prolog=/usr/local/lib/slurmfab/prolog\nPrologEpilogTimeout=300\nJobSubmitPlugins=lua\n"
    files = {
        "ctl": (conf("job_submit.lua", "-- Made by slurmfab from the cluster file\n"),),
        **dict.fromkeys(("n1", "n2"), (conf("prolog.d/10-here", "#!/bin/sh\n", 0o755),)),
    }
    one = taken(f"{BASE}{program}", files=files)
    assert (parsed(one).prolog, parsed(one).slurm_files) == ("slurm_files/prolog.d", {})
    assert not {"Prolog", "PrologEpilogTimeout"} & parsed(one).slurm_conf.keys()
    assert (one.files, one.programs) == (
        {"slurm_files/prolog.d/10-here": b"#!/bin/sh\n"},
        ("slurm_files/prolog.d/10-here",),
    )
    assert about(one, "job_submit.lua") == []
    own = taken(f"{BASE}Prolog=/etc/slurm/prolog.d/*\n", files=files)
    assert (parsed(own).prolog, parsed(own).slurm_conf["Prolog"]) == (None, "/etc/slurm/prolog.d/*")
    assert parsed(own).slurm_files == {"prolog.d/10-here": "slurm_files/prolog.d/10-here"}


@pytest.mark.parametrize("name", ["../x", "a/../../x", ".hidden", "a\nb", "a//b", "-x", "\x1b[2J"])
def test_a_file_with_an_odd_name_stays_where_it_is_and_is_told_on_one_line(name: str) -> None:
    one = taken(files={"ctl": (conf(name, "x\n"),)})
    assert one.files == {}
    assert [remark.isprintable() for remark in about(one, "stays where it is: its name is not FILE")] == [True]


def test_the_plugstack_conf_of_the_package_does_not_come_along() -> None:
    inside = "include /etc/slurm/plugstack.conf.d/*.conf\n"
    assert taken(files={"ctl": (conf("plugstack.conf", inside),)}).files == {}
    other = taken(files={"ctl": (conf("plugstack.conf", f"{inside}required /opt/x.so\n"),)})
    assert list(other.files) == ["slurm_files/plugstack.conf"]
    of_node = {"ctl": (conf("plugstack.conf", inside),), "n1": (conf("plugstack.conf", "required /home/x.so\n"),)}
    assert taken(files=of_node).files == {}
    assert about(taken(files=of_node), "/etc/slurm/plugstack.conf of n1 differs from that of the controller; it stays")


def test_more_files_than_a_cluster_file_can_have_stay_where_they_are() -> None:
    one = taken(files={"ctl": tuple(conf(f"site.d/{number:03}", "x\n") for number in range(66))})
    assert len(one.files) == 64
    assert len(about(one, "at most 64 files of 1024 KiB together come along")) == 2


def test_nodes_that_fetch_their_files_beside_nodes_with_their_own_are_told() -> None:
    one = taken(f"{BASE}SlurmctldParameters=enable_configless\n", configless=("n1",))
    assert not parsed(one).configless
    assert about(one, "n1 fetch their files from slurmctld (configless), unlike most nodes")
    assert about(one, "The first deployment") == []
    assert where(one, "SlurmctldParameters") == "left out: the cluster file has no place for it"


def test_a_directory_of_links_is_told() -> None:
    linked = FoundFile("/etc/slurm/slurm.conf", BASE, link="/shared/slurm/slurm.conf")
    one = survey(found("24.11", dict.fromkeys(("ctl", "n1", "n2"), (linked,))))
    assert about(one, "/etc/slurm/slurm.conf is a link to /shared/slurm/slurm.conf.")
    assert parsed(one).slurm_conf_directory is None


@pytest.mark.parametrize(
    ("marks", "own", "wanted"),
    [
        (("7 1", "7 1", "7 1"), (FoundFile("/etc/slurm/plugstack.conf", PACKAGED_PLUGSTACK),), "/shared/slurm"),
        (("7 1", "7 1", "7 2"), (), None),
        (("", "", ""), (), None),
        (("7 1", "7 1", "7 1"), (FoundFile("/etc/slurm/cgroup.conf", ""),), None),
    ],
    ids=["one file", "a copy", "unknown", "a file of the host's own"],
)
def test_a_directory_when_all_hosts_read_one_slurm_conf_there_then_is_in_the_cluster_file(
    marks: tuple[str, ...], own: tuple[FoundFile, ...], wanted: str | None
) -> None:
    linked = FoundFile("/etc/slurm/slurm.conf", BASE, link="/shared/slurm/slurm.conf")
    old = found("24.11", dict.fromkeys(("ctl", "n1", "n2"), (linked, *own)))
    hosts = {
        name: dataclasses.replace(files, mark=mark)
        for (name, files), mark in zip(old.hosts.items(), marks, strict=True)
    }
    one = survey(dataclasses.replace(old, hosts=hosts))
    assert parsed(one).slurm_conf_directory == wanted
    assert bool(about(one, "/etc/slurm/slurm.conf is a link")) == (wanted is None)


@pytest.mark.parametrize("directory", ["/srv", "/home/slurm", "/shared/state/etc", "/shared", "/sha red"])
def test_a_shared_directory_when_a_cluster_file_may_not_name_it_then_is_left_out(directory: str) -> None:
    text = f"{BASE}StateSaveLocation=/shared/state\n"
    linked = FoundFile("/etc/slurm/slurm.conf", text, link=f"{directory}/slurm.conf")
    old = found("24.11", dict.fromkeys(("ctl", "n1", "n2"), (linked,)))
    hosts = {name: dataclasses.replace(files, mark="7 1") for name, files in old.hosts.items()}
    assert parsed(survey(dataclasses.replace(old, hosts=hosts))).slurm_conf_directory is None


def test_comments_that_stand_above_a_line_are_its_own() -> None:
    text = (
        "# file of the site\n\n# why\n#   and how ---\n#OldKey=3\n#######\nKillWait=60 # since 2020\n\n"
        "# switched\n#Off=1\n\nMinJobAge=7\n# above\nA=1 \\\n  B=2\n"
    )
    assert [(line.kind, line.comments) for line in old_lines(text)] == [
        ("killwait", ("why", "and how", "since 2020")),
        ("minjobage", ()),
        ("a", ("above",)),
    ]


def test_comments_above_lines_that_need_no_key_are_kept_together() -> None:
    text = f"{BASE}# SCHEDULING\n# ask the board first\nSelectType=select/cons_tres\n# long\nKillWait=60\n"
    text = text.replace("NodeName=", "# bought in 2020\nNodeName=DEFAULT Weight=5\n# rack 1\nNodeName=")
    one = taken(text)
    assert "  # long\n  KillWait: 60\n" in one.text
    assert "lines that need no key here:\n  #   SelectType: ask the board first\n" in one.text
    assert "  # bought in 2020\n  # rack 1\n  - hosts: n[1-2]\n" in one.text


def test_a_cluster_with_slurmfabs_own_partition_keeps_it() -> None:
    own = "PartitionName=slurmfab Nodes=ALL Hidden=YES AllowGroups=root PriorityTier=0 PriorityJobFactor=0"
    one = taken(f"{BASE}{own} PreemptMode=OFF MaxTime=60\n")
    assert "own_partition" not in one.text
    assert about(one, "The first deployment") == []
    assert "slurmfab" not in [partition.name for partition in parsed(one).partitions]


GPU_LINE = "NodeName=n3 NodeHostName=n3 CPUs=4 RealMemory=8000 Gres={}\nGresTypes=gpu,mps,shard\n"


@pytest.mark.parametrize(
    ("gres", "gres_conf"),
    [
        ("gpu:2", "NodeName=n3 Name=gpu File=/dev/nvidia[0-1]\n"),
        ("gpu:a100:2", "NodeName=n3 Name=gpu Type=a100 File=/dev/nvidia[0-1]\n"),
        (
            "gpu:a100:2,mps:200",
            "NodeName=n3 Name=gpu Type=a100 File=/dev/nvidia[0-1]\nNodeName=n3 Name=mps Count=200\n",
        ),
    ],
)
def test_a_dead_node_with_gpus_keeps_its_lines_and_plan_and_lock_know_that_it_was_never_seen(
    gres: str, gres_conf: str
) -> None:
    texts = {"ctl": (conf("gres.conf", gres_conf),)}
    found = cluster(f"{BASE}{GPU_LINE.format(gres)}", files=texts, unreachable={"n3": "no route to host"})
    one = survey(found)
    plan = plan_of_import(one, found)
    assert about(one, "The first deployment") == []
    assert plan.hand_made.keys() >= {"slurm.conf", "gres.conf"}
    assert (plan.lock.hosts["n3"].never_seen, len(plan.lock.hosts["n3"].gpus)) == (True, 2)
    assert not plan.lock.hosts["n1"].never_seen


@pytest.mark.parametrize(
    ("memory", "gpus", "never_seen"), [(16000, GPUS[:2], False), (4000, GPUS[:2], True), (16000, GPUS[:1], True)]
)
def test_a_node_that_comes_back_is_compared_with_its_line_and_is_seen_when_it_has_that(
    memory: int, gpus: tuple[Gpu, ...], never_seen: bool
) -> None:
    text = f"{BASE}{GPU_LINE.format('gpu:2')}"
    texts = {"ctl": (conf("gres.conf", "NodeName=n3 Name=gpu File=/dev/nvidia[0-1]\n"),)}
    found = cluster(text, files=texts, unreachable={"n3": "no route to host"})
    known = parsed(survey(found))
    lock = first_lock(known, OldCluster(found))
    there = dataclasses.replace(FOUR_CORES, RealMemory=memory)
    texts["n3"] = texts["ctl"]
    back = cluster(text, ("ctl", "n1", "n2", "n3"), texts, hosts={"n3": {"hardware": there, "gpus": gpus}})
    after = pin(known, lock, back.facts)
    assert after.hosts["n3"].never_seen is never_seen
    assert PlanInput(known, after, back.facts).differences == ()
    changes = differences(after.hosts["n3"], there, gpus, known.memory_margin)
    assert bool(changes) is never_seen


@pytest.mark.parametrize("gres", ["gpu:a100:2,mps:200", "gpu:a100:2,shard:8", "gpu:2,shard:8"])
def test_shares_of_gpus_without_a_type_stay_as_slurm_has_them(gres: str) -> None:
    text = f"{BASE}{GPU_LINE.format(gres)}"
    gpus = tuple(dataclasses.replace(gpu, type="a100") for gpu in GPUS[:2])
    found = cluster(text, names=("ctl", "n1", "n2", "n3"), hosts={"n3": {"hardware": FOUR_CORES, "gpus": gpus}})
    plan = plan_of_import(survey(found), found)
    assert plan.hand_made["slurm.conf"] == text
    assert f"Gres={gres}" in plan.rendered["slurm.conf"]


def test_gpus_without_gres_are_accepted_as_they_are_and_no_difference_is_left() -> None:
    found = cluster(hosts={"n1": {"hardware": BIG, "gpus": GPUS}})
    one = survey(found)
    plan = plan_of_import(one, found)
    assert parsed(one).nodes[0].settings["Gres"] == "none"
    assert "gpu" not in plan.rendered["slurm.conf"] + plan.rendered.get("gres.conf", "")
    assert differences(plan.host("n1"), BIG, GPUS, "3%") == []
    assert plan.hand_made["slurm.conf"] == BASE


def test_nodes_that_are_not_there_yet_stay_so_and_are_not_asked() -> None:
    line = "NodeName=n[7-9] NodeAddr=10.9.0.[7-9] CPUs=64 Feature=new State=FUTURE"
    text = f"{BASE}{line}\nPartitionName=later Nodes=n[2,7-9]\n"
    one = taken(text)
    cluster = parsed(one)
    assert cluster.hosts == ("ctl", "n1", "n2")
    (group,) = cluster.future_nodes
    assert (group.hosts, dict(group.settings)) == (("n7", "n8", "n9"), {"CPUs": "64", "Feature": "new"})
    assert cluster.partitions[1].nodes == ("n2", "n7", "n8", "n9")
