"""What secrets look like: prefixes of tokens, settings, headers, URLs, keys. The kept list; a new form is a line here.

Each detector yields the places of what has to be hidden: hosts take it out of the lines of their logs, and the deployer
out of support bundles. None takes longer than its text is long, whatever the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

Place = tuple[int, int]  # where something begins and ends in a text

TOKENS: dict[str, tuple[str, ...]] = {
    "[A-Za-z0-9_]{16,255}": (
        *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "dckr_pat_", "dckr_oat_", "npm_", "rubygems_"),
        *("hf_", "api_org_", "gsk_", "r8_", "wandb_v1_", "pnu_", "ntn_", "rdme_", "lin_api_", "lin_oauth_", "figd_"),
        *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_", "shpat_", "shpca_", "shppa_", "shpss_"),
        *("dop_v1_", "doo_v1_", "dor_v1_", "glsa_", "sntryu_", "sntrys_", "pscale_", "sm_pat_", "sm_aat_", "sm_sat_"),
    ),
    "[A-Za-z0-9_=.-]{16,512}": (
        *(
            "glpat-",
            "gldt-",
            "glrt-",
            "glcbt-",
            "glptt-",
            "glft-",
            "glsoat-",
            "glagent-",
            "glimt-",
            "gloas-",
            "glffct-",
        ),
        *("xoxa-", "xoxb-", "xoxc-", "xoxd-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
        *("sk-ant-", "sk-proj-", "sk-svcacct-", "sk-admin-", "sk-or-", "nvapi-", "pplx-", "pul-", "tskey-", "dp.pt."),
        *("hvs.", "hvb.", "hvr.", "AIza", "ya29.", "SG.", "pypi-", "PMAK-", "NRAK-", "NRII-", "AGE-SECRET-KEY-"),
        *("EAACEdEose0cBA", "ATATT3", "dt0c01.", "sha256~", "secret_", "ops_eyJ", "glc_eyJ", "xkeysib-", "CLOJARS_"),
    ),
    "[A-Za-z0-9]{20,255}": ("sk-", "dapi", "LTAI", "EZAK", "EZTK", "AKCp", "SK", "key-"),
    "[A-Z0-9]{16}(?![A-Za-z0-9])": ("AKIA", "ASIA", "ABIA", "ACCA", "AROA", "AIDA", "A3T"),
    "[A-Za-z0-9+/]{64,}": ("fm1a_", "fm1r_", "fm2_", "ABSK"),
}
"""How tokens of well-known services begin, by what follows."""

_TOKENS = {prefix: rest for rest, prefixes in TOKENS.items() for prefix in prefixes}

PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("MUNGE:", re.compile(r"MUNGE:[A-Za-z0-9+/=]{8,}:?")),
    ("eyJ", re.compile(r"(?<![A-Za-z0-9_])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*){0,3}")),
    ("$", re.compile(r"\$(?:2[abxy]?|y|gy|7|1|5|6|md5|sha1|apr1|argon2\w{1,2}|scrypt)\$[./A-Za-z0-9$=,+-]{16,}")),
    ("{", re.compile(r"(?i)\{(?:S?SHA(?:256|384|512)?|S?MD5|CRYPT|PBKDF2[\w-]{0,10})\}[./A-Za-z0-9$=,+]{8,}")),
    ("://", re.compile(r"(?<=://)[^\s/:@]{0,256}:([^\s/@]{1,256})@")),
    ("://", re.compile(r"(?<=://)([A-Za-z0-9_~.-]{20,256})@")),
    (":AA", re.compile(r"(?<!\d)\d{8,10}:AA[\w-]{32,34}(?![\w-])")),
    ("hooks.slack", re.compile(r"hooks\.slack\.com/(?:services|workflows|triggers)/([\w/-]{20,})")),
    ("webhook", re.compile(r"\.webhook\.office\.com/([\w/@.-]{20,})")),
    ("webhooks/", re.compile(r"discord(?:app)?\.com/api/webhooks/([\w/-]{20,})")),
    ("sig=", re.compile(r"(?<=[?&;])sig=([\w%+/=-]{16,})")),
    ("ignature", re.compile(r"(?i)(?:x-amz-|x-goog-)signature=([0-9a-f]{32,})")),
    ("Q~", re.compile(r"(?<![\w~.-])[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~-])")),
    (".atlasv1.", re.compile(r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{40,}")),
)  # fmt: skip
"""What is a secret wherever it is, or its part in parentheses, each with what a text has to have in it."""

AFTER_WORDS: tuple[re.Pattern[str], ...] = (
    re.compile(r"(?i)\bbearer[ \t]{1,8}([A-Za-z0-9+/=._~-]{8,})"),
    re.compile(r"\b[Bb](?:asic|ASIC)[ \t]{1,8}((?=[A-Za-z]{0,256}(?:[0-9=+/]|[a-z][A-Z]))[A-Za-z0-9+/=]{8,})"),
    re.compile(r"(?i)\bauthorization\\?[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\?[\"']?"
                    r"(?:(?:basic|bearer|digest|negotiate|token)[ \t]{1,8})?([^\s\"'][^\n\"']*)"),
    re.compile(r"(?i)\bidentified[ \t]{1,8}(?:with[ \t]{1,8}\S{1,64}[ \t]{1,8})?(?:by|as)[ \t]{1,8}"
                    r"(?:password[ \t]{1,8})?('[^'\n]*'?|\"[^\"\n]*\"?|\S+)"),
    re.compile(r"(?i)\blogin[ \t]{1,8}\S{1,64}[ \t]{1,8}password[ \t]{1,8}(\S+)"),
    re.compile(r"(?im)^[ \t]{0,8}(?:password|passphrase|passwd|\w{0,16}bindpw|rootpw)[ \t]{1,8}(\S+)[ \t]{0,8}$"),
    re.compile(r"(?i)\bpassword\([ \t]{0,8}('[^'\n]*'?|\"[^\"\n]*\"?)"),
    re.compile(r"(?i)\b(?:password|passphrase|passwort)[ \t]{1,8}(?:is|was|ist|war):?[ \t]{1,8}"
                    r"('[^'\n]*'?|\"[^\"\n]*\"?|(?=[a-z]{0,64}[^a-z\s.,;])(?-i:\S+))"),
    re.compile(r"(?:\b|(?<=\\n))(?:echo|printf)[ \t]{1,8}(?:-\w{1,4}[ \t]{1,8})?([^|\n]{1,256}?)[ \t]{0,8}\|[ \t]{0,8}"
               r"(?:chpasswd|sudo[ \t]{1,8}-S|kinit|passwd[ \t]{1,8}--stdin|(?:docker|podman)[ \t]{1,8}login)"),
    re.compile(r"(?:\b|(?<=\\n))htpasswd[ \t]{1,8}-\w{0,6}b\w{0,6}[ \t]{1,8}(?:-\w{1,6}[ \t]{1,8})?"
               r"(?:\S{1,256}[ \t]{1,8}){1,2}([^\s\\;|&]+)"),
)  # fmt: skip
"""What is a secret after the words before it: the part in parentheses."""

PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----(?:[^-]|-(?!----)){0,100000}"
    r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)?"
)

_KEY = (
    r"(?i)(?:pass|passwd|password|passphrase|passcode|passwort|kennwort|mot de passe|contraseña|pwd|\bpw|\w{0,16}bindpw"
    r"|psk|secret|token|credentials?|community|cookie|jwt"
    r"|(?:api|access|secret|private|auth|encryption|account|signing|license|credential)[_-]?key)"
    r"\\?[\"']?[ \t]{0,8}"
)
KEY_WORDS = (
    "pass",
    "kennwort",
    "contraseña",
    "pw",
    "psk",
    "secret",
    "token",
    "credential",
    "community",
    "cookie",
    "jwt",
    "key",
)
"""Each key has one of these words in it."""

_QUOTED = r"\\?\"[^\"\n]*\"?|\\?'[^'\n]*'?"
_SETTINGS = (
    re.compile(rf"{_KEY}(?:=>|:=|=)[ \t]{{0,8}}({_QUOTED}|[^\s\"']+)"),
    re.compile(rf"{_KEY}:(?!=)[ \t]{{0,8}}({_QUOTED}|[^\s\"'][^\n\"']*)"),
    re.compile(rf"{_KEY}>()([^<\n]+)(?=<)"),
    re.compile(rf"{_KEY}(?<=[\"' \t]),[ \t]{{0,8}}({_QUOTED})"),
)
"""A key that ends so, and its value: a word after `=`, as in slurm.conf; the rest of the line after `:`; the content of
an element of XML; a quoted text after a quoted key and a comma."""

SLURM_PASSWORD = re.compile(r"(?i)\b(\w*Pass(?:word)?)((?:[ \t]|\\\n)*=(?:[ \t]|\\\n)*)(\"[^\"\n]*\"?|[^\s\"#]+)")
"""A key of Slurm's files whose value is a password (JobCompPass, StoragePass, AccountingStoragePass,
ProfileInfluxDBPass, EnergyIPMIPassword), what is between, and the value; also in a comment, and on two lines."""

_OPTIONS = re.compile(
    r"(?im)\b(AuthInfo|AuthAltParameters|\w+Parameters|JobCompParams)[ \t]{0,8}=[ \t]{0,8}\"?([^\s\"#]+)"
)
"""Keys of slurm.conf and slurmdbd.conf whose value is a list of options."""

_SECRET_OPTION = re.compile(r"(?i)[\w-]*(?:pass|passwd|password|secret|token|credentials?|key)")
_HARMLESS = re.compile(r"(?i)/[^,]*|\d+|(?:socket|jwt_key|jwks)=/.*|(?:ttl|cred_expire|max_token_lifespan)=\d+"
                       r"|userclaimfield=\w+|(?:use_client_ids|disable_sack|disable_token_creation)")  # fmt: skip
"""Options of AuthInfo and AuthAltParameters that are no secret (slurm.conf(5))."""

_EMPTY = re.compile(r"""\(null\)|\\?["']{2}|null\b|None\b|\(not-shown\)""")
_OPENING = re.compile(r"\\?[\"']")


