"""Files that are broken, by accident or on purpose: each is read or refused, in one line and in little time.

Sound files are mutated by hypothesis, with a fixed seed; the files that once ended in a traceback, or never, are named.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import saved_archives
import saved_bundles
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from saved_archives import compressed_tar

from slurmfab.base import bounded_file, strict_json
from slurmfab.base.errors import BrokenFile, InputError, SlurmfabError
from slurmfab.base.json_output import as_json
from slurmfab.cluster.facts import Gpu, Hardware
from slurmfab.cluster.inventory import loading, yaml_nodes
from slurmfab.cluster.inventory import lock as locks
from slurmfab.cluster.inventory.lock import HostLock, Lock
from slurmfab.commands.backup import archive as backups
from slurmfab.commands.backup import restoring
from slurmfab.commands.bundle import archive as bundles
from slurmfab.commands.history import listing
from slurmfab.commands.history.rollback import undoing
from slurmfab.core.engine import record, retry, saved_plan
from slurmfab.core.engine.report import Step
from slurmfab.core.engine.saved_plan import Difference, Files, SavedPlan
from slurmfab.on_hosts.agent.backup import archive as parts
from slurmfab.on_hosts.agent.backup.restored_state import members
from slurmfab.on_hosts.agent.core.resource import Change, Outcome, ResourceFailed
from slurmfab.on_hosts.agent.packages.bundle_place import INDEX
from slurmfab.on_hosts.programs.gpu_check import history
from slurmfab.on_hosts.programs.gpu_check.main import format_entry

SECONDS = 5.0
"""Processor time of one refusal; each takes far less, and those that never ended took minutes."""

MOST_LINE, MOST_LINES = 700, 201

CLUSTER = """\
cluster: lab
ssh: {user: admin, port: 2222}
addresses:
  n[1-4]: 10.0.0.[1-4]
controllers: [c1, c2]
state_directory: /shared/state
database: c1
nodes:
  - &gpus {hosts: "n[1-2]", Gres: "gpu:a100:4", RealMemory: 500000}
  - hosts: n[3-4]
    Features: "big,fast"
partitions:
  - {PartitionName: gpu, Nodes: "n[1-2]", Default: yes, MaxTime: 7-00:00:00}
  - PartitionName: all
    Nodes: ALL
slurm_conf:
  SlurmdTimeout: 300
qos: [{name: high, Priority: 10}]
accounts: [{name: physics, MaxJobs: 5}]
users:
  - {name: ann, accounts: [physics], uid: 2000}
