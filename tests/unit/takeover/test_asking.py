"""Which host is the controller: found from any host's slurm.conf, or refused with what to name instead."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from support import host_facts

from slurmfab.base.errors import HostError, HostKeyChanged, InputError, SlurmfabError, Unreachable
from slurmfab.cluster.facts import HostFacts
from slurmfab.cluster.inventory.cluster import Ssh
from slurmfab.cluster.slurm.conf_text import parse
from slurmfab.commands.import_cluster.asking import find_controller, first_member, first_of, meet_members, merged
from slurmfab.commands.import_cluster.contact import Contact, Target, found_target
from slurmfab.commands.import_cluster.members import members
from slurmfab.core.engine.progress import Progress
from slurmfab.hosts.host_keys import PinnedKey
from slurmfab.hosts.known_hosts import HostKey


def answer(slurm_conf: str = "", *running: str) -> dict[str, Any]:
    """Slurm's files of a host, as far as the search for the controller looks at them."""
    return {"slurm_conf": slurm_conf, "places": {"running": list(running)}}


def conf(controller: str, cluster: str = "alpha") -> str:
    return f"ClusterName={cluster}\nSlurmctldHost={controller}\nNodeName=n1\n"


class KnownHosts(Contact):
    """Hosts that answer from memory.

    Args:
        files: what each host has of Slurm's.
        met: the hosts that were met; the others answer when they are met later.
        lost: the hosts that do not answer.
    """

    def __init__(self, files: Mapping[str, dict[str, Any]], met: Iterable[str], lost: Iterable[str] = ()) -> None:
        super().__init__(Ssh(), accept_new=True, ask_password=None)
        self.elsewhere: set[tuple[str, str]] = set()
        self.files = files
        self.lost = tuple(lost)
        for name in met:
            self.facts[name] = self.facts_of(name)

    @staticmethod
    def facts_of(name: str) -> HostFacts:
        """The facts of a host, whose address ends with the length of its name."""
        return host_facts(name, addresses=(f"10.0.0.{len(name)}",))

    def meet(self, targets: Iterable[Target]) -> None:
        for one in targets:
            if one.name in self.lost:
                self.failed[one.name] = Unreachable(one.name, "no answer.")
            else:
                self.facts[one.name] = self.facts_of(one.name)

    def ask(self, hosts: Iterable[str], operation: str, **fields: Any) -> Mapping[str, Any]:
        if operation == "addresses":
            return {host: {name: ["fd83::1", "10.0.0.3"] for name in fields["names"]} for host in hosts}
        return {host: self.files[host] for host in hosts}

    def is_one(self, name: str, other: str) -> bool:
        return name == other

    def is_elsewhere(self, name: str, address: str) -> bool:
        return (name, address) in self.elsewhere

    def host_of(self, names: Iterable[str]) -> str:
        wanted = set(names)
        return next((name for name, fact in self.facts.items() if wanted & {name, *fact.addresses}), "")


def controller(hosts: KnownHosts, start: str) -> str:
    answers = {name: hosts.files[name] for name in hosts.facts}
    return find_controller(hosts, answers, start, Progress(io.StringIO()))


def member_of(named: str, files: Mapping[str, dict[str, Any]]) -> str:
    return first_member(KnownHosts(files, files), named, files)


def test_hosts_without_a_slurm_conf_then_are_refused_with_the_command_that_makes_a_cluster() -> None:
    with pytest.raises(InputError, match=r"^n\[1-2\]: there is no slurm\.conf .*fab deploy --hosts 'n\[1-2\]'"):
        member_of("n[1-2]", {"n1": answer(), "n2": answer()})


def test_a_host_of_slurmdbd_alone_then_is_asked_for_the_controller() -> None:
    with pytest.raises(InputError, match=r"slurmdbd runs there, but without one\)\. Is the controller another host\?"):
        member_of("db", {"db": answer("", "slurmdbd")})


def test_hosts_of_several_clusters_then_are_refused_with_the_clusters() -> None:
    files = {"n1": answer(conf("ctl")), "m1": answer(conf("head", "beta")), "n2": answer()}
    with pytest.raises(InputError, match=r"n1: alpha of ctl; m1: beta of head\. Import one at a time"):
        member_of("n1,m1,n2", files)


