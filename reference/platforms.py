"""Where the code depends on a platform: texts that hold for one distribution, or one kind of Slurm's packages, alone.

`slurmfab/cluster/slurm/platform.py` is the place for them. Every other one is named here, with the reason for it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path

import slurmfab
from reference.markdown import WRITTEN, table
from slurmfab.cluster.slurm.platform import PLATFORMS

PACKAGE = Path(slurmfab.__file__).parent
TEMPLATES = PACKAGE / "templates"
HOME = "cluster/slurm/platform.py"
"""The module that knows platforms."""

_OWN = {name for one in PLATFORMS.values() for name in one.slurm_packages}
_NAMES = sorted(name for name in _OWN if re.fullmatch(r"\w+-[\w-]+", name))
WHAT: Mapping[str, str] = {
    "names of packages": rf"(?<![\w-])(?:{'|'.join(map(re.escape, _NAMES))}|mariadb-(?:server|client))(?![\w-])",
    "reserved numbers": r"\b64030\b",
    "MariaDB's settings": r"/etc/mysql",
    "apt": r"apt-(?:get|cache|mark|config)|/etc/apt|/var/(?:lib|cache)/apt",
    "dnf": r"\bdnf\b|yum\.repos\.d|\brpm\b",
    "dpkg": r"\bdpkg\b|policy-rc\.d|DEBIAN_FRONTEND",
    "environment of units": r"/etc/default/\w*",
    "paths of programs": r"/usr/sbin/(?:slurm|sackd|nologin)",
    "directory of plugins": r"slurm-wlm\b|/usr/lib/\S*slurm",
    "distributions": r"\b(?:bookworm|trixie|noble|jammy|forky)\b|[\"']?(?:debian|ubuntu)[\"']?$",
}
"""What of a platform a text shows, with the pattern that finds it."""

APT = "the implementation for apt and dpkg"
REPAIR = "a repair in words, for people on such a host"
SAMPLE = "an example for people"
LAB = "labs are Debian's hosts"
EXPLAINED: Mapping[str, str] = {
    HOME: "the place for all of it",
    "on_hosts/agent/packages/": APT,
    "on_hosts/agent/slurm/package_source.py": APT,
    "on_hosts/agent/dnf/": "the implementation for dnf and rpm",
    "on_hosts/agent/kinds.py": "the names of its resources",
    "commands/eject/saying.py": "the names of its resources",
    "on_hosts/agent/upgrade/": APT,
    "cluster/inventory/deb_files.py": "packages beside the cluster file are those of dpkg",
    "cluster/inventory/rpm_files.py": "or of rpm",
    "cluster/inventory/slurm_package_files.py": "a directory has files of one of both",
    "cluster/inventory/site_packages.py": "packages of the site are named as for apt",
    "cluster/inventory/slurm_packages.py": "the key `slurm`, with its sources for apt",
    "lab/": LAB,
    "cli/completion.py": LAB,
    "cli/tasks/lab.py": LAB,
    "commands/rehearse/hand_made.py": LAB,
    "core/plan/phases/files.py": "files of apt come before any package",
    "core/plan/phases/hosts_file.py": "templates of cloud-init, by the system's kind",
    "base/paths.py": "paths of slurmfab's files for apt",
    "cli/tasks/update.py": SAMPLE,
    "core/plan/phases/slurm_source.py": "the source of Slurm's packages, for apt",
    "hosts/": "python3 is installed before an agent can run",
    "on_hosts/agent/support/": "asked about, or left out, where it is there",
    "on_hosts/agent/slurm/daemon_places.py": "both places of environment files are looked at",
    "on_hosts/agent/slurm/files.py": "the same on all platforms",
    "on_hosts/agent/facts/facts.py": "the same on all platforms",
    "on_hosts/agent/backup/database.py": REPAIR,
    "on_hosts/agent/people/directory_service.py": "pam-auth-update, as packages of dpkg use it",
    "on_hosts/agent/people/node_logins.py": REPAIR,
    "on_hosts/agent/files/selinux_settings.py": REPAIR,
    "commands/checks/": REPAIR,
    "commands/doctor/": "told before any fact is known",
    "cluster/facts.py": "the system's kind, and Slurm where no program tells its version",
    "cluster/inventory/job_scripts.py": "files that dpkg leaves beside others",
    "cluster/inventory/rules/slurm_conf.py": "paths that are slurmfab's, wherever they are",
    "cluster/inventory/rules/services.py": "the distribution's packages for Prometheus",
    "commands/nodes/discovery.py": SAMPLE,
    "core/plan/phases/monitoring.py": "the distribution's packages for Prometheus",
    "core/plan/user_namespaces.py": "what AppArmor does not load, by the ends that apt gives to names",
    "core/plan/preflight/": REPAIR,
    "cluster/slurm/cgroups.py": REPAIR,
    "cluster/slurm/software.py": "the distribution's packages for capabilities, by its release",
    "cluster/slurm/versions.py": "Slurm of each release of Debian and Ubuntu",
    "commands/import_cluster/": REPAIR,
    "templates/mariadb.cnf.j2": "a comment: where the file is",
    "templates/node-exporter.j2": "the distribution's packages for Prometheus",
    "templates/prometheus.j2": "the distribution's packages for Prometheus",
    "templates/slurmd-configless.conf.j2": "a comment: where further options go",
}
"""Why each other module, or each one in a directory, may depend on a platform."""


def of_text(text: str) -> set[str]:
    """What of a platform a text depends on."""
    return {what for what, pattern in WHAT.items() if re.search(pattern, text)}


def of_module(path: Path) -> set[str]:
    """What of a platform the texts of a module depend on, its docstrings apart."""
    nodes = tuple(ast.walk(ast.parse(path.read_text())))
    documents = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = (node for node in nodes if isinstance(node, ast.Constant) and id(node) not in documents)
    return {what for one in texts if isinstance(one.value, (str, int)) for what in of_text(str(one.value))}


def places() -> dict[str, set[str]]:
    """What each module and each template depends on, by its path; without those that depend on nothing."""
    modules = {path.relative_to(PACKAGE).as_posix(): of_module(path) for path in sorted(PACKAGE.rglob("*.py"))}
    others = {f"templates/{path.name}": of_text(path.read_text()) for path in sorted(TEMPLATES.glob("*.j2"))}
    return {path: found for path, found in {**modules, **others}.items() if found}


def reason(path: str) -> str:
    """The key of `EXPLAINED` that says why a place may depend on a platform; empty for a place that may not."""
    return next((key for key in EXPLAINED if path == key or (key.endswith("/") and path.startswith(key))), "")


def page() -> str:
    """The page: what each platform is, and where else the code depends on one."""
    rows = ((f"`{key}`", why) for key, why in EXPLAINED.items())
    kinds = [
        (
            f"`{one.name}`",
            one.title,
            ", ".join(f"`{name}`" for name in sorted(one.packages_of(one.by_role) & {*one.slurm_packages})) or "none",
            f"`{one.libraries}/{one.plugin_directory}`",
            f"`{one.pam}`" if one.pam else "none",
            "the packages" if one.rotates_logs else "slurmfab",
        )
        for one in PLATFORMS.values()
    ]
    heads = ("name", "what it is", "packages by role", "plugins", "PAM module", "rotates logs")
    lines = (
        "# Platforms",
        "",
        f"{WRITTEN} A platform is a kind of Slurm's packages",
        "on a family of distributions. What the code knows of one is data in `slurmfab/cluster/slurm/platform.py`;",
        "[Adding things](../adding-things.md) says how to add one.",
        "",
        *table(heads, kinds),
        "",
        "## Where else the code depends on a platform",
        "",
        "A test looks for such texts in the code, and fails where one is not explained here. Names that packages share",
        "with daemons, such as `slurmctld`, are not looked for.",
        "",
        *table(("place", "why it is there"), rows),
    )
    return "\n".join(lines) + "\n"
