"""The one place where answers of agents become values: strict models, of which nothing else is believed.

An answer is text from a host that may be broken or hostile. Its model says of each value the type, the bounds and the
pattern that all of it matches; unknown names are refused. The lock's entries have the same types.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator, core_schema, to_json

from slurmfab.base.errors import AgentFailed
from slurmfab.base.strict_json import mistake

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
"""For `__pydantic_config__` of a dataclass: types are not converted, and unknown names are refused."""

STRICT_BUT_OPEN = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False)
"""The same for files in which a newer slurmfab may have written more: unknown names are ignored."""

ADVICE = "Is its python3 the distribution's? If it is, this is a bug; please report it."

LINE = r"^[^\pC\p{Zl}\p{Zp}]*\z"  # printable text of one line

RUN = r"^[0-9]{8}T[0-9]{6}\.[0-9]{6}Z-[a-z][a-z-]{0,39}\z"
"""The id of a run, as `slurmfab.on_hosts.agent.undo.undo_store` has it."""

PACKAGE_WORD = r"^[A-Za-z0-9_.+:~-]*\z"  # a package's name or version, or the name of a plugin or a daemon

SUPPORT_FILE = r"^[a-z]{1,20}/[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z"
"""The name of a file of a support bundle, below the folder of its host."""

Model = TypeVar("Model")


def pattern(text: str, most: int) -> Any:
    r"""A text that matches a pattern from its first to its last character.

    `text`: the pattern, in the syntax of Rust's regex; without `\s`, which matches line breaks.
    """
    return StringConstraints(pattern=rf"^(?:{text})\z", max_length=most)


Label = Annotated[str, pattern(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?", 63)]
"""A hostname of one label, without a dot."""

Word = Annotated[str, pattern(r"[A-Za-z0-9@._+:~-]*", 255)]
"""A name or a version without white space, such as `24.11.5-4`; may be empty."""

Phrase = Annotated[str, pattern(r"[^\pC\p{Zl}\p{Zp}]*", 4096)]  # one line of printable text; may be empty

MOST_TEXT = 64 << 20
Text = Annotated[str, Field(max_length=MOST_TEXT)]  # text of any number of lines

HostPath = Annotated[str, pattern(r"(?:/[^\pC\p{Zl}\p{Zp}:]*)?", 4096)]
"""An absolute path in a database such as /etc/passwd; may be empty."""

DeviceFile = Annotated[str, pattern(r"/dev/[A-Za-z0-9._/:-]+", 255)]
Program = Annotated[str, pattern(r"(?:(?:/[A-Za-z0-9._-]+)+)?", 255)]  # the absolute path of a program; may be empty

Address = Annotated[
    str, pattern(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9A-Fa-f]*:[0-9A-Fa-f:]*(?:[0-9]{1,3}(?:\.[0-9]{1,3}){3})?", 45)
]
"""An IP address."""

Digest = Annotated[str, pattern(r"(?:[0-9a-f]{64})?", 64)]  # a SHA-256 in hexadecimal digits; may be empty

Base64 = Annotated[str, pattern(r"[A-Za-z0-9+/]*={0,2}", 64 << 20)]

Certificate = Annotated[
    str, pattern(r"(?:-----BEGIN CERTIFICATE-----\n(?:[A-Za-z0-9+/=]{1,76}\n){1,64}-----END CERTIFICATE-----)?", 8192)
]
"""A certificate as text (PEM), without the end of its last line; may be empty."""

HostKeyType = Annotated[str, pattern("ssh-ed25519|ecdsa-sha2-nistp(?:256|384|521)|ssh-rsa|ssh-dss", 32)]
"""The types of SSH host keys that known_hosts can have (sshd(8))."""

HostKeyText = Annotated[str, pattern(r"[A-Za-z0-9+/]+={0,2}", 16384)]
"""An SSH public key in base64, as known_hosts has it."""

SlurmKey = Annotated[str, pattern(r"(?:ssh-ed25519 [A-Za-z0-9+/]+={0,2} slurm@[A-Za-z0-9_-]+)?", 255)]
"""The SSH public key of a host's slurm user, as authorized_keys has it; may be empty."""

