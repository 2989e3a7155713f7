"""The key mail of a cluster file."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError
from slurmfab.cluster.inventory.mail import Mail


def mail(said: str) -> Mail:
    found = cluster(f"{THREE_HOSTS}mail: {{{said}, from: slurm@example.org}}\n").mail
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("said", "host", "port", "tls"),
    [
        ("relay: smtp.example.org", "smtp.example.org", 587, "starttls"),
        ("relay: smtp.example.org, tls: on", "smtp.example.org", 465, "on"),
        ("relay: 10.0.0.9, tls: off", "10.0.0.9", 25, "off"),
        ("relay: 'smtp:2525', tls: false", "smtp", 2525, "off"),
        ("relay: '[fd83::9]:26', tls: true", "fd83::9", 26, "on"),
    ],
)
def test_a_relay_has_a_host_a_port_and_an_encryption(said: str, host: str, port: int, tls: str) -> None:
    found = mail(said)
    assert (found.host, found.port, found.tls, found.domain) == (host, port, tls, "example.org")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{relay: smtp}", "mail.from: this key is missing"),
        ("{from: a@b.org}", "mail.relay: this key is missing"),
        ("{relay: 'a b', from: a@b.org}", '"a b" is not a host'),
        ("{relay: 'smtp:70000', from: a@b.org}", "70000 is not a port"),
        ("{relay: smtp, from: slurm}", '"slurm" is not a mail address'),
        ('{relay: smtp, from: "a@b.org\\nBcc: c@d.org"}', "is not a mail address"),
        ("{relay: smtp, from: a@b.org, tls: maybe}", "mail.tls"),
        ("{relay: smtp, from: a@b.org, user: u}", "a login needs password_file"),
        ("{relay: smtp, from: a@b.org, password_file: p}", "a password needs user"),
        ("{relay: smtp, from: a@b.org, user: u, password_file: p, tls: off}", "over TLS only"),
        ('{relay: smtp, from: a@b.org, user: "u\\nhost x", password_file: p}', "one word"),
        ("{relay: smtp, from: a@b.org, password: secret}", "unknown key"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(text: str, words: str) -> None:
    with pytest.raises(ClusterFileError) as refused:
        cluster(f"{THREE_HOSTS}mail: {text}\n")
    assert words in str(refused.value)
    assert f"cluster.yaml:{THREE_HOSTS.count(chr(10)) + 1}" in str(refused.value)


def test_slurm_is_told_one_mail_program_and_not_two() -> None:
    with pytest.raises(ClusterFileError, match="remove one of the two"):
        cluster(f"{THREE_HOSTS}mail: {{relay: smtp, from: a@b.org}}\nslurm_conf: {{MailProg: /usr/bin/mail}}\n")
