"""An import from its command to its files, over hosts that answer from memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ssh_keys import ED25519
from support import as_answer, prepared

from slurmfab.base.errors import AgentFailed, HostKeyUnknown, InputError, SlurmfabError, Unreachable
from slurmfab.base.exit_codes import DONE, FAILURE, LEFT_OUT
from slurmfab.cluster.facts import Account, HostFacts
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.cluster import Ssh
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.commands.import_cluster import asking, contact, importing
from slurmfab.commands.import_cluster.asked import Asked
from slurmfab.commands.import_cluster.importing import ImportOptions
from slurmfab.core.engine.report import Report
from slurmfab.core.engine.session import Output
from slurmfab.hosts.known_hosts import HostKey
from slurmfab.hosts.session import Line
from slurmfab.hosts.transport import Ends
from slurmfab.on_hosts.agent.slurm.found_files import HIDDEN

CONF = """\
ClusterName=lab
SlurmctldHost=ctl(10.0.0.1)
SlurmUser=slurm
StateSaveLocation=/var/lib/slurm/slurmctld
NodeName=n[1-2] NodeAddr=10.0.2.[1-2] CPUs=4
NodeName=n3 CPUs=4
PartitionName=main Nodes=ALL
"""
ADDRESSES = {"ctl": "10.0.0.1", "n1": "10.0.2.1", "n2": "10.0.2.2", "n3": "10.0.2.3", "login": "10.0.0.7"}
RUNNING = {"ctl": ["slurmctld"], "n1": ["slurmd"], "n2": ["slurmd"], "n3": ["slurmd"]}


@dataclass
class Socket:
    """The end of a connection."""

    peer: str

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 22


@dataclass
class Connection:
    """A connection, as far as a discovery looks at it."""

    sock: Socket

    def get_transport(self) -> Connection:
        return self


@dataclass
class Hosts:
    """A transport to hosts that answer from memory, by whatever name they are met.

    Args:
        confs: the slurm.conf of each host, where it is another one.
        lost: hosts without an answer.
        silent: hosts that tell facts, and nothing of Slurm.
        boots: the boot of a host that has several names.
        files: what differs in the answer about Slurm's files, by host.
        unknown: hosts whose SSH host keys nobody knows.
        people: the users of the controller.
    """

    confs: Mapping[str, str] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()
    boots: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    routes: dict[str, Any] = field(default_factory=dict)
    policies: dict[str, Any] = field(default_factory=dict)
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    is_closed: bool = False
    sudo: Any = field(default_factory=lambda: SimpleNamespace(known=""))

    def __call__(self, *_: Any) -> Hosts:
        return self

    def own(self, name: str) -> str:
        """The host's own name."""
        address = self.routes[name].address
        short = address.partition(".")[0]
        return next((host for host, known in ADDRESSES.items() if known == address), short)

    def connection(self, name: str) -> Connection:
        host = self.own(name)
        if host in self.lost:
            raise Unreachable(name, "nothing listens at port 22.")
        if host in self.unknown:
            raise HostKeyUnknown(name, "ssh-ed25519", ED25519, "SHA256:x")
        self.policies[name].shown = HostKey("ssh-ed25519", ED25519)
        return Connection(Socket(ADDRESSES[host]))

    def call(self, name: str, request: Mapping[str, Any], *_: Any) -> tuple[Line, ...]:
        host = self.own(name)
        self.asked.append((host, request))
        if request["op"] == "facts":
            return ({"facts": as_answer(self.facts(host, request))},)
        if request["op"] == "addresses":
            return ({"addresses": {one: [ADDRESSES[one]] for one in request["names"] if one in ADDRESSES}},)
        if host in self.silent:
            raise AgentFailed(name, "the connection was lost.")
        text = self.confs.get(host, "" if host == "login" else CONF)
        answer = {
            "files": [["/etc/slurm/slurm.conf", text, 0o644, ""]] if text else [],
            "slurm_conf": text, "left": [], "hidden": [], "drop_ins": [], "mark": "", "federation": "",
            "places": {
                "program": "", "conf": "/etc/slurm/slurm.conf", "slurmdbd_conf": "", "version": "24.11.5",
                "configless": False, "running": RUNNING.get(host, []), "drop_ins": [],
            },
        }  # fmt: skip
        return ({"found_files": {**answer, **self.files.get(host, {})}},)

    def facts(self, host: str, request: Mapping[str, Any]) -> HostFacts:
        keys = {"ssh-ed25519": ED25519}
        boot = self.boots.get(host, f"boot of {host}")
        facts = prepared(host, addresses=(ADDRESSES[host],), boot=boot, ssh_host_keys=keys)
        known = {name: Account(1001, 1001, "/home", "/bin/sh") for name in self.people if name in request["users"]}
        return replace(facts, accounts={**facts.accounts, **known})

    def host_key(self, _: str) -> tuple[str, str]:
        return "ssh-ed25519", ED25519

    def ends(self, _: str) -> Ends:
        return Ends()

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))