def tokens(text: str) -> Iterator[Place]:
    """Yield the places of tokens of well-known services."""
    for prefix, rest in _TOKENS.items():
        if prefix in text:
            yield from (found.span() for found in re.finditer(rf"(?<![A-Za-z0-9]){re.escape(prefix)}{rest}", text))


def shapes(text: str) -> Iterator[Place]:
    """Yield the places of credentials that are known by their own form, and of private keys."""
    lowered = text.lower()
    if "private key" in lowered:
        yield from (found.span() for found in PRIVATE_KEY.finditer(text))
    for needed, pattern in PATTERNS:
        if needed in text:
            yield from (found.span(pattern.groups) for found in pattern.finditer(text))


def after_words(text: str) -> Iterator[Place]:
    """Yield the places of what the words before it call a secret."""
    for pattern in AFTER_WORDS:
        yield from (found.span(1) for found in pattern.finditer(text))


def settings(text: str) -> Iterator[Place]:
    """Yield the places of the values of settings that are secret; quotes around them stay."""
    begin = 0
    for line in text.split("\n"):
        lowered = line.lower()
        # Most lines have no such key, which is found out sooner without a regular expression.
        if any(word in lowered for word in KEY_WORDS):
            for setting in _SETTINGS:
                for found in setting.finditer(line):
                    first, end = without_quotes(*found.span(setting.groups), line)
                    if first < end:
                        yield begin + first, begin + end
        begin += len(line) + 1


