"""What fits at the cursor, for each kind of value."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmfab.cli.completion import answering

CLUSTER = """\
cluster: lab
addresses: {"n[1-3]": "10.0.0.[1-3]", spare: 10.0.0.9}
controllers: [ctl]
database: {host: db}
login: login01
nodes:
  - hosts: n[1-2]
  - hosts: [n3, "g[1-2]"]
partitions:
  - {PartitionName: batch, Nodes: ALL}
  - {PartitionName: gpu, Nodes: "g[1-2]"}
accounts: [{name: physics}]
users: [{name: ann}, {name: bob}]
acceptance: {memory: {target: 1}, hpcc: {}}
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a cluster file, which is the home as well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("SLURMFAB_CLUSTER", raising=False)
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs/cluster.yaml").write_text(CLUSTER)
    (tmp_path / "fabfile.py").write_text("from slurmfab.fabfile import namespace\n")
    return tmp_path


def asked(*words: str) -> list[str]:
    """The lines for fish, which has whole words, without explanations."""
    return [line.partition("\t")[0] for line in answering.answer(["fish", "fab", *words]).splitlines()]


def record(place: Path, name: str, command: str, *hosts: str, code: int = 0) -> None:
    (place / "configs/cluster.runs").mkdir(exist_ok=True)
    values = {"command": command, "hosts": hosts, "exit_code": code}
    (place / f"configs/cluster.runs/{name}.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["dep"], ["deploy"]),
        (["check-"], ["check-cluster", "check-gpus"]),
        (["rehearse", "re"], ["restore", "remove-node"]),
        (["rehearse", "--kill", "3", "upgrade", "--at"], ["--at-once"]),
        (["rehearse", "--po"], ["--power-cut"]),
        (["deploy", "--acc"], ["--accept-new-host-keys"]),
        (["deploy", "--yes", "--ye"], []),
        (["deploy", "--prune", "check-c"], ["check-cluster"]),
        (["deploy", "--hosts", ""], ["ctl", "db", "login01", "n1", "n2", "n3", "g1", "g2", "spare"]),
        (["deploy", "--hosts=n"], ["--hosts=n1", "--hosts=n2", "--hosts=n3"]),
        (["deploy", "--hosts", "n1,n"], ["n1,n2", "n1,n3"]),
        (["deploy", "--hosts", "n[1,2],g"], ["n[1,2],g1", "n[1,2],g2"]),
        (["deploy", "--hosts", "n[1,"], []),
        (["drain", ""], ["n1", "n2", "n3", "g1", "g2"]),
        (["drain", "--reason", "g"], []),
        (["drain", "--reason", "new", "g"], ["g1", "g2"]),
        (["drain", "n1", "--wa"], ["--wait"]),
        (["replace-node", "g1", ""], ["--accept-hardware", "--accept-new-host-keys", "--address", "--allow"]),
        (["add-node", "x1", "--partition", "b"], ["batch"]),
        (["add-node", "x1", "--like", "g"], ["g1", "g2"]),
        (["add-user", "eve", "--account", ""], ["physics"]),
        (["remove-user", ""], ["ann", "bob"]),
        (["accept", "--only", "memory,"], ["memory,hpcc"]),
        (["check-cluster", "--only", "munge,clo"], ["munge,clock"]),
        (["deploy", "--become", ""], ["sudo", "none"]),
        (["ssh", "lo"], ["login01"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
        (["help", "rot"], ["rotate-munge-key", "rotate-jwt-key"]),
        (["no-such-task", "dep"], ["deploy"]),
    ],
)
def test_a_command_line_when_completed_then_offers_what_fits(words: list[str], offered: list[str]) -> None:
    kind, *found = asked(*words)
    assert kind == "words"
    assert found[: len(offered)] == offered
    assert len(found) == len(offered) or words[-1] == ""


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["restore", ""], ["files", ""]),
        (["deploy", "--key", "~/.ssh/"], ["files", "~/.ssh/"]),
        (["deploy", "--key=~/.ssh/"], ["files", "~/.ssh/"]),
        (["deploy", "--hosts", "n1,@inv"], ["files", "inv"]),
        (["--search-root", ""], ["files", ""]),
        (["monitoring-files", "--output", ""], ["directories", ""]),
    ],
)
def test_a_path_when_completed_then_is_left_to_the_shell(words: list[str], answer: list[str]) -> None:
    assert asked(*words) == answer


def test_groups_of_a_file_with_hosts_when_completed_then_are_offered(place: Path) -> None:
    (place / "hosts.ini").write_text("[gpu]\ng1\n[batch]\nn1\n")
    assert asked("deploy", "--hosts", "n9,@hosts.ini:g") == ["words", "n9,@hosts.ini:gpu"]
    assert asked("deploy", "--hosts", "@missing.ini:") == ["words"]