def test_the_first_host_with_a_slurm_conf_then_is_where_the_search_begins() -> None:
    assert member_of("x,n1", {"x": answer(), "n1": answer(conf("ctl"))}) == "n1"


@pytest.mark.parametrize("named", ["ctl", "ctl(10.0.0.3)", "ctl.example.org"])
def test_a_node_when_named_first_then_its_controller_is_met(named: str) -> None:
    files = {"n1": answer(conf(named)), "ctl": answer(conf(named))}
    assert controller(KnownHosts(files, ["n1"]), "n1") == "ctl"


def test_a_controller_that_names_itself_then_is_the_one() -> None:
    assert controller(KnownHosts({"ctl": answer(conf("ctl"))}, ["ctl"]), "ctl") == "ctl"


def test_a_controller_behind_an_address_that_is_not_its_own_then_is_the_one_that_runs_slurmctld() -> None:
    files = {"ctl": answer(conf("ctl(192.0.2.1)"), "slurmctld")}
    assert controller(KnownHosts(files, ["ctl"]), "ctl") == "ctl"


def test_a_node_that_says_it_has_the_controllers_name_and_address_then_is_not_the_controller() -> None:
    files = {"liar": answer(conf("ctl(10.0.0.4)"), "slurmctld"), "ctl": answer(conf("ctl(10.0.0.4)"), "slurmctld")}
    hosts = KnownHosts(files, ["liar"])
    hosts.facts["liar"] = host_facts("ctl", addresses=("10.0.0.4",))
    assert controller(hosts, "liar") == "liar"  # where nothing else answers there, its word counts
    hosts.elsewhere = {("liar", "10.0.0.4")}
    assert controller(hosts, "liar") == "ctl"


def test_a_member_whose_address_another_host_claims_then_is_met_where_it_is() -> None:
    known = members(parse("ClusterName=a\nSlurmctldHost=ctl(10.0.0.3)\nNodeName=n1 NodeAddr=10.0.0.2\n"), "ctl")
    hosts = KnownHosts({name: answer() for name in ("ctl", "n1", "liar")}, ["ctl", "liar"])
    hosts.facts["liar"] = host_facts("n1", addresses=("10.0.0.2",))
    asked = ("ctl", ["ctl", "liar"])
    assert meet_members(hosts, known, asked, Progress(io.StringIO()))["n1"] == "liar"
    hosts.elsewhere = {("liar", "10.0.0.2")}
    assert meet_members(hosts, known, asked, Progress(io.StringIO()))["n1"] == "n1"


@pytest.mark.parametrize(
    ("answers", "is_elsewhere"),
    [(None, False), (HostKeyChanged("x", "another key"), True), (Unreachable("x", "no answer."), False)],
)
def test_a_host_is_elsewhere_if_another_key_answers_at_the_address_that_it_claims(
    monkeypatch: pytest.MonkeyPatch, answers: HostError | None, is_elsewhere: bool
) -> None:
    contact = Contact(Ssh(), accept_new=True, ask_password=None)
    contact.targets["n1"] = found_target("n1", "10.0.0.1", Ssh())
    contact.transport.policies["n1"] = PinnedKey("n1", {})
    contact.transport.policies["n1"].shown = HostKey("ssh-ed25519", "a2V5")
    asked: list[str] = []

    def connect(name: str) -> None:
        asked.append(contact.transport.routes[name].address)
        assert contact.transport.policies[name].pinned == {"ssh-ed25519": ("a2V5",)}
        if answers:
            raise answers

    monkeypatch.setattr(contact.transport, "connection", connect)
    assert not contact.is_elsewhere("n1", "10.0.0.1")
    assert asked == []
    assert contact.is_elsewhere("n1", "10.0.0.9") is is_elsewhere
    assert asked == ["10.0.0.9"]


