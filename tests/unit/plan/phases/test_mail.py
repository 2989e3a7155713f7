"""Mail about jobs: what controllers get for it, what slurm.conf says, and what is taken back."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from pathlib import Path

import pytest
from support import THREE_HOSTS, prepared_input

from slurmfab.base.paths import MAIL_PROGRAM, MAIL_SETTINGS
from slurmfab.core.plan.phases import mail, packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles

LOGIN = "mail: {relay: smtp.example.org, from: slurm@example.org, user: u, password_file: p}\n"
OPEN = "mail: {relay: 10.0.0.9, from: slurm@example.org, tls: off}\n"


def wanted(more: str, **facts: object) -> PlanInput:
    return dataclasses.replace(prepared_input(THREE_HOSTS + more, **facts), mail_password='pa"ss')


def files(more: str) -> dict[str, OwnedFile]:
    (one,) = mail.resources(wanted(more), "c1")
    assert isinstance(one, OwnedFiles)
    return one.by_path()


def test_a_controller_has_the_program_and_settings_that_only_slurm_can_read() -> None:
    found = files(LOGIN)
    settings = found[MAIL_SETTINGS]
    assert (found[MAIL_PROGRAM].mode, found[MAIL_PROGRAM].owner) == (0o755, "root")
    assert (settings.mode, settings.owner, settings.group, settings.secret) == (0o600, "slurm", "slurm", True)
    lines = ("host smtp.example.org", "port 587", "tls on", "tls_starttls on", 'user "u"', 'password "pa"ss"')
    assert set(lines) <= set(settings.text.splitlines())


def test_a_relay_without_a_login_has_no_password_in_its_settings() -> None:
    text = files(OPEN)[MAIL_SETTINGS].text
    assert "tls off\n" in text
    assert "auth" not in text
    assert "password" not in text


@pytest.mark.parametrize(("more", "brought"), [(LOGIN, ("msmtp", "ca-certificates")), (OPEN, ("msmtp",)), ("", ())])
def test_packages_come_for_the_mailer(more: str, brought: tuple[str, ...]) -> None:
    assert mail.packages(wanted(more), "c1") == brought
    assert set(brought) <= packages.wanted(wanted(more), "c1")
    assert mail.packages(wanted(more), "n1") == ()


def test_slurm_conf_names_the_program_and_the_domain_with_the_key_alone() -> None:
    assert f"MailProg={MAIL_PROGRAM}\nMailDomain=example.org\n" in wanted(OPEN).rendered["slurm.conf"]
    assert "MailDomain" not in wanted("").rendered["slurm.conf"]
    assert "MailDomain=other.org" in wanted(f"{OPEN}slurm_conf: {{MailDomain: other.org}}\n").rendered["slurm.conf"]


def test_every_controller_has_the_same_and_one_that_is_none_any_more_loses_it() -> None:
    two = THREE_HOSTS.replace("controllers: [c1]", "controllers: [c1, c2]\nstate_directory: /shared/state")
    known = dataclasses.replace(prepared_input(two + LOGIN), mail_password="p")
    assert mail.resources(known, "c2") == mail.resources(known, "c1") != ()
    assert mail.packages(known, "c2") == ("msmtp", "ca-certificates")
    assert mail.gone(wanted(LOGIN, owned=("mail",)), "n1") == (OwnedFiles("mail", ()),)


def test_what_a_host_has_is_taken_back_when_the_key_goes_and_not_before() -> None:
    assert mail.gone(wanted("", owned=("mail",)), "c1") == (OwnedFiles("mail", ()),)
    assert mail.gone(wanted(""), "c1") == ()
    assert mail.gone(wanted(OPEN, owned=("mail",)), "c1") == ()
    assert mail.resources(wanted(OPEN), "n1") == ()


def test_no_representation_of_a_plan_has_the_password() -> None:
    assert 'pa"ss' not in repr((wanted(LOGIN), mail.resources(wanted(LOGIN), "c1")))


@pytest.mark.parametrize(
    ("subject", "recipient", "headers"),
    [
        ("Slurm Job_id=1 Ended", "ann@b.org", ("To: ann@b.org", "Subject: Slurm Job_id=1 Ended")),
        ("x\nBcc: eve@b.org", "a@b.org\nCc: eve@b.org", ("To: a@b.orgCc: eve@b.org", "Subject: x Bcc: eve@b.org")),
        ("größer", "a@b.org", ("Subject: =?UTF-8?B?Z3LDtsOfZXI=?=",)),
    ],
)
def test_the_program_writes_headers_that_no_user_can_add_to(
    tmp_path: Path, subject: str, recipient: str, headers: tuple[str, ...]
) -> None:
    (tmp_path / "msmtp").write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/words\nexec cat\n')
    (tmp_path / "msmtp").chmod(0o755)
    program = files(OPEN)[MAIL_PROGRAM].text.replace("PATH=/usr/bin:/bin", f"PATH={tmp_path}:{os.environ['PATH']}")
    argv = ["sh", "-c", program, "job-mail", "-s", subject, recipient]
    sent = subprocess.run(argv, input=b"the text\n", capture_output=True, check=True).stdout.decode()
    head, _, text = sent.partition("\n\n")
    assert text == "the text\n"
    assert set(headers) <= set(head.splitlines())
    names = [line.partition(":")[0] for line in head.splitlines()]
    assert names == ["From", "To", "Subject", "Date", "Auto-Submitted", "MIME-Version", "Content-Type"]
    assert (tmp_path / "words").read_text() == f"--file={MAIL_SETTINGS} --read-recipients\n"
