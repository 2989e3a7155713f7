"""The loop that every resource goes through: read, compare, converge, read again."""

# ruff: noqa: ARG002 - a small resource does not need all that the contract hands it

from __future__ import annotations

import importlib
import json
import re
from typing import Any

import pytest

from slurmfab.on_hosts.agent.core.differences import digests
from slurmfab.on_hosts.agent.core.resource import (
    Context,
    Resource,
    ResourceFailed,
    State,
    apply,
    as_request,
    compare,
    describe,
)
from slurmfab.on_hosts.agent.files.file import File
from slurmfab.on_hosts.agent.identities.user import User
from slurmfab.on_hosts.agent.kinds import KINDS, build
from slurmfab.on_hosts.agent.munge.key import MungeKey
from slurmfab.on_hosts.agent.packages.packages import Packages
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.agent.slurm.files import SlurmFiles


class Lamp(Resource):
    """A resource whose state is in memory; converging a `broken` one changes nothing."""

    kind = "lamp"
    light: Any
    state: dict[str, Any]
    broken: bool = False
    secret: bool = False

    def name(self) -> str:
        return "desk"

    def secrets(self) -> frozenset[str]:
        return frozenset({"light"} if self.secret else ())

    def wanted(self, context: Context) -> State:
        return {"light": self.light}

    def actual(self, context: Context) -> State:
        return dict(self.state)

    def touches(self, differing: frozenset[str]) -> tuple[str, ...]:
        return tuple("/lamp/" + name for name in differing)

    def converge(self, context: Context, differing: frozenset[str]) -> None:
        if self.light == "impossible":
            raise ResourceFailed("no such bulb")
        if not self.broken:
            self.state["light"] = self.light


def test_a_resource_when_it_is_right_is_ok() -> None:
    outcome = apply(Lamp("on", {"light": "on"}), Context())
    assert (outcome.status, outcome.changes) == ("ok", ())


def test_a_resource_when_it_differs_is_changed_and_touches_what_differs() -> None:
    context, lamp = Context(), Lamp("on", {})
    outcome = apply(lamp, context)
    assert (outcome.id, outcome.status) == ("lamp:desk", "changed")
    assert lamp.state == {"light": "on"}
    assert context.touched == {"/lamp/light"}


def test_a_resource_in_a_dry_run_is_not_changed_and_touches_what_would_differ() -> None:
    context, lamp = Context(dry_run=True), Lamp("on", {})
    outcome = apply(lamp, context)
    assert (outcome.status, lamp.state) == ("would change", {})
    assert context.touched == {"/lamp/light"}


def test_a_resource_that_still_differs_after_converging_has_failed() -> None:
    outcome = apply(Lamp("on", {"light": "off"}, broken=True), Context())
    assert (outcome.status, outcome.message) == ("failed", "after the change, light is off")


class SharedLamp(Lamp):
    """A lamp that other hosts switch, too, so that it flickers after it was switched."""

    settling_seconds = 30.0
    flickers: int = 2

    def actual(self, context: Context) -> State:
        if self.state.get("light") == self.light and self.state.setdefault("looks", 0) < self.flickers:
            self.state["looks"] += 1
            return {"light": None}
        return super().actual(context)


def test_a_resource_that_others_change_too_when_it_settles_then_is_changed() -> None:
    outcome = apply(SharedLamp("on", {"light": "off"}), Context())
    assert (outcome.status, outcome.message) == ("changed", "")


def test_a_resource_that_cannot_converge_has_failed_with_the_differences() -> None:
    outcome = apply(Lamp("impossible", {}), Context())
    assert (outcome.status, outcome.message, len(outcome.changes)) == ("failed", "no such bulb", 1)


@pytest.mark.parametrize(
    ("actual", "wanted", "expected"),
    [
        (None, 5, ("", "5", "")),
        (["a", "b"], ["a"], ("a,b", "a", "")),
        ("a\nb\n", "a\nc\n", ("", "", "--- actual\n+++ wanted\n@@ -1,2 +1,2 @@\n a\n-b\n+c")),
        ("a\n", "a", ("", "", "only the line ends differ")),
        ("\x1b[2J\udcff", "x", ("\\x1b[2J\\udcff", "x", "")),
    ],
)
def test_a_difference_is_readable_and_safe_to_print(
    actual: object, wanted: object, expected: tuple[str, str, str]
) -> None:
    (change,) = compare(Lamp(wanted, {"light": actual}), Context())
    assert (change.actual, change.wanted, change.diff) == expected