Id = Annotated[int, Field(ge=0, lt=1 << 32)]  # a UID, a GID or the id of a job

Count = Annotated[int, Field(ge=0, le=1 << 40)]
Seconds = Annotated[float, Field(ge=-(1 << 40), le=1 << 40)]


def strict_object(
    needed: Mapping[str, core_schema.CoreSchema], others: Mapping[str, core_schema.CoreSchema]
) -> core_schema.CoreSchema:
    """The schema of an object that stays a dict, which costs least where objects are many."""
    fields = {
        name: core_schema.typed_dict_field(one, required=name in needed) for name, one in {**needed, **others}.items()
    }
    return core_schema.typed_dict_schema(fields, extra_behavior="forbid", config=core_schema.CoreConfig(strict=True))


def checked_object(host: str, model: SchemaValidator, value: Any, what: str) -> Any:
    """The same as `checked` for a model that `strict_object` describes; `what` names the value in the AgentFailed."""
    try:
        return model.validate_python(value)
    except ValidationError as error:
        raise AgentFailed(host, f"its {what} was refused: {mistake(error)}. {ADVICE}") from None


def checked(host: str, model: TypeAdapter[Model], value: Any, what: str) -> Model:
    """A value (`what`, in errors) of an agent's answer that its model accepts; AgentFailed if it does not."""
    try:
        return model.validate_json(to_json(value))
    except ValidationError as error:
        raise AgentFailed(host, f"its {what} were refused: {mistake(error)}. {ADVICE}") from None
    except ValueError as error:  # texts that are not Unicode
        raise AgentFailed(host, f"its {what} were refused: they are not UTF-8. {ADVICE}") from error


def values(name: str) -> SchemaValidator | None:
    """The model of a value in an agent's answer, by the value's name; `None` for one with a model elsewhere.

    Facts have theirs in `slurmfab.cluster.facts`, outcomes in `slurmfab.core.engine.report`, neighbours in
    `slurmfab.commands.topology.fabric`.
    """
    return _validator(name) if name in _schemas() else None


@cache
def _validator(name: str) -> SchemaValidator:
    return SchemaValidator(_schemas()[name], core_schema.CoreConfig(strict=True))


_TEXT, _FLAG = core_schema.str_schema(max_length=MOST_TEXT), core_schema.bool_schema()
_LINE = core_schema.str_schema(pattern=LINE, max_length=65536)
_COUNT = core_schema.int_schema(ge=0, le=1 << 40)
_SECONDS = core_schema.float_schema(ge=0, le=1 << 33, allow_inf_nan=False)  # of times, until the year 2242
_MOMENT = core_schema.int_schema(ge=0, le=1 << 33)
_LINES, _TABLE = core_schema.list_schema(_LINE), core_schema.dict_schema(_LINE, _TEXT)
_ROWS = core_schema.list_schema(core_schema.list_schema(_TEXT))
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})\z"
_RUN = core_schema.str_schema(pattern=RUN, max_length=100)
_NOTHING = core_schema.literal_schema([""])
_PATH = core_schema.str_schema(pattern=r"^/[^\pC\p{Zl}\p{Zp}]*\z", max_length=4096)
_STEP = core_schema.str_schema(pattern=r"^[0-9]{1,10}\.[A-Za-z0-9_]{1,32}\z", max_length=50)
_ADDRESS = core_schema.str_schema(pattern=r"^[0-9A-Fa-f.:]{2,45}\z", max_length=45)


