"""The kinds of resources, by the name that requests use; a module is imported when a request needs its kind."""

from __future__ import annotations

import importlib
from typing import Any, Mapping

from slurmfab.on_hosts.agent.core.resource import Resource

KINDS = {
    "absent": "files.file:Absent",
    "accounts": "accounting.tree:AccountTree",
    "accounts-rest": "accounting.tree:RestOfAccounts",
    "apparmor-profiles": "files.apparmor_profiles:AppArmorProfiles",
    "associations-gone": "accounting.tree:AssociationsGone",
    "authorized-keys": "people.person:AuthorizedKeys",
    "block": "files.block:Block",
    "carried-files": "slurm.carried_files:CarriedFiles",
    "cluster-id": "database.registration:ClusterId",
    "connections": "nodes.connections:Connections",
    "directory-service": "people.directory_service:DirectoryService",
    "directory": "files.directory:Directory",
    "dnf-updates": "dnf.dnf_updates:DnfUpdates",
    "dnf-packages-exchanged": "upgrade.exchanged_rpms:DnfExchangedPackages",
    "dnf-packages": "dnf.dnf_packages:DnfPackages",
    "dnf-packages-former": "dnf.dnf_removals:DnfFormerPackages",
    "dnf-packages-gone": "dnf.dnf_removals:DnfRemovedPackages",
    "earlier-directory": "undo.restored_file:EarlierDirectory",
    "earlier-files": "undo.restored_file:EarlierFiles",
    "earlier-logins": "undo.restored_file:EarlierLogins",
    "earlier-mounts": "mounts.earlier_mounts:EarlierMounts",
    "export-files": "mounts.exports:ExportFiles",
    "exports-loaded": "mounts.exports:ExportsLoaded",
    "fault": "nodes.timed_fault:TimedFault",
    "fetched-files": "slurm.fetched_files:FetchedFiles",
    "file": "files.file:File",
    "firewall-rules": "files.firewall_rules:FirewallRules",
    "firewalld-zone": "files.firewalld_zone:FirewalldZone",
    "freed-ports": "services.freed_ports:FreedPorts",
    "free-space": "files.free_space:FreeSpace",
    "group": "identities.user:Group",
    "group-members": "people.group_members:GroupMembers",
    "host-names": "files.host_names:HostNames",
    "hostbased-logins": "files.hostbased_logins:HostbasedLogins",
    "in-effect": "files.in_effect:InEffect",
    "jobs-ended": "nodes.jobs:JobsEnded",
    "left-file": "files.left_file:LeftFile",
    "listening": "services.listening:Listening",
    "lock-copy": "undo.lock_copy:LockCopy",
    "login-guard": "services.login_guard:LoginGuard",
    "moved-ids": "identities.moved_ids:MovedIds",
    "lost-jobs": "nodes.lost_jobs:LostJobs",
    "machine-reboot": "services.units:MachineReboot",
    "mig": "slurm.mig_instances:MigInstances",
    "mount": "mounts.mount_point:MountPoint",
    "munge-directories": "munge.directories:MungeDirectories",
    "munge-key": "munge.key:MungeKey",
    "munge-key-switch": "munge.rotation:MungeKeySwitch",
    "no-kept-secrets": "undo.undo_secrets:NoKeptSecrets",
    "node-drain": "nodes.drain:NodeDrain",
    "node-gate": "nodes.drain:NewNodeDrain",
    "node-logins": "people.node_logins:NodeLogins",
    "node-reboot": "nodes.reboot:NodeReboot",
    "node-resume": "nodes.resume:NodeResume",
    "node-trial": "nodes.acceptance:NodeAcceptance",
    "null-device": "files.null_device:NullDevice",
    "owned-files": "files.owned_files:OwnedFiles",
    "nodes-awake": "nodes.awake:NodesAwake",
    "packaged-rotation": "files.packaged_rotation:PackagedRotation",
    "package-way": "packages.package_way:PackageWay",
    "packages": "packages.packages:Packages",
    "packages-exchanged": "upgrade.exchanged_packages:ExchangedPackages",
    "packages-former": "packages.former_packages:FormerPackages",
    "packages-gone": "packages.former_packages:RemovedPackages",
    "partition-drain": "nodes.drain:PartitionDrain",
    "person": "people.person:Person",
    "person-gone": "people.removed_person:RemovedPerson",
    "person-home": "people.person:PersonHome",
    "program": "files.program:Program",
    "selinux-settings": "files.selinux_settings:SelinuxSettings",
    "server-certificate": "files.server_certificate:ServerCertificate",
    "root-log": "files.root_log:RootLog",
    "registration": "database.registration:Registration",
    "released-mounts": "mounts.released_mounts:ReleasedMounts",
    "revived-unit": "services.units:RevivedUnit",
    "renewed-daemons": "slurm.renewed_daemons:RenewedDaemons",
    "proved-dump": "upgrade.proved_dump:ProvedDump",
    "renewed-daemon": "upgrade.renewed_daemon:RenewedDaemon",
    "restored": "undo.restored_file:Restored",
    "restored-database": "backup.restored_database:RestoredDatabase",
    "restored-files": "backup.restored_state:RestoredFiles",
    "restored-state": "backup.restored_state:RestoredState",
    "scratch-directory": "scratch.scratch_directory:ScratchDirectory",
    "scripts": "files.scripts:Scripts",
    "service": "services.service:Service",
    "shared-files": "slurm.shared_files:SharedFiles",
    "shared-names": "files.shared_names:SharedNames",
    "site-files": "slurm.site_files:SiteFiles",
    "slurm-files": "slurm.files:SlurmFiles",
    "slurm-nodes": "nodes.registered:SlurmNodes",
    "slurm-source": "slurm.package_source:SlurmSource",
    "slurm-state": "slurm.state:SlurmState",
    "slurm-state-access": "slurm.state_access:StateAccess",
    "slurmctld-pause": "slurm.slurmctld_pause:SlurmctldPause",
    "slurmdbd-conf": "database.slurmdbd_conf:SlurmdbdConf",
    "spank-plugin": "slurm.spank_plugin:SpankPlugin",
    "ssh-key": "identities.ssh_key:SshKey",
    "ssh-login": "identities.logins:SshLogin",
    "sshd-files": "files.sshd_files:SshdFiles",
    "staged-munge-key": "munge.rotation:StagedMungeKey",
    "state-copy": "upgrade.state_copy:StateCopy",
    "storage": "database.storage:Storage",
    "storage-login": "database.storage:StorageLogin",
    "sudo-rules": "people.sudo_rules:SudoRules",
    "subordinate-ids": "people.subordinate_ids:SubordinateIds",
    "timer": "services.units:Timer",
    "trusted-authority": "files.trusted_authority:TrustedAuthority",
    "units-loaded": "services.units:UnitsLoaded",
    "updates": "packages.updates:Updates",
    "user": "identities.user:User",
    "user-directories": "people.user_directories:UserDirectories",
    "user-quotas": "mounts.quotas:UserQuotas",
    "user-slices": "files.user_slices:UserSlices",
}
"""Module and class by kind. A new resource type needs one file in this package and one line here."""


def build(request: Mapping[str, Any]) -> Resource:
    """Make a resource from `as_request`'s values; ValueError for an unknown kind, TypeError for other fields."""
    resource: Resource = class_of(request.get("kind"))(
        **{field: tuples(value) for field, value in request.items() if field != "kind"}
    )
    return resource


def class_of(kind: Any) -> Any:
    """The class of a kind of resources. Raises ValueError if the kind does not exist."""
    if kind not in KINDS:
        raise ValueError("there is no resource of kind %s" % kind)
    module, _, name = KINDS[kind].partition(":")
    return getattr(importlib.import_module("slurmfab.on_hosts.agent." + module), name)


def tuples(value: Any) -> Any:
    """A JSON value with tuples in place of lists, because records hold tuples."""
    return tuple(tuples(item) for item in value) if isinstance(value, list) else value
