"""JupyterHub: what its host and the nodes get, what users may ask for, and what is taken back."""

from __future__ import annotations

import ast
import json
from typing import Any

import pytest
from support import THREE_HOSTS, cluster, prepared_input

from slurmfab.base.errors import InputError
from slurmfab.cluster.inventory import ports
from slurmfab.core.plan.phases import jupyter, packages
from slurmfab.core.plan.plan_input import PlanInput
from slurmfab.core.plan.preflight import software
from slurmfab.on_hosts.agent.core.resource import Resource
from slurmfab.on_hosts.agent.files.owned_files import OwnedFile, OwnedFiles
from slurmfab.on_hosts.agent.files.program import Program
from slurmfab.on_hosts.agent.files.server_certificate import ServerCertificate
from slurmfab.on_hosts.agent.services.service import Service
from slurmfab.on_hosts.programs.jupyter.places import JUPYTER_PROGRAM

HUB = "jupyter: c1\n"
SITES = "jupyter: {host: c1, port: 443, address: 0.0.0.0, certificate: /etc/ssl/hub.pem, key: /etc/ssl/hub.key}\n"


def wanted(more: str, **facts: Any) -> PlanInput:
    return prepared_input(THREE_HOSTS + more, **facts)


def files_of(found: tuple[Resource, ...]) -> dict[str, OwnedFile]:
    (owned,) = (one for one in found if isinstance(one, OwnedFiles))
    return owned.by_path()


def test_the_hub_has_a_user_of_its_own_and_asks_root_by_a_socket() -> None:
    found = jupyter.resources(wanted(HUB), "c1")
    files = files_of(found)
    unit = files["/etc/systemd/system/slurmfab-jupyter.service"].text
    assert "DynamicUser=yes\n" in unit
    assert "NoNewPrivileges=yes\n" in unit
    assert "CapabilityBoundingSet=\n" in unit
    assert "CAP_NET_BIND_SERVICE" not in unit
    assert "run.py root\n" in files["/etc/systemd/system/slurmfab-jupyter-root@.service"].text
    assert [one.unit for one in found if isinstance(one, Service)] == [
        "slurmfab-jupyter-root.socket",
        "slurmfab-jupyter",
    ]
    assert files["/etc/pam.d/slurmfab-jupyter"].text.count("pam_nologin.so") == 2


def test_the_hubs_settings_are_python_that_names_its_addresses() -> None:
    text = files_of(jupyter.resources(wanted(HUB), "c1"))["/etc/slurmfab-jupyter.py"].text
    ast.parse(text)
    assert 'c.JupyterHub.bind_url = "https://10.0.0.1:8000"\n' in text
    assert 'c.JupyterHub.hub_bind_url = "http://10.0.0.1:8081"\n' in text


def test_the_certificate_when_the_site_has_one_then_none_is_made() -> None:
    (made,) = (one for one in jupyter.resources(wanted(HUB), "c1") if isinstance(one, ServerCertificate))
    assert made.certified == ("10.0.0.1", "c1")
    found = jupyter.resources(wanted(SITES), "c1")
    assert not [one for one in found if isinstance(one, ServerCertificate)]
    unit = files_of(found)["/etc/systemd/system/slurmfab-jupyter.service"].text
    assert "LoadCredential=certificate:/etc/ssl/hub.pem\nLoadCredential=key:/etc/ssl/hub.key\n" in unit
    assert "AmbientCapabilities=CAP_NET_BIND_SERVICE\n" in unit
    assert packages.wanted(wanted(SITES), "c1") & {"openssl", "jupyterhub"} == {"jupyterhub"}
    (former,) = (
        one for one in jupyter.resources(wanted(SITES, owned=("jupyter",)), "c1") if isinstance(one, ServerCertificate)
    )
    assert former.certified == ()


