"""The rules of the firewall: loaded by the real nft in a namespace, guarded, kept or taken back, and removed."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.host_paths import FIREWALL_RULES
from slurmfab.on_hosts.agent.core.resource import CHANGED, FAILED, OK, Context, apply
from slurmfab.on_hosts.agent.files.firewall_rules import LINK, NO_RULES, OF, RULE_FILES, UNIT_FILE, FirewallRules
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile
from slurmfab.on_hosts.agent.services import login_guard
from slurmfab.on_hosts.agent.services.login_guard import LoginGuard
from slurmfab.on_hosts.agent.undo import undo_store
from slurmfab.on_hosts.agent.undo.restored_file import EarlierLogins

RUN = "20261121T100000.000000Z-deploy"
SITES = "table inet site { chain in { type filter hook input priority 0; }; }"


def rules(*ports: int) -> FirewallRules:
    lines = "".join(f"tcp dport {port} counter reject with icmpx type admin-prohibited\n" for port in ports)
    chain = f"chain input {{\ntype filter hook input priority filter - 1; policy accept;\n{lines}}}\n"
    text = f"{NO_RULES}table inet slurmfab {{\n{chain}}}\n"
    return FirewallRules(OF, (OwnedFile(FIREWALL_RULES, text), OwnedFile(UNIT_FILE, "[Unit]\n")))


NONE = FirewallRules(OF, ())


class Host(Context):
    """A scratch root whose programs run in a network namespace; systemd's only note that they were called."""

    def __init__(self, root: str, namespace: int) -> None:
        super().__init__(root, run_id=RUN)
        self.keep = undo_store.keep
        self.inside = ["nsenter", f"--net=/proc/{namespace}/ns/net"]
        self.programs: list[Sequence[str]] = []
        for folder in ("etc", "var/lib/slurmfab"):
            Path(root, folder).mkdir(parents=True, exist_ok=True)

    def run(self, argv: Sequence[str], *rest: Any, **more: Any) -> subprocess.CompletedProcess[bytes]:
        if argv[0] in ("systemctl", "systemd-run"):
            self.programs.append(argv)
            return subprocess.CompletedProcess(argv, 0, b"", b"")
        return super().run([*self.inside, *argv], *rest, **more)

    def closed(self) -> list[int]:
        """The ports that rules of slurmfab's close."""
        listed = self.run(["nft", "list", "table", "inet", "slurmfab"]).stdout.decode()
        return [int(line.split()[2]) for line in listed.splitlines() if "dport" in line]

    def left(self) -> list[str]:
        return [path for path in (*RULE_FILES, LINK, login_guard.EARLIER) if os.path.lexists(self.path(path))]


@pytest.fixture
def host(root: Path) -> Iterator[Host]:
    if os.getuid() != 0:
        pytest.skip("only root makes a network namespace")
    with subprocess.Popen(["unshare", "--net", "sleep", "600"]) as holder:
        try:
            found = Host(str(root), holder.pid)
            own = Path("/proc/self/ns/net").readlink()
            while Path(f"/proc/{holder.pid}/ns/net").readlink() == own and holder.poll() is None:
                pass
            if holder.poll() is not None or found.run(["nft", SITES]).returncode != 0:
                pytest.skip("no network namespace with rules here")
            yield found
        finally:
            holder.kill()


def test_rules_are_in_effect_when_proved_and_all_is_gone_without_them(host: Host) -> None:
    assert apply(rules(7, 9), host).status == CHANGED
    assert (host.closed(), apply(rules(7, 9), host).status) == ([7, 9], OK)
    assert apply(LoginGuard(proved=True), host).status == CHANGED
    assert (host.closed(), apply(LoginGuard(proved=False), host).status) == ([7, 9], OK)
    assert str(Path(host.path(LINK)).readlink()) == "../slurmfab-firewall.service"
    assert apply(NONE, host).status == CHANGED
    assert apply(LoginGuard(proved=True), host).status == CHANGED
    assert (host.closed(), host.left(), apply(NONE, host).status) == ([], [], OK)
    assert "chain in" in host.must(["nft", "list", "table", "inet", "site"]), "others' tables stay"


def test_rules_that_are_not_proved_are_taken_back_to_those_of_before_or_none(host: Host) -> None:
    apply(rules(7), host)
    assert apply(LoginGuard(proved=False), host).status == CHANGED
    assert host.closed() == []
    assert apply(rules(7), host).status == CHANGED, "there is a file without rules"
    apply(LoginGuard(proved=True), host)
    apply(rules(7, 9), host)
    assert host.closed() == [7, 9]
    armed = next(argv for argv in reversed(host.programs) if argv[0] == "systemd-run")
    script = list(armed[armed.index("sh") :])
    script[2] = script[2].removeprefix(login_guard.WAIT)
    host.must(script)
    assert host.closed() == [7], "the unit of systemd does so by itself, too"
    assert login_guard.EARLIER not in host.left()


def test_rules_that_somebody_changes_or_deletes_come_back(host: Host) -> None:
    apply(rules(7), host)
    apply(LoginGuard(proved=True), host)
    host.must(["nft", "flush", "chain", "inet", "slurmfab", "input"])
    (change,) = apply(rules(7), host).changes
    assert (change.name, host.closed()) == ("rules in effect", [7])
    host.must(["nft", "delete", "table", "inet", "slurmfab"])
    assert apply(rules(7), host).status == CHANGED
    assert host.closed() == [7]


def test_rules_that_nft_refuses_change_nothing(host: Host) -> None:
    bad = FirewallRules(OF, (OwnedFile(FIREWALL_RULES, "table inet slurmfab { chain }\n"),))
    found = apply(bad, host)
    assert (found.status, "syntax error" in found.message) == (FAILED, True), found.message
    assert host.left() == []


def test_a_rollback_brings_earlier_rules_back_under_the_guard(host: Host) -> None:
    apply(rules(7), host)
    apply(LoginGuard(proved=True), host)
    host.run_id = RUN.replace("T10", "T11")
    apply(rules(9), host)
    apply(LoginGuard(proved=True), host)
    back = EarlierLogins(FIREWALL_RULES, ((FIREWALL_RULES, host.run_id),))
    host.run_id = RUN.replace("T10", "T12")
    assert apply(back, host).status == CHANGED
    assert host.closed() == [7]
    apply(LoginGuard(proved=False), host)
    assert host.closed() == [9]
