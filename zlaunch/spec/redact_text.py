"""Hides secrets in text of any length, such as a log that goes into a bug report.

Hidden are the values that are known (of variables with secret names) and what has the form of a
token, a password in an address, or a private key. Text comes in pieces; at most a mebibyte of it
is held, and a secret that lies across two pieces is found as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

_HIDDEN = b"***"
_SHORTEST = 6  # bytes of a value; shorter ones are words like "true" or "0"
_HELD = 1 << 20  # bytes without a newline
_OVERLAP = 8 << 10  # bytes; longer than any secret

_ASSIGNED = rb"['\"]?\]?\s{0,3}[:=]\s{0,3}['\"]?"
_VALUE = rb"([^\s'\",;&)}\]]{8,})"
# Where a token may begin; the colour of a terminal ends with a letter: \x1b[31mhf_...
_START = rb"(?:\b|(?<=[\d;\[]m))"
_NAMES = (
    *(b"api_key", b"api-key", b"apikey", b"access_key", b"accesskey", b"accountkey", b"secret"),
    *(b"passphrase", b"password", b"passwd", b"auth_token", b"authtoken", b"access_token"),
    *(b"api_token", b"hub_token", b"hf_token", b"refresh_token"),
    *(b"session_id", b"sessionid", b"sessid", b"csrf", b"xsrf"),
)
# A value that is no word, number, path or <special token>: with letters and digits, or very long.
_RANDOM = (
    rb"((?=[^\s'\"]{0,200}[0-9])(?=[^\s'\"]{0,200}[A-Za-z])[A-Za-z0-9][A-Za-z0-9._~+/=-]{%d,}"
    rb"|[A-Za-z0-9+/=_-]{32,})(?![^\s'\",;&)}\]#])"
)
_COOKIES = rb"(?:['\"]([^\n'\"]{4,7000})|(\{[^\n}]{4,7000})|([^\s='\"{]{1,200}=[^\n'\"]{4,7000}))"
# What a text has somewhere, in small letters, where the pattern behind it can match at all: a log
# of many megabytes is looked through for a word much faster than for a pattern. Hidden is what the
# pattern's group holds, or all that matches where it has none.
_FORMS: tuple[tuple[tuple[bytes, ...], bytes], ...] = (
    ((b"hf_",), _START + rb"hf_[A-Za-z0-9]{16,}"),
    ((b"gho_", b"ghp_", b"ghs_", b"ghu_", b"ghr_"), _START + rb"gh[opusr]_[A-Za-z0-9]{20,}"),
    ((b"github_pat_",), _START + rb"github_pat_[A-Za-z0-9_]{20,}"),
    ((b"glpat-",), _START + rb"glpat-[A-Za-z0-9_-]{16,}"),
    ((b"sk-",), _START + rb"sk-[A-Za-z0-9_-]{16,}"),
    ((b"xox",), _START + rb"xox[abprs]-[A-Za-z0-9-]{10,}"),
    ((b"akia", b"asia"), _START + rb"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ((b"aiza",), _START + rb"AIza[A-Za-z0-9_-]{30,}"),
    ((b"eyj",), _START + rb"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    # Authorization: Bearer x, and Bearer alone; in JSON and Python too
    (
        (b"authorization",),
        rb"(?i:authorization['\"]?\s{0,4}[:=]\s{0,4}['\"]?(?:[a-z]+ )?)([^\s'\",;]{6,})",
    ),
    ((b"bearer ",), rb"(?i:\bbearer )([A-Za-z0-9._~+/=-]{8,})"),
    ((b"://",), rb"://[^/\s:@'\"]{0,100}:([^@\s/'\"]{1,200})@"),
    ((b"://",), rb"://([A-Za-z0-9_-]{20,200})@"),  # a token in place of the user
    # addresses that hold their own permission: of AWS, Azure, Slack
    ((b"x-amz-", b"sig="), rb"[?&](?:X-Amz-(?:Signature|Security-Token)|sig)=([^&\s'\"]{8,})"),
    ((b"hooks.slack.com",), rb"hooks\.slack\.com/services/([A-Za-z0-9/_-]{16,})"),
    ((b"npm_",), _START + rb"npm_[A-Za-z0-9]{30,}"),
    ((b"pypi-",), _START + rb"pypi-[A-Za-z0-9_-]{16,}"),
    # of wandb: 40 hexadecimal digits behind the name of a key
    (
        (b"key", b"wandb"),
        rb"(?i:(?:key|wandb)[^\n]{0,40}?)(?<![0-9a-f])([0-9a-f]{40})(?![0-9a-f])",
    ),
    # api_key=value, "secret": "value"; but eos_token is none
    (_NAMES, rb"(?i:(?:" + b"|".join(_NAMES) + rb")(?:[_-]key)?)" + _ASSIGNED + _VALUE),
    ((b"_key", b"_token", b"_pass"), rb"[A-Z0-9]_(?:KEY|TOKEN|PASS)" + _ASSIGNED + _VALUE),
    # token=value, ?token=value, session_token: value; but eos_token, max_tokens, token: 12 are none
    ((b"token",), rb"(?i:(?<![A-Za-z0-9_])token)" + _ASSIGNED + _RANDOM % 7),
    ((b"_token", b"-token"), rb"(?i:[a-z0-9][_-]token)" + _ASSIGNED + _RANDOM % 15),
    # pwd=value, and DB_PWD; but PWD=/home/ann is where somebody was
    (
        (b"pwd", b"pass"),
        rb"(?i:(?<![A-Za-z0-9])(?:[a-z0-9]{1,30}_){0,4}"
        rb"(?:pwd|pass(?:word|wd|phrase)|(?:db|user|smtp|mail|proxy|redis|login|admin|root)_?pass))"
        + _ASSIGNED
        + rb"([^\s'\",;&)}\]/~.$%({<*][^\s'\",;&)}\]]{4,})",
    ),
    # Cookie: a=b; c=d, Set-Cookie, {'cookie': 'a=b'}, cookies={'a': 'b'}, and as requests shows it
    (
        (b"cookie",),
        rb"(?i:cookies?['\"]?\s{0,3}[:=]\s{0,3})" + _COOKIES,
    ),
    ((b"<cookie ",), rb"<Cookie [^\s=]{1,200}=([^\s>]{4,})"),
    # curl -u ann:value, sshpass -p value, .netrc, docker's config.json
    (
        (b"-u", b"--user"),
        rb"\s(?:-u ?|--user[ =])['\"]?[A-Za-z][^\s:'\"]{0,99}:(?!:)([^\s'\"]{3,})",
    ),
    ((b"sshpass",), rb"sshpass -p ?['\"]?([^\s'\"]{3,})"),
    ((b"login ",), rb"\blogin \S{1,200}\s{1,9}password (\S{3,})"),
    ((b"auth",), rb"['\"]auth['\"]: ?['\"]([A-Za-z0-9+/=]{8,})"),
    # --api-key value, and as Python prints a list of arguments
    (
        (b"-key", b"_key", b"token", b"secret", b"pass", b"pwd", b"cookie"),
        rb"--(?:[A-Za-z0-9]{1,20}[_-]){0,3}"
        rb"(?:(?:api|access|secret)[_-]?key|token|secret|pass(?:word|wd|phrase)|pwd|cookie)"
        rb"(?:=|'?,? {1,3}'?|\", {0,3}\")" + _VALUE,
    ),
)
_KEY_BEGIN = re.compile(rb"-----BEGIN [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(rb"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")


class Redactor:
    """Hides what is secret; `hidden` counts the values."""

    def __init__(self, values: Iterable[str]) -> None:
        """`values` are known secrets."""
        self.hidden = 0
        known = {line.strip() for value in values for line in value.splitlines()}
        texts = sorted((v for v in known if len(v) >= _SHORTEST), key=len, reverse=True)
        literal = [re.escape(text.encode("utf-8", "surrogateescape")) for text in texts]
        self._patterns = [(signs, re.compile(pattern)) for signs, pattern in _FORMS]
        if literal:  # first: a known value is hidden whole
            self._patterns.insert(0, ((b"",), re.compile(b"|".join(literal))))
        self._tail = b""
        self._in_key = False

    def feed(self, data: bytes) -> bytes:
        """Take a piece of a text and return what of it can be said by now."""
        text = self._tail + data
        cut = text.rfind(b"\n") + 1
        if len(text) - cut > _HELD:
            cut = self._harmless_cut(text)
        self._tail = text[cut:]
        return self._redact(text[:cut]) if cut else b""

    def finish(self) -> bytes:
        """Return the rest of the text; another one may follow."""
        rest, self._tail = self._redact(self._tail), b""
        self._in_key = False
        return rest

    def _harmless_cut(self, text: bytes) -> int:
        """Where a line without an end can be cut: within no secret."""
        cut = len(text) - _OVERLAP
        for _, pattern in self._patterns:
            for found in pattern.finditer(text, max(0, cut - _OVERLAP)):
                if found.start() < cut < found.end():
                    cut = found.start()
        return cut or len(text) - _OVERLAP

    def _redact(self, text: bytes) -> bytes:
        if self._in_key or b"PRIVATE KEY" in text:
            text = self._without_keys(text)
        small = text.lower()
        for signs, pattern in self._patterns:
            if any(sign in small for sign in signs):
                text = pattern.sub(self._hide, text)
        return text

    def _hide(self, found: re.Match[bytes]) -> bytes:
        group = found.lastindex or 0
        if found[group] == _HIDDEN:
            return found[0]
        self.hidden += 1
        start, end = found.start(group) - found.start(), found.end(group) - found.start()
        return found[0][:start] + _HIDDEN + found[0][end:]

    def _without_keys(self, text: bytes) -> bytes:
        """Hide what stands between the lines that begin and end a private key."""
        kept: list[bytes] = []
        while text:
            mark = (_KEY_END if self._in_key else _KEY_BEGIN).search(text)
            if not self._in_key:
                kept.append(text[: mark.end()] if mark else text)
                self.hidden += mark is not None
            elif mark:
                kept.append(_HIDDEN + mark[0])
            if mark is None:
                break
            self._in_key = not self._in_key
            text = text[mark.end() :]
        return b"".join(kept)


def redact_texts(data: Any, values: Iterable[str]) -> Any:
    """Return JSON data with secrets hidden in all of its texts; `values` are known ones."""
    redactor = Redactor(values)

    def hidden(one: Any) -> Any:
        if isinstance(one, Mapping):
            return {name: hidden(value) for name, value in one.items()}
        if isinstance(one, (list, tuple)):
            return [hidden(value) for value in one]
        if not isinstance(one, str):
            return one
        data = redactor.feed(one.encode("utf-8", "surrogatepass")) + redactor.finish()
        return data.decode("utf-8", "surrogatepass")

    return hidden(data)
