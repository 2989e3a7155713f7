"""What doctor says of the way to hosts."""

from __future__ import annotations

import time

import pytest

from slurmfab.base.errors import HostError, InputError, LoginRefused, Unreachable
from slurmfab.cluster.inventory.slurm_packages import SlurmPackages
from slurmfab.cluster.slurm.platform import SYSTEMS
from slurmfab.commands.checks.shell import CommandResult
from slurmfab.commands.doctor import hosts
from slurmfab.commands.doctor.finding import FAILURE, OK, WARNING, Finding
from slurmfab.commands.doctor.hosts import SYSTEM, Answer, System, parsed_system

TRIXIE = System("trixie", ("debian",))
MIRROR = "http://mirror.example.org/debian/"


class FakeShell:
    """A host that tells its time, and whether its mirror answers."""

    host = "n1"

    def __init__(self, clock: str, mirrors: str = f"yes {MIRROR}\n") -> None:
        self.clock, self.mirrors = clock, mirrors

    def run(self, command: str, stdin: str = "", seconds: float = 0.0) -> CommandResult:  # noqa: ARG002
        told = {hosts.CLOCK: self.clock, hosts.MIRRORS: self.mirrors, SYSTEM: "trixie\ndebian \n"}
        return CommandResult(0, told[command].encode())


def judged(answers: dict[str, Answer | HostError | InputError], *, has_bundle: bool = False) -> dict[str, Finding]:
    return {one.subject: one for one in hosts.judged(answers, has_bundle=has_bundle)}


def answer(offset: float = 0.0, **reasons: str) -> Answer:
    return Answer(offset, 0.1, {MIRROR: "", **reasons}, TRIXIE)


def test_a_host_when_asked_then_its_clock_is_compared_with_ours() -> None:
    found = hosts.ask(FakeShell(str(time.time() + 60)), with_mirrors=True)  # type: ignore[arg-type]
    assert 50 < found.offset < 70
    assert found.mirrors == {MIRROR: ""}
    assert hosts.ask(FakeShell("1"), with_mirrors=False).mirrors == {}  # type: ignore[arg-type]


@pytest.mark.parametrize("clock", ["", "noon", "nan", "inf", "\xff"])
def test_a_host_when_it_tells_no_time_then_is_an_error_of_that_host(clock: str) -> None:
    with pytest.raises(HostError, match="does not tell the time"):
        hosts.ask(FakeShell(clock), with_mirrors=False)  # type: ignore[arg-type]


def test_mirrors_when_told_then_are_bounded_and_strangers_are_left_out() -> None:
    told = f"no {MIRROR} E: {'x' * 1000}\nwhat\nno\n" + "".join(f"yes http://m{number}/\n" for number in range(99))
    found = hosts.parsed_mirrors(told.encode())
    assert len(found) <= hosts.MOST_MIRRORS
    assert len(found[MIRROR]) == hosts.LONGEST_REASON


def test_hosts_when_all_is_well_then_are_one_line_each() -> None:
    found = judged({"n1": answer(), "n2": answer()})
    assert {one.state for one in found.values()} == {OK}
    assert found["hosts"].text == "n[1-2]: the login works"


def test_hosts_when_some_cannot_be_reached_then_each_is_named_with_its_reason() -> None:
    found = judged({"n1": answer(), "n2": Unreachable("n2", "nothing listens at 10.0.0.2 port 22. Is the host up?")})
    assert found["n2"] == Finding("n2", FAILURE, "nothing listens at 10.0.0.2 port 22. Is the host up?", is_host=True)
    assert found["hosts"].text == "n1: the login works"


def test_a_node_that_may_sleep_when_it_does_not_answer_then_is_no_failure() -> None:
    silent, refused = Unreachable("n2", "no answer."), LoginRefused("n3", "refused.")
    found = {
        one.subject: one for one in hosts.judged({"n2": silent, "n3": refused}, has_bundle=True, sleepers=["n2", "n3"])
    }
    assert found["n2"].state == WARNING
    assert "may have switched it off" in found["n2"].text
    assert found["n3"].state == FAILURE


def test_hosts_when_our_own_key_is_the_reason_then_that_is_told_once() -> None:
    found = list(
        hosts.judged({"n1": InputError("The key is gone."), "n2": InputError("The key is gone.")}, has_bundle=True)
    )
    assert found == [Finding("hosts", FAILURE, "The key is gone.")]