ids: {slurm: 64030}
"""
HARDWARE = Hardware(CPUs=64, Boards=1, SocketsPerBoard=2, CoresPerSocket=16, ThreadsPerCore=2, RealMemory=515000)
LOCK = Lock(
    slurm="24.11.5",
    ids={"slurm.uid": 64030},
    hosts={"n1": HostLock(hostname="n1", host_keys={"ssh-ed25519": "AAAA"}, hardware=HARDWARE, gpus=(Gpu("/dev/a"),))},
)
OUTCOME = Outcome("file:/etc/slurm/slurm.conf", "changed", (Change("mode", "0600", "0644"),), seconds=1.5)
PLAN = SavedPlan(
    slurmfab="1", saved="2026-01-02T12:00:00+00:00", by="ann@laptop", cluster="lab", cluster_file="/c.yaml",
    files=Files("aa", "bb"), hosts="c1,n[1-2]", move_ids=False, digest_key="k", lost={"n2": "it is off."},
    differences=(Difference("users", "n[1-2]", (OUTCOME,)),),
)  # fmt: skip
STEP = {"phase": "users", "host": "n1", "outcomes": [{"id": "user:slurm", "status": "changed", "changes": []}],
        "seconds": 0.5}  # fmt: skip
RECORD = {
    "run": "20260102T120005.123456Z-deploy", "state": "finished", "slurmfab": "1", "by": "ann@laptop", "pid": 7,
    "begun": "2026-01-02T12:00:05+00:00", "ended": "2026-01-02T12:01:05+00:00", "error": "", "undoes": "",
    "command": "deploy", "cluster": "lab", "hosts": ["c1", "n1"], "exit_code": 0, "seconds": 5.0, "lost": {"n2": "off"},
    "steps": [STEP], "cluster_file": CLUSTER, "lock": json.loads(locks.text_of(LOCK)),
}  # fmt: skip

ODD = (
    b"[" * 3000, b'{"a":' * 3000, b"[" * 150 + b"]" * 150, b'"\\ud800"', b"Infinity", b"-Infinity", b"NaN", b"1e999",
    b"9" * 5000, b"-1", b"0.5", b"null", b"true", b"[]", b"{}", b'""', b"[[]]", b'{"a": {}}', b"\x00", b"\xff", b"\xc3",
    b"&a ", b"*a", b"*gpus", b"<<: ", b"\t", b"\r", b"# ", b"- ", b"? ", b": ", b"!!python/none ", b"|\n",
    b"%YAML 1.1\n", b"---\n", b"'", b'"', b",", b"n[1-65000]", b"n[1-", b"x" * 3000, b"\xe2\x80\xa8", b"\\u001b[2J",
    b"yes", b"18446744073709551616",
)  # fmt: skip
"""What is put into a sound file, or in the place of a part of it."""


def bounded(examples: int) -> Callable[[Any], Any]:
    """So many mutations, always the same, each with time for a slow machine."""
    return settings(
        max_examples=examples, derandomize=True, database=None, deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )  # fmt: skip


@st.composite
def mutated(draw: st.DrawFn, sound: bytes) -> bytes:
    """A sound file after one to three mutations: parts are replaced, cut out or doubled, or a bit is another."""
    data = sound
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.sampled_from((0, 1, 2, 5, 20, 100, 1000))))
        kind = draw(st.sampled_from(("odd", "odd", "odd", "cut", "double", "bit", "end")))
        if kind == "odd":
            data = data[:start] + draw(st.sampled_from(ODD)) + data[end:]
        elif kind == "cut":
            data = data[:start] + data[end:]
        elif kind == "double":
            data = data[:end] + data[start:end] + data[end:]
        elif kind == "bit" and start < len(data):
            data = data[:start] + bytes([data[start] ^ (1 << draw(st.integers(0, 7)))]) + data[start + 1 :]
        elif kind == "end":
            data = data[:start]
    return data


def places(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all values within JSON values."""
    inner = values.items() if isinstance(values, dict) else enumerate(values) if isinstance(values, list) else ()
    for key, value in inner:
        yield (*path, key)
        yield from places(value, (*path, key))


@st.composite
def with_another_value(draw: st.DrawFn, sound: Any) -> bytes:
    """JSON of sound values with one or two odd ones among them, or without one."""
    values = json.loads(json.dumps(sound))
    for _ in range(draw(st.integers(1, 2))):
        *path, last = draw(st.sampled_from(sorted(places(values), key=repr)))
        around = values
        for key in path:
            around = around[key]
        if draw(st.booleans()):
            around[last] = "ODD"
        else:
            del around[last]
    return json.dumps(values, indent=1).encode().replace(b'"ODD"', draw(st.sampled_from(ODD)))


def broken_json(sound: Any) -> st.SearchStrategy[bytes]:
    """Mutations of a sound JSON file, of its bytes and of its values."""
    return mutated(json.dumps(sound, indent=1).encode()) | with_another_value(sound)


def told(where: str, work: Callable[[], object]) -> str:
    """What is said of a broken file; empty if it is read. It names the file, is short, and comes soon."""
    begun = time.process_time()
    try:
        work()
    except InputError as error:
        said = str(error)
        assert where in said.splitlines()[0]
        assert len(said.splitlines()) <= MOST_LINES
        assert max(map(len, said.splitlines())) <= MOST_LINE + len(where)
        return said
    finally:
        assert time.process_time() - begun < SECONDS
    return ""


def read_cluster(data: bytes) -> object:
    return loading.parse(loading.text_of(data, "c.yaml"), "c.yaml")


@bounded(400)
@given(mutated(CLUSTER.encode()))
def test_a_cluster_file_when_mutated_then_is_read_or_refused(data: bytes) -> None:
    told("c.yaml", lambda: read_cluster(data))


@bounded(400)
@given(broken_json(locks.values_of(LOCK)))
def test_a_lock_when_mutated_then_is_read_or_refused(data: bytes) -> None:
    told("c.lock.json", lambda: locks.parse(data, Path("c.lock.json")))


