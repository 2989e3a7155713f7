"""`fab drift` from the hosts' answers to its exit code, its metrics, its mail and its JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import THREE_HOSTS, FakeHosts, cluster, run_over, with_key

from slurmfab.base.errors import Asleep, DeployFailed, InputError, SlurmfabError
from slurmfab.commands.drift import alarm
from slurmfab.core.engine.session import Output

Drift = Callable[..., int]

SENDMAIL = """#!/bin/sh
[ ! -e "{0}/broken" ] || {{ echo 'no queue' >&2; exit 75; }}
echo "$@" >>{0}/arguments
cat >>{0}/mails
"""


@pytest.fixture
def drift(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Drift:
    """Runs `fab drift` over three hosts that answer from memory, with a sendmail that writes mail into `mails`."""
    path = tmp_path / "cluster.yaml"
    path.write_text(f"{THREE_HOSTS}drift: {{mail: [ann@example.org, bob@example.org], textfile: {tmp_path}/d.prom}}\n")
    (tmp_path / "sendmail").write_text(SENDMAIL.format(tmp_path))
    (tmp_path / "sendmail").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    def ran(asleep: tuple[str, ...] = (), **differing: Any) -> int:
        facts = with_key()
        lost = {host: Asleep(host, "Slurm has powered it down.") for host in asleep}
        run = run_over(FakeHosts(facts, **differing), cluster(), path=path, command="plan", failed_hosts=lost)
        monkeypatch.setattr(alarm, "start", lambda *_, **__: run)
        return alarm.run(str(path), Output(json=str(tmp_path / "drift.json")))

    return ran


def mails(folder: Path) -> str:
    """The mail since the last call."""
    path = folder / "mails"
    text = path.read_text() if path.exists() else ""
    path.unlink(missing_ok=True)
    return text


WRONG = {"wrong": {"n1": {"service:slurmd"}}}


@pytest.mark.parametrize(
    ("differing", "code"),
    [
        ({}, 0),
        (WRONG, 4),
        ({"losing": {"n2": 1}}, 3),
        ({**WRONG, "losing": {"n2": 1}}, 4),
        ({"asleep": ("n2",)}, 0),
    ],
)
def test_the_exit_code_when_something_differs_or_hosts_are_missing_then_says_which(
    drift: Drift, tmp_path: Path, differing: dict[str, Any], code: int
) -> None:
    assert drift(**differing) == code
    told = json.loads((tmp_path / "drift.json").read_text())
    assert (told["version"], told["exit_code"]) == (1, code)


def test_a_drift_when_found_then_is_told_on_the_terminal_in_json_in_metrics_and_by_mail(
    drift: Drift, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert drift(**WRONG) == 4
    shown = capsys.readouterr().out
    assert "n1: service:slurmd (other difference)\n" in shown
    assert ": 1 difference on n1 (" in shown
    told = json.loads((tmp_path / "drift.json").read_text())
    assert told["differences"] == [{"host": "n1", "resource": "service:slurmd", "kind": "other difference"}]
    metrics = (tmp_path / "d.prom").read_text()
    name = cluster().name
    assert f'slurmfab_drift_resources{{cluster="{name}",kind="other difference"}} 1\n' in metrics
    assert f'slurmfab_drift_resources{{cluster="{name}",kind="changed file"}} 0\n' in metrics
    assert f'slurmfab_drift_host_resources{{cluster="{name}",host="n1"}} 1\n' in metrics
    assert f'slurmfab_drift_hosts{{cluster="{name}",state="differing"}} 1\n' in metrics
    mail = mails(tmp_path)
    assert "To: ann@example.org, bob@example.org\n" in mail
    assert f"Subject: [slurmfab] {name}: 1 difference on n1\n" in mail
    assert "New:\n  n1: service:slurmd (other difference)\n" in mail
    assert (tmp_path / "arguments").read_text() == "-i -t\n"


def test_mail_when_nothing_has_changed_since_the_last_one_then_is_not_sent(drift: Drift, tmp_path: Path) -> None:
    drift()
    assert mails(tmp_path) == ""
    drift(**WRONG)
    assert "New:" in mails(tmp_path)
    drift(**WRONG)
    assert mails(tmp_path) == ""
    drift(wrong={"n1": {"service:slurmd"}, "n2": {"service:slurmd"}})
    assert "New:\n  n2: service:slurmd (other difference)\n\nAs before:\n  n1: " in mails(tmp_path)
    drift()
    mail = mails(tmp_path)
    assert "no differences\n" in mail
    assert "Right again:\n  n[1-2]: service:slurmd" in mail
    drift()
    assert mails(tmp_path) == ""


def test_a_difference_when_its_host_is_missing_or_asleep_then_is_not_told_as_gone(drift: Drift, tmp_path: Path) -> None:
    drift(**WRONG)
    mails(tmp_path)
    drift(asleep=("n1",))
    assert mails(tmp_path) == ""
    drift(losing={"n1": 1})
    mail = mails(tmp_path)
    assert "New:\n  n1: not compared\n" in mail
    assert "Right again" not in mail


def test_hosts_when_they_cannot_be_compared_at_all_then_that_is_mailed_once_and_the_metrics_stay(
    drift: Drift, tmp_path: Path
) -> None:
    drift(**WRONG)
    mails(tmp_path)
    metrics = (tmp_path / "d.prom").read_text()
    for expected in ("New:\n  the hosts could not be compared\n", ""):
        with pytest.raises(DeployFailed):
            drift(losing={"c1": 1})
        mail = mails(tmp_path)
        assert expected in mail
        assert bool(mail) == bool(expected)
    assert (tmp_path / "d.prom").read_text() == metrics
    drift(**WRONG)
    assert "Right again:\n  the hosts could not be compared\n" in mails(tmp_path)


def test_a_mail_when_it_is_not_taken_then_the_next_run_sends_it(drift: Drift, tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(SlurmfabError, match="no queue"):
        drift(**WRONG)
    (tmp_path / "broken").unlink()
    drift(**WRONG)
    assert "New:" in mails(tmp_path)


def test_the_memory_when_its_file_is_broken_then_everything_is_told_anew(drift: Drift, tmp_path: Path) -> None:
    drift(**WRONG)
    mails(tmp_path)
    alarm.path_of(tmp_path / "cluster.yaml").write_text('{"version": 1, "problems": [["n1"]]}')
    drift(**WRONG)
    assert "New:" in mails(tmp_path)


def test_a_file_of_metrics_whose_directory_is_not_there_then_is_refused_and_none_is_made(
    drift: Drift, tmp_path: Path
) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_text(path.read_text().replace(f"{tmp_path}/d.prom", f"{tmp_path}/etc/nologin/d.prom"))
    with pytest.raises(InputError, match=r"drift\.textfile: there is no directory .*/etc/nologin on this machine"):
        drift()
    assert not (tmp_path / "etc").exists()