@cache
def _schemas() -> dict[str, core_schema.CoreSchema]:
    """The schemas of answers, by the names of their values in `slurmfab.on_hosts.agent.main`."""
    numbers = core_schema.nullable_schema(core_schema.list_schema(_COUNT))
    present = {"next_job_id": _COUNT, "state_files": _COUNT, "is_running": _FLAG, "newest_job": _COUNT}
    return {
        "accounts": _accounts(),
        "addresses": core_schema.dict_schema(_LINE, core_schema.list_schema(_ADDRESS)),
        "backup": strict_object({"is_done": _FLAG}, present),
        "bundle": strict_object({}, {"lacking": _LINES}),
        "collected": strict_object({"index": _TEXT}, {"refused": _COUNT}),
        "daemon_errors": strict_object({"errors": core_schema.list_schema(_LINE, max_length=8)}, {}),
        "directory_sizes": _directory_sizes(),
        "ended_jobs": core_schema.dict_schema(_LINE, core_schema.list_schema(_LINE, min_length=2, max_length=2)),
        "evidence": _evidence(),
        "file": _LINE,
        "found_files": _found_files(),
        "job": _job(),
        "job_shapes": _job_shapes(),
        "job_processes": strict_object({"steps": core_schema.list_schema(_STEP), "hung": _LINES}, {}),
        "kept": _kept(),
        "lock": strict_object({"idle": core_schema.nullable_schema(_SECONDS)}, {}),
        "lock_copy": strict_object({}, {"cluster": _LINE, "run": _RUN, "by": _LINE, "text": _TEXT}),
        "logs": _logs(),
        "munge": strict_object({"made": _LINE, "trouble": _TEXT, "decoded": _LINES}, {}),
        "tokens": strict_object({"made": _LINE, "trouble": _TEXT, "taken": core_schema.list_schema(_LINES)}, {}),
        "node_health": strict_object({"causes": _LINES}, {}),
        "node_jobs": strict_object({"pending": core_schema.list_schema(_TABLE), "reservations": _TABLE}, {}),
        "owners": _owners(),
        "saved": strict_object({}, {"next_job_id": _COUNT, "files": _COUNT, "jobs": numbers}),
        "support": _support(),
        "runaway_jobs": strict_object({"records": _ROWS, "left": _ROWS}, {}),
        "slurm": core_schema.dict_schema(_LINE, core_schema.union_schema([_TEXT, _ROWS])),
        "updates": _updates(),
        "conversion": _conversion(),
        "trial_jobs": core_schema.dict_schema(_LINE, _TEXT),
        "user_jobs": _user_jobs(),
        "upgrade_rows": core_schema.dict_schema(_LINE, _COUNT),
        "upgrade": _upgrade(),
        "upgrade_offer": _upgrade_offer(),
        "usage": _usage(),
    }


def _user_jobs() -> core_schema.CoreSchema:
    """What came of batch jobs of a user (`slurmfab.on_hosts.agent.nodes.user_jobs.read`)."""
    how = core_schema.literal_schema(["ran", "refused", "waited", "failed"])
    path = core_schema.str_schema(pattern=r"^(?:/tmp/slurmfab-check-[0-9a-f]{6}-[0-9a-f]{8})?\z")
    end = core_schema.tuple_schema([how, _LINE, path], strict=False)
    return strict_object({"user": _LINE, "ends": core_schema.dict_schema(_LINE, end), "output": _TEXT}, {})


def _updates() -> core_schema.CoreSchema:
    """What an update of a host's packages would do (`slurmfab.on_hosts.agent.packages.updates.read`)."""
    word = core_schema.str_schema(pattern=r"^[A-Za-z0-9@._+:~-]*\z", max_length=255)
    package = core_schema.tuple_schema([word, word, word, _FLAG], strict=False)
    why = core_schema.literal_schema(["slurm", "held", "apt"])
    left = core_schema.tuple_schema([word, word, word, why], strict=False)
    files = core_schema.dict_schema(_LINE, core_schema.list_schema(_LINE, max_length=16), max_length=1000)
    age = core_schema.float_schema(ge=-1, allow_inf_nan=False)
    lists = {"packages": core_schema.list_schema(package, max_length=100_000),
             "kept": core_schema.list_schema(left, max_length=100_000),
             "removed": core_schema.list_schema(word, max_length=100_000),
             "reboot": core_schema.list_schema(_LINE, max_length=10)}  # fmt: skip
    return strict_object({**lists, "stale": files, "age": age, "unfinished": _LINE, "trouble": _TEXT}, {})


