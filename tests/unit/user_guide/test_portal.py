"""The file by which a portal knows a cluster."""

from __future__ import annotations

import yaml
from support import THREE_HOSTS, cluster

from slurmfab.core.user_guide import writing


def test_the_file_names_the_host_of_logins_and_slurms_places() -> None:
    found = yaml.safe_load(
        writing.cluster_file(cluster(THREE_HOSTS.replace('hosts: "n[1-2]"', "hosts: n1") + "login: [n2]\n"))
    )["v2"]
    assert found["metadata"] == {"title": cluster().name}
    assert found["login"] == {"host": "n2"}
    assert found["job"] == {
        "adapter": "slurm",
        "cluster": cluster().name,
        "bin": "/usr/bin",
        "conf": "/etc/slurm/slurm.conf",
    }
    assert yaml.safe_load(writing.cluster_file(cluster()))["v2"]["login"] == {"host": "c1"}
