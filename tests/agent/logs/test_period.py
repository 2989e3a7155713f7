"""The lines of a period: from files, rotated ones, and the journal; bounded, and without secrets."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmfab.base.answers import checked_object, values
from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.logs import period, reading

BEGIN = 1_790_000_000
SECRETS = {
    "auth_munge: MUNGE:AwQFAAB+/abc==: from 10.0.0.1": "auth_munge: (hidden) from 10.0.0.1",
    "StoragePass=rosebud, StorageUser=slurm": "StoragePass=(hidden)",
    "mysql://slurm:rosebud@db/": "slurm:(hidden)@",
    "token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.rosebud": "token (hidden)",
    'MAIL_PASSWORD: "rosebud and more"': 'MAIL_PASSWORD: "(hidden)"',
    "create user slurm identified by 'rosebud'": "identified by (hidden)",
    "slurm_jwt=rosebud": "slurm_jwt=(hidden)",
    "api_key = rosebud": "api_key = (hidden)",
    "credential_key: rosebud": "credential_key: (hidden)",
    "Authorization: Bearer rosebud12": "Authorization: Bearer (hidden)",
    "prolog: mariadb -u slurm -prosebud slurm_acct_db": "-u slurm -p(hidden) slurm_acct_db",
    "pushed with ghp_rosebudrosebudrosebudrosebud00": "pushed with (hidden)",
    "https://hooks.slack.com/services/T0/B0/rosebudrosebudrosebud": "hooks.slack.com/services/(hidden)",
}


class Host(Context):
    """A host whose journal has these messages."""

    def __init__(self, root: Path, *journal: dict[str, Any]) -> None:
        super().__init__(str(root))
        self.journal = journal

    def run(self, argv: Sequence[str], *_: Any, **__: Any) -> subprocess.CompletedProcess[bytes]:
        is_kernel = "_TRANSPORT=kernel" in argv
        shown = [one for one in self.journal if ("UNIT" in one or "_SYSTEMD_UNIT" in one) != is_kernel]
        return subprocess.CompletedProcess(argv, 0, "\n".join(map(json.dumps, shown)).encode() + b"\n{", b"")


def message(after: float, text: Any, **fields: str) -> dict[str, Any]:
    return {"__REALTIME_TIMESTAMP": str(int((BEGIN + after) * 1e6)), "MESSAGE": text, **fields}


def stamp(after: float) -> str:
    return time.strftime("[%Y-%m-%dT%H:%M:%S.500] ", time.localtime(BEGIN + after))


def log(root: Path, name: str, *lines: tuple[float, str]) -> Path:
    path = root / "var/log/slurm" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{stamp(after)}{text}\n" for after, text in lines))
    return path


def texts(found: period.Gathered) -> list[str]:
    return [line.text for line in found.lines]


def test_the_lines_of_a_period_are_those_of_all_sources_in_their_order(root: Path) -> None:
    log(root, "slurmd.log", (-10, "long ago"), (5, "error: two"), (20, "later"))
    log(root, "slurmctld.log", (3, "error: one"))
    host = Host(
        root,
        message(6, "slurmd.service: Main process exited", UNIT="slurmd.service", SYSLOG_IDENTIFIER="systemd"),
        message(5.6, "slurmd: error: two", _SYSTEMD_UNIT="slurmd.service", SYSLOG_IDENTIFIER="slurmd"),
        message(7, list(b"Out of memory: \xff"), SYSLOG_IDENTIFIER="kernel"),
    )
    found = period.gather(host, BEGIN, BEGIN + 10)
    assert [(line.source, line.text) for line in found.lines] == [
        ("slurmctld", "error: one"),
        ("slurmd", "error: two"),  # and not a second time from the journal
        ("slurmd", "systemd: slurmd.service: Main process exited"),
        ("kernel", "Out of memory: \ufffd"),
    ]
    assert found.notes == []


def test_a_period_before_the_first_line_of_a_log_is_read_from_the_rotated_file_too(root: Path) -> None:
    log(root, "slurmd.log", (5, "new"))
    log(root, "slurmd.log.1", (-5, "too old"), (1, "old"))
    assert texts(period.gather(Host(root), BEGIN, BEGIN + 10)) == ["old", "new"]


def test_a_period_in_a_large_log_is_found_without_reading_all_of_it(root: Path, monkeypatch: Any) -> None:
    path = log(root, "slurmd.log", *((after, f"line {after} {'x' * 400}") for after in range(5000)))
    monkeypatch.setattr(period, "PART_BYTES", 1 << 18)
    part = period.read_part(str(path), BEGIN + 2000, BEGIN + 2003)
    assert part is not None
    assert len(part.text) < 2 * (period.LOOK_BYTES + period.NEAR_BYTES)
    found = period.gather(Host(root), BEGIN + 2000, BEGIN + 2003)
    assert [text[:9] for text in texts(found)] == ["line 2000", "line 2001", "line 2002"]


def test_of_a_period_with_too_much_the_end_is_read_and_the_rest_named(root: Path) -> None:
    path = log(root, "slurmd.log", *((after, "x" * 100) for after in range(1000)))
    part = period.read_part(str(path), BEGIN, BEGIN + 1000, most=10_000)
    assert part is not None
    assert part.is_cut
    assert len(part.text) <= 10_000
    assert part.text.startswith("[")
    assert part.text.endswith("x\n")


def test_lines_without_a_time_belong_to_the_line_before_them(root: Path) -> None:
    path = log(root, "slurmd.log", (1, "one"), (20, "later"))
    path.write_text(path.read_text().replace("one\n", "one\n  and more\n") + "and later\n")
    assert texts(period.gather(Host(root), BEGIN, BEGIN + 10)) == ["one", "and more"]


def test_a_log_that_is_a_link_is_not_followed_and_named(root: Path) -> None:
    secret = root / "shadow"
    secret.write_text(f"{stamp(1)}root:rosebud\n")
    (root / "var/log/slurm").mkdir(parents=True)
    (root / "var/log/slurm/slurmd.log").symlink_to(secret)
    found = period.gather(Host(root), BEGIN, BEGIN + 10)
    assert texts(found) == []
    assert len(found.notes) == 1
    assert "symbolic link" in found.notes[0]


def test_a_log_that_may_be_a_hard_link_of_another_user_is_not_read(root: Path) -> None:
    path = log(root, "slurmd.log", (1, "root:rosebud"))
    os.link(path, root / "shadow")
    path.parent.chmod(0o777)
    found = period.gather(Host(root), BEGIN, BEGIN + 10)
    assert texts(found) == []
    assert "has another name" in found.notes[0]


def test_a_log_that_is_a_fifo_does_not_block(root: Path) -> None:
    (root / "var/log/slurm").mkdir(parents=True)
    os.mkfifo(root / "var/log/slurm/slurmd.log")
    assert "not a regular file" in period.gather(Host(root), BEGIN, BEGIN + 10).notes[0]


@pytest.mark.parametrize(("text", "instead"), SECRETS.items(), ids=range(len(SECRETS)))
def test_secrets_in_lines_are_hidden_on_the_host(root: Path, text: str, instead: str) -> None:
    log(root, "slurmd.log", (1, text))
    (line,) = texts(period.gather(Host(root), BEGIN, BEGIN + 10))
    assert instead in line
    assert "rosebud" not in line
    assert "AwQF" not in line


def test_what_is_not_printable_is_written_out_and_long_lines_lose_their_end(root: Path) -> None:
    log(root, "slurmd.log", (1, "a\x1b[2Jb\tc\u202e"), (2, "x" * 5000))
    first, second = texts(period.gather(Host(root), BEGIN, BEGIN + 10))
    assert first == "a\\x1b[2Jb c\\u202e"
    assert len(second) == period.MOST_CHARACTERS


def test_equal_lines_are_told_once_with_their_number_and_the_answer_passes_its_model(root: Path) -> None:
    log(root, "slurmd.log", (1, "error: no"), (2, "info"), (3, "error: no"), (4, "error: \udcff?"[:7]))
    answer = reading.read({"since": BEGIN, "until": BEGIN + 10}, Host(root))
    assert [(line[1], line[4]) for line in answer["lines"]] == [("error: no", 2), ("error:", 1)]
    assert answer["lines"][0][3] - answer["lines"][0][2] == 2
    model = values("logs")
    assert model is not None
    assert checked_object("n1", model, json.loads(json.dumps(answer)), "logs")["notes"] == []


def test_of_too_many_lines_the_last_are_told_and_the_rest_named(root: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(reading, "MOST_LINES", 10)
    log(root, "slurmd.log", *((after, f"error: {after}") for after in range(30)))
    answer = reading.read({"since": BEGIN, "until": BEGIN + 100}, Host(root))
    assert [line[1] for line in answer["lines"]] == [f"error: {after}" for after in range(20, 30)]
    assert answer["notes"] == ["of 30 different lines only the last 10 are told; ask for a shorter period"]
    monkeypatch.setattr(reading, "MOST_CHARACTERS", 30)
    assert len(reading.read({"since": BEGIN, "until": BEGIN + 100}, Host(root))["lines"]) == 3


def test_a_host_without_logs_and_journal_has_no_lines(root: Path) -> None:
    assert reading.read({"since": BEGIN, "until": BEGIN + 10, "all": True}, Host(root))["lines"] == []