def _support() -> core_schema.CoreSchema:
    """What a support bundle has of a host (`slurmfab.on_hosts.agent.support.reading`)."""
    name = core_schema.str_schema(pattern=SUPPORT_FILE, max_length=120)
    files = core_schema.list_schema(core_schema.tuple_schema([name, _TEXT], strict=False), max_length=1000)
    left = core_schema.list_schema(core_schema.tuple_schema([_LINE, _LINE], strict=False), max_length=2000)
    value = core_schema.str_schema(pattern=_BASE64, max_length=1 << 18)
    secrets = core_schema.list_schema(value, max_length=1024)
    public = core_schema.list_schema(_TEXT, max_length=64)
    return strict_object({"files": files, "left": left, "secrets": secrets, "public": public}, {})


def _kept() -> core_schema.CoreSchema:
    """The undo state of a host (`slurmfab.on_hosts.agent.undo.undo_store.read`)."""
    content = {"content": core_schema.nullable_schema(_TEXT)}
    file = {"path": _LINE, "run": _RUN, "existed": _FLAG, "secret": _FLAG, "same": _FLAG, **content}
    service = {"unit": _LINE, "run": _RUN, "enabled": _FLAG, "running": _FLAG}
    more = {**dict.fromkeys(("owner", "group", "mode", "other", "link"), _LINE), "whole": _TEXT}
    files = core_schema.list_schema(strict_object(file, more))
    services = core_schema.list_schema(strict_object(service, {}))
    folder = dict.fromkeys(("directory", "owner", "group"), _LINE)
    folder |= {"run": _RUN, "mode": core_schema.str_schema(pattern=r"^[0-7]{4}\z")}
    folders = core_schema.list_schema(strict_object(folder, {}))
    runs = {"runs": core_schema.list_schema(_RUN), "dropped": core_schema.union_schema([_RUN, _NOTHING])}
    return strict_object({**runs, "files": files, "services": services}, {"last": _LINE, "directories": folders})


def _job() -> core_schema.CoreSchema:
    """When and where a job ran (`slurmfab.on_hosts.agent.logs.job_record.read`)."""
    word = core_schema.str_schema(pattern=r"^[A-Za-z0-9_ +:.-]*\z", max_length=100)
    job = core_schema.str_schema(pattern=r"^[0-9_+:,\[\]-]*\z", max_length=65536)
    nodes = core_schema.str_schema(pattern=r"^[A-Za-z0-9_.,\[\]-]*\z", max_length=65536)
    row = core_schema.tuple_schema([job, job, word, _MOMENT, _MOMENT, _MOMENT, nodes, word], strict=False)
    return strict_object({"rows": core_schema.list_schema(row, max_length=100_000), "origin": _LINE}, {})


def _logs() -> core_schema.CoreSchema:
    """The lines of a host's logs (`slurmfab.on_hosts.agent.logs.reading.read`)."""
    source = core_schema.literal_schema(["slurmctld", "slurmdbd", "slurmd", "munge", "kernel"])
    text = core_schema.str_schema(max_length=1000)
    line = core_schema.tuple_schema([source, text, _SECONDS, _SECONDS, _COUNT], strict=False)
    notes = core_schema.list_schema(core_schema.str_schema(max_length=4096), max_length=100)
    told = {"lines": core_schema.list_schema(line, max_length=4000), "notes": notes, "now": _SECONDS}
    return strict_object(told, {"files": core_schema.dict_schema(source, _LINE, max_length=8)})


def _evidence() -> core_schema.CoreSchema:
    """What Slurm has on record (`slurmfab.on_hosts.agent.logs.evidence.read`)."""
    row = core_schema.list_schema(_TEXT, max_length=32)
    rows = dict.fromkeys(
        ("memory", "records", "others", "events", "past_reservations"), core_schema.list_schema(row, max_length=8000)
    )
    texts = dict.fromkeys(
        ("ping", "nodes", "partitions", "reservations", "completing", "limits", "associations", "qos"), _TEXT
    )
    missing = core_schema.list_schema(core_schema.tuple_schema([_LINE, _TEXT], strict=False), max_length=8)
    number, yes, start = core_schema.int_schema(ge=0, lt=1 << 32), core_schema.bool_schema(strict=True), _SECONDS
    job = core_schema.tuple_schema(
        [_LINE, number, _LINE, _LINE, yes, _LINE, _TEXT, core_schema.nullable_schema(start), yes], strict=False
    )
    running = core_schema.list_schema(job, max_length=50)
    lost = {"running": running, "boots": core_schema.dict_schema(_LINE, _SECONDS)}
    return strict_object(
        {}, {**rows, **texts, **lost, "now": _SECONDS, "missing": missing, "names": _TABLE, "account": _account()}
    )