@pytest.mark.parametrize(
    "named", ["localhost", "localhost.localdomain", "ctl(127.0.0.1)", "127.0.0.1", "ip6-localhost(::1)"]
)
def test_a_controller_by_a_loopback_name_or_address_then_is_the_host_whose_file_it_is(named: str) -> None:
    hosts = KnownHosts({"ctl": answer(conf(named))}, ["ctl"])
    assert controller(hosts, "ctl") == "ctl"
    known = members(parse(f"SlurmctldHost={named}\nNodeName=localhost\nNodeName=n2 NodeAddr=127.0.1.1\n"), "ctl")
    met = meet_members(hosts, known, ("ctl", ["ctl"]), Progress(io.StringIO()))
    assert (known.controllers, set(met.values())) == (("localhost",), {"ctl"})


def test_machines_alone_that_call_themselves_localhost_then_are_several_clusters() -> None:
    files = {"a": answer(conf("localhost")), "b": answer(conf("localhost"))}
    with pytest.raises(InputError, match=r"a: alpha of a; b: alpha of b\. Import one at a time"):
        member_of("a,b", files)


@pytest.mark.parametrize("here", ["127.0.0.1", "::1", "127.1.2.3", "0.0.0.0", "::ffff:127.0.0.1"])
def test_a_host_that_another_one_puts_on_this_machine_then_is_refused_before_anything_is_connected(
    monkeypatch: pytest.MonkeyPatch, here: str
) -> None:
    contact = Contact(Ssh(), accept_new=True, ask_password=None)
    monkeypatch.setattr(contact.transport, "connection", lambda _: pytest.fail("connected"))
    with pytest.raises(InputError, match=f"ctl names n1 at {here}, which is this machine"):
        contact.meet_named({"n1": here}, "ctl")
    contact.meet_named({"n2": ""}, "ctl")
    assert contact.failed["n2"].reason == "ctl knows no address of it, nor does ssh_config"


def test_an_old_slurm_conf_on_a_node_when_it_names_a_former_controller_then_the_search_goes_on() -> None:
    files = {"n1": answer(conf("former")), "former": answer(conf("ctl")), "ctl": answer(conf("ctl"))}
    assert controller(KnownHosts(files, ["n1"]), "n1") == "ctl"


@pytest.mark.parametrize(
    ("files", "lost", "words"),
    [
        ({"n1": answer(conf("ctl"))}, ["ctl"], r"ctl: no answer\.\nThe slurm\.conf of n1 names ctl as the controller"),
        ({"n1": answer(conf("ctl")), "ctl": answer()}, [], "ctl: it has no slurm.conf that names a controller"),
        (
            {"n1": answer(conf("ctl")), "ctl": answer(conf("other")), "other": answer(conf("ctl"))},
            [],
            "names another controller, as those of the hosts before it do",
        ),
    ],
    ids=["lost", "without slurm.conf", "in a circle"],
)
def test_a_controller_that_cannot_be_found_then_is_refused_with_the_reason(
    files: dict[str, Any], lost: list[str], words: str
) -> None:
    with pytest.raises(SlurmfabError, match=words) as refused:
        controller(KnownHosts(files, ["n1"], lost), "n1")
    assert not isinstance(refused.value, HostError)


@pytest.mark.parametrize("is_one", [True, False])
def test_slurmdbd_by_another_address_of_the_controller_then_is_no_second_host(
    monkeypatch: pytest.MonkeyPatch, is_one: bool
) -> None:
    text = conf("ctl") + "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=10.0.9.9\n"
    monkeypatch.setattr(KnownHosts, "is_one", lambda *_: is_one)
    contact = KnownHosts({}, ["ctl"])
    contact.facts |= dict.fromkeys(("ctl", "10.0.9.9"), replace(contact.facts["ctl"], boot="7"))
    found = merged({"ctl": "ctl", "10.0.9.9": "10.0.9.9"}, members(parse(text), "ctl"), contact)
    assert [*found] == (["ctl"] if is_one else ["ctl", "10.0.9.9"])


def test_an_address_of_a_name_then_is_an_ipv4_address_if_it_has_one() -> None:
    assert first_of({"ctl": {"n1": ["fd83::1", "10.0.0.1"]}}, "n1") == "10.0.0.1"
    assert first_of({"ctl": {"n1": ["fd83::1"]}}, "n1") == "fd83::1"
    assert first_of({"ctl": {"n1": []}}, "n1") == ""