def test_nodes_have_the_program_and_the_package_and_no_hub() -> None:
    (program,) = (one for one in jupyter.resources(wanted(HUB), "n1") if isinstance(one, Program))
    assert program.path == JUPYTER_PROGRAM
    assert {"slurmfab/on_hosts/programs/jupyter/server.py", "slurmfab/on_hosts/programs/jupyter/asking.py"} <= {
        path for path, _ in program.files
    }
    assert not [one for one in jupyter.resources(wanted(HUB), "n1") if isinstance(one, OwnedFiles | Service)]
    assert "jupyterhub" in packages.wanted(wanted(HUB), "n1")


def test_the_packages_own_hub_of_roots_ends_where_slurmfab_brought_it() -> None:
    ended = Service("jupyterhub", running=False)
    assert ended in jupyter.resources(wanted(HUB, added_packages=("jupyterhub",)), "n1")
    assert ended not in jupyter.resources(wanted(HUB), "n1")


def test_what_users_may_ask_for_is_what_partitions_and_their_qos_allow() -> None:
    more = (
        "database: c1\nqos: [{name: small, MaxTRESPerJob: 'cpu=2,mem=1G', MaxWall: '1:00:00'}]\n"
        "accounts: [{name: physics}]\nslurm_user: munge\npartitions:\n"
        "- {PartitionName: short, Nodes: ALL, QOS: small, MaxTime: '2:00:00'}\n"
        "- {PartitionName: main, Nodes: ALL, Default: YES}\n"
        "- {PartitionName: secret, Nodes: ALL, Hidden: YES}\n- {PartitionName: closed, Nodes: ALL, State: DOWN}\n"
    )
    settings = jupyter.settings(wanted(HUB + more))
    assert settings["accounts"] == ["physics"]
    assert settings["denied"] == ["munge", "slurm"]
    main, short = settings["partitions"]
    assert (main["name"], main["cpus"], main["seconds"]) == ("main", 4, 0)
    assert (short["name"], short["cpus"], short["memory"], short["seconds"]) == ("short", 2, 1024, 3600)
    assert json.dumps(settings)


def test_the_ports_of_hub_and_servers_are_closed_to_strangers_and_that_for_browsers_is_not() -> None:
    known = wanted(HUB).cluster
    assert ("JupyterHub", 8081, 8081) in set(ports.of_host(known, "c1"))
    assert ("notebook servers", 28000, 28999) in set(ports.of_host(known, "n1"))
    assert not any(one.first <= 8000 <= one.last for one in ports.of_host(known, "c1"))
    assert ("c1", 8081, "JupyterHub", "") in set(ports.needed(known, "n1", {}))


def test_a_release_without_the_package_when_asked_for_notebooks_then_is_refused() -> None:
    software.refuse_unfit(wanted(HUB))
    with pytest.raises(InputError, match=r"c1,n\[1-2\]: jupyter: its distribution has no package jupyterhub"):
        software.refuse_unfit(wanted(HUB, codename="jammy"))


def test_all_is_taken_back_without_the_key() -> None:
    found = jupyter.resources(wanted("", owned=("jupyter",), programs=("jupyter",)), "c1")
    assert Program(JUPYTER_PROGRAM, ()) in found
    assert Program("/var/lib/private/slurmfab-jupyter", ()) in found
    assert Service("slurmfab-jupyter", running=False) in found
    assert files_of(found) == {}
    assert jupyter.resources(wanted("", programs=("jupyter",)), "n1") == (Program(JUPYTER_PROGRAM, ()),)
    assert jupyter.resources(wanted(""), "c1") == ()


@pytest.mark.parametrize(
    ("key", "says"),
    [
        ("jupyter: n1", "neither a controller nor a login host"),
        ("jupyter: {host: c1, certificate: /etc/ssl/hub.pem}", "belong together"),
        ("jupyter: {host: c1, port: 8081}", "the hub's own"),
        ("jupyter: {host: c1, idle: 10s}", "idle"),
    ],
)
def test_the_key_when_it_cannot_be_then_the_file_is_refused(key: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        cluster(f"{THREE_HOSTS}{key}\n")
