"""The task that writes the pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from offered_clusters import FORM

from slurmfab.base.errors import InputError
from slurmfab.core.user_guide import writing


def test_pages_when_written_then_are_three_files_with_links_to_each_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cluster.yaml").write_text(FORM)
    assert writing.write_files("cluster.yaml", "") == 0
    folder = tmp_path / "aurora-users"
    assert sorted(path.name for path in folder.iterdir()) == ["guide.html", "guide.md", "job.html"]
    assert 'href="job.html"' in (folder / "guide.html").read_text()
    assert 'href="guide.html"' in (folder / "job.html").read_text()
    said = capsys.readouterr().out
    assert "Written: guide.md, guide.html, job.html in aurora-users." in said
    assert "Without CPUs and memory" in said


def test_pages_when_the_directory_cannot_be_written_then_the_message_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(FORM)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"guide\.md cannot be written"):
        writing.write_files(str(tmp_path / "cluster.yaml"), str(tmp_path / "file"))
