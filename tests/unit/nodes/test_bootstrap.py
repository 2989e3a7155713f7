"""First contact: connection options of new hosts, and errors that stop it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import re
from pathlib import Path

import pytest
from support import THREE_HOSTS, host_facts
from terminals import Terminal, shown_on

from slurmfab.base.errors import InputError, PythonMissing, SlurmfabError, Unreachable
from slurmfab.cluster.facts import Account, ClusterMark, SlurmUse
from slurmfab.cluster.inventory import loading
from slurmfab.cluster.inventory.connection_options import ConnectionOptions
from slurmfab.cluster.inventory.loading import Inventory
from slurmfab.commands.nodes import bootstrap, discovery, membership
from slurmfab.commands.nodes.discovery import DiscoveredHost
from slurmfab.core.engine import commands
from slurmfab.core.engine.progress import Progress
from slurmfab.core.engine.session import Output
from slurmfab.core.impact.approvals import DeployOptions


@pytest.mark.parametrize(("word", "become"), [("", "sudo"), ("sudo", "sudo"), ("none", None)])
def test_become_is_sudo_or_none(word: str, become: str | None) -> None:
    assert membership.first_ssh("n1", ConnectionOptions(user="admin", become=word)).become == become


def test_other_values_of_become_are_refused() -> None:
    with pytest.raises(InputError, match="--become su: it must be sudo or none"):
        membership.first_ssh("n1", ConnectionOptions(become="su"))


def test_options_for_first_contact_are_refused_if_there_is_a_cluster_file(tmp_path: Path) -> None:
    (tmp_path / "lab.yaml").write_text(THREE_HOSTS)
    with pytest.raises(InputError, match="change its ssh section"):
        commands.deploy(str(tmp_path / "lab.yaml"), DeployOptions(), ConnectionOptions(user="admin"), Output())


def test_first_contact_needs_the_future_controller_but_not_every_other_host() -> None:
    lost = {"root@c1": Unreachable("root@c1", "off.")}
    with pytest.raises(SlurmfabError, match=r"root@c1: off\.\nroot@c1 would be the controller"):
        bootstrap.refuse_without_controller("root@c1,n1", lost)
    bootstrap.refuse_without_controller("n1,root@c1", lost)


def written(path: Path, hosts: str, connection: ConnectionOptions) -> Inventory:
    """The files of a first contact with these hosts."""
    met = bootstrap.introduce(path, DeployOptions(hosts), connection, Output(), bootstrap.install_python)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(bootstrap.session, "perform", lambda *_: 0)
        assert bootstrap.found_and_deploy(met, DeployOptions(hosts), connection, Output()) == 0
    return loading.load(path)


def test_first_contact_writes_a_fabfile_beside_the_clusters_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    monkeypatch.setattr(Progress, "line", lambda _, line: lines.append(line))
    hosts = tuple(
        DiscoveredHost(name, address, "", host_facts(name), ("ssh-ed25519", f"key+of+{name}"))
        for name, address in (("c1", "10.0.0.1"), ("n1", "10.0.0.2"))
    )
    monkeypatch.setattr(discovery, "discover", lambda *_, **__: discovery.Discovery(hosts, {}))
    monkeypatch.chdir(tmp_path)
    written(Path("configs/cluster.yaml"), "c1,n1", ConnectionOptions(user="root"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["configs", "fabfile.py"]
    assert lines[-1] == "Wrote fabfile.py: `fab` works in that directory now."


USED = SlurmUse((ClusterMark("/etc/slurm/slurm.conf", "alpha", ("c1(10.0.0.1)",)),), ("slurmd",))
CONF = "# Made by slurmfab\nClusterName=alpha\nSlurmctldHost=c1(10.0.0.1)\nNodeName=n1\nPartitionName=main Nodes=ALL\n"


def met(monkeypatch: pytest.MonkeyPatch, *names: str, **facts: object) -> list[str]:
    """First contact with hosts of the cluster of c1, in this order; returns the lines that are printed."""
    lines: list[str] = []
    monkeypatch.setattr(Progress, "line", lambda _, line: lines.append(line))
    addresses = {"c1": "10.0.0.1", "n1": "10.0.0.2", "n9": "10.0.0.9"}
    hosts = tuple(
        DiscoveredHost(name, addresses[name], "", host_facts(name, **facts), ("ssh-ed25519", name)) for name in names
    )
    monkeypatch.setattr(discovery, "discover", lambda *_, **__: discovery.Discovery(hosts, {}))
    return lines


def test_first_contact_with_a_cluster_in_another_order_goes_on_with_its_name_and_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = met(monkeypatch, "n1", "c1", slurm_use=USED, slurm_conf=CONF)
    monkeypatch.chdir(tmp_path)
    known = written(Path("configs/cluster.yaml"), "n1,c1", ConnectionOptions(user="root"))
    assert (known.cluster.name, known.cluster.controllers, known.cluster.compute_nodes) == ("alpha", ("c1",), ("n1",))
    assert "These hosts form the cluster alpha already; c1 is its controller." in lines


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("n9", "n1"), r"n\[1,9\]: it belongs to the cluster alpha, whose controller is c1"),
        (("c1", "n9"), "It has what a new cluster file would not have: the node n1"),
    ],
)
def test_first_contact_with_a_part_of_a_cluster_is_refused_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, names: tuple[str, ...], words: str
) -> None:
    met(monkeypatch, *names, slurm_use=USED, slurm_conf=CONF)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words):
        written(Path("configs/cluster.yaml"), ",".join(names), ConnectionOptions(user="root"))
    assert list(tmp_path.iterdir()) == []


def test_a_new_cluster_is_named_after_its_controller_unless_the_user_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met(monkeypatch, "c1", "n1")
    monkeypatch.chdir(tmp_path)
    known = written(Path("one/cluster.yaml"), "c1,n1", ConnectionOptions(user="root"))
    named = written(Path("two/cluster.yaml"), "c1,n1", ConnectionOptions(user="root", name="lab"))
    assert (known.cluster.name, named.cluster.name) == ("c1", "lab")


def test_nodes_join_all_together_or_not_at_all() -> None:
    with pytest.raises(SlurmfabError, match=r"n3: off\.\nNothing was changed\."):
        bootstrap.refuse_incomplete({"n3": Unreachable("n3", "off.")})
    bootstrap.refuse_incomplete({})


def test_hosts_that_cannot_be_discovered_for_one_reason_are_one_line() -> None:
    failed = {
        f"n{number}": Unreachable(f"n{number}", f"the name n{number} does not resolve.") for number in range(2, 97)
    }
    failed["n7"] = Unreachable("n7", "no answer from 10.0.0.7 port 22.")
    with pytest.raises(SlurmfabError) as refused:
        bootstrap.refuse_incomplete(failed)
    assert str(refused.value).splitlines()[:2] == [
        "n[2-6,8-96]: the name n[2-6,8-96] does not resolve.",
        "n7: no answer from 10.0.0.7 port 22.",
    ]
    assert len(str(refused.value).splitlines()) == 3


class Answering(Terminal):
    """A terminal at which somebody types."""

    def __init__(self, typed: str) -> None:
        super().__init__(typed)


@pytest.mark.parametrize(
    ("typed", "writes"), [("y\n", True), ("yes\n", True), ("\n", False), ("n\n", False), ("", False)]
)
def test_a_first_contact_on_a_terminal_shows_the_hosts_and_asks_once_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, writes: bool
) -> None:
    met(monkeypatch, "c1", "n1")
    monkeypatch.chdir(tmp_path)
    shown, deployed = Terminal(), []
    monkeypatch.setattr("sys.stdin", Answering(typed))
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setattr(bootstrap, "found_and_deploy", lambda met, *_: deployed.append(met.known.cluster.name) or 0)
    with contextlib.nullcontext() if writes else pytest.raises(SlurmfabError, match=r"Nothing was written\."):
        bootstrap.deploy("", DeployOptions("c1,n1"), ConnectionOptions(user="root"), Output())
    assert deployed == (["c1"] if writes else [])
    text = "\n".join(shown_on(shown))
    assert text.count("Write configs/cluster.yaml, and deploy to these hosts? [y/N]") == 1
    assert "controller  10.0.0.1" in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [DeployOptions("c1,n1", yes=True), DeployOptions("c1,n1")])
def test_a_first_contact_with_yes_or_without_a_terminal_does_not_ask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: DeployOptions
) -> None:
    met(monkeypatch, "c1", "n1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", Answering("n\n") if options.yes else io.StringIO("n\n"))
    monkeypatch.setattr(bootstrap, "found_and_deploy", lambda *_: 0)
    assert bootstrap.deploy("", options, ConnectionOptions(user="root"), Output()) == 0


def test_the_summary_when_hosts_differ_then_has_a_row_for_each_kind_and_the_packages_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = {"slurmd": "24.11.5-4", "munge": "0.5.16", "slurm-client": "24.11.5-4"}
    met(monkeypatch, "c1", "n1", "n9", packages=packages)
    options, connection = DeployOptions("c1,n1,n9"), ConnectionOptions(user="root")
    found = bootstrap.introduce(tmp_path / "c.yaml", options, connection, Output(), bootstrap.leave_python)
    text = bootstrap.summary_text(found, options, io.StringIO())
    assert "The new cluster c1:" in text
    assert re.search(r"n\[1,9\] +compute +10\.0\.0\.\[2,9\] .*Slurm 24\.11\.5-4", text)
    assert "Packages to install on c1: openssh-client, slurmctld" in text
    assert "Packages to install on n[1,9]: openssh-client" in text


def test_the_summary_when_one_host_has_slurm_as_another_user_then_says_so_and_does_not_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met(monkeypatch, "c1", "n1", "n9")
    hosts = discovery.discover("", None, accept_new=False, ask_password=None, progress=print, refuse=print)  # type: ignore[arg-type]
    odd = host_facts("n9", accounts={"slurm": Account(1002, 1002, "/", ""), "ann": Account(64030, 64030, "/", "")})
    usual = host_facts("n1", accounts={"slurm": Account(64030, 64030, "/", "")}, groups={"slurm": 64030})
    facts = {"n1": usual, "n9": odd}
    told = tuple(
        dataclasses.replace(one, facts=facts.get(one.name, dataclasses.replace(usual, hostname="c1")))
        for one in hosts.discovered_hosts
    )
    monkeypatch.setattr(discovery, "discover", lambda *_, **__: discovery.Discovery(told, {}))
    options, connection = DeployOptions("c1,n1,n9"), ConnectionOptions(user="root")
    found = bootstrap.introduce(tmp_path / "c.yaml", options, connection, Output(), bootstrap.leave_python)
    text = bootstrap.summary_text(found, options, io.StringIO())
    assert "Users: n9: user slurm has UID 1002 there, but the cluster uses 64030" in text
    assert "Packages to install" in text


@pytest.mark.parametrize(("typed", "agreed"), [("y\n", True), ("\n", False)])
def test_python3_when_hosts_lack_it_is_installed_on_a_terminal_after_a_question_alone(
    monkeypatch: pytest.MonkeyPatch, typed: str, agreed: bool
) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Answering(typed))
    monkeypatch.setattr("sys.stderr", shown)
    with contextlib.nullcontext() if agreed else pytest.raises(SlurmfabError, match="Nothing was written or changed"):
        assert bootstrap.agrees_to_python(["n1", "n2"])
    assert shown_on(shown)[-1].startswith("n[1-2]: no python3. Install it there")


def test_a_preview_when_only_the_controller_has_python3_then_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met(monkeypatch, "c1")
    alone = discovery.discover("", None, accept_new=False, ask_password=None, progress=print, refuse=print)  # type: ignore[arg-type]
    bare = discovery.Discovery(alone.discovered_hosts, {"n1": PythonMissing("n1", "no python3.")})
    monkeypatch.setattr(discovery, "discover", lambda *_, **__: bare)
    with pytest.raises(SlurmfabError, match="n1: no python3, which the first contact installs"):
        bootstrap.preview(
            str(tmp_path / "c.yaml"), DeployOptions("c1,n1"), "", ConnectionOptions(user="root"), Output()
        )