def test_a_difference_when_long_is_cut() -> None:
    (change,) = compare(Lamp("x\n" * 500, {"light": "y\n" * 500}), Context())
    assert change.diff.endswith("more lines")
    assert len(change.diff.splitlines()) == 201


def test_a_difference_when_secret_shows_neither_side() -> None:
    (change,) = compare(Lamp("password", {"light": "old password"}, secret=True), Context())
    assert (change.actual, change.wanted, change.diff) == ("", "differs", "")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_in_the_table_is_the_kind_of_its_class(kind: str) -> None:
    module, _, name = KINDS[kind].partition(":")
    assert getattr(importlib.import_module("slurmfab.on_hosts.agent." + module), name).kind == kind


@pytest.mark.parametrize(
    "resource",
    [
        File("/a", "text", mode=0o600),
        User("slurm", 64030, "slurm", "/var/lib/slurm", "/bin/bash"),
        Packages(("munge", "slurmd")),
        Service("slurmd", ("/etc/slurm/slurm.conf",), reload=("scontrol", "reconfigure")),
        SlurmFiles("/etc/slurm", (("slurm.conf", "a"), ("gres.conf", "")), "n1"),
        MungeKey(),
    ],
)
def test_a_resource_when_it_travels_as_json_arrives_equal(resource: Resource) -> None:
    assert build(json.loads(json.dumps(as_request(resource)))) == resource


def test_a_file_when_printed_does_not_show_its_content() -> None:
    assert "battery" not in repr(File("/a", "battery", secret=True))


def test_a_program_that_fails_is_named_with_the_end_of_its_output() -> None:
    with pytest.raises(ResourceFailed, match=r"sh -c .* ended with exit code 7: it \| hurts"):
        Context().must(["sh", "-c", "echo it >&2; echo hurts >&2; exit 7"])


def test_a_program_when_missing_or_slow_is_named() -> None:
    with pytest.raises(ResourceFailed, match="no-such-program is not installed"):
        Context().run(["no-such-program"])
    with pytest.raises(ResourceFailed, match="sleep 60 did not end"):
        Context().run(["sleep", "60"], seconds=0.05)


def test_a_difference_has_digests_only_with_a_key_and_for_values_that_are_not_shown_in_full() -> None:
    lamp = Lamp(light="on", state={"light": "off"})
    secret = File("/a", "battery", secret=True)
    assert compare(lamp, Context(digest_key="key"))[0].digest == ""
    assert describe("x", "a\nb", "a\nc").digest == ""
    long = describe("x", "a\nb", "a\nc", key="key")
    assert re.fullmatch("[0-9a-f]{32}/[0-9a-f]{32}", long.digest)
    hidden = describe("content", "old", secret.content, is_secret=True, key="key")
    assert (hidden.actual, hidden.wanted) == ("", "differs")
    assert hidden.digest.partition("/")[2] == digests("", "battery", "key").partition("/")[2]


@pytest.mark.parametrize("other", [("old", "new", "key2"), ("old2", "new", "key"), ("old", "new2", "key")])
def test_digests_differ_for_other_values_and_for_another_key(
    other: tuple[str, str, str],
) -> None:
    assert digests("old", "new", "key") == digests("old", "new", "key")
    assert digests("old", "new", "key") != digests(*other)
    assert digests(None, "new", "key").partition("/")[0] == digests("", "new", "key").partition("/")[0]


def test_a_program_speaks_english_whatever_language_the_host_has(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LANG", "de_DE.UTF-8"), ("LANGUAGE", "de"), ("LC_MESSAGES", "de_DE.UTF-8")):
        monkeypatch.setenv(name, value)
    assert context.run(["sh", "-c", "echo $LC_ALL,$LANGUAGE"]).stdout == b"C.UTF-8,\n"
