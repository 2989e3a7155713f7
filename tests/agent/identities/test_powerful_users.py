"""Who may become root on a host, as notebooks ask it; `test_hostbased_logins.py` has the rules of sudo and doas."""

from __future__ import annotations

import json
import pwd
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.resource import Context, ResourceFailed
from slurmfab.on_hosts.agent.identities import powerful_users
from slurmfab.on_hosts.agent.identities.powerful_users import Powerful, why_by_sudo, why_powerful

MORE = Powerful({"boss"}, {"docker", "sudo"})


@pytest.fixture
def host(tmp_path: Path) -> Context:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\nlent:x:1007:1000::/:/bin/sh\n"
    )
    (tmp_path / "etc/group").write_text("root:x:0:\nops:x:2000:ann\nsudo:x:27:lent\n")
    return Context(str(tmp_path))


@pytest.mark.parametrize(
    ("user", "groups", "rule", "why"),
    [
        (("ann", 1000), (), "", ""),
        (("ann", 1000), ("users",), "bob", ""),
        (("ann", 999), (), "", "system user"),
        (("boss", 1000), (), "", "cluster file"),
        (("alias", 1000), (), "ann", "sudo or doas"),
        (("twin", 1007), (), "", "it has the UID of lent"),
        (("ann", 1000), ("users", "docker"), "", "in the group docker"),
        (("ann", 1000), (), "1000", "sudo or doas"),
        (("ann", 1000), ("ops",), ":ops", "in the group ops"),
        (("ann", 1000), ("Ops",), ":ops", "in the group Ops"),
        (("a.n", 1000), (), "axn", ""),
    ],
)  # fmt: skip
def test_a_user_when_something_lets_it_become_root_then_the_reason_is_told(
    host: Context, user: tuple[str, int], groups: tuple[str, ...], rule: str, why: str
) -> None:
    Path(host.path("/etc/doas.conf")).write_text(f"permit {rule}\n" if rule else "")
    entry = pwd.struct_passwd((user[0], "x", user[1], user[1], "", "/", "/bin/sh"))
    told = why_powerful(host, entry, groups, MORE)
    assert why in told if why else told == ""


def test_rules_of_sudo_when_they_cannot_be_read_then_nobody_is_taken_for_harmless(host: Context) -> None:
    Path(host.path("/etc/sudoers")).write_text("# nothing\n")
    host.must = lambda *_, **__: "no JSON"  # type: ignore[method-assign]
    ann = pwd.struct_passwd(("ann", "x", 1000, 1000, "", "/", "/bin/sh"))
    assert "cannot be read" in why_powerful(host, ann, (), MORE)
    host.must = lambda *_, **__: json.dumps({"User_Specs": []})  # type: ignore[method-assign]
    assert "no program sudo that could be asked" in why_powerful(host, ann, (), MORE)


@pytest.mark.parametrize(
    ("said", "is_harmless"),
    [
        ("User ann is not allowed to run sudo on n1.\n", True),
        ("User ann is not allowed to run sudo on n1.example.org.\n", True),
        ("User bob is not allowed to run sudo on n1.\n", False),
        ("User ann may run the following commands on n1:\n    (ALL : ALL) ALL\n", False),
        ("User ann may run the following commands on n1:\n    User ann is not allowed to run sudo on n1.\n", False),
        ("L'utilisateur ann n'est pas autorisé à exécuter sudo sur n1.\n", False),
        ("", False),
        (ResourceFailed("sudo did not end within 20 s"), False),
    ],
)
def test_sudo_when_it_does_not_say_that_a_user_may_run_nothing_then_it_may(
    said: str | ResourceFailed, is_harmless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(argv: tuple[str, ...], **how: Any) -> subprocess.CompletedProcess[bytes]:
        asked.append(argv)
        assert how["seconds"] <= 30
        if isinstance(said, ResourceFailed):
            raise said
        return subprocess.CompletedProcess(argv, 0, said.encode(), b"sudo: unable to resolve host n1\n")

    monkeypatch.setattr(shutil, "which", lambda name, path: f"{path}/{name}" if name != "sudo.ws" else None)
    context = Context()
    context.run = answer  # type: ignore[assignment,method-assign]
    why = why_by_sudo(context, ["ann"])
    assert (why == "") is is_harmless, why
    asked_all = [(name, "-n", "-l", "-U", "ann") for name in powerful_users.SUDOS if name != "sudo.ws"]
    assert asked == (asked_all if is_harmless else asked_all[:1])
