"""What doctor says of a user's SSH, with real keys and a real agent."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ssh_keys import ED25519

from slurmfab.commands.doctor.finding import FAILURE, OK, WARNING, Finding
from slurmfab.commands.doctor.ssh_setup import Agent, agent_and_keys, ask_agent, known_hosts, ssh_config

NO_AGENT = Agent(is_there=False, answers=False, keys={})


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir(mode=0o700)
    return tmp_path


@pytest.fixture
def agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running SSH agent without keys."""
    path = home / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.PIPE)
    assert process.stdout
    process.stdout.readline()
    monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
    yield path
    process.kill()
    process.wait()


def make_key(home: Path, name: str = "id_ed25519", passphrase: str = "") -> Path:
    path = home / ".ssh" / name
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", str(path)], check=True)
    return path


def keys_of(agent: Agent, named: str = "") -> Finding:
    """The most serious finding about keys."""
    found = [one for one in agent_and_keys(agent, named, ()) if one.subject == "SSH keys"]
    return max(found, key=lambda one: (OK, WARNING, FAILURE).index(one.state))


def test_a_key_without_passphrase_when_it_is_there_then_is_fine(home: Path) -> None:
    path = make_key(home)
    assert keys_of(NO_AGENT) == Finding("SSH keys", OK, str(path))


def test_no_key_when_there_is_no_agent_either_then_is_a_failure_with_the_repair(home: Path) -> None:  # noqa: ARG001
    found = keys_of(NO_AGENT)
    assert found.state == FAILURE
    assert "ssh-keygen -t ed25519" in found.text


def test_a_key_with_passphrase_when_no_agent_has_it_then_ssh_add_is_the_repair(home: Path) -> None:
    path = make_key(home, passphrase="secret")
    found = keys_of(NO_AGENT)
    assert found.state == FAILURE
    assert f"ssh-add {path}" in found.text
    assert "secret" not in found.text


def test_a_key_with_passphrase_when_the_agent_has_it_then_is_fine(home: Path, agent: Path) -> None:
    path = make_key(home, passphrase="secret")
    assert ask_agent(os.environ) == Agent(is_there=True, answers=True, keys={})
    asking = {
        **os.environ,
        "SSH_AUTH_SOCK": str(agent),
        "SSH_ASKPASS": str(home / "ask"),
        "SSH_ASKPASS_REQUIRE": "force",
    }
    (home / "ask").write_text("#!/bin/sh\necho secret\n")
    (home / "ask").chmod(0o700)
    subprocess.run(["ssh-add", "-q", str(path)], env=asking, check=True)
    found = keys_of(ask_agent(os.environ))
    assert (found.state, found.text) == (OK, "1 in the SSH agent")


def test_an_agent_when_its_socket_is_gone_then_is_named(home: Path) -> None:
    make_key(home)
    silent = ask_agent({"SSH_AUTH_SOCK": str(home / "gone")})
    found = next(iter(agent_and_keys(silent, "", ())))
    assert (found.subject, found.state) == ("SSH agent", WARNING)


def test_a_key_that_others_can_read_when_found_then_chmod_is_the_repair(home: Path) -> None:
    path = make_key(home)
    path.chmod(0o644)
    found = keys_of(NO_AGENT)
    assert found.state == WARNING
    assert f"chmod 600 {path}" in found.text


@pytest.mark.parametrize(("passphrase", "text"), [("secret", "has a passphrase"), (None, "does not exist")])
def test_the_key_of_the_cluster_file_when_it_cannot_be_used_then_is_a_failure(
    home: Path, passphrase: str | None, text: str
) -> None:
    make_key(home)
    named = home / ".ssh/named"
    if passphrase is not None:
        make_key(home, "named", passphrase)
    found = keys_of(NO_AGENT, str(named))
    assert found.state == FAILURE
    assert text in found.text


def test_known_hosts_when_some_lines_are_hashed_or_damaged_then_says_so(home: Path) -> None:
    path = home / ".ssh/known_hosts"
    path.write_text(
        f"# mine\nn1 ssh-ed25519 {ED25519}\n|1|c2FsdA==|aGFzaA== ssh-ed25519 {ED25519}\nn3 ssh-ed25519 AAAA\n"
    )
    damaged, summary = known_hosts([str(path), str(home / "none")])
    assert damaged.state == WARNING
    assert f"{path}:4" in damaged.text
    assert (summary.state, summary.text) == (OK, "2 keys, 1 of them under hashed names")


def test_known_hosts_when_it_cannot_be_read_then_is_a_failure(home: Path) -> None:
    (home / ".ssh/known_hosts").mkdir()
    assert next(iter(known_hosts([str(home / ".ssh/known_hosts")]))).state == FAILURE


@pytest.mark.parametrize(
    ("text", "mode", "state"),
    [
        ("Host n1\n  Port 2222\n", 0o600, OK),
        ("Host n1\n  Port 2222\n", 0o666, WARNING),
        ("Host n1\n  nonsense\n", 0o600, FAILURE),
    ],
)
def test_ssh_config_when_looked_at_then_is_judged(home: Path, text: str, mode: int, state: str) -> None:
    path = home / ".ssh/config"
    path.write_text(text)
    path.chmod(mode)
    assert next(iter(ssh_config([path]))).state == state
