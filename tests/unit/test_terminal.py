"""Output on terminals: lines and tables that break between words, colours, and the status line."""

from __future__ import annotations

import io
import subprocess
import sys
import time
from typing import TextIO, cast

import pytest
from terminals import Terminal, shown_on

from slurmfab.base.errors import HostError
from slurmfab.base.folding import fold_lines
from slurmfab.base.terminal import (
    HANGING_INDENT,
    RED,
    Cell,
    Guarded,
    Paint,
    StatusLine,
    columns,
    hang,
    is_terminal,
    shorten,
    table,
    without_status_line,
    wrap,
    write,
)

LINE = "n[2-96]: unreachable: no answer from 10.0.0.2 port 22 within 10 s; skipped for the rest of this run"
HOSTLIST = "n[" + ",".join(str(number) for number in range(1, 90, 2)) + "]"
PATH = "/var/lib/slurmfab/" + "a-long-name/" * 6
NODES = [
    ("NODES", "STATE", "NAMES", "REASON"),
    ("45", "down, not responding", HOSTLIST, "Not responding (slurm, 2026-11-22 09:00)"),
    ("1", "idle", "n2", ""),
]


def words(lines: list[str]) -> list[str]:
    """The words of lines, those that were broken after a comma put together again."""
    joined: list[str] = []
    for word in " ".join(lines).split():
        if joined and joined[-1].endswith(",") and "[" in joined[-1] and "]" not in joined[-1]:
            joined[-1] += word
        else:
            joined.append(word)
    return joined


