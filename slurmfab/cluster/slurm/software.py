"""Packages beside Slurm's own that parts of a cluster file bring, as data."""

from __future__ import annotations

from collections.abc import Mapping

MAILER = "msmtp"  # the program that hands mail about jobs to a relay
CERTIFICATES = "ca-certificates"  # the certificates by which a relay with TLS is known
AGE = "age"  # the program that encrypts backups

LMOD, ENVIRONMENT_MODULES = "lmod", "environment-modules"
MODULE_SYSTEMS = (LMOD, ENVIRONMENT_MODULES)
"""The two packages with the command `module`, which conflict with each other."""

PMIX: Mapping[str, tuple[str, ...]] = {"bookworm": ("libpmix-dev",)}
"""What Slurm's plugin mpi/pmix needs beside its own package, by release: Debian 12's opens `libpmix.so`, which is in
libpmix-dev alone; later ones depend on the library that they open."""

MPI_LIBRARIES: Mapping[str, tuple[str, ...]] = {"openmpi": ("openmpi-bin",)}
"""Packages of MPI itself, by the word for them in a cluster file."""

ALL_OF_MPI = tuple(name for table in (PMIX, MPI_LIBRARIES) for names in table.values() for name in names)

NFS_SERVER = "nfs-kernel-server"  # the server of the key `exports`
NFTABLES = "nftables"  # the program of the key `firewall`
FIREWALLD = "firewalld"  # what also writes rules; the unit has the same name
RPCBIND = "rpcbind"  # what the packages of NFS bring along, and NFS version 4 does not need
QUOTA = "quota"  # the programs of the key `quota`

APPTAINER, APPTAINER_SETUID = "apptainer", "apptainer-suid"
"""Apptainer, and the package of its authors that lets it work as root (setuid), which it does not need."""

SQUASHFUSE = "squashfuse"
"""The program by which Apptainer mounts an image that is a file, so that it does not unpack it at each start."""

WITHOUT_APPTAINER = frozenset({"bullseye", "bookworm", "trixie", "focal", "jammy", "noble"})
"""Releases of Debian and Ubuntu without Apptainer."""

ENROOT = ("enroot", "enroot-hardened")
"""The two packages of enroot's authors, of which a host has one; the second is slower and inherits no open files."""

PYXIS = "nvslurm-plugin-pyxis"  # the package of pyxis, as its authors build it

REGISTRY_SERVER, OPENSSL = "docker-registry", "openssl"
"""The server of the key `registry`, and what makes its certificate."""

JUPYTERHUB = "jupyterhub"
"""The package of the key `jupyter`, with the hub and with the servers of users; its unit has the same name."""

WITHOUT_JUPYTERHUB = frozenset({"bullseye", "focal", "jammy"})  # releases of Debian and Ubuntu without it

NODE_EXPORTER, PROMETHEUS = "prometheus-node-exporter", "prometheus"
"""The packages of the key `monitoring`; their units have the same names."""

DOCKER = "docker.io"  # Docker's daemon; it has a group of its own, docker, with a number of the host's own

DOCKER_CLIENT = "docker-cli"
DOCKER_WITH_CLIENT = frozenset({"bullseye", "bookworm", "focal", "jammy", "noble"})
"""Releases of Debian and Ubuntu whose package of the daemon has the command `docker` as well."""


def docker_packages(codename: str) -> tuple[str, ...]:
    """The packages of Docker in a release; for an unknown one, as in the newest.

    >>> docker_packages("bookworm"), docker_packages("trixie")
    (('docker.io',), ('docker.io', 'docker-cli'))
    """
    return (DOCKER,) if codename in DOCKER_WITH_CLIENT else (DOCKER, DOCKER_CLIENT)


PODMAN = ("podman", "uidmap", "crun", "fuse-overlayfs", "catatonit", "slirp4netns", "passt")
"""Podman, and what it needs for containers of users: IDs, a small runtime, layers, an init, networks of their own."""

OCI = ("crun", "skopeo", "umoci")  # the runtime of Slurm's own containers, and what makes their bundles from images

NAMESPACE_PROGRAMS: Mapping[str, tuple[str, ...]] = {
    "podman": ("/usr/bin/podman", "/usr/bin/crun"),
    "oci": ("/usr/bin/crun",),
    "apptainer": ("/usr/lib/*/apptainer/bin/starter", "/usr/libexec/apptainer/bin/starter"),
    "enroot": ("/usr/bin/enroot-nsenter",),
}
"""Patterns of the paths of the programs that make user namespaces for users, by the way of running containers; the
package of Apptainer's authors has it in another place than Debian's."""

SSSD = ("sssd-ldap", "sssd-krb5-common", "sssd-common", "sssd-tools", "libnss-sss", "libpam-sss")
"""What asks a directory for users, groups and logins, with those that need one another: they come and go together."""

OTHER_DIRECTORIES = ("libnss-ldapd", "libnss-ldap", "libpam-ldapd", "libnss-winbind", "libpam-winbind", "libnss-nis")
"""What asks a directory in another way; of two such services, each would refuse the other's users."""

ASKED = (
    APPTAINER,
    *(name for name in OCI if name not in PODMAN),
    SQUASHFUSE,
    DOCKER,
    *PODMAN,
    DOCKER_CLIENT,
    REGISTRY_SERVER,
    OPENSSL,
    JUPYTERHUB,
    NODE_EXPORTER,
    PROMETHEUS,
    NFS_SERVER,
    RPCBIND,
    NFTABLES,
    QUOTA,
    MAILER,
    CERTIFICATES,
    *SSSD,
    *OTHER_DIRECTORIES,
    AGE,
    *MODULE_SYSTEMS,
    *ALL_OF_MPI,
)
"""All of them: hosts are asked which they have."""
