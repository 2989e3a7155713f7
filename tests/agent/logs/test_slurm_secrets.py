"""Secrets among Slurm's settings: what is taken out of every text that people see, and what stays."""

from __future__ import annotations

import pytest

from slurmfab.on_hosts.agent.logs.secret_detectors import value_without_secrets, without_secrets


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("JobCompPass=abc", "JobCompPass=(hidden)"),
        ("jobcomppass = abc # old", "jobcomppass = (hidden) # old"),
        ('StoragePass="a b"', 'StoragePass="(hidden)"'),
        ("AccountingStoragePass=abc", "AccountingStoragePass=(hidden)"),
        ("ProfileInfluxDBPass=abc", "ProfileInfluxDBPass=(hidden)"),
        ("EnergyIPMIPassword=abc", "EnergyIPMIPassword=(hidden)"),
        ("-JobCompPass=abc", "-JobCompPass=(hidden)"),
        ("JobCompLoc=https://ann:abc@elastic/slurm", "JobCompLoc=https://ann:(hidden)@elastic/slurm"),
        ("AuthInfo=abc", "AuthInfo=(hidden)"),
        ("AuthInfo=socket=/run/munge/munge.socket.2", "AuthInfo=socket=/run/munge/munge.socket.2"),
        ("AuthInfo=/run/munge/munge.socket.2", "AuthInfo=/run/munge/munge.socket.2"),
        ("AuthInfo=cred_expire=300,use_client_ids", "AuthInfo=cred_expire=300,use_client_ids"),
        ("AuthAltParameters=jwt_key=/etc/slurm/jwt.key", "AuthAltParameters=jwt_key=/etc/slurm/jwt.key"),
        ("AuthAltParameters=jwt_key=abc,x=y", "AuthAltParameters=jwt_key=(hidden),x=(hidden)"),
        (
            "SlurmctldParameters=cloud_dns,power_save_interval=10",
            "SlurmctldParameters=cloud_dns,power_save_interval=10",
        ),
        ("SlurmctldParameters=my_key=abc,cloud_dns", "SlurmctldParameters=my_key=(hidden),cloud_dns"),
        ("StorageParameters=SSL_KEY=/etc/key.pem", "StorageParameters=SSL_KEY=/etc/key.pem"),
        ("SchedulerParameters=bf_interval=30", "SchedulerParameters=bf_interval=30"),
        ("KillWait=30", "KillWait=30"),
    ],
)
def test_a_line_of_slurms_files_then_is_shown_without_its_secrets(line: str, shown: str) -> None:
    assert without_secrets(line) == shown


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("JobCompPass", "a b", "(hidden)"),
        ("JobCompPass", "", ""),
        ("AuthInfo", "abc", "(hidden)"),
        ("Epilog", "/a", "/a"),
    ],
)
def test_a_value_then_is_shown_without_its_secrets(key: str, value: str, shown: str) -> None:
    assert value_without_secrets(key, value) == shown