def slurm_options(text: str) -> Iterator[Place]:
    """Yield the places of secrets among the options of Slurm's keys: of AuthInfo all that is not known to be none."""
    for found in _OPTIONS.finditer(text):
        begin = found.start(2)
        for word in found[2].split(","):
            name, sign, value = word.partition("=")
            if found[1].lower().startswith("auth"):
                is_secret = bool(word) and not _HARMLESS.fullmatch(word)
            else:
                is_secret = bool(value) and bool(_SECRET_OPTION.fullmatch(name)) and not _HARMLESS.fullmatch(value)
            if is_secret:
                yield begin + (len(name) + 1 if sign else 0), begin + len(word)
            begin += len(word) + 1


def without_quotes(first: int, end: int, line: str) -> Place:
    """The place of a value without its quotes, so that JSON stays JSON; empty for one that says nothing."""
    if _EMPTY.match(line, first, end):
        return first, first
    opening = _OPENING.match(line, first, end)
    if opening is None:
        # A backslash at the end belongs to a quote that JSON has escaped.
        return first, first + len(line[first:end].rstrip("\\"))
    quote = opening[0]
    closed = end - first > len(quote) and line.endswith(quote, first, end)
    return first + len(quote), end - len(quote) if closed else end


class Options(NamedTuple):
    """Options of a program that have a secret."""

    joined: tuple[str, ...] = ()  # options with the secret in the same word, as in `-pX`
    apart: tuple[str, ...] = ()  # options with the secret in the next word
    pairs: tuple[str, ...] = ()  # options with `user:secret`, in the same word or in the next one
    separator: str = ":"  # what is between user and secret


