"""How the player of guides compares outputs, and writes those of a run into a guide."""

from __future__ import annotations

import guide
import pytest

SHOWN = "users  n[1-3]  4 changed (0.3 s)\n…\n… second PENDING\ntour: 7 changes on 4 hosts (1.0 s)."


@pytest.mark.parametrize(
    ("real", "expected"),
    [
        (
            "users  n[1-3]  4 changed (0.9 s)\nmunge\n20 second PENDING\ntour: 9 changes on 4 hosts (2.0 s).",
            "users  n[1-3]  4 changed (0.9 s)\n…\n… second PENDING\ntour: 9 changes on 4 hosts (2.0 s).",
        ),
        ("users  n[1-2]  4 changed (0.9 s)", "users  n[1-2]  4 changed (0.9 s)"),
    ],
    ids=["of the same run", "another one"],
)
def test_refreshed_when_an_output_agrees_then_it_is_of_this_run_and_as_short_as_before(
    real: str, expected: str
) -> None:
    assert guide.refreshed(SHOWN, real) == expected


@pytest.mark.parametrize(
    ("shown", "real"),
    [
        (
            "Going back to before 20261123T150229.398058Z-deploy.",
            "Going back to before 20261124T060001.000001Z-deploy.",
        ),
        ('- "ssh-ed25519 AAAAC3NzaC1lZDI1 eve@home"', '- "ssh-ed25519 AAAAC3Nz/+aC1lNTE5== eve@home"'),
        ("…\nFAILED", "✓ ok\n✓ ok\nFAILED"),
    ],
)
def test_agree_when_only_dates_keys_and_what_is_left_out_differ_then_yes(shown: str, real: str) -> None:
    assert guide.agree(shown, real)


def test_read_when_a_guide_starts_its_lab_itself_then_its_name_is_known() -> None:
    found = guide.read("<!-- lab: {suite: trixie, up: tour} -->\n\n```console\n$ slurmfab lab-up --name tour\n```\n")
    assert found.lab["up"] == "tour"
    assert [step.command for step in found.pieces if isinstance(step, guide.Step)] == ["slurmfab lab-up --name tour"]


def test_typed_when_a_page_has_several_blocks_then_the_commands_below_the_heading_come_with_their_remarks() -> None:
    page = (
        "# Page\n\n    not below it\n\n## 1. Begin\n\n    apt install git    # as root\n    make demo\n\nThen:\n\n"
        "    cd x && . y/activate\n\n```console\n$ up \\\n    --name tour\n```\n\n## 2. End\n\n    rm x\n"
    )
    assert guide.typed(page, "1. Begin") == (
        guide.Typed("apt install git", "as root"),
        guide.Typed("make demo", ""),
        guide.Typed("cd x && . y/activate", ""),
    )
