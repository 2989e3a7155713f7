"""Kept disks: what is remembered of them, and whose copies they can become."""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path

import pytest

from slurmfab.base.errors import InputError, LabError
from slurmfab.lab import disks, layout, network, state
from slurmfab.lab.disks import Disks
from slurmfab.lab.spec import LabSpec
from slurmfab.lab.state import LabState

SPEC = LabSpec(name="first", suite="trixie", nodes=2, down=("n2",))


@pytest.fixture(autouse=True)
def _places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((layout, "LABS"), (state, "LABS"), (disks, "DISKS")):
        monkeypatch.setattr(module, name, tmp_path / name.lower())


def lab_that_is_off(spec: LabSpec = SPEC, network: str = "10.7.7.0/24") -> LabState:
    """A lab as it is on disk once its hosts are off: n2 was never switched on."""
    remembered = LabState(spec, network, "/base", (), "/configs/lab-first.yaml")
    place = remembered.layout.directory
    for name in spec.host_names:
        remembered.layout.host(name).keys.mkdir(parents=True)
        (remembered.layout.host(name).keys / "ssh_host_rsa_key.pub").write_text(f"ssh-rsa {name}\n")
        if name not in spec.down:
            (remembered.layout.host(name).directory / "upper/etc").mkdir(parents=True)
    (place / "id_ed25519").write_text("private")
    (place / "id_ed25519.pub").write_text("public")
    state.write(remembered)
    return remembered


def test_disks_that_were_kept_are_known_by_name_with_all_that_a_copy_needs() -> None:
    lab = lab_that_is_off()
    kept = disks.take(lab, "kept")
    assert disks.load("kept") == kept
    assert disks.names() == ("kept",)
    assert disks.networks() == (IPv4Network("10.7.7.0/24"),)
    assert set(kept.layers) == {"ctl", "n1"}
    (layer,) = kept.layers["n1"]
    assert (Path(layer) / "etc").is_dir()
    assert not (lab.layout.host("n1").directory / "upper").exists()


def test_a_copy_has_the_keys_and_lies_on_the_disks_and_disks_of_a_copy_lie_on_both() -> None:
    disks.take(lab_that_is_off(), "kept")
    copy = LabState(
        LabSpec(name="second", suite="trixie", nodes=3), "10.7.7.0/24", "/base", (), "/c.yaml", disks="kept"
    )
    found = disks.for_lab("kept", copy.spec, bare=("n1",))
    copy.layout.directory.mkdir(parents=True)
    disks.hand_out(found, copy.layout)
    host = copy.layout.host("ctl")
    assert (host.keys / "ssh_host_rsa_key.pub").read_text() == "ssh-rsa ctl\n"
    assert copy.layout.ssh_key.read_text() == "private"
    assert disks.layers_of(host) == found.layers["ctl"]
    for bare in ("n1", "n2", "n3"):
        assert disks.layers_of(copy.layout.host(bare)) == ()
    (host.directory / "upper").mkdir()
    assert len(disks.take(copy, "more").layers["ctl"]) == 2


def test_disks_do_not_go_while_a_lab_or_other_disks_lie_on_them() -> None:
    lab = lab_that_is_off()
    disks.take(lab, "kept")
    state.write(LabState(SPEC, "10.7.7.0/24", "/base", (), "/c.yaml", disks="kept"))
    with pytest.raises(InputError, match="in use by first"):
        disks.remove("kept")
    state.write(LabState(SPEC, "10.7.7.0/24", "/base", (), "/c.yaml"))
    disks.remove("kept")
    disks.remove("kept")
    assert disks.names() == ()


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (LabSpec(name="x", suite="bookworm"), "have the suite trixie, and the lab is to have bookworm"),
        (LabSpec(name="x", suite="trixie", ssh_user="admin"), "have the user root, and the lab is to have admin"),
    ],
)
def test_disks_that_do_not_fit_a_lab_are_refused(spec: LabSpec, words: str) -> None:
    disks.take(lab_that_is_off(), "kept")
    with pytest.raises(InputError, match=words):
        disks.for_lab("kept", spec, bare=())


def test_disks_that_were_kept_by_half_are_none() -> None:
    (disks.DISKS / "half").mkdir(parents=True)
    assert disks.all_kept() == ()
    with pytest.raises(InputError, match='no kept disks "half"'):
        disks.load("half")


def test_addresses_of_a_copy_when_they_are_taken_then_it_is_refused() -> None:
    kept = Disks("kept", "trixie", "root", "10.7.7.0/24", "/base", {})
    assert network.require_free(kept.network, [IPv4Network("0.0.0.0/0")]) == IPv4Network("10.7.7.0/24")
    with pytest.raises(LabError, match="another copy"):
        network.require_free(kept.network, [IPv4Network("10.7.0.0/16")])