PROGRAMS = {
    "mysql": Options(joined=("-p",)),
    "mariadb": Options(joined=("-p",)),
    "sshpass": Options(joined=("-p",), apart=("-p",)),
    "curl": Options(pairs=("-u", "-U", "--user", "--proxy-user")),
    "wget": Options(),
    "docker": Options(joined=("-p",), apart=("-p",)),
    "podman": Options(pairs=("--creds",), joined=("-p",), apart=("-p",)),
    "skopeo": Options(pairs=("--creds", "--src-creds", "--dest-creds")),
    "ipmitool": Options(joined=("-P",), apart=("-P", "-Y", "-k")),
    "ipmipower": Options(joined=("-p",), apart=("-p",)),
    "ldap": Options(joined=("-w",), apart=("-w", "-s")),
    "redis-cli": Options(apart=("-a",)),
    "smbclient": Options(pairs=("-U", "--user"), separator="%"),
    "snmp": Options(apart=("-c", "-A", "-X")),
    "useradd": Options(apart=("-p",)),
    "usermod": Options(apart=("-p",)),
    "openssl": Options(joined=("pass:",), apart=("-k", "-K", "-pass", "-passin", "-passout")),
    "zip": Options(joined=("-P",), apart=("-P",)),
    "unzip": Options(joined=("-P",), apart=("-P",)),
    "7z": Options(joined=("-p",)),
    "kinit": Options(),
    "vncpasswd": Options(),
}
"""Options by how the name of the program begins, those of any program apart."""

_LONG = re.compile(
    r"(?i)--?(?:[a-z0-9]{1,32}[-_]){0,4}(?:pass|passwd|password|passphrase|passcode|pwd|secret|token|credentials?"
    r"|(?:api|access|secret|auth|encryption|license)[-_]?key|apikey)(=|$)"
)
"""An option of any program with a secret in the next word, or after `=`."""

_HINT = re.compile(
    r"(?i)--?[a-z0-9_-]{0,80}(?:pass|pwd|secret|token|credential|key)|mysql|mariadb|sshpass|curl|docker|podman|skopeo"
    r"|ipmi|ldap|redis-cli|smbclient|snmp|useradd|usermod|openssl|zip|7z"
)
_WORD = re.compile(
    r"(?:\\?\"[^\"\n]*\\?\"?|\\?'[^'\n]*\\?'?|\\\n[ \t]*(?=.)|[^\s\"'\\;|&]+|\\(?!n)){1,4096}|\\n|[;|&\n]"
)
_BREAKS = ("\n", "\\n", ";", "|", "&")
_QUOTES = "\"'\\,)]}"
_BEFORE = "\"'\\([{ \t\n"

