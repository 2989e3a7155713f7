"""A conversation with an agent: what a host may say before, instead of and after its greeting."""

from __future__ import annotations

import itertools
import json
import re
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator

import pytest

from slurmfab.base.errors import (
    AgentFailed,
    AnotherRun,
    BecomeRefused,
    ConnectionLost,
    HostError,
    PythonMissing,
    SudoPasswordNeeded,
    SudoPasswordWrong,
)
from slurmfab.hosts.answer_bounds import (
    ANSWER_BYTES,
    CHATTER_BYTES,
    LEAST_RATE,
    MOST_SMALL_PARTS,
    OTHER_BYTES,
    PATIENCE_SECONDS,
    SMALL_PART,
    START_BYTES,
    TEXT_LENGTH,
    AnswerBounds,
    Patience,
)
from slurmfab.hosts.payload import BOOT, needed_modules, payload
from slurmfab.hosts.payload import GREETING as GREETING_TEXT
from slurmfab.hosts.session import GREETING, SUDO_PROMPT, Line, Session, command
from slurmfab.on_hosts.agent.main import MODULES

PROMPT = SUDO_PROMPT.encode()
CODE = b"%d\n%s" % (len(payload()), payload())
PASSWORD = "correct horse"
DONE = b'{"done": true}\n'

Said = bytes | Exception
KEY = {"kind": "ssh-key", "user": "slurm", "home": "/var/lib/slurm/home"}
MOVED = {"kind": "moved-ids", "user": "slurm", "uid": 64030, "gid": 64030}
TWO_KEYS = {"op": "apply", "dry_run": True, "resources": [KEY, {**KEY, "user": "munge"}]}
ALIVE = b'{"alive": true, "at": "ssh-key:slurm", "seconds": 5.0}\n'


class Script:
    """A stream that says what a host would, piece by piece, and remembers what it was sent.

    Args:
        says: pieces in order; an exception is raised in its turn, and after the last piece the stream is at its end.
        deaf: whether sending fails, as to a program that has ended.
        code: the exit code of the command.
    """

    def __init__(self, *says: Said, deaf: bool = False, code: int | None = None) -> None:
        self.says = list(says)
        self.code = code
        self.deaf = deaf
        self.sent: list[bytes] = []
        self.is_closed = False

    def sendall(self, data: bytes) -> None:
        if self.deaf:
            raise OSError("Socket is closed")
        self.sent.append(data)

    def recv(self, size: int) -> bytes:  # noqa: ARG002
        piece = self.says.pop(0) if self.says else b""
        if isinstance(piece, Later):
            piece.clock.now += piece.seconds
        if isinstance(piece, Exception):
            raise piece
        return piece

    def close(self) -> None:
        self.is_closed = True

    def has_room(self) -> bool:
        return True

    def exit_code(self) -> int | None:
        return self.code


def started(*says: Said, become: bool = False, password: str = "") -> tuple[Session, Script]:
    stream = Script(*says)
    session = Session("n1", stream)
    session.start(become=become, password=password)
    return session, stream


def refused(
    *says: Said, become: bool = False, password: str = "", deaf: bool = False, code: int | None = None
) -> HostError:
    """The error with which a start ends."""
    with pytest.raises(HostError) as caught:
        Session("n1", Script(*says, deaf=deaf, code=code)).start(become=become, password=password)
    assert caught.value.host == "n1"
    assert PASSWORD not in str(caught.value)
    return caught.value


def answer(
    *says: Said, heard: Callable[[Line], None] = lambda _: None, request: Line | None = None, clock: Clock | None = None
) -> tuple[Line, ...]:
    session = Session("n1", Script(GREETING, *says), clock or Clock())
    session.start(become=False)
    return session.ask(request or {"op": "facts"}, heard)


