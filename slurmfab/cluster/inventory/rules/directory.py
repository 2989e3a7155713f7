"""Rules between `directory` and the rest of a cluster file."""

from __future__ import annotations

from slurmfab.base.paths import SSSD_CONF
from slurmfab.cluster.inventory.cluster import Cluster
from slurmfab.cluster.inventory.slurm_settings import Complaints

_WRITTEN = frozenset((
    "id_provider", "ldap_uri", "ldap_search_base", "ldap_tls_cacert", "ldap_tls_reqcert", "ldap_id_use_start_tls",
    "ldap_default_bind_dn", "ldap_default_authtok", "ldap_id_mapping", "ldap_referrals", "case_sensitive",
    "access_provider", "simple_allow_groups", "min_id", "enumerate", "cache_credentials", "fallback_homedir",
    "ldap_deref_threshold",
))  # fmt: skip
"""What sssd.conf has for the other keys."""

_OTHER_NUMBERS = frozenset(("override_gid", "ldap_user_primary_group", "ldap_schema: ad"))
"""Options by which a user's number, or its group's, is not that of the attributes which searches filter."""


def the_directory_has_the_users(cluster: Cluster) -> Complaints:
    """Of two sources of users with the same names, each host would ask its own files first."""
    if cluster.directory is not None and cluster.unix_users:
        yield ("directory",), "a directory has the users then, and slurmfab makes none: write unix_users: false, too"


def sssd_conf_is_slurmfabs(cluster: Cluster) -> Complaints:
    """Of two contents for one file, only one would be there."""
    if cluster.directory is None:
        return
    if SSSD_CONF in cluster.files:
        yield ("files", SSSD_CONF), "slurmfab writes it for the key directory"
    for option, value in cluster.directory.sssd.options.items():
        if option in _WRITTEN:
            yield ("directory", "sssd", "options", option), "slurmfab writes this line itself; another key is for it"
        elif option.endswith("_uri") or option.startswith("dns_discovery"):
            yield ("directory", "sssd", "options", option), "servers are named by the key servers, which are encrypted"
        elif _OTHER_NUMBERS & {option, f"{option}: {value.lower()}"}:
            yield (
                ("directory", "sssd", "options", option),
                "with it, users have other numbers than those that are kept from being a host's own; for Active "
                "Directory, write type: ad",
            )