DEEPEST = 3  # quotations inside quotations that are read as command lines
WIDTHS = frozenset((64, 70, 72, 76, 78, 79, 80, 100, 120, 128, 132))  # lengths of lines that something has wrapped


def command_line_secrets(text: str) -> Iterator[Place]:
    """Yield the places of secrets in command lines."""
    begin = 0
    for line in logical_lines(text):
        if _HINT.search(line):
            yield from ((begin + first, begin + end) for first, end in in_line(line))
        begin += len(line)


def logical_lines(text: str) -> Iterator[str]:
    """Yield the lines of a text with their ends; one that was wrapped, or cut by a backslash, goes on."""
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        kept.append(line)
        content = line.rstrip("\r\n")
        if not content.endswith("\\") and len(content) not in WIDTHS:
            yield "".join(kept)
            kept = []
    yield "".join(kept)


def in_line(line: str, depth: int = 0) -> Iterator[Place]:
    """Yield the places of secrets in one line. `depth`: of how many quotations it is the content."""
    options, expected = Options(), ""
    for found in _WORD.finditer(line):
        first, end = stripped(line, *found.span())
        if found[0] in ("\n", "\\n"):
            continue
        if found[0] in _BREAKS:
            options, expected = Options(), ""
            continue
        word = line[first:end]
        if expected:
            at = word.find(expected) + 1 if expected != " " else 0
            if at or expected == " ":
                yield first + at, end
            expected = ""
            continue
        if " " in word and depth < DEEPEST:
            yield from ((first + one, first + other) for one, other in in_line(word, depth + 1))
            continue
        options = options_of(word) or options
        place, expected = secret_in(word, options)
        if place:
            yield first + place, end


def stripped(line: str, first: int, end: int) -> Place:
    """The place of a word without quotes and brackets around it."""
    while first < end and line[first] in _BEFORE:
        first += 1
    while first < end and line[end - 1] in _QUOTES:
        end -= 1
    return first, end


def options_of(word: str) -> Options | None:
    """The options with secrets of the program that a word names."""
    name = word.rpartition("/")[2].rpartition("=")[2].strip("'\"`+-$(")[:32]
    return next((options for program, options in PROGRAMS.items() if name.startswith(program)), None)


def secret_in(word: str, options: Options) -> tuple[int, str]:
    """Where the secret begins in a word, and what is expected of the next one.

    Returns 0 for a word without one. What is before the secret in the next word, a space for nothing, empty if the next
    word has none.
    """
    long = _LONG.match(word)
    if long:
        return (long.end(), "") if long[1] else (0, " ")
    if word in options.apart:
        return 0, " "
    if word in options.pairs:
        return 0, options.separator
    for option in options.pairs:
        if word.startswith(option) and options.separator in word[len(option) :]:
            return word.index(options.separator, len(option)) + 1, ""
    for option in options.joined:
        if word.startswith(option) and len(word) > len(option):
            return len(option), ""
    return 0, ""


HIDDEN = "(hidden)"
DETECTORS = (
    tokens, shapes, settings, slurm_options,
    after_words, command_line_secrets,
)  # fmt: skip
"""What knows secrets in a line without knowing them before; support bundles are looked through by the same."""


def without_secrets(text: str) -> str:
    """A line with `(hidden)` in the place of what looks like a secret."""
    parts, end = [], 0
    for first, last in sorted(place for detector in DETECTORS for place in detector(text) if place[0] < place[1]):
        if first >= end:
            parts += [text[end:first], HIDDEN]
        end = max(end, last)
    return "".join((*parts, text[end:])) if parts else text


def value_without_secrets(key: str, value: str) -> str:
    """The value of a setting with `(hidden)` in the place of what is a secret.

    >>> value_without_secrets("JobCompPass", "abc"), value_without_secrets("KillWait", "30")
    ('(hidden)', '30')
    """
    shown = without_secrets('%s="%s"' % (key, value))
    return shown[len(key) + 2 : -1]