def _account() -> core_schema.CoreSchema:
    """What a host has of a user (`slurmfab.on_hosts.agent.logs.evidence.account_of`)."""
    number = core_schema.str_schema(pattern=r"^[0-9]{0,15}\z", max_length=15)
    day = core_schema.str_schema(pattern=r"^[0-9]{0,6}\z", max_length=6)  # since 1970
    numbers = dict.fromkeys(("uid", "owner", "free", "files"), number)
    return strict_object({"trouble": _TEXT}, {**numbers, "home": _LINE, "shell": _LINE, "expired": day})


def _accounts() -> core_schema.CoreSchema:
    """What slurmdbd has of a cluster (`slurmfab.on_hosts.agent.accounting.reading.read`)."""
    account = core_schema.tuple_schema([_LINE, _LINE, _TEXT, _TEXT, _LINES], strict=False)
    association = core_schema.tuple_schema([_LINE, _LINE, _TABLE], strict=False)
    places = {"accounts": core_schema.list_schema(account), "associations": core_schema.list_schema(association)}
    qos = {"clusters": _LINES, "qos": core_schema.dict_schema(_LINE, _TABLE)}
    return strict_object({**qos, **places, "defaults": _TABLE, "levels": _TABLE, "partitioned": _ROWS}, {})


def _directory_sizes() -> core_schema.CoreSchema:
    """What directories hold (`slurmfab.on_hosts.agent.people.directory_sizes.read`)."""
    size = core_schema.int_schema(ge=0, lt=1 << 63)
    state = core_schema.literal_schema(["", "partly", "late"])
    row = core_schema.tuple_schema([_PATH, _LINE, _LINE, size, _COUNT, state], strict=False)
    return strict_object({"rows": core_schema.list_schema(row, max_length=5000), "more": _COUNT}, {})


def _conversion() -> core_schema.CoreSchema:
    """How far slurmdbd is with its tables (`slurmfab.on_hosts.agent.upgrade.conversion.read`)."""
    state = core_schema.literal_schema(["done", "converting", "ended"])
    words = core_schema.list_schema(_TEXT, max_length=20)
    percent = core_schema.int_schema(ge=-1, le=100)
    return strict_object({"state": state, "table": _LINE, "seconds": _COUNT, "percent": percent, "words": words}, {})


def _upgrade() -> core_schema.CoreSchema:
    """What a host has of Slurm (`slurmfab.on_hosts.agent.upgrade.reading.read`)."""
    word = core_schema.str_schema(pattern=PACKAGE_WORD, max_length=200)
    versions = core_schema.dict_schema(word, word, max_length=500)
    plugins = core_schema.list_schema(word, max_length=5000)
    spank = core_schema.tuple_schema([_LINE, _FLAG, _FLAG], strict=False)
    room = core_schema.dict_schema(_PATH, core_schema.int_schema(ge=-1, lt=1 << 63))
    fields: dict[str, core_schema.CoreSchema] = {"packages": versions, "programs": versions, "running": versions}
    fields |= {"held": plugins, "plugins": plugins}
    user = core_schema.tuple_schema([word, core_schema.str_schema(max_length=255), word, _LINE, _FLAG], strict=False)
    fields |= {"users": core_schema.list_schema(user, max_length=200), "digest": word}
    database = {"rows": core_schema.dict_schema(_LINE, _COUNT), "bytes": core_schema.int_schema(ge=0, lt=1 << 63)}
    return strict_object(
        {**fields, "foreign": plugins, "spank": core_schema.list_schema(spank), "state": _LINE, "free": room},
        {**database, "place": _LINE, "trouble": _TEXT, "jobs": _ROWS, "no_jobs": _TEXT},
    )


