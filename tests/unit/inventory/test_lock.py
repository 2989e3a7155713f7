"""The lock: what is written is read again, and what is no lock is refused with what to do."""

import json

import pytest

from slurmfab.base.errors import InputError
from slurmfab.cluster.facts import Cgroup, Gpu, Hardware
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.lock import HostLock, Lock

FULL = Lock(
    slurm="24.11.5",
    ids={"slurm.uid": 64030, "munge.gid": 405},
    hosts={
        "mn01": HostLock(hostname="mn01", host_keys={"ssh-ed25519": "AAAA"}),
        "gpu01": HostLock(
            hostname="gpu01",
            host_keys={"ssh-ed25519": "BBBB", "ecdsa-sha2-nistp256": "CCCC"},
            hardware=Hardware(
                CPUs=64, Boards=1, SocketsPerBoard=2, CoresPerSocket=16, ThreadsPerCore=2, RealMemory=515000
            ),
            gpus=(Gpu("/dev/nvidia0", "a100"), Gpu("/dev/nvidia1")),
            cgroup=Cgroup("v2", ("cpuset", "memory", "devices"), swap=True),
            public_key="ssh-ed25519 DDDD slurm@gpu01",
            addresses=("10.0.0.7", "fd00::7"),
        ),
    },
    bundles={"cluster.bundle-trixie-amd64.tar": "5" * 64},
)


def test_load_when_there_is_no_file_then_the_lock_is_empty(tmp_path):
    assert locks.load(tmp_path / "cluster.lock.json") == Lock()


def test_save_when_loaded_again_then_nothing_is_lost(tmp_path):
    locks.save(FULL, tmp_path / "lock.json")

    assert locks.load(tmp_path / "lock.json") == FULL


def test_save_when_written_then_people_and_version_control_can_read_it(tmp_path):
    path = tmp_path / "lock.json"

    locks.save(FULL, path)

    text = path.read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_save_when_nothing_changed_then_the_file_is_not_touched(tmp_path):
    path = tmp_path / "lock.json"
    locks.save(FULL, path)
    before = path.stat()

    locks.save(FULL, path)

    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_save_when_the_place_cannot_be_written_then_it_says_so_and_leaves_nothing(tmp_path):
    (tmp_path / "folder").write_text("a file, not a folder")

    with pytest.raises(InputError, match=r"lock\.json cannot be written"):
        locks.save(FULL, tmp_path / "folder" / "lock.json")
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_with_host_when_the_host_is_known_then_its_entry_is_replaced():
    new = locks.with_host(FULL, "mn01", HostLock(hostname="other"))

    assert new.hosts["mn01"] == HostLock(hostname="other")
    assert new.hosts["gpu01"] == FULL.hosts["gpu01"]
    assert FULL.hosts["mn01"].hostname == "mn01"


def test_with_bundles_when_one_is_known_then_its_digest_is_replaced_and_the_others_stay():
    new = locks.with_bundles(FULL, {"b.tar": "6" * 64})

    assert new.bundles == {"cluster.bundle-trixie-amd64.tar": "5" * 64, "b.tar": "6" * 64}
    assert locks.with_bundles(new, {"b.tar": "7" * 64}).bundles["b.tar"] == "7" * 64


def test_without_hosts_when_some_are_unknown_then_the_known_ones_go():
    assert set(locks.without_hosts(FULL, ["mn01", "stranger"]).hosts) == {"gpu01"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("\xff\xfe", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ("{}", 'its "version" is not a version number'),
        ('{"version": true}', 'its "version" is not a version number'),
        ('{"version": 0}', 'its "version" is not a version number'),
        ('{"version": 1, "ids": {"slurm": "64030"}}', "ids.slurm: "),
        ('{"version": 1, "hosts": {"n1": {"hardware": {"CPUs": 1}}}}', "hosts.n1.hardware.Boards: "),
        (
            '{"version": 1, "hosts": {"n1": {"gpus": [{"file": "/dev/nvidia0", "uuid": "x"}]}}}',
            "hosts.n1.gpus.0.uuid: ",
        ),
        ('{"version": 1, "color": "red"}', "color: this key is unknown"),
    ],
)
def test_load_when_the_file_is_damaged_then_it_names_the_file_and_a_way_out(tmp_path, content, reason):
    path = tmp_path / "cluster.lock.json"
    path.write_bytes(content.encode("latin-1"))

    with pytest.raises(InputError) as caught:
        locks.load(path)

    assert f"{path} is damaged: " in str(caught.value)
    assert reason in str(caught.value)
    assert "version control" in str(caught.value)


