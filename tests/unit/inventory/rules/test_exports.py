"""Exports in a cluster file: what does not fit together, or would open the system, is refused with its line."""

from __future__ import annotations

import pytest
from support import cluster

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory.storage import clients, mounts_of

HEAD = """\
cluster: lab
addresses: {c1: 10.0.0.1, l1: "fd00::9"}
controllers: [c1]
login: [l1]
nodes: [{hosts: "n[1-2]"}]
exports:
"""
HOME = "{path: /srv/home, host: c1, mount: /home}"


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("{path: home, host: c1}", "is not an absolute path"),
        ("{path: /srv/home}", "exports[0].host: this key is missing"),
        ("{path: /srv/home, host: nas}", '"nas" is no host of this cluster; what another server has is mounted by'),
        ("{path: /etc, host: c1}", '"/etc" is a directory of the system'),
        ("{path: /root/x, host: c1}", "is a directory of the system"),
        ("{path: /var/lib, host: c1}", "is a directory of the system"),
        ("{path: /etc/munge, host: c1}", "has files of /etc/munge"),
        ("{path: /srv/home, host: c1, options: 'rw,bogus'}", '"bogus" is not an option of exports(5)'),
        ("{path: /srv/home, host: c1, options: 'rw)(x'}", "is not an option of exports(5)"),
        ("{path: /srv/home, host: c1, options: 'fsid=0'}", "would change the paths of all other exports"),
        ("{path: /srv/home, host: c1, to: worker}", "exports[0].to"),
        ("{path: /srv/home, host: c1, mount: /usr}", '"/usr" is a directory of the system'),
        ("{path: /srv, host: c1, mount: /srv/home}", "lie one in the other"),
        ("{path: /home/all, host: c1, mount: /home}", "lie one in the other"),
    ],
)
def test_an_export_that_cannot_be_right_is_refused_with_its_line(entry: str, why: str) -> None:
    with pytest.raises(InputError) as refused:
        cluster(f"{HEAD}  - {entry}\n")
    assert "cluster.yaml:7: exports[0]" in str(refused.value)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("  - {path: /srv/home, host: c1}\n", r'cluster.yaml:8: exports\[1\].path: "/srv/home" of c1 is already'),
        ("  - {path: /srv/two, host: l1, mount: /home}\n", r'exports\[1\].mount: "/home" is already mounted on c1 by'),
        ("mounts: [{path: /home, source: 'a:/b', type: nfs, hosts: n1}]\n", r'"/home" is already mounted on n1 by'),
        ("mounts: [{path: /srv, source: 'a:/b', type: nfs, hosts: c1}]\n", '"/srv/home" is on /srv, which c1 has from'),
    ],
)
def test_exports_that_contradict_others_are_refused(more: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        cluster(f"{HEAD}  - {HOME}\n{more}")


def test_exports_are_mounted_by_the_roles_that_they_name_and_bound_on_their_server() -> None:
    found = cluster(
        f"{HEAD}  - {HOME}\n  - {{path: /soft, host: l1, mount: /soft, to: [login, compute], options: [ro]}}\n"
    )
    told = {
        host: [(one.path, one.source, one.type, one.options) for one in mounts_of(found, host)]
        for host in ("c1", "l1", "n1")
    }
    home, soft = ("/home", "10.0.0.1:/srv/home", "nfs4", ()), ("/soft", "[fd00::9]:/soft", "nfs4", ("ro",))
    assert told == {"c1": [("/home", "/srv/home", "bind", ())], "l1": [home], "n1": [home, soft]}
    assert clients(found, found.exports[1]) == ("n1", "n2")
    assert found.exports[0].options == ("rw", "no_subtree_check")
    assert found.exports[1].options == ("ro", "no_subtree_check")