def _upgrade_offer() -> core_schema.CoreSchema:
    """Which packages apt would install (`slurmfab.on_hosts.agent.upgrade.offer.read`)."""
    word = core_schema.str_schema(pattern=PACKAGE_WORD, max_length=200)
    versions, words = core_schema.dict_schema(word, word, max_length=5000), core_schema.list_schema(word)
    lists = {"removed": words, "offered": words, "plugins": words}
    return strict_object({"versions": versions, "others": versions, **lists, "trouble": _TEXT}, {})


def _usage() -> core_schema.CoreSchema:
    """What jobs used (`slurmfab.on_hosts.agent.accounting.job_records.read`)."""
    amount = core_schema.int_schema(ge=0, lt=1 << 63)
    listed = core_schema.list_schema
    job = [*[_LINE] * 4, _COUNT, amount]
    sums = core_schema.tuple_schema([amount] * 12, strict=False)
    group = core_schema.tuple_schema([*[_LINE] * 4, sums], strict=False)
    window = {"accounting": _FLAG, "since": _COUNT, "until": _COUNT, "since_text": _LINE, "until_text": _LINE}
    others = {
        "capacity": core_schema.dict_schema(_LINE, amount),
        "tracked": _LINES,
        "groups": listed(group),
        "points": listed(core_schema.tuple_schema([amount] * 3, strict=False), max_length=4000),
        "waits": listed(core_schema.tuple_schema([*job, _FLAG], strict=False), max_length=50),
        "idle": listed(core_schema.tuple_schema([*job, _LINE, _FLAG], strict=False), max_length=50),
    }
    return strict_object(window, others)


def _job_shapes() -> core_schema.CoreSchema:
    """The kinds of jobs that ran lately (`slurmfab.on_hosts.agent.accounting.job_shapes.read`)."""
    amount = core_schema.int_schema(ge=0, lt=1 << 63)
    user = core_schema.str_schema(pattern=r"^[^-\pC\p{Zl}\p{Zp}][^\pC\p{Zl}\p{Zp}]*\z", max_length=200)
    word = core_schema.str_schema(pattern=LINE, max_length=200)
    shape: list[core_schema.CoreSchema] = [user, _COUNT, *[word] * 4, *[amount] * 3, word, *[amount] * 4]
    shapes = core_schema.list_schema(core_schema.tuple_schema(shape, strict=False), max_length=2000)
    counts = dict.fromkeys(("since", "until", "jobs", "more"), _COUNT)
    return strict_object({"accounting": _FLAG, **counts, "shapes": shapes}, {})


def _owners() -> core_schema.CoreSchema:
    """Files and directories with their owners (`slurmfab.on_hosts.agent.files.owners.read`)."""
    name = core_schema.str_schema(pattern=r"^[^-:\pC\p{Zl}\p{Zp}][^:\pC\p{Zl}\p{Zp}]*\z", max_length=200)
    kind, mode = core_schema.literal_schema(["directory", "file"]), core_schema.int_schema(ge=0, le=0o7777)
    row = core_schema.tuple_schema([_PATH, kind, name, name, mode], strict=False)
    return core_schema.list_schema(row, max_length=4000)


def _found_files() -> core_schema.CoreSchema:
    """Slurm's files on a host, and where it is (`slurmfab.on_hosts.agent.slurm.found_files.read`)."""
    path = core_schema.union_schema([_PATH, core_schema.literal_schema([""])])
    places = {
        "conf": path,
        "program": path,
        "version": _LINE,
        "configless": _FLAG,
        "running": _LINES,
        "slurmdbd_conf": path,
    }
    mode = core_schema.int_schema(ge=0, le=0o7777)
    files = core_schema.list_schema(core_schema.tuple_schema([_PATH, _TEXT, mode, path], strict=False))
    pairs = core_schema.list_schema(core_schema.tuple_schema([_PATH, _LINE], strict=False))
    return strict_object(
        {
            "places": strict_object({**places, "drop_ins": core_schema.list_schema(_PATH)}, {}),
            "slurm_conf": _TEXT,
            **{"files": files, "drop_ins": files, "left": pairs, "hidden": pairs, "federation": _LINE, "mark": _LINE},
        },
        {},
    )
