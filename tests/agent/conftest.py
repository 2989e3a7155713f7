"""A scratch root for resources, and local agents."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from local_agent import Agent

from slurmfab.on_hosts.agent.core.resource import Context


@pytest.fixture
def start_agent() -> Iterator[Callable[[], Agent]]:
    """A function that starts agents, which are stopped after the test."""
    agents: list[Agent] = []

    def start() -> Agent:
        agents.append(Agent())
        return agents[-1]

    yield start
    for one in agents:
        one.end()


@pytest.fixture
def agent(start_agent: Callable[[], Agent]) -> Agent:
    """One running agent."""
    return start_agent()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A scratch root whose users root, slurm and munge all have the UID of the user who runs the tests."""
    me = f"{os.getuid()}:{os.getgid()}"
    (tmp_path / "etc").mkdir()
    users = {"root": "/root", "slurm": "/var/lib/slurm", "munge": "/nonexistent"}
    (tmp_path / "etc/passwd").write_text("".join(f"{user}:x:{me}::{home}:/bin/sh\n" for user, home in users.items()))
    (tmp_path / "etc/group").write_text("".join(f"{user}:x:{os.getgid()}:\n" for user in users))
    return tmp_path


@pytest.fixture
def context(root: Path) -> Context:
    """A request's context in the scratch root."""
    return Context(str(root))