def test_load_when_a_newer_slurmfab_wrote_it_then_it_says_so(tmp_path):
    (tmp_path / "lock.json").write_text('{"version": 2, "news": 1}')

    with pytest.raises(InputError, match="was written by a newer slurmfab"):
        locks.load(tmp_path / "lock.json")


KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIGx5aW5n"
TAMPERED = {
    "two names": {"hostname": "n1 n2"},
    "a name with a domain": {"hostname": "packages.example.org"},
    "keys for everybody": {"host_keys": {"@cert-authority * ssh-ed25519": KEY}},
    "a key and a line": {"host_keys": {"ssh-ed25519": f"{KEY}\n* ssh-ed25519 {KEY}"}},
    "a GPU and a line": {"gpus": [{"file": "/dev/nvidia0", "cores": "0\nNodeName=n2"}]},
    "too much memory": {
        "hardware": {
            "CPUs": 1,
            "Boards": 1,
            "SocketsPerBoard": 1,
            "CoresPerSocket": 1,
            "ThreadsPerCore": 1,
            "RealMemory": 10**30,
        }
    },
    "a key without restrict": {"public_key": f"ssh-ed25519 {KEY} slurm@n1\nssh-ed25519 {KEY} x"},
    "options before a key": {"public_key": f'command="sh" ssh-ed25519 {KEY} slurm@n1'},
    "a program with arguments": {"mail_program": "/bin/sh -c x"},
    "an address that is a name": {"addresses": ["n1"]},
    "an unknown key": {"evil": 1},
}


@pytest.mark.parametrize("entry", TAMPERED.values(), ids=TAMPERED)
def test_load_when_somebody_tampered_with_a_host_then_the_lock_is_refused(tmp_path, entry):
    path = tmp_path / "cluster.lock.json"
    path.write_text(json.dumps({"version": 1, "hosts": {"n1": entry}}))

    with pytest.raises(InputError, match=rf"is damaged: hosts\.n1\.{next(iter(entry))}"):
        locks.load(path)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"ids": {"slurm.uid": -1}}, r"ids\.slurm\.uid"),
        ({"ids": {"slurm.uid": 1 << 40}}, r"ids\.slurm\.uid"),
        ({"slurm": "24.11\nx"}, "slurm"),
        ({"leaving": ["ann\nbob"]}, r"leaving\.0"),
        ({"bundles": {"b": "x"}}, r"bundles\.b"),
    ],
)
def test_load_when_somebody_tampered_with_the_cluster_then_the_lock_is_refused(tmp_path, values, reason):
    path = tmp_path / "cluster.lock.json"
    path.write_text(json.dumps({"version": 1, **values}))

    with pytest.raises(InputError, match=f"is damaged: {reason}: "):
        locks.load(path)


def test_load_when_the_file_is_nested_deeply_then_it_is_refused(tmp_path):
    path = tmp_path / "cluster.lock.json"
    path.write_text('{"version": 1, "hosts": ' + "[" * 100_000 + "]" * 100_000 + "}")

    with pytest.raises(InputError, match="is damaged: "):
        locks.load(path)


def test_load_when_an_earlier_slurmfab_wrote_it_then_keys_with_other_comments_are_kept(tmp_path):
    path = tmp_path / "cluster.lock.json"
    entry = {"hostname": "n1", "host_keys": {"ssh-dss": KEY}, "public_key": f"ssh-ed25519 {KEY} slurm user of n1"}
    path.write_text(json.dumps({"version": 1, "hosts": {"n1": entry}}))

    assert locks.load(path).hosts["n1"].public_key == entry["public_key"]
