"""Notes about idle GPUs in AdminComment: what others wrote stays, and old notes do not count."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.programs.idle_gpus.notes import Idle, Note

NOW = 1_000_000.0
BOTH = (("n1", Idle(900, 999_900)), ("n2", Idle(950, 999_950)))


@pytest.mark.parametrize(
    "note",
    [
        Note(),
        Note("billed to chemistry"),
        Note("", "idle since 2026-11-26 10:00", BOTH),
        Note("billed to [chemistry]", "", BOTH[:1]),
        Note("", "cancelled at 2026-11-26 12:30"),
    ],
)
def test_a_note_when_it_is_written_then_it_is_read_as_it_was(note: Note) -> None:
    assert Note.read(note.written()) == note


@pytest.mark.parametrize("comment", ["", "(null)", "N/A"])
def test_a_job_without_a_comment_when_it_is_noted_then_the_note_is_all(comment: str) -> None:
    written = Note.read(comment).on_node("n1", Idle(900, 950)).written()
    assert written == "[idle GPUs: |n1 900-950]"


def test_a_note_when_its_last_node_goes_then_what_others_wrote_is_left() -> None:
    note = Note("billed", "", BOTH).on_node("n1", None).on_node("n2", None)
    assert note.written() == "billed"


@pytest.mark.parametrize(
    ("nodes", "count", "since"),
    [
        (BOTH, 2, 950),
        (BOTH, 3, None),
        (BOTH[:1], 2, None),
        ((("n1", Idle(900, 999_000)), BOTH[1]), 2, None),
        ((("n1", Idle(900, 1_000_900)), BOTH[1]), 2, None),
        ((), 1, None),
    ],
)
def test_a_job_when_each_node_has_looked_lately_then_it_is_idle_since_the_last_one_was(
    nodes: tuple[tuple[str, Idle], ...], count: int, since: int | None
) -> None:
    assert Note(nodes=nodes).since(count, NOW, 600) == since
