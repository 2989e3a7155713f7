"""Which secrets of this machine are known, by the cluster file."""

from __future__ import annotations

from pathlib import Path

from slurmfab.cluster.inventory import loading
from slurmfab.commands.support_bundle import making

CLUSTER = """\
cluster: lab
controllers: [ctl]
nodes: [{hosts: n1}]
mail: {relay: smtp, from: slurm@example.org, user: lab, password_file: mail-password}
files:
  /etc/site.token: {mode: 0600, text: "# ours\\ntoken=abc-4711\\n"}
  /etc/motd: {text: "welcome\\n"}
"""


def test_passwords_and_the_lines_of_private_files_are_secret_and_a_missing_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CLUSTER)
    known = making.read_secrets(loading.load(tmp_path / "c.yaml"))
    assert set(known.values) == {b"token=abc-4711", b"abc-4711"}
    assert list(known.unread) == ["mail.password_file"]
    (tmp_path / "mail-password").write_text("of the relay\n")
    (tmp_path / "mail-password").chmod(0o600)
    known = making.read_secrets(loading.load(tmp_path / "c.yaml"))
    assert (b"of the relay" in known.values, known.unread) == (True, {})