@pytest.fixture(scope="module")
def plan_values(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The JSON values of a sound plan."""
    path = tmp_path_factory.mktemp("plan") / "plan.json"
    saved_plan.save(PLAN, path)
    assert saved_plan.load(path).shown
    return json.loads(path.read_bytes())


@bounded(300)
@given(data=st.data())
def test_a_saved_plan_when_mutated_then_is_read_or_refused(plan_values: Any, tmp_path: Path, data: Any) -> None:
    path = tmp_path / "plan.json"
    path.write_bytes(data.draw(broken_json(plan_values)))
    told("plan.json", lambda: saved_plan.load(path).shown)


def use_records(cluster_file: Path) -> tuple[tuple[record.Record, ...], tuple[str, ...]]:
    """Do with the records of a cluster what `history`, `rollback` and `--retry-failed` do."""
    records, complaints = record.load_all(cluster_file)
    listing.overview(records, cluster_file)
    for one in records:
        listing.text(one)
        json.dumps(as_json(listing.RecordedRun(one)), allow_nan=False)
        try:
            undoing.target_before(records, one)
        except SlurmfabError:
            continue
    retry.failed_before(records, ("c1", "n1"))
    return records, complaints


@bounded(300)
@given(data=broken_json(RECORD))
def test_a_record_when_mutated_then_is_read_or_named_and_the_others_are_read(tmp_path: Path, data: bytes) -> None:
    runs = tmp_path / "lab.runs"
    runs.mkdir(exist_ok=True)
    for day in (1, 3):
        (runs / f"2026010{day}T120005.123456Z-deploy.json").write_text(json.dumps(RECORD))
    (runs / "20260102T120005.123456Z-deploy.json").write_bytes(data)
    records, complaints = use_records(tmp_path / "lab.yaml")
    assert len(records) + len(complaints) == 3
    assert len(records) >= 2
    for complaint in complaints:
        assert (
            "20260102T120005.123456Z-deploy.json: this file is not the record of a run and was ignored: " in complaint
        )
        assert len(complaint) < MOST_LINE


def use_backup(path: Path) -> None:
    """Do with a backup what `restore` does before it asks a host."""
    backup = backups.verified(path)
    backups.description(backup)
    for name, read in ((parts.CLUSTER_FILE, restoring.cluster_text), (parts.LOCK, restoring.lock_from)):
        if name in backup.parts:
            read(backup)


@bounded(250)
@given(data=st.data())
def test_a_backup_when_mutated_then_is_read_or_refused(tmp_path: Path, data: Any) -> None:
    sound = archive_of(tmp_path)
    path = tmp_path / "broken.tar"
    path.write_bytes(data.draw(mutated(sound)))
    told("broken.tar", lambda: use_backup(path))


@bounded(250)
@given(data=st.data())
def test_a_backup_when_values_of_its_manifest_are_odd_then_is_read_or_refused(tmp_path: Path, data: Any) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive_of(tmp_path))) as tar:
        manifest = tar.extractfile(parts.MANIFEST)
        assert manifest is not None
        values = json.loads(manifest.read())
    path = with_members(
        tmp_path / "broken.tar", {**saved_archives.PARTS, parts.MANIFEST: data.draw(broken_json(values))}
    )
    told("broken.tar", lambda: use_backup(path))


@bounded(150)
@given(data=st.data())
def test_a_bundle_when_mutated_then_is_read_or_refused(tmp_path: Path, data: Any) -> None:
    kept = tmp_path / "bundle.tar"
    sound = kept.read_bytes() if kept.exists() else saved_bundles.saved(tmp_path).read_bytes()
    path = tmp_path / "broken.tar"
    path.write_bytes(data.draw(mutated(sound)))
    told("broken.tar", lambda: (bundles.description(bundle := bundles.verified(path)), bundle.index))


@bounded(200)
@given(broken_json({"run": "r1", "time": "t", "nodes": ["n1"], "outcome": "passed", "busbw": 1.5, "wanted": 1.0}))
def test_a_line_of_gpu_measurements_when_mutated_then_is_told_or_left_out(line: bytes) -> None:
    entry = history.parse(line.replace(b"\n", b""))
    if entry is not None and entry.get("nodes"):
        assert format_entry(entry)


def archive_of(directory: Path) -> bytes:
    """A sound backup."""
    path = directory / "lab-20261121T143200Z.tar"
    return (path if path.exists() else saved_archives.archive(directory)).read_bytes()


def with_members(path: Path, members: dict[str, bytes], *more: tarfile.TarInfo) -> Path:
    """A tar of these members, and of others without content."""
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
        for info in more:
            tar.addfile(info)
    return path


SMALL = "cluster: x\ncontrollers: c1\nnodes:\n  - hosts: n[01-04]\n"


def accounts_below(name: str, count: int) -> str:
    """A cluster file in which each of so many accounts is below the next one."""
    lines = (f"  - {{name: {name.format(number)}, parent: {name.format(number + 1)}}}\n" for number in range(count))
    return f"{SMALL}database: c1\naccounts:\n{''.join(lines)}"


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (SMALL + "partitions:\n  gpu: ALL\n", "c.yaml:5: partitions: it must be a list"),
        (SMALL + "partitions: gpu\n", "c.yaml:5: partitions: it must be a list"),
        (SMALL + "ids: " + "[" * 20_000 + "\n", "c.yaml:5: it is nested more than 64 levels deep"),
        (SMALL + "ids: # \t\n  " + "[" * 20_000, "c.yaml:6: it is nested more than 64 levels deep"),
        (SMALL + "ids: " + "{a: " * 20_000 + "\n", "c.yaml:5: it is nested more than 64 levels deep"),
        (SMALL + "ids:\n  " + "- " * 20_000 + "\n", "c.yaml:6: it is nested more than 64 levels deep"),
        (SMALL + 'ids: {"\\ud800": 1}\n', "c.yaml:5: this is not valid YAML"),
        (BOMB + SMALL, "c.yaml:6: its aliases stand for more than 250000 values"),
        (SMALL + '? "' + "a" * 900_000 + '"\n: 1\n', "c.yaml:5: aaaa"),
        (SMALL + "".join(f'? "{number}{"a" * 9000}"\n: 1\n' for number in range(300)), "c.yaml:5: 0aaaa"),
        (SMALL.replace("04]", "04]" + "9" * 5000), "c.yaml:4: a number of more than 1000 digits"),
        (SMALL.replace("04]", "04]" + "x" * 5000), "is too long: it has more than 512 characters"),
        (SMALL + "login: [" + "n1, " * 40_000 + "n1]\n", "c.yaml:5: login: "),
        (SMALL + "# \t\n" + "a: 1\n" * 200_000, "c.yaml:5: a tab; a file of more than 512 KiB has none"),
        (accounts_below("a{}", 4000), 'accounts[3999].parent: "a4000" is not a known account'),
        (accounts_below("a{}", 4000).replace("a4000}", "a0}"), "the accounts form a loop: a0 below a1"),
        ("\xff", "c.yaml:1: this is not UTF-8 text"),
    ],
    ids=range(17),
)
def test_a_cluster_file_when_it_once_ended_in_a_traceback_or_never_then_is_refused_with_its_line(
    text: str, words: str
) -> None:
    said = told("c.yaml", lambda: read_cluster(text.encode("latin-1" if text == "\xff" else "utf-8")))
    assert words in said


def test_a_cluster_file_when_read_without_libyaml_then_is_refused_as_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_nodes, "_LOADER", yaml_nodes._STRICT_ABOUT_TABS)
    for text in (BOMB + SMALL, SMALL + "ids: " + "[" * 20_000):
        assert told("c.yaml", lambda text=text: read_cluster(text.encode()))


DEEP = b"[" * 20_000 + b"]" * 20_000
NO_JSON = {
    "deep": (DEEP, "it is not JSON (recursion limit exceeded), in line 1"),
    "deep objects": (b'{"hosts":' * 20_000, "it is not JSON (recursion limit exceeded), in line 1"),
    "half a character": (b'{"a":\n "\\ud800"}', "it is not JSON (unexpected end of hex escape), in line 2"),
    "infinity": (b'{"a": 1,\n\n "b": Infinity}', "it is not JSON (expected value), in line 3"),
    "too large a number": (b'{"a": 1e999}', "it is not JSON (a number is out of range)"),
    "five thousand digits": (b'{"a": ' + b"9" * 5000 + b"}", "it is not JSON (number out of range), in line 1"),
    "not UTF-8": (b'{"a":\n"\xff"}', "it is not JSON (invalid unicode code point), in line 2"),
    "a key twice": (b'{"a": {"b": 1,\n"c": 2,\n"b": 3}}', "a.b: this key is there twice, in line 3"),
    "a byte order mark": (b"\xef\xbb\xbf{}", "it is not JSON (expected value), in line 1"),
    "nothing": (b"", "it is not JSON (EOF while parsing a value), in line 1"),
}


@pytest.mark.parametrize(("data", "reason"), NO_JSON.values(), ids=NO_JSON)
def test_json_when_it_is_none_then_file_reason_and_line_are_told(data: bytes, reason: str) -> None:
    with pytest.raises(BrokenFile) as refused:
        strict_json.parse(data, "x.json")
    assert str(refused.value) == f"x.json: {reason}."


@pytest.mark.parametrize(("data", "reason"), NO_JSON.values(), ids=NO_JSON)
def test_each_file_of_json_when_it_is_none_then_is_refused_by_the_same_reader(
    tmp_path: Path, data: bytes, reason: str
) -> None:
    path = tmp_path / "lab.json"
    path.write_bytes(data)
    assert reason in told("lab.json", lambda: saved_plan.load(path))
    archive = with_members(tmp_path / "lab.tar", {parts.MANIFEST: data})
    assert f"its {parts.MANIFEST} is damaged: {reason}" in told("lab.tar", lambda: backups.verified(archive))
    assert told("lab.lock.json", lambda: locks.parse(data, Path("lab.lock.json"))).startswith(
        "lab.lock.json is damaged"
    )


def test_a_lock_when_a_value_is_wrong_then_its_key_and_line_are_told() -> None:
    text = locks.text_of(LOCK).replace('"hostname": "n1"', '"hostname": "n1 n2"')
    line = next(number for number, line in enumerate(text.splitlines(), 1) if "n1 n2" in line)
    said = told("c.lock.json", lambda: locks.parse(text.encode(), Path("c.lock.json")))
    assert said.startswith("c.lock.json is damaged: hosts.n1.hostname")
    assert f", in line {line}." in said


@pytest.mark.parametrize(
    "data", [DEEP, b"[]", b'{"state": []}', b'"\\ud800"', b"\xff", json.dumps({**RECORD, "lost": []}).encode(),
             json.dumps({**RECORD, "begun": "yesterday"}).encode(), json.dumps({**RECORD, "steps": [7]}).encode(),
             json.dumps({**RECORD, "steps": [{**STEP, "seconds": float("inf")}]}).encode()],
    ids=range(9),
)  # fmt: skip
def test_a_bad_file_among_the_records_when_there_is_one_then_it_is_named_and_the_others_are_used(
    tmp_path: Path, data: bytes
) -> None:
    runs = tmp_path / "lab.runs"
    runs.mkdir()
    (runs / "20260101T120005.123456Z-deploy.json").write_text(json.dumps(RECORD))
    (runs / "20260102T120005.123456Z-deploy.json").write_bytes(data)
    os.mkfifo(runs / "20260103T120005.123456Z-deploy.json")
    (runs / "20260104T120005.123456Z-deploy.json").mkdir()
    (runs / "notes.json").write_text(json.dumps(RECORD))
    records, complaints = use_records(tmp_path / "lab.yaml")
    assert [one.run for one in records] == ["20260101T120005.123456Z-deploy"]
    assert [complaint.partition(": ")[0].rpartition("/")[2][:8] for complaint in complaints] == [
        "20260102", "20260103", "20260104", "notes.js",
    ]  # fmt: skip


def test_a_file_when_it_is_larger_than_its_bound_or_a_device_then_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BrokenFile, match=r"x: it has more than 16 MiB\.$"):
        bounded_file.read(path, 16 << 20)
    assert "it has more than 64 MiB" in told("x", lambda: locks.load(path))
    with pytest.raises(BrokenFile, match="it is not a regular file"):
        bounded_file.read(Path("/dev/zero"), 16 << 20)


def sized(name: str, size: int, kind: bytes = tarfile.REGTYPE, **headers: str) -> bytes:
    """A tar header that announces so many bytes."""
    info = tarfile.TarInfo(name)
    info.size, info.type, info.pax_headers = size, kind, headers
    return info.tobuf(tarfile.PAX_FORMAT if headers else tarfile.GNU_FORMAT)


HOSTILE = {
    "a member of 1 TiB": (sized(parts.STATE, 1 << 40), "state.tar.gz in it has 1.0 TiB, more than 64.0 GiB"),
    "a sparse member of 1 TiB": (sized(parts.STATE, 1 << 40, tarfile.GNUTYPE_SPARSE), "is not like those of a backup"),
    "a member that is sparse by its header": (
        sized(parts.STATE, 512, **{"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "1" * 12}),
        "a file in it is sparse",
    ),
    "a negative size": (sized(parts.STATE, -512), "is not like those of a backup"),
    "a manifest of 1 GiB": (sized(parts.MANIFEST, 1 << 30), "manifest.json in it has 1.0 GiB, more than 16 MiB"),
    "a key of 1 GiB": (sized(parts.KEY, 1 << 30), "munge.key in it has 1.0 GiB, more than 64 KiB"),
    "a member beyond the end": (sized(parts.STATE, 1 << 30), "it is incomplete"),
}  # fmt: skip


@pytest.mark.parametrize(("header", "words"), HOSTILE.values(), ids=HOSTILE)
def test_an_archive_when_a_member_is_not_like_real_ones_then_is_refused_unread(
    tmp_path: Path, header: bytes, words: str
) -> None:
    path = tmp_path / "hostile.tar"
    path.write_bytes(header + bytes(1024))
    assert words in told("hostile.tar", lambda: backups.verified(path))


def zeros(size: int) -> bytes:
    """The beginning of a compressed tar of one file of zeros, which would be a thousandth of its size."""
    return gzip.compress(sized("job_state", size) + bytes(1 << 24), mtime=0)


def test_a_part_when_it_would_become_a_thousand_times_as_large_then_is_refused_before_it_is_unpacked(
    tmp_path: Path,
) -> None:
    path = saved_archives.archive(tmp_path, {**saved_archives.PARTS, parts.STATE: zeros(3 << 30)})
    assert "holds a part that would become more than" in told(path.name, lambda: backups.verified(path))
    with pytest.raises(ResourceFailed, match="would become more than 1000000 bytes"):
        list(members(io.BytesIO(zeros(2_000_000)), 1_000_000))


def test_a_part_when_it_is_as_small_as_real_ones_become_then_is_read(tmp_path: Path) -> None:
    scripts = {f"hash.{number % 10}/job.{number}/script": b"#!/bin/sh\nsrun true\n" for number in range(3000)}
    path = saved_archives.archive(tmp_path, {**saved_archives.PARTS, parts.STATE: compressed_tar(scripts)})
    assert told(path.name, lambda: backups.verified(path)) == ""
    assert parts.unpacked_most(1 << 20) > 200 << 20


def test_a_bundle_when_its_index_is_not_text_then_is_refused_with_the_line(tmp_path: Path) -> None:
    made = parts.Archive(str(tmp_path), "bundle")
    made.add(INDEX, b"Package: x\nVersion: \xff\n")
    path = Path(made.finish(saved_bundles.ABOUT))
    said = told("bundle.tar", lambda: bundles.verified(path))
    assert "its Packages is damaged: it is not UTF-8 text, in line 2" in said


def test_a_plan_when_its_hostlists_are_none_or_endless_then_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    saved_plan.save(PLAN, path)
    for hosts, words in (
        ("n[1-", "differences.0.hosts: "),
        ("n[1-60000]," * 200 + "n1", "have more than 10000000 names"),
    ):
        text = path.read_text().replace('"hosts": "n[1-2]"', f'"hosts": "{hosts}"')
        (tmp_path / "other.json").write_text(text)
        assert words in told("other.json", lambda: saved_plan.load(tmp_path / "other.json"))


def test_a_record_of_now_when_written_then_is_read_by_the_same_model(tmp_path: Path) -> None:
    (tmp_path / "lab.runs").mkdir()
    (tmp_path / "lab.runs/20260101T120005.123456Z-deploy.json").write_text(json.dumps(RECORD))
    (one,), complaints = use_records(tmp_path / "lab.yaml")
    assert (complaints, one.steps[0]) == ((), Step("users", "n1", (Outcome("user:slurm", "changed"),), 0.5))
