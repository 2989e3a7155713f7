"""The archive of a support bundle."""

from __future__ import annotations

import base64
import tarfile
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError
from slurmfab.commands.support_bundle import making
from slurmfab.commands.support_bundle.gathering import Gathered, HostAnswer

FILES = {"runs.txt": "one\n", "README.txt": "two\n", "hosts/n1/logs/slurmd.log": "Ü\n"}


def test_the_same_files_in_another_order_give_the_same_bytes_for_their_owner_alone(tmp_path: Path) -> None:
    first, second = tmp_path / "a.tar.gz", tmp_path / "b.tar.gz"
    size = making.write_archive(first, "x-support", FILES, 1_000)
    making.write_archive(second, "x-support", dict(reversed(FILES.items())), 1_000)
    assert first.read_bytes() == second.read_bytes()
    assert (first.stat().st_mode & 0o777, first.stat().st_size) == (0o600, size)
    with tarfile.open(first) as tar:
        assert tar.getnames() == [f"x-support/{name}" for name in sorted(FILES)]
        assert {(one.mode, one.uid, one.mtime) for one in tar} == {(0o600, 0, 1_000)}


def test_an_archive_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "a.tar.gz").write_text("mine")
    with pytest.raises(InputError, match="exists already"):
        making.place_of_archive(tmp_path / "cluster.yaml", "x", str(tmp_path / "a.tar.gz"))


def test_an_archive_without_a_place_is_beside_the_cluster_file(tmp_path: Path) -> None:
    path = making.place_of_archive(tmp_path / "cluster.yaml", "x-1", "")
    assert path == tmp_path / "cluster.support" / "x-1.tar.gz"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert making.place_of_archive(tmp_path / "cluster.yaml", "x-1", str(tmp_path)) == tmp_path / "x-1.tar.gz"


WORDS = "the node n2 is down: slurmd does not answer SlurmctldParameters\n"


def bundled(**secrets: tuple[bytes, ...]) -> dict[str, str]:
    """The texts of a bundle of ctl, n1 and n2, as they are written, if hosts tell of these secrets."""
    hosts = ("ctl", "n1", "n2")
    answers = {host: HostAnswer({"x.log": ""}, {}, secrets.get(host, ())) for host in hosts}
    texts = {"runs.txt": "", "missing.txt": "", **{f"hosts/{host}/x.log": "" for host in hosts}}
    values = b" ".join(one for some in secrets.values() for one in some).decode()
    found = dict.fromkeys(texts, f"{WORDS}and {values} too\n")
    return making.cleaned(found, Gathered(answers), (b"of this machine",), ("ctl",))


@pytest.mark.parametrize(
    "value", ["the", "node", "slurmd does not answer", "SlurmctldParameters", "is down: slurmd", "n2 is"]
)
def test_a_word_that_a_node_calls_its_secret_is_hidden_in_its_own_texts_alone(value: str) -> None:
    found = bundled(n1=(value.encode(),))
    shown = {name for name, text in found.items() if text.startswith(WORDS)}
    assert shown == {"runs.txt", "missing.txt", "hosts/ctl/x.log", "hosts/n2/x.log"}
    assert value not in found["hosts/n1/x.log"]


def test_bytes_whose_base64_is_a_word_hide_it_in_the_texts_of_the_host_alone_that_tells_of_them() -> None:
    answers = {host: HostAnswer({}, {}, (), ()) for host in ("ctl", "n2")}
    answers["n1"] = HostAnswer({}, {}, (base64.b64decode("SlurmctldParameters="),))
    texts = {"missing.txt": "", **{f"hosts/{host}/x.log": WORDS for host in answers}}
    found = making.cleaned(texts, Gathered(answers), (), ("ctl",))
    assert (found["hosts/n2/x.log"], found["hosts/ctl/x.log"]) == (WORDS, WORDS)


@pytest.mark.parametrize(
    "secrets",
    [{"ctl": (b"hunter2",)}, {"n1": (b"Tr0ub4dor&3xyz!Q",)}, {"n2": (b"sspXm5FKO83b3JpO7gKdS8C7",)}],
    ids=["a controller's", "a node's, mixed", "a node's, random"],
)
def test_a_secret_of_a_controller_and_a_random_one_of_a_node_are_hidden_in_all_texts(
    secrets: dict[str, tuple[bytes, ...]],
) -> None:
    ((value,),) = secrets.values()
    for name, text in bundled(**secrets).items():
        assert value.decode() not in text, name
        assert text.startswith(WORDS)


def test_what_a_node_calls_a_public_key_hides_no_secret_of_others_from_the_search() -> None:
    key = base64.b64encode(bytes(range(3, 99))).decode()
    answers = {
        "ctl": HostAnswer({}, {}, (key.encode(),)),
        "n1": HostAnswer({}, {}, (), (key,)),
        "n2": HostAnswer({}, {}, ()),
    }
    texts = {"missing.txt": "", "hosts/n2/x.log": f"{key[:40]}\n"}
    assert key[:20] not in making.cleaned(texts, Gathered(answers), (), ("ctl",))["hosts/n2/x.log"]