def ask(monkeypatch: pytest.MonkeyPatch, hosts: Hosts, named: str = "ctl") -> Asked:
    """What an import finds out, beginning at the named hosts."""
    monkeypatch.setattr(contact, "SshTransport", hosts)
    return asking.ask(named, ConnectionOptions(accept_new=True), Output())


def test_all_hosts_of_a_cluster_are_found_from_its_controller(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts()
    asked = ask(monkeypatch, hosts)
    found = asked.cluster
    assert (found.controller, [*found.hosts], [*found.facts]) == ("ctl", ["ctl", "n1", "n2", "n3"], [*found.hosts])
    assert found.addresses == {name: ADDRESSES[name] for name in found.hosts}
    assert (found.unreachable, asked.strangers, asked.trouble, found.people) == ({}, {}, "", None)
    assert asked.running == {name: tuple(some) for name, some in RUNNING.items()}
    assert asked.unpinned == ("ctl", "n1", "n2", "n3")
    assert {name: one.host_key.base64 for name, one in asked.discovered.items()} == dict.fromkeys(found.hosts, ED25519)
    assert found.facts["ctl"].slurm_conf == CONF
    assert hosts.is_closed
    readings = [host for host, request in hosts.asked if request["op"] == "found-files"]
    assert sorted(readings) == ["ctl", "n1", "n2", "n3"], "each host once"
    assert [
        request["with_federation"] for host, request in hosts.asked if host == "ctl" and "with_federation" in request
    ]


def test_a_node_that_is_named_leads_to_the_controller_and_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts()
    asked = ask(monkeypatch, hosts, "n2")
    assert (asked.cluster.controller, sorted(asked.cluster.hosts)) == ("ctl", ["ctl", "n1", "n2", "n3"])
    readings = {host: request for host, request in hosts.asked if request["op"] == "found-files"}
    assert {host: request.get("with_federation", False) for host, request in readings.items()} == {
        "n2": True, "ctl": True, "n1": False, "n3": False,
    }  # fmt: skip


def test_hosts_whose_keys_known_hosts_has_were_not_accepted_by_this_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(f"10.0.2.1 ssh-ed25519 {ED25519}\n")
    assert ask(monkeypatch, Hosts()).unpinned == ("ctl", "n2", "n3")


def test_hosts_that_do_not_answer_are_told_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ask(monkeypatch, Hosts(lost=("n1",), silent=("n2",))).cluster
    assert [*found.hosts] == ["ctl", "n3"]
    assert found.unreachable == {"n1": "nothing listens at port 22.", "n2": "the connection was lost."}
    assert found.addresses["n1"] == "10.0.2.1"


def test_nodes_that_may_not_exist_yet_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = Hosts(confs={"ctl": CONF.replace("NodeName=n3", "NodeName=n3 State=CLOUD")})
    found = ask(monkeypatch, hosts).cluster
    assert "n3" not in {host for host, _ in hosts.asked}
    assert "may not exist yet" in found.unreachable["n3"]


@pytest.mark.parametrize(
    ("hosts", "named", "words"),
    [
        (Hosts(lost=("ctl",)), "ctl", r"nothing listens at port 22\.\nNothing was written"),
        (Hosts(silent=("ctl",)), "ctl", r"the connection was lost\.\nNothing was written"),
        (Hosts(lost=("ctl",)), "n1", r"The slurm\.conf of n1 names ctl as the controller"),
        (Hosts(unknown=("n1",)), "ctl", "not in known_hosts or the lock"),
        (Hosts(), "login", r"login: there is no slurm\.conf that names a controller"),
    ],
)
def test_a_cluster_whose_controller_cannot_be_read_is_not_imported(
    hosts: Hosts, named: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SlurmfabError, match=words):
        ask(monkeypatch, hosts, named)
    assert hosts.is_closed


def test_hosts_that_slurm_conf_does_not_name_are_strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ask(monkeypatch, Hosts(), "ctl,login")
    assert asked.strangers == {"login": "it has nothing of Slurm's"}
    assert "login" not in asked.cluster.hosts
    member = ask(monkeypatch, Hosts(confs={"login": CONF}), "ctl,login")
    assert member.strangers == {"login": "it has a slurm.conf of the controller ctl"}


def test_a_host_with_two_names_is_one_member_by_its_node_name(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONF.replace("ctl(10.0.0.1)", "head") + "NodeName=ctl NodeAddr=10.0.0.1 CPUs=4\n"
    monkeypatch.setitem(ADDRESSES, "head", "10.0.0.8")
    confs = dict.fromkeys(("ctl", "head", "n1", "n2", "n3"), text)
    one = ask(monkeypatch, Hosts(confs=confs, boots={"head": "same", "ctl": "same"}), "head").cluster
    assert (one.controller, sorted(one.hosts)) == ("ctl", ["ctl", "n1", "n2", "n3"])
    two = ask(monkeypatch, Hosts(confs=confs), "head").cluster
    assert sorted(two.hosts) == ["ctl", "head", "n1", "n2", "n3"]


def test_a_node_that_says_the_boot_and_the_keys_of_the_controller_then_does_not_become_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts, shown = Hosts(boots={"ctl": "same", "n2": "same"}), Hosts.connection
    own = ED25519[:-6] + "AAAAAA"

    def connection(self: Hosts, name: str) -> Connection:
        made = shown(self, name)
        if self.own(name) == "n2":
            self.policies[name].shown = HostKey("ssh-ed25519", own)
        return made

    monkeypatch.setattr(Hosts, "connection", connection)
    one = ask(monkeypatch, hosts).cluster
    assert (one.controller, sorted(one.hosts)) == ("ctl", ["ctl", "n1", "n2", "n3"])


def test_passwords_stay_on_their_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{CONF}JobCompPass={HIDDEN}\n"
    files = {
        "ctl": {
            "files": [["/etc/slurm/slurm.conf", text, 0o644, ""], ["/etc/slurm/slurmdbd.conf", text, 0o600, ""]],
            "slurm_conf": text,
            "hidden": [["/etc/slurm/slurm.conf", "JobCompPass"]],
        }
    }
    asked = ask(monkeypatch, Hosts(files=files))
    assert asked.hidden["ctl"] == (("/etc/slurm/slurm.conf", "JobCompPass"),)
    main, of_slurmdbd = asked.cluster.hosts["ctl"].files
    assert "JobCompPass" not in main.text + asked.cluster.hosts["ctl"].slurm_conf
    assert "JobCompPass" not in asked.cluster.facts["ctl"].slurm_conf
    assert "JobCompPass" in of_slurmdbd.text


ASSOCIATIONS = {"associations": [["physics", "ann", ""], ["physics", "bob", ""], ["", "root", ""]], "accounts": []}


@pytest.mark.parametrize(
    ("error", "trouble", "people"),
    [
        (None, "", frozenset({"ann"})),
        (AgentFailed("ctl", "Connection refused."), "Connection refused.", None),
        (SlurmfabError("slurmdbd is too old."), "slurmdbd is too old.", None),
    ],
)
def test_accounts_come_from_slurmdbd_with_the_users_that_the_controller_knows(
    error: SlurmfabError | None, trouble: str, people: frozenset[str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[tuple[Any, ...]] = []

    def export(*words: Any) -> Mapping[str, Any]:
        begun.append(words[1:])
        if error:
            raise error
        return ASSOCIATIONS

    monkeypatch.setattr(asking.export, "ask_host", export)
    database = f"{CONF}AccountingStorageType=accounting_storage/slurmdbd\n"
    hosts = Hosts(confs=dict.fromkeys(ADDRESSES, database), people=("ann", "root", "slurm"))
    asked = ask(monkeypatch, hosts)
    assert (asked.cluster.accounts, asked.trouble) == (None if error else ASSOCIATIONS, trouble)
    assert (people is None and asked.cluster.people is None) or asked.cluster.people >= people
    assert [(one[0], one[1], str(one[2])) for one in begun] == [("ctl", "lab", "24.11")]
    if not error:
        assert [one["users"] for _, one in hosts.asked if one["op"] == "facts"][-1] == ("ann", "bob")


# --- The command


def planned(**fields: Any) -> Report:
    """What the plan of the new files finds."""
    usual = {"command": "plan", "cluster": "lab", "hosts": ("ctl",), "steps": (), "failed_hosts": {}, "seconds": 0}
    return Report(**{**usual, **fields})


def imported(
    monkeypatch: pytest.MonkeyPatch, path: Path, hosts: Hosts, output: Output | None = None, **wanted: Any
) -> int:
    monkeypatch.setattr(contact, "SshTransport", hosts)
    plan = wanted.pop("plan", lambda _: planned())
    monkeypatch.setattr(importing.commands, "dry_run", plan)
    connection = ConnectionOptions(accept_new=True)
    return importing.import_cluster(str(path), "ctl", connection, output or Output(), ImportOptions(**wanted))


def test_an_import_writes_the_cluster_and_the_lock_and_says_what_comes_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, trusted = tmp_path / "lab.yaml", list[str]()
    monkeypatch.setattr(
        importing.discovery, "tell_accepted", lambda found, _: trusted.extend(one.name for one in found)
    )
    assert imported(monkeypatch, path, Hosts()) == DONE
    shown = capsys.readouterr().out
    lines = shown.splitlines()
    assert lines[0] == "The cluster lab with Slurm 24.11.5: ctl is the controller, n[1-3] compute."
    assert f"Wrote {path} and its lock. Nothing was changed on any host." in lines
    assert lines[-1] == f"Next: read {path}, then see what a deployment would do: fab plan --cluster {path}."
    assert "where it is now" not in shown, "the table is for --verbose"
    assert trusted == ["ctl", "n1", "n2", "n3"]
    known = loading.load(path)
    assert [*known.lock.hosts] == ["ctl", "n1", "n2", "n3"]
    assert all(one.host_keys == {"ssh-ed25519": ED25519} for one in known.lock.hosts.values())
    assert known.cluster.addresses["n1"] == "10.0.2.1"


def test_an_import_without_some_hosts_ends_with_the_code_for_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(monkeypatch, tmp_path / "lab.yaml", Hosts(lost=("n1",))) == LEFT_OUT
    assert "n1 did not answer: nothing listens at port 22" in capsys.readouterr().out
    cloud = Hosts(confs={"ctl": CONF.replace("NodeName=n3", "NodeName=n3 State=UNKNOWN")})
    assert imported(monkeypatch, tmp_path / "other.yaml", cloud) == DONE


def test_an_import_whose_plan_is_refused_then_says_so_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: object) -> Report:
        raise InputError("slurm_conf.Foo: no such key.")

    assert imported(monkeypatch, tmp_path / "lab.yaml", Hosts(), plan=refuse) == FAILURE
    shown = " ".join(capsys.readouterr().out.split())
    assert "lab.yaml is refused: slurm_conf.Foo: no such key." in shown
    assert "Next: correct what the plan refuses in" in shown


def test_an_import_whose_file_leads_to_a_host_no_longer_then_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lost = planned(failed_hosts={name: Unreachable(name, "nothing listens.") for name in ("n1", "n2")})
    assert imported(monkeypatch, tmp_path / "lab.yaml", Hosts(lost=("n1",)), plan=lambda _: lost) == LEFT_OUT
    shown = " ".join(capsys.readouterr().out.split())
    assert "n2: by" in shown
    assert "n1: by" not in shown


def test_an_import_shows_every_key_where_that_is_asked_for_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = Output(verbose=True, json=str(tmp_path / "x.json"))
    path = tmp_path / "lab.yaml"
    imported(monkeypatch, path, Hosts(), output)
    out = capsys.readouterr().out
    assert "where it is now" in out
    assert "nodes[0].hosts" in out
    told = json.loads((tmp_path / "x.json").read_text())
    assert (told["cluster"], told["controller"], told["exit_code"]) == ("lab", "ctl", DONE)
    assert told["hosts"] == {name: ADDRESSES[name] for name in ("ctl", "n1", "n2", "n3")}
    assert told["files"][0] == str(path)
    assert all(Path(one).exists() for one in told["files"])
    assert [one["where"] for one in told["keys"] if one["key"] == "ClusterName"] == ["cluster"]


@pytest.mark.parametrize(
    ("hosts", "wanted", "words"),
    [
        ("", {}, "Name the controller of the cluster: fab import --hosts CONTROLLER"),
        ("ctl", {"adopt": "all"}, "--adopt is least or usual, not 'all'"),
    ],
)
def test_an_import_without_a_controller_or_with_an_unknown_word_is_refused(
    hosts: str, wanted: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        importing.import_cluster("", hosts, ConnectionOptions(), Output(), ImportOptions(**wanted))


def test_a_node_without_an_address_or_with_a_name_of_others_then_is_left_out_of_all_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, evil = tmp_path / "lab.yaml", [["/etc/slurm/plugstack.conf.d/zz.conf", "optional /home/x.so\n", 0o644, ""]]
    hosts = Hosts(files={"n2": {"files": [["/etc/slurm/slurm.conf", CONF, 0o644, ""], *evil]}})
    of_all = hosts.facts
    monkeypatch.setattr(hosts, "facts", lambda host, request: replace(of_all(host, request), **told.get(host, {})))
    told: dict[str, Mapping[str, Any]] = {"n2": {"hostname": "ctl"}}

    discovered = contact.Contact.as_discovered

    def refuse(met: contact.Contact, name: str, member: str) -> Any:
        if member == "n3":
            raise InputError("n3: it has no address that other hosts could reach.")
        return discovered(met, name, member)

    monkeypatch.setattr(contact.Contact, "as_discovered", refuse)
    assert imported(monkeypatch, path, hosts) == LEFT_OUT
    shown = capsys.readouterr().out
    assert "n2 is left out: it calls itself ctl, as ctl does." in shown
    assert "n3 did not answer: it has no address that other hosts could reach." in shown
    lock = loading.load(path).lock
    assert {name: one.hostname for name, one in lock.hosts.items()} == {
        name: name for name in ("ctl", "n1", "n2", "n3")
    }
    assert [name for name, one in lock.hosts.items() if one.never_seen or not one.host_keys] == ["n2", "n3"]
    assert not (tmp_path / "slurm_files").exists()


def test_an_import_takes_the_least_unless_the_usual_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    imported(monkeypatch, tmp_path / "least.yaml", Hosts())
    imported(monkeypatch, tmp_path / "usual.yaml", Hosts(), adopt="usual")
    imported(monkeypatch, tmp_path / "kept.yaml", Hosts(), keep_files=True)
    least, usual, kept = (loading.load(tmp_path / f"{name}.yaml").cluster for name in ("least", "usual", "kept"))
    assert (least.hosts_file, usual.hosts_file) == (False, True)
    assert (least.keep_files, kept.keep_files) == (False, True)
    capsys.readouterr()


def test_an_import_asks_no_host_where_the_cluster_file_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, hosts = tmp_path / "lab.yaml", Hosts()
    path.write_text("mine")
    with pytest.raises(InputError, match="exists"):
        imported(monkeypatch, path, hosts)
    assert (hosts.asked, path.read_text()) == ([], "mine")


def test_a_host_that_answers_later_has_not_failed_and_one_that_falls_silent_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hosts = Hosts(lost=("n1", "n2"))
    monkeypatch.setattr(contact, "SshTransport", hosts)
    met = contact.Contact(Ssh(), accept_new=True, ask_password=None)
    targets = [contact.found_target(name, ADDRESSES[name], Ssh()) for name in ("n1", "n2")]
    met.meet(targets)
    assert (set(met.facts), set(met.failed)) == (set(), {"n1", "n2"})
    hosts.lost = ("n2",)
    met.meet(targets)
    assert (set(met.facts), set(met.failed)) == ({"n1"}, {"n2"})
    asked = len(hosts.asked)
    met.meet(targets[:1])
    assert len(hosts.asked) == asked, "a host that was met is not asked again"
    assert met.unpinned == ("n1",)
    assert (met.host_of(["", "n1"]), met.host_of(["10.0.2.1"]), met.host_of(["n2"]), met.host_of([])) == (
        "n1", "n1", "", ""
    )  # fmt: skip
