"""What a cluster file may say of its database, and what it may not."""

from __future__ import annotations

import pytest
from support import THREE_HOSTS, cluster

from slurmfab.base.errors import ClusterFileError

ON_N1 = "partitions: [{PartitionName: a, Nodes: ALL, QOS: normal}]\n"


def refusals(more: str) -> list[str]:
    """What is wrong with a cluster file of three hosts that also says this, without place and line."""
    with pytest.raises(ClusterFileError) as error:
        cluster(f"{THREE_HOSTS}{more}\n")
    return [line.split(": ", 1)[1] for line in error.value.complaints]


def test_a_name_stands_for_a_whole_database() -> None:
    database = cluster(f"{THREE_HOSTS}database: c1\n").database
    assert database is not None
    assert (database.host, database.user, database.name, database.server) == ("c1", "slurm", "slurm_acct_db", ("", 0))


@pytest.mark.parametrize(
    ("external", "server"),
    [
        ("db.example.org", ("db.example.org", 3306)),
        ("10.0.0.9:3307", ("10.0.0.9", 3307)),
        ("[fd00::9]:3307", ("fd00::9", 3307)),
        ("fd00::9", ("fd00::9", 3306)),
    ],
)
def test_an_external_server_has_an_address_and_a_port(external: str, server: tuple[str, int]) -> None:
    said = f'database: {{host: c1, external: "{external}", password_file: /p}}\n'
    database = cluster(f"{THREE_HOSTS}{said}").database
    assert database is not None
    assert database.server == server


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ("database: {host: c1, external: db}", "needs the key password_file"),
        ("database: {host: c1, external: 'db:99999', password_file: /p}", "is not address:port"),
        ("database: {host: c1, external: 10.0.0.300, password_file: /p}", "is not address:port"),
        ("database: {host: c1, external: 'no db', password_file: /p}", "is not address:port"),
        ("database: {host: c1, keep_password: true}", "database.keep_password: it is only for an external database"),
        (
            "database: {host: c1, external: db, keep_password: true, password_file: /p}",
            "database.keep_password: the password comes from password_file",
        ),
        (
            "database: {host: c1, external: db, keep_password: true, settings: false}",
            "database.settings: slurmfab never writes the settings of an external database",
        ),
        ("slurmdbd_conf: {PurgeJobAfter: 12months}", "slurmdbd_conf: it needs an accounting database"),
        ("database: c1\nslurmdbd_conf: {DbdPort: 70000}", '"70000" is not a port'),
        ("database: c1\nslurmdbd_conf: {StoragePass: x}", "a password does not belong in the cluster file"),
        ("database: c1\nslurmdbd_conf: {Storagehost: db}", "it comes from the key database at the top"),
        ("database: c1\nslurmdbd_conf: {SlurmUser: root}", "it comes from the key slurm_user"),
        ("database: {host: c1, password_file: /p}", "database.password_file: it is only for an external database"),
        ("database: n1", '"n1" is a compute node, where jobs run'),
        ("login: l1\ndatabase: l1", '"l1" is a login host'),
        ("database: 'd[1-2]'", '"d[1-2]" names 2 hosts'),
        ("database: {hosst: c1}", "unknown key; did you mean host?"),
        (ON_N1, "partitions[0].QOS: it needs an accounting database"),
        ("database: c1\nslurm_conf: {AccountingStorageHost: other}", "it comes from the key database at the top"),
    ],
)
def test_what_makes_no_sense_is_refused(more: str, reason: str) -> None:
    assert any(reason in one for one in refusals(more)), refusals(more)


def test_a_controller_that_is_a_compute_node_as_well_may_have_the_database() -> None:
    alone = "cluster: lab\ncontrollers: [c1]\nnodes: [{hosts: c1}]\ndatabase: c1\n"
    assert cluster(alone).roles("c1") == ("controller", "database", "compute")


def test_a_slurmdbd_that_somebody_set_up_by_hand_knows_qos_as_well() -> None:
    by_hand = "slurm_conf: {AccountingStorageType: accounting_storage/slurmdbd, AccountingStorageHost: dbd}\n"
    assert cluster(f"{THREE_HOSTS}{ON_N1}{by_hand}").database is None
