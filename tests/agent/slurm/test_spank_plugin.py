"""A plugin of Slurm's commands: loaded once, by a file that Slurm reads, and only if Slurm can load it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from outcomes import told_of

from slurmfab.on_hosts.agent.core.resource import Context
from slurmfab.on_hosts.agent.slurm.spank_plugin import SpankPlugin

DIRECTORY = "/etc/slurm/plugstack.conf.d"
OWN = "/usr/share/x/x.conf"
PLUGIN = SpankPlugin("spank_x.so", OWN, f"{DIRECTORY}/slurmfab-x.conf", "--x-image", "x-plugin")
PACKAGED = f"include {DIRECTORY}/*.conf\n"


class Node(Context):
    """A host whose srun answers with this text, as if it had read the plugstack.conf that it was given."""

    said: tuple[bytes, bytes] = (b"  --x-image=IMAGE\n", b"")

    def run(self, argv, *_, env=None, **__):  # type: ignore[no-untyped-def]
        """Answer, if there is a slurm.conf that names a plugstack.conf with the plugin."""
        conf = Path(env["SLURM_CONF"]).read_text()
        stack = Path(conf.rpartition("=")[2].strip()).read_text()
        assert stack == f"include {OWN}\n"
        return subprocess.CompletedProcess(argv, 0, *self.said)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A scratch root with the plugin, and Slurm's files as the package has them."""
    write(tmp_path, OWN, "required /usr/lib/slurm/spank_x.so\n")
    write(tmp_path, "/etc/slurm/plugstack.conf", PACKAGED)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    place = root / path.lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(text)


def outcome(root: Path, said: tuple[bytes, bytes] = Node.said, *, dry: bool = False) -> tuple[str, str]:
    """Apply it as a request that came over the wire, and return status and message."""
    node = Node(str(root), dry_run=dry)
    node.said = said
    return told_of(PLUGIN, node)


def test_plugin_when_slurm_can_load_it_then_all_is_right_before_and_after_its_file(root: Path) -> None:
    assert outcome(root) == ("ok", "")
    write(root, PLUGIN.file, f"include {OWN}\n")
    assert outcome(root) == ("ok", "")


def test_plugin_when_not_installed_yet_then_a_dry_run_goes_on_and_a_run_fails(root: Path) -> None:
    (root / OWN.lstrip("/")).unlink()
    (root / "etc/slurm/plugstack.conf").unlink()
    assert outcome(root, dry=True)[0] == "would change"
    status, message = outcome(root)
    assert (status, "the package x-plugin has to bring it" in message) == ("failed", True)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({f"{DIRECTORY}/x.conf": "optional spank_x.so\n"}, f"{DIRECTORY}/x.conf loads spank_x.so already"),
        ({f"{DIRECTORY}/x.conf": f"include {OWN}\n"}, f"{DIRECTORY}/x.conf loads spank_x.so already"),
        ({"/etc/slurm/plugstack.conf": f"{PACKAGED}required /opt/spank_x.so\n"}, "plugstack.conf loads spank_x.so"),
        (
            {"/etc/slurm/plugstack.conf": f"{PACKAGED}include own/*\n", "/etc/slurm/own/a": " required\tspank_x.so\n"},
            "/etc/slurm/own/a loads spank_x.so already",
        ),
        ({"/etc/slurm/plugstack.conf": "optional other.so\n"}, "Add this line there: include"),
        ({"/etc/slurm/plugstack.conf": ""}, "does not include"),
    ],
)
def test_plugin_when_another_file_loads_it_or_none_would_then_is_refused(
    root: Path, files: dict[str, str], reason: str
) -> None:
    for path, text in files.items():
        write(root, path, text)
    status, message = outcome(root)
    assert status == "failed"
    assert reason in message


def test_plugin_when_files_include_each_other_then_each_is_read_once(root: Path) -> None:
    for name in "abc":
        write(root, f"{DIRECTORY}/{name}.conf", PACKAGED)
    write(root, f"{DIRECTORY}/d.conf", "# required spank_x.so\noptional other.so\n")
    assert outcome(root) == ("ok", "")