@pytest.mark.parametrize(
    ("offsets", "told"),
    [
        ((90.0, 0.0), "n1 90 s ahead"),
        ((-90.0, 0.0), "n1 90 s behind"),
        ((90.0, 91.0), "this machine's is 90 s behind those of all hosts"),
        ((-90.0, -90.0), "this machine's is 90 s ahead of those of all hosts"),
        ((-90.0, 90.0), "n1 90 s behind, n2 90 s ahead"),
    ],
)
def test_clocks_when_they_differ_then_it_is_told_whose(offsets: tuple[float, float], told: str) -> None:
    found = judged({"n1": answer(offsets[0]), "n2": answer(offsets[1])})["hosts' clocks"]
    assert found.state == WARNING
    assert told in found.text


def test_mirrors_when_hosts_cannot_reach_one_then_hosts_and_reason_are_named() -> None:
    broken = Answer(0.0, 0.1, {MIRROR: "E: Could not resolve mirror.example.org."}, TRIXIE)
    found = judged({"n1": broken, "n2": broken, "n3": answer()})["package mirrors"]
    assert found.state == WARNING
    assert found.text.startswith(f"n[1-2]: cannot fetch from {MIRROR}: E: Could not resolve mirror.example.org. See")
    assert judged({"n1": broken}, has_bundle=True)["package mirrors"].state == OK


def test_mirrors_when_packages_come_through_one_host_then_the_others_need_none() -> None:
    answers = {"ctl": answer(), "n1": Answer(0.0, 0.1, {}, TRIXIE)}
    found = {one.subject: one for one in hosts.judged(answers, has_bundle=False, through="ctl")}["package mirrors"]
    assert (found.state, found.text) == (OK, "ctl: all package sources answer")


def test_mirrors_when_a_host_has_none_then_that_is_told() -> None:
    assert "no package source" in judged({"n1": Answer(0.0, 0.1, {}, TRIXIE)})["package mirrors"].text


@pytest.mark.parametrize(
    ("output", "system"),
    [
        ("trixie\ndebian \n", TRIXIE),
        ("noble\nubuntu debian\nslurm-wlm 23.11.4\n", System("noble", ("ubuntu", "debian"), "slurm-wlm 23.11.4")),
        ("\nfedora \n", System("", ("fedora",))),
        ("", System("", ())),
        ("x\x1b[31m\ndebian\n" + "y" * 100, System("", ("debian",))),
    ],
)
def test_a_system_when_a_host_tells_it_then_words_alone_are_taken(output: str, system: System) -> None:
    assert parsed_system(output.encode()) == system


@pytest.mark.parametrize(
    ("system", "told"),
    [
        (
            System("", ("fedora",)),
            f"n1: it runs fedora; slurmfab deploys to {SYSTEMS} (docs/supported.md).",
        ),
        (System("", ()), "it runs an unknown system"),
        (System("jammy", ("ubuntu", "debian")), "Slurm 21.08 is too old"),
        (System("trixie", ("debian",), "slurm 20.11.4"), "Slurm 20.11 is too old"),
        (System("warty", ("ubuntu", "debian")), "does not know which Slurm the release “warty” has"),
    ],
)
def test_a_system_when_it_is_not_supported_then_the_page_of_those_that_are_is_named(system: System, told: str) -> None:
    one = Answer(0.0, 0.1, {MIRROR: ""}, system)
    found = judged({"n1": one, "n2": answer()})["hosts' systems"]
    assert (found.state, found.is_host) == (FAILURE, True)
    assert told in found.text
    assert "docs/supported.md" in found.text


def test_a_system_when_its_slurm_comes_from_elsewhere_then_its_own_slurm_does_not_matter() -> None:
    jammy = ("ubuntu", "debian")
    newer = {"n1": Answer(0.0, 0.1, {MIRROR: ""}, System("jammy", jammy, "slurm 25.11.2"))}
    assert judged(newer)["hosts' systems"] == Finding("hosts' systems", OK, "n1: jammy")
    bare = {"n1": Answer(0.0, 0.1, {MIRROR: ""}, System("jammy", jammy))}
    chosen = SlurmPackages(version="25.11.*")
    found = {one.subject: one for one in hosts.judged(bare, has_bundle=True, slurm_of=lambda _: chosen)}
    assert found["hosts' systems"].state == OK