def test_nodes_to_resume_when_some_were_drained_then_are_those(place: Path) -> None:
    record(place, "20261123T100000", "drain", "n1", "n2", "g1")
    record(place, "20261123T110000", "drain", "n3", code=1)
    record(place, "20261123T120000", "resume", "g1")
    (place / "configs/cluster.runs/20261123T130000.json").write_text("{")
    assert asked("resume", "") == ["words", "n1", "n2"]
    assert asked("resume", "g") == ["words", "g1", "g2"]
    assert asked("rollback", "")[:3] == ["words", "last", "20261123T130000"]


def test_hosts_when_there_is_no_cluster_file_then_are_those_of_ssh_config(place: Path) -> None:
    (place / "configs/cluster.yaml").unlink()
    (place / ".ssh").mkdir()
    (place / ".ssh/config").write_text("Host bastion *.example.org\n  User ann\nHost m1 m2 !m3\n")
    assert asked("deploy", "--hosts", "") == ["words", "bastion", "m1", "m2"]
    assert asked("drain", "") == ["words"]


@pytest.mark.parametrize("text", ["cluster: [", "- a\n", "", "nodes: {a: b}\nusers: [1, {name: 2}]\n", "\x00"])
def test_a_cluster_file_when_broken_then_names_nothing_and_nothing_fails(place: Path, text: str) -> None:
    (place / "configs/cluster.yaml").write_text(text)
    assert asked("drain", "") == ["words"]
    assert asked("dep") == ["words", "deploy"]


def test_a_cluster_file_when_named_on_the_line_then_counts(place: Path) -> None:
    (place / "other.yaml").write_text("nodes: [{hosts: x1}]\n")
    assert asked("drain", "--cluster", "other.yaml", "") == ["words", "x1"]
    assert asked("drain", "--cluster=~/other.yaml", "") == ["words", "x1"]


def test_a_cluster_file_when_changed_then_is_read_again(place: Path) -> None:
    assert asked("drain", "x") == ["words"]
    text = CLUSTER.replace("n[1-2]", "[x1, x2]")
    (place / "configs/cluster.yaml").write_text(text)
    assert asked("drain", "x") == ["words", "x1", "x2"]


def test_fab_when_the_fabfile_is_another_projects_then_completes_files(place: Path) -> None:
    (place / "fabfile.py").write_text("from invoke import task\n")
    assert asked("dep") == ["files", "dep"]
    assert answering.answer(["fish", "/usr/bin/slurmfab", "dep"]).startswith("words\ndeploy\t")


def test_names_when_asked_for_twice_then_are_read_once(place: Path) -> None:
    assert asked("drain", "n") == ["words", "n1", "n2", "n3"]
    cache = place / ".cache/slurmfab/cluster.json"
    cache.write_text(cache.read_text().replace("n3", "n8"))
    assert asked("drain", "n") == ["words", "n1", "n2", "n8"]


@pytest.mark.parametrize("kept", [b"", b"[]", b'{"of": 1}', b"\xff", b"[" * 100_000])
def test_the_cache_when_broken_then_is_made_anew(place: Path, kept: bytes) -> None:
    asked("drain", "n")
    (place / ".cache/slurmfab/cluster.json").write_bytes(kept)
    assert asked("drain", "n") == ["words", "n1", "n2", "n3"]
    assert (place / ".cache/slurmfab/cluster.json").read_bytes() != kept


def test_the_cache_when_it_cannot_be_written_then_nothing_fails(place: Path) -> None:
    (place / ".cache").write_text("")
    assert asked("drain", "n") == ["words", "n1", "n2", "n3"]


def test_bash_when_it_ended_a_word_at_a_sign_then_gets_the_rest() -> None:
    def bash(part: str, line: str) -> list[str]:
        return answering.answer(["bash", part, line]).splitlines()[1:]

    assert bash("n", "fab deploy --hosts=n") == ["n1", "n2", "n3"]
    assert bash("n1,n", "fab deploy --hosts n1,n") == ["n1,n2", "n1,n3"]
    assert bash("", "fab deploy --become ") == ["sudo", "none"]


def test_zsh_when_words_have_a_colon_then_gets_it_escaped() -> None:
    lines = answering.answer(["zsh", "fab", "dep"]).splitlines()
    assert lines == ["words", "deploy:Make the hosts what the cluster file says."]


@pytest.mark.parametrize("words", [[], ["tcsh", "fab"], ["bash"], ["fish"]])
def test_a_question_that_no_script_asks_gets_no_answer(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    answering.write(words)
    assert capsys.readouterr().out == ""