@pytest.mark.parametrize("width", [20, 40, 60, 79])
@pytest.mark.parametrize("indent", ["", "    ", " " * 50])
@pytest.mark.parametrize("text", [LINE, f"{LINE} on {HOSTLIST} and more", f"see {PATH} for more"])
def test_lines_break_between_words_and_lose_none(text: str, indent: str, width: int) -> None:
    lines = wrap(indent + text, width)
    assert words(lines) == text.split()
    whole = [word for word in text.split() if "," not in word]
    longest = max(map(len, whole))
    assert max(map(len, lines)) <= max(width, longest + width // 2)


def test_lines_that_fit_stay_as_they_are() -> None:
    text = "users        n1         1 changed\n\n    a  b\n"
    assert wrap(text, 60) == text.split("\n")
    assert wrap(LINE, 0) == [LINE]


def test_the_rest_of_a_line_is_indented_further_than_its_beginning() -> None:
    assert wrap("  repair: run fab deploy on n1", 20) == ["  repair: run fab", "      deploy on n1"]


def test_a_hostlist_breaks_after_a_comma_and_a_path_nowhere() -> None:
    assert wrap("down: n[1-2,4,6-8,10]", 15) == ["down: n[1-2,4,", "    6-8,10]"]
    assert wrap(f"see {PATH}", 30) == ["see", f"    {PATH}"]


def test_colours_count_as_nothing() -> None:
    painted = f"\x1b[{RED}m{'a' * 10}\x1b[0m b"
    assert wrap(painted, 12) == [painted]
    assert len(wrap(painted, 11)) == 2


def test_a_table_that_fits_has_columns_below_each_other_and_is_never_cut_for_a_pipe() -> None:
    assert table([("A", "B"), ("long", "x"), ("s", "")], 60) == ["A     B", "long  x", "s"]
    assert [line.index("STATE") for line in table(NODES, 0)[:1]] == [7]
    assert HOSTLIST in table(NODES, 0)[1]


@pytest.mark.parametrize("width", [40, 60, 100])
def test_a_table_that_is_too_wide_breaks_its_cells_between_words(width: int) -> None:
    lines = table(NODES, width)
    assert max(map(len, lines)) <= width
    assert lines[0].split() == list(NODES[0])
    numbers = "".join(lines).replace(" ", "")
    for word in ["down,", "not", "responding", "Not", "slurm,", "2026-11-22", "09:00"]:
        assert any(word in line.split() or f"({word}" in line.split() or f"{word})" in line.split() for line in lines)
    assert numbers.count(",") >= HOSTLIST.count(",")


def test_a_table_of_which_not_even_words_fit_becomes_paragraphs() -> None:
    header = ("PARTITION", "STATE", "NODES", "RUNNING", "MAX TIME", "REASON")
    assert table([header, ("main*", "up", "4", "3", "1-00:00:00", ""), ("long", "down", "", "0", "x", "why")], 30) == [
        "PARTITION main*",
        "    STATE up  NODES 4",
        "    RUNNING 3",
        "    MAX TIME 1-00:00:00",
        "PARTITION long",
        "    STATE down  RUNNING 0",
        "    MAX TIME x  REASON why",
    ]


def test_cells_have_colours_where_the_stream_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    rows = [("A", "B"), (Cell("bad", RED), "x")]
    for out, line in ((Terminal(), "\x1b[31mbad\x1b[0m  x"), (io.StringIO(), "bad  x")):
        write(table(rows, 0, Paint(out))[1], out)
        assert out.getvalue() == f"{line}\n"


@pytest.mark.parametrize(
    ("variables", "is_on"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colours_are_for_terminals_that_may_have_them(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], is_on: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert Paint(Terminal()).is_on is is_on
    assert not Paint(io.StringIO()).is_on
    assert is_terminal(Terminal()) is ("TERM" not in variables)


def test_only_terminals_have_a_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert (columns(Terminal()), columns(io.StringIO())) == (60, 0)
    monkeypatch.setenv("COLUMNS", "")
    assert columns(Terminal()) == 80
    out = io.StringIO()
    write(f"{LINE}\n{LINE}", out)
    assert out.getvalue() == f"{LINE}\n{LINE}\n"


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("asking: n1", 10, "asking: n1"),
        ("asking: n1,n2,n10", 15, "asking: n1,n2,…"),
        ("asking: all of them", 14, "asking: all…"),
        ("abcdefgh", 5, "abcd…"),
    ],
)
def test_a_text_that_is_too_long_ends_after_a_word(text: str, width: int, shown: str) -> None:
    assert shorten(text, width) == shown
    assert len(shorten(text, width)) <= width


def test_the_status_line_is_below_all_lines_and_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    out = Terminal()
    status = StatusLine(out)
    status.show(f"comparing: {HOSTLIST}", time.monotonic() - 12)
    assert shown_on(out)[-1].startswith(" 12 s  comparing: n[1,3,")
    assert len(shown_on(out)[-1]) < 60
    status.print("n1: off.")
    assert shown_on(out)[0] == "n1: off."
    assert shown_on(out)[-1].startswith(" 12 s")
    status.end()
    status.show("more", 0)
    status.draw()
    assert shown_on(out)[1:] == [""]


def test_the_status_line_makes_room_for_a_question() -> None:
    out = Terminal()
    status = StatusLine(out)
    status.show("asking", time.monotonic())
    with without_status_line():
        assert shown_on(out) == [""]
        status.draw()
        assert shown_on(out) == [""]
    assert shown_on(out) == ["  0 s  asking"]
    status.end()
    with without_status_line():
        pass


HOSTILE = {
    "clear screen": ("\x1b[2J", "\\x1b[2J"),
    "clipboard": ("\x1b]52;c;cm0gLXJm\x07", "\\x1b]52;c;cm0gLXJm\\x07"),
    "colour": ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
    "title": ("\x1b]0;root@ctl\x07", "\\x1b]0;root@ctl\\x07"),
    "C1": ("\x9b2J\x85", "\\x9b2J\\x85"),
    "carriage return": ("n1: failed\rlab: all is as wanted", "n1: failed\\rlab: all is as wanted"),
    "backspace": ("no\b\byes\x7f", "no\\x08\\x08yes\\x7f"),
    "bidi": ("\u202eyes\u2066\u061c", "\\u202eyes\\u2066\\u061c"),
    "line separators": ("a\u2028b\u2029c\x0b\x0c", "a\\u2028b\\u2029c\\x0b\\x0c"),
    "invisible": ("n\u200b1\ufeff\U000e0041", "n\\u200b1\\ufeff\\U000e0041"),
    "surrogate": ("job\udcff", "job\\udcff"),
    "somebody else's mark": ("\x1b0123456789abcdef[31mred", "\\x1b0123456789abcdef[31mred"),
}
"""What job names, hosts' answers and greetings hold, and what people see of it."""


@pytest.mark.parametrize(("text", "shown"), HOSTILE.values(), ids=list(HOSTILE))
def test_texts_of_others_steer_no_terminal_and_our_colours_do(
    monkeypatch: pytest.MonkeyPatch, text: str, shown: str
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    out, guarded = Terminal(), Terminal()
    paint = Paint(out)
    write(f"{paint('FAILED', RED)} {text} ü…✓", out)
    assert out.getvalue() == f"\x1b[31mFAILED\x1b[0m {shown} ü…✓\n"
    print(f"{paint('FAILED', RED)} {text}", file=cast("TextIO", Guarded(guarded)))
    assert guarded.getvalue() == f"\x1b[31mFAILED\x1b[0m {shown}\n"
    twice = Terminal()
    write(f"{paint('ok', RED)} {text}", cast("TextIO", Guarded(twice)))
    assert twice.getvalue() == f"\x1b[31mok\x1b[0m {shown}\n"
    assert table([("NAME",), (text,)], 0)[1] == shown


def test_texts_of_others_make_no_line_that_looks_like_ours() -> None:
    forged = "gone\nlab: nothing changed on 4 hosts, all is as wanted (0.1 s)."
    assert table([("NAME", "X"), (forged, "1")], 0)[1].startswith("gone\\nlab: nothing")
    lines = [*fold_lines([("n1", forged)]), str(HostError("n1", forged))]
    assert not [line for text in lines for line in text.splitlines() if line.startswith("lab:")]
    out = Terminal()
    line = StatusLine(out)
    line.show(forged, time.monotonic())
    line.end()
    assert "\n" not in out.getvalue()


def test_the_status_line_shows_nothing_that_steers() -> None:
    out = Terminal()
    line = StatusLine(out)
    line.show("asking \x1b[2J\x9b", time.monotonic())
    line.end()
    assert "asking \\x1b[2J\\x9b" in out.getvalue()


def test_standard_output_and_error_are_filtered_whoever_writes_to_them() -> None:
    script = (
        "import sys; from slurmfab.base.terminal import guard_output; guard_output(); guard_output();"
        "print('\\x1b[2J');"
        "sys.stderr.writelines(['\\x9b', '\\udcff']); print(sys.stdout.isatty()); raise ValueError('\\x1b]52;c;eA==')"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.stdout == b"\\x1b[2J\nFalse\n"
    assert b"\x1b" not in done.stderr
    assert rb"\x9b\udcff" in done.stderr
    assert rb"ValueError: \x1b]52;c;eA==" in done.stderr


@pytest.mark.parametrize("begins", ["", "\xa0", "\u200a", "\r", "\t", " ", "   ", "\u3000", "    "])
def test_all_further_lines_of_a_hosts_text_are_indented_whatever_they_begin_with(
    begins: str,
) -> None:
    text = f"no such unit\n{begins}atta: nothing would be changed\n\n{begins}n1: ok\n"
    hung = hang(text)
    assert all(line.startswith(HANGING_INDENT) for line in hung.split("\n")[1:] if line)
    assert hung.replace(HANGING_INDENT, "") == text.replace(HANGING_INDENT, "")
    assert hang(hung) == hung
