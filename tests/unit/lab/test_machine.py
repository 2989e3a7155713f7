"""Forwarding of this machine: enabled for labs, behind rules that are there first and go last."""

from pathlib import Path

import pytest

from slurmfab.lab import machine, state


@pytest.fixture
def seen(monkeypatch, tmp_path) -> list[tuple[str, str]]:
    """A machine that is a directory; each call of nft, with the value that forwarding had meanwhile."""
    calls: list[tuple[str, str]] = []

    def note(argv: list[str], _: str = "") -> bool:
        calls.append((" ".join(argv[:2]), forwarding(tmp_path)))
        return True

    monkeypatch.setattr(machine, "SETTINGS", tmp_path)
    monkeypatch.setattr(machine, "MEMORY", tmp_path / "lib/machine.json")
    monkeypatch.setattr(machine, "NAMESPACES", tmp_path / "netns")
    monkeypatch.setattr(machine, "BOOT", tmp_path / "boot_id")
    monkeypatch.setattr(machine, "call", note)
    monkeypatch.setattr(machine, "succeeds", note)
    (tmp_path / "boot_id").write_text("first\n")
    return calls


def forwards(directory: Path, value: int) -> None:
    file = directory / machine.FORWARDING
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


def forwarding(directory: Path) -> str:
    return (directory / machine.FORWARDING).read_text().strip()


def test_prepare_when_forwarding_is_off_then_the_rules_are_there_before_it_and_until_it_is_off_again(seen, tmp_path):
    forwards(tmp_path, 0)
    machine.prepare()
    assert (seen, forwarding(tmp_path)) == ([("nft -f", "0")], "1")
    machine.restore()
    assert seen[1:] == [("nft delete", "0")]


def test_prepare_when_another_lab_is_up_then_the_rules_are_made_anew(seen, tmp_path):
    """Somebody may have flushed them, or an older slurmfab has made that lab without."""
    forwards(tmp_path, 0)
    machine.prepare()
    machine.prepare()
    assert seen == [("nft -f", "0"), ("nft -f", "1")]


def test_prepare_when_forwarding_is_on_then_rules_of_the_machine_are_neither_made_nor_removed(seen, tmp_path):
    """Labs that have another /var/lib/slurmfab, as in a container with this machine's network, may have made them."""
    forwards(tmp_path, 1)
    machine.prepare()
    machine.restore()
    assert (seen, forwarding(tmp_path)) == ([], "1")


def test_prepare_when_the_machine_has_booted_since_then_what_it_forwards_now_counts(seen, tmp_path):
    """Labs that a boot has ended leave their settings; this boot may have started Docker, which forwards."""
    forwards(tmp_path, 0)
    machine.prepare()
    (tmp_path / "boot_id").write_text("second\n")
    forwards(tmp_path, 1)
    machine.prepare()
    assert seen == [("nft -f", "0")]
    machine.restore()
    assert forwarding(tmp_path) == "1"


def test_restore_when_the_machine_has_booted_since_then_its_settings_stay_as_they_are(seen, tmp_path):
    forwards(tmp_path, 0)
    machine.prepare()
    (tmp_path / "boot_id").write_text("second\n")
    machine.restore()
    assert forwarding(tmp_path) == "1"
    assert state.read_json(machine.MEMORY) is None
    assert seen == [("nft -f", "0")]


def test_rules_of_the_machine_when_loaded_then_they_replace_those_before_and_drop_what_is_of_no_lab():
    assert machine.RULES.split("\n")[:2] == ["table ip slurmfab-labs {}", "delete table ip slurmfab-labs"]
    assert 'iifname != "sf-*" oifname != "sf-*" drop' in machine.RULES
