"""All kinds of resources by name; a module is imported when a request needs its kind."""

from __future__ import annotations

import importlib
from typing import Any, Mapping

from slurmfab.agent.resource import Resource

KINDS = {
    "absent": "absent:Absent",
    "accounts": "account_tree:AccountTree",
    "accounts-rest": "account_tree:RestOfAccounts",
    "associations-gone": "associations_gone:AssociationsGone",
    "authorized-keys": "authorized_keys:AuthorizedKeys",
    "block": "block:Block",
    "carried-files": "carried_files:CarriedFiles",
    "directory": "directory:Directory",
    "fetched-files": "fetched_files:FetchedFiles",
    "file": "file:File",
    "group": "group:Group",
    "jobs-ended": "node_jobs:JobsEnded",
    "left-file": "left_file:LeftFile",
    "listening": "listening:Listening",
    "moved-ids": "moved_ids:MovedIds",
    "munge-key": "munge_key:MungeKey",
    "munge-key-switch": "munge_rotation:MungeKeySwitch",
    "no-kept-secrets": "kept_secrets:NoKeptSecrets",
    "node-drain": "node_drain:NodeDrain",
    "node-gate": "node_gate:NodeGate",
    "node-reboot": "node_reboot:NodeReboot",
    "node-resume": "node_resume:NodeResume",
    "node-trial": "node_trial:NodeTrial",
    "packages": "packages:Packages",
    "packages-gone": "packages_gone:PackagesGone",
    "partition-drain": "partition_drain:PartitionDrain",
    "person": "person:Person",
    "person-gone": "person_gone:PersonGone",
    "person-home": "person_home:PersonHome",
    "program": "program:Program",
    "restored": "restored:Restored",
    "restored-database": "restored_database:RestoredDatabase",
    "restored-files": "restored_state:RestoredFiles",
    "restored-state": "restored_state:RestoredState",
    "scripts": "scripts:Scripts",
    "service": "service:Service",
    "slurm-files": "slurm_files:SlurmFiles",
    "slurm-nodes": "slurm_nodes:SlurmNodes",
    "slurm-state": "slurm_state:SlurmState",
    "slurmctld-pause": "slurmctld_pause:SlurmctldPause",
    "slurmdbd-conf": "slurmdbd_conf:SlurmdbdConf",
    "ssh-key": "ssh_key:SshKey",
    "staged-munge-key": "munge_rotation:StagedMungeKey",
    "storage": "storage:Storage",
    "storage-login": "storage_login:StorageLogin",
    "sudo-rules": "sudo_rules:SudoRules",
    "timer": "timer:Timer",
    "user": "user:User",
}
"""Module and class by kind. A new resource type is one file in this package and one line here."""


def build(request: Mapping[str, Any]) -> Resource:
    """The resource that `as_request` made these JSON values of.

    Raises:
        ValueError: there is no such kind.
        TypeError: these are not its fields.
    """
    if request.get("kind") not in KINDS:
        raise ValueError("there is no resource of kind %s" % request.get("kind"))
    module, _, name = KINDS[request["kind"]].partition(":")
    made: Resource = getattr(importlib.import_module("slurmfab.agent." + module), name)(
        **{field: tuples(value) for field, value in request.items() if field != "kind"}
    )
    return made


def tuples(value: Any) -> Any:
    """A JSON value with tuples for lists, as records hold them."""
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value