class Clock:
    """A clock that a test moves on."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def later(self, seconds: float, says: Said) -> Later:
        """Output that comes after some seconds."""
        return Later(self, seconds, says)


class Later(bytes):
    """Output of a script that moves a clock on when it is read."""

    clock: Clock
    seconds: float

    def __new__(cls, clock: Clock, seconds: float, says: Said) -> Later:
        assert isinstance(says, bytes)
        later = super().__new__(cls, says)
        later.clock, later.seconds = clock, seconds
        return later


def test_the_greeting_is_the_one_that_the_boot_code_prints() -> None:
    assert f"{GREETING_TEXT}\n".encode() == GREETING


@pytest.mark.parametrize("become", [False, True])
def test_the_command_line_is_constant_and_has_nothing_but_the_boot_code(become: bool) -> None:
    words = shlex.split(command(become=become))
    sudo = (
        [
            "/usr/bin/env",
            "LC_ALL=C.UTF-8",
            "LANGUAGE=",
            "/usr/bin/sudo",
            "-S",
            "-p",
            SUDO_PROMPT.replace("%", "%%"),
            "--",
        ]
        if become
        else []
    )
    assert words == ["exec", *sudo, "/usr/bin/python3", "-I", "-B", "-S", "-c", BOOT]


def test_without_sudo_the_code_is_sent_at_once() -> None:
    _, stream = started(GREETING)
    assert stream.sent == [CODE]


def test_what_the_shell_prints_before_the_greeting_is_passed_over() -> None:
    session, _ = started(b"Welcome to n1!\n{not json\n", GREETING[:5], GREETING[5:] + b'{"facts": {}}\n', DONE)
    assert session.ask({"op": "facts"}) == ({"facts": {}},)


def test_a_sudo_that_asks_nothing_gets_the_code_after_the_greeting_and_no_password() -> None:
    _, stream = started(GREETING, become=True, password=PASSWORD)
    assert stream.sent == [CODE]


def test_a_sudo_that_asks_gets_the_password_once_and_then_the_code() -> None:
    _, stream = started(b"lecture\n", PROMPT[:10], PROMPT[10:], b"\n", GREETING, become=True, password=PASSWORD)
    assert stream.sent == [PASSWORD.encode() + b"\n", CODE]


def test_a_sudo_that_asks_when_no_password_is_known_gets_nothing() -> None:
    error = refused(PROMPT, become=True)
    assert isinstance(error, SudoPasswordNeeded)
    assert "--ask-sudo-password" in error.reason
    assert "users whom it will refuse" in error.reason


def test_a_password_is_given_to_a_sudo_once_and_no_more() -> None:
    error = refused(PROMPT, b"Sorry, try again.\n" + PROMPT, PROMPT, become=True, password=PASSWORD)
    assert type(error) is SudoPasswordWrong
    assert "does not accept the password" in error.reason


@pytest.mark.parametrize("words", [b"1 incorrect password attempt", b"maximum 1 incorrect authentication attempts"])
def test_a_sudo_that_asks_only_once_is_known_to_have_refused_the_password(words: bytes) -> None:
    error = refused(PROMPT, b"\nsudo: " + words + b"\n", become=True, password=PASSWORD)
    assert type(error) is SudoPasswordWrong


def test_sudo_rs_which_puts_its_own_words_around_the_question_gets_the_password_once() -> None:
    asks = b"[sudo: " + PROMPT + b"] Password: \n"
    _, stream = started(asks, GREETING, become=True, password=PASSWORD)
    assert stream.sent == [PASSWORD.encode() + b"\n", CODE]
    again = refused(asks, b"sudo: Authentication failed, try again.\n" + asks, become=True, password=PASSWORD)
    assert type(again) is SudoPasswordWrong


@pytest.mark.parametrize(
    ("words", "kind", "reason"),
    [
        (b"bash: line 1: exec: python3: not found\n", PythonMissing, "python3 is not installed"),
        (b"sh: 1: exec: python3: not found\n", PythonMissing, "python3 is not installed"),
        (b"zsh:1: command not found: python3\n", PythonMissing, "python3 is not installed"),
        (b"sudo: python3: command not found\n", PythonMissing, "python3 is not installed"),
        (b"sudo: 'python3': command not found\n", PythonMissing, "python3 is not installed"),
        (b"sudo: I'm sorry ann. I'm afraid I can't do that\n", BecomeRefused, "can't do that, so no password helps"),
        (b"bash: line 1: exec: sudo: not found\n", BecomeRefused, "sudo is not installed"),
        (b"admin is not in the sudoers file.\n", BecomeRefused, "sudo refused: admin is not in the sudoers file"),
        (b"Sorry, user ann may not run sudo on n1.\n", BecomeRefused, "ann may not run sudo, so no password helps"),
        (b"x is not in the sudoers file.\nThis incident has been reported.\n", BecomeRefused, "no password helps"),
        (
            b"Sorry, user ann is not allowed to execute 'env python3 -c not found' as root.\n",
            BecomeRefused,
            "execute, so",
        ),
        (b"sudo: a password is required\n", BecomeRefused, "sudo refused: sudo: a password is required"),
        (
            b'Please login as the user "ubuntu" rather than the user "root".\n\n',
            AgentFailed,
            "--user ubuntu at first contact, ssh: {user: ubuntu, become: sudo} in the cluster file",
        ),
        (b"This account is currently not available.\n", AgentFailed, "a login shell that runs no command"),
        (
            b"WARNING: Your password has expired.\nPassword change required but no TTY available.\n",
            AgentFailed,
            "the password or the account of the login user has expired there, so that it runs no command",
        ),
        (b"", AgentFailed, "the login shell ended without running it. It is one that runs nothing, such as /bin/false"),
        (b"\xff\xfe\n", AgentFailed, "did not start"),
    ],
)
def test_a_command_that_ends_before_it_greets_is_told_in_words(words: bytes, kind: type, reason: str) -> None:
    error = refused(words, become=True)
    assert type(error) is kind
    assert reason in error.reason


@pytest.mark.parametrize(
    ("words", "become", "kind", "reason"),
    [
        ("bash: Zeile 1: exec: python3: Nicht gefunden.\n", False, PythonMissing, "python3 is not installed"),
        ("env: „sudo“: Datei oder Verzeichnis nicht gefunden\n", True, BecomeRefused, "sudo is not installed"),
        ("", False, PythonMissing, "python3 is not installed"),
    ],
)
def test_a_program_that_is_missing_is_known_by_the_exit_code_in_every_language(
    words: str, become: bool, kind: type, reason: str
) -> None:
    error = refused(words.encode(), become=become, code=127)
    assert type(error) is kind
    assert reason in error.reason
    assert isinstance(refused(words.encode(), become=become, code=1), AgentFailed | BecomeRefused)


def test_a_command_that_is_gone_before_the_code_could_be_sent_is_told_by_its_own_words() -> None:
    assert isinstance(refused(b"bash: exec: python3: not found\n", deaf=True), PythonMissing)


def test_a_host_that_keeps_silent_before_the_greeting_is_lost() -> None:
    assert "no data for 30 s" in refused(TimeoutError()).reason


def test_an_answer_is_its_lines_without_signs_of_life_and_without_the_last() -> None:
    heard: list[Line] = []
    says = ALIVE + b'{"outcome": 1}\n' + ALIVE[:10], ALIVE[10:] + b'{"outcome": 2}\n', DONE
    lines = answer(*says, heard=heard.append, request=TWO_KEYS)
    assert lines == ({"outcome": 1}, {"outcome": 2})
    assert tuple(heard) == lines


def test_a_request_travels_as_a_frame_of_ascii_json() -> None:
    session, stream = started(GREETING, DONE)
    session.ask({"op": "apply", "who": "bjørn"})
    size, body = stream.sent[-1].split(b"\n", 1)
    assert int(size) == len(body)
    assert body.isascii()
    assert json.loads(body) == {"op": "apply", "who": "bjørn"}


def test_what_is_no_json_between_the_lines_of_an_answer_is_passed_over() -> None:
    assert answer(b"warning: disk\n{broken\n42\n\n", b'{"facts": {}}\n', DONE) == ({"facts": {}},)


@pytest.mark.parametrize(
    ("failed", "error"),
    [
        (b'{"error": "another run is in progress", "traceback": "", "holder": "ann@laptop"}\n', AnotherRun),
        (b'{"error": "ValueError: no", "traceback": ""}\n', AgentFailed),
    ],
)
def test_a_request_after_one_that_failed_gets_its_own_answer(failed: bytes, error: type[HostError]) -> None:
    session, _ = started(GREETING, failed, DONE, b'{"facts": {}}\n', DONE)
    with pytest.raises(error):
        session.ask({"op": "apply", "resources": []})
    assert session.ask({"op": "facts"}) == ({"facts": {}},)


def test_lines_after_an_error_are_part_of_no_answer() -> None:
    heard: list[Line] = []
    says = b'{"outcome": 1}\n{"error": "first"}\n{"outcome": 2}\n{"error": "second"}\n', DONE
    with pytest.raises(AgentFailed, match=r"^n1: first\.$"):
        answer(*says, heard=heard.append, request=TWO_KEYS)
    assert heard == [{"outcome": 1}]


def test_an_error_of_the_agents_is_told() -> None:
    with pytest.raises(AgentFailed, match=r"^n1: another run is at work here: bob\.$"):
        answer(b'{"error": "another run is at work here: bob", "traceback": ""}\n', DONE)


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ((TimeoutError(),), "no data for 30 s"),
        ((OSError("reset by peer"),), "reset by peer"),
        ((b'{"facts": {}}\n',), "the agent ended in the middle of its answer"),
        ((b"Killed\n",), "the agent ended in the middle of its answer: Killed."),
    ],
)
def test_an_agent_that_is_lost_in_an_answer_is_told_with_its_last_words(says: Iterable[Said], words: str) -> None:
    with pytest.raises(ConnectionLost) as lost:
        answer(*says)
    assert "the connection was lost" in lost.value.reason
    assert words in lost.value.reason


def test_a_request_to_an_agent_that_is_gone_is_answered_by_what_it_said_last() -> None:
    session, stream = started(GREETING, b'{"error": "this host\'s python3 is 3.6, and slurmfab needs 3.9 or later"}\n')
    stream.deaf = True
    with pytest.raises(AgentFailed, match=r"python3 is 3\.6"):
        session.ask({"op": "facts"})


def test_no_error_repeats_a_secret_of_the_request() -> None:
    session, _ = started(GREETING, OSError("gone"))
    with pytest.raises(ConnectionLost) as lost:
        session.ask({"op": "apply", "resources": [{"content": PASSWORD}]})
    assert PASSWORD not in f"{lost.value!r} {lost.value.reason}"


def test_closing_a_session_closes_its_stream() -> None:
    session, stream = started(GREETING)
    session.close()
    assert stream.is_closed


FACTS = {"op": "facts"}
COMPARE = {"op": "apply", "dry_run": True, "resources": [{"kind": "packages", "names": ["munge"]}]}


def frames(sent: bytes) -> list[bytes]:
    """What was sent, taken apart by the lengths in front."""
    found = []
    while sent:
        size, _, rest = sent.partition(b"\n")
        found.append(rest[: int(size)])
        sent = rest[int(size) :]
    return found


def names_in(packed: bytes) -> set[str]:
    return {name.removeprefix("slurmfab.on_hosts.agent.") for name in json.loads(zlib.decompress(packed))}


def test_a_session_that_knows_its_first_request_when_started_brings_just_its_modules() -> None:
    stream = Script(GREETING)
    Session("n1", stream).start(become=False, request=FACTS)
    (code,) = frames(b"".join(stream.sent))
    assert names_in(code) == needed_modules(FACTS)


def test_a_later_request_when_it_needs_further_modules_brings_them_once_and_in_front() -> None:
    stream = Script(GREETING, DONE, DONE, DONE)
    session = Session("n1", stream)
    session.start(become=False, request=FACTS)
    stream.sent.clear()
    for request in (FACTS, COMPARE, COMPARE):
        session.ask(request)
    facts, code, first, second = frames(b"".join(stream.sent))
    assert code.startswith(MODULES)
    assert names_in(code.removeprefix(MODULES)) == needed_modules(COMPARE) - needed_modules(FACTS)
    assert [json.loads(one) for one in (facts, first, second)] == [FACTS, COMPARE, COMPARE]


def endless(piece: bytes, most: int) -> Iterator[bytes]:
    """A host that does not stop; more than `most` bytes of it are never read."""
    for _ in range(most // len(piece) + 2):
        yield piece
    pytest.fail("this host is read on and on")


@pytest.mark.parametrize("piece", [b"motd\n" * 10_000, b"x" * 60_000], ids=["lines", "one line"])
def test_output_before_the_greeting_when_it_does_not_end_then_the_host_is_left_out(piece: bytes) -> None:
    says = Script()
    says.recv = lambda _: next(flood)  # type: ignore[method-assign]
    flood = endless(piece, START_BYTES)
    with pytest.raises(AgentFailed, match=r"^n1: the start of the agent exceeds 64 KiB"):
        Session("n1", says).start(become=False)


@pytest.mark.parametrize(
    ("piece", "most", "reason"),
    [
        (b"x" * 60_000, ANSWER_BYTES["facts"], "exceeds 8192 KiB"),
        (b"noise\n" * 10_000, CHATTER_BYTES, "is lost in other output"),
        (b"\n" * 60_000, CHATTER_BYTES, "is lost in other output"),
        (ALIVE * 1000, CHATTER_BYTES, "is lost in other output"),
    ],
    ids=["one line", "noise", "empty lines", "signs of life"],
)
def test_an_answer_when_it_does_not_end_then_the_host_is_left_out_and_little_is_kept(
    piece: bytes, most: int, reason: str
) -> None:
    script = Script(GREETING)
    session = Session("n1", script)
    session.start(become=False)
    script.recv = lambda _: next(flood)  # type: ignore[method-assign]
    flood = endless(piece, most)
    with pytest.raises(AgentFailed, match=rf"^n1: its answer to 'facts' {reason}"):
        session.ask(FACTS)
    assert len(session.noise) <= 3


def test_pieces_of_a_large_file_when_they_are_more_than_an_answer_may_have_then_all_of_them_come() -> None:
    piece = b'{"piece": "%s"}\n' % (b"A" * 1_000_000)
    heard: list[Line] = []
    says = [piece] * (OTHER_BYTES // len(piece) + 2)
    request = {"op": "save"}
    lines = answer(*says, b'{"saved": {}}\n', DONE, heard=heard.append, request=request)
    assert (lines, len(heard)) == (({"saved": {}},), len(says) + 1)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"facts": {}, "evil": 1}', "contains 'evil', which is unknown"),
        (b'{"outcome": {}}', "contains 'outcome', which is unknown"),
        (b'{"alive": true, "facts": {}}', "contains 'facts', which is unknown"),
        (b"{}", "contains an empty line"),
        (b'{"facts": {}}\n{"facts": {}}', "has more values than were asked for"),
        (b'{"facts": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "is nested too deeply"),
        (b"[" * 100_000, "is nested too deeply"),
    ],
)
def test_a_line_that_nobody_asked_for_when_it_comes_then_the_host_is_left_out(line: bytes, reason: str) -> None:
    with pytest.raises(AgentFailed) as caught:
        answer(line + b"\n", DONE)
    assert caught.value.host == "n1"
    assert reason in caught.value.reason


@pytest.mark.parametrize("holder", ["null", "[[]]", '{"a": 1}', '"' + "x" * 100_000 + '"'])
def test_an_error_when_it_is_no_text_or_a_long_one_then_the_message_is_short(holder: str) -> None:
    for name in ("error", "holder"):
        with pytest.raises(HostError) as caught:
            answer(f'{{"{name}": {holder}}}\n'.encode(), DONE)
        assert len(str(caught.value)) < 2 * TEXT_LENGTH


def test_a_resource_when_it_is_beyond_its_deadline_then_it_is_named_although_the_agent_is_alive() -> None:
    clock = Clock()
    signs = [clock.later(5, ALIVE) for _ in range(61)]
    late = b'{"outcome": 1}\n'
    with pytest.raises(AgentFailed, match=r"^n1: ssh-key:munge has not ended after 305 s \(the limit is 300 s\)"):
        answer(clock.later(299, late), *signs, late, DONE, request=TWO_KEYS, clock=clock)


@pytest.mark.parametrize(
    ("resource", "seconds"),
    [
        (KEY, 300),
        ({"kind": "packages", "names": ["munge"]}, 7200),
        ({"kind": "listening", "ports": [], "seconds": 60}, 360),
    ],
)
def test_a_kind_of_resource_when_it_may_take_long_then_its_deadline_is_later(resource: Line, seconds: float) -> None:
    bounds = AnswerBounds("n1", {"op": "apply", "resources": [resource]}, Clock())
    assert bounds.limit() == seconds


@pytest.mark.parametrize(
    ("kind", "is_comparison", "seconds", "is_refused"),
    [
        ("ssh-key", True, 299.0, True),
        ("ssh-key", False, 299.0, True),
        ("packages", True, 299.0, True),
        ("packages", False, 299.0, False),
        ("moved-ids", True, 299.0, False),
        ("ssh-key", True, 2.0, False),
        ("ssh-key", False, 7.0, False),
    ],
)
def test_a_host_that_takes_long_for_each_of_many_resources_is_given_up_after_half_an_hour_in_sum(
    kind: str, is_comparison: bool, seconds: float, is_refused: bool
) -> None:
    clock, patience = Clock(), Patience()
    resource = {"ssh-key": KEY, "packages": {"kind": kind, "names": ["munge"]}}.get(kind, MOVED)
    began, sign = clock.now, {"alive": True, "at": "x", "seconds": 1.0}
    refused: AgentFailed | None = None
    for _ in range(10):  # phases, each an answer of its own
        bounds = AnswerBounds(
            "n1", {"op": "apply", "dry_run": is_comparison, "resources": [resource] * 30}, clock, patience
        )
        try:
            for _ in range(30):
                clock.now += seconds
                bounds.receive(10)
                bounds.take(sign, 10)
                bounds.take({"outcome": 1}, 10)
        except AgentFailed as error:
            refused = error
            break
    assert bool(refused) is is_refused
    if refused:
        assert re.match(r"n1: it is too slow: what should take moments took 2\d{3} s in sum \(the limit", str(refused))
        assert clock.now - began < PATIENCE_SECONDS + 300


def test_facts_when_they_do_not_come_then_the_host_is_left_out_in_time_however_often_it_is_alive() -> None:
    clock = Clock()
    with pytest.raises(AgentFailed, match=r"its answer to 'facts' has not ended after 12. s \(the limit is 120 s\)"):
        answer(*[clock.later(5, ALIVE) for _ in range(1000)], clock=clock)


def test_an_agent_that_drips_before_it_greets_when_its_time_is_over_then_the_host_is_left_out() -> None:
    clock = Clock()
    with pytest.raises(AgentFailed, match="the start of the agent has not ended"):
        Session("n1", Script(*[clock.later(25, b".")] * 100), clock).start(become=False)


def test_a_text_with_bytes_that_are_no_utf_8_when_it_is_told_then_it_has_marks_in_their_place() -> None:
    says = json.dumps({"outcome": {"x\udce4": ["y\udcff", "\U0001f600"]}}).encode() + b"\n"
    assert answer(says, DONE, request=TWO_KEYS) == ({"outcome": {"x\ufffd": ["y\ufffd", "\U0001f600"]}},)


@pytest.mark.parametrize(
    ("sign", "reason"),
    [
        (ALIVE.replace(b"ssh-key:slurm", b"nap"), "although the agent is alive and says to be at 'nap'"),
        (ALIVE, r"although the agent is alive\. See what hangs there"),
    ],
)
def test_a_resource_beyond_its_deadline_when_the_agent_says_to_be_at_something_else_then_both_are_told(
    sign: bytes, reason: str
) -> None:
    clock = Clock()
    with pytest.raises(AgentFailed, match=rf"^n1: ssh-key:slurm has not ended .*{reason}"):
        answer(*[clock.later(5, sign)] * 61, request=TWO_KEYS, clock=clock)


def test_what_a_host_waits_for_when_it_tells_then_it_is_heard_and_no_part_of_the_answer() -> None:
    heard: list[Line] = []
    sign = b'{"alive": true, "at": "slurm-nodes:n1", "seconds": 3.0, "waiting": "for n1"}\n'
    assert answer(ALIVE, sign, b'{"facts": {}}\n', DONE, heard=heard.append) == ({"facts": {}},)
    assert [line.get("waiting") for line in heard] == ["for n1", None]
    with pytest.raises(AgentFailed, match="sign of life that names no work"):
        answer(sign.replace(b'"for n1"', b"[]"), DONE)


@pytest.mark.parametrize("at", [b"null", b"[]", b"1"])
def test_a_sign_of_life_that_names_no_work_is_refused(at: bytes) -> None:
    with pytest.raises(AgentFailed, match="sign of life that names no work"):
        answer(b'{"alive": true, "at": %s, "seconds": 1}\n' % at, DONE)


@pytest.mark.parametrize(
    ("part", "seconds", "count", "is_refused"),
    [
        ({"file": "KEY.gz"}, 0.0, MOST_SMALL_PARTS, False),
        ({"file": "KEY.gz"}, 0.0, MOST_SMALL_PARTS + 1, True),
        ({"piece": "QQ=="}, 0.0, MOST_SMALL_PARTS + 1, True),
        ({"piece": "A" * SMALL_PART}, 0.0, MOST_SMALL_PARTS + 1, False),
        ({"piece": "A" * SMALL_PART}, 0.9 * SMALL_PART / LEAST_RATE, 20_000, False),
        ({"piece": "A" * SMALL_PART}, 2.0 * SMALL_PART / LEAST_RATE, 20_000, True),
    ],
)
def test_files_that_a_host_sends_in_crumbs_or_too_slowly_end_the_answer(
    part: Line, seconds: float, count: int, *, is_refused: bool
) -> None:
    times = itertools.count(1.0, seconds) if seconds else itertools.repeat(1.0)
    bounds = AnswerBounds("c1", {"op": "collect"}, lambda: next(times))
    size = len(json.dumps(part))

    def whole() -> None:
        for _ in range(count):
            bounds.take(part, size)

    if not is_refused:
        return whole()
    with pytest.raises(AgentFailed, match="too slowly, or in too small parts"):
        whole()
    return None
