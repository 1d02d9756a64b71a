"""Stands before the application: who may ask, how often, and what every answer says to a browser.

Unless a token is asked for, the service has no passwords. What protects one that is bound to this machine is that
other machines cannot reach it. So a page of another site, opened in a browser of this machine, must not reach it
either: neither directly (`Origin`) nor under a name that was made to point here (`Host`).
"""

import base64
import hmac
import ipaddress
import json
import re
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from parse_dg.errors import InputError
from parse_dg.files import attempting
from parse_dg.serve.limits import RateLimiter, RefusedError
from parse_dg.wording import UNPRINTABLE

HEAD_BYTES = 16_384
"""The address and all headers of a request together."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer that does not say otherwise."""


class Guard:
    """ASGI middleware: checks every request, and adds security headers to every answer."""

    def __init__(self, app: ASGIApp, rate: RateLimiter, hosts: Collection[str] | None, token: str | None) -> None:
        """`hosts`: names under which it may be addressed besides this machine's own, None for any; `token`: what
        every request has to bring, None for nothing.
        """
        self.app, self.rate = app, rate
        self.hosts, self.token = hosts, token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or have it answered."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            self._check(scope)
        except RefusedError as error:
            refusal = Response(error_body(str(error)), error.status, error.headers, "application/json")
            await refusal(scope, receive, guarded)
        else:
            await self.app(scope, receive, guarded)

    def _check(self, scope: Scope) -> None:
        address = len(scope["raw_path"]) + len(scope["query_string"])
        head = address + sum(len(k) + len(v) + 4 for k, v in scope["headers"])
        if head > HEAD_BYTES:  # the HTTP parser checks what comes in parts
            raise RefusedError(431, f"address and headers are too long: at most {HEAD_BYTES:,} bytes are taken")
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        host = headers.get("host", "")
        if self.hosts is not None and not (is_loopback(name_of(host)) or name_of(host) in self.hosts):
            raise RefusedError(421, "the host in the address is not this machine: expected localhost or 127.0.0.1")
        if self.token is not None and not brings(headers.get("authorization", ""), self.token):
            message = "a token is needed: expected the header Authorization: Bearer TOKEN, or it as the password"
            raise RefusedError(401, message, www_authenticate='Basic realm="parse-dg"')  # a browser asks for it
        if scope["method"] in ("GET", "HEAD"):
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        if (origin is not None and _place(origin) != host.lower()) or site not in ("none", "same-origin"):
            raise RefusedError(403, "the request comes from a page of another site: only this service's may ask")
        self.rate.take(scope["client"][0] if scope.get("client") else "")


def read_token(path: Path) -> str:
    """The token in a file of one line."""
    with attempting(f"read the token in {path}"), path.open(encoding="utf-8", errors="replace") as file:
        token = file.read(4096).strip()
    if not re.fullmatch(r"[!-~]{16,1000}", token):
        raise InputError(f"the token in {path} must be 16 to 1,000 ASCII characters on one line, without spaces")
    return token


def brings(authorization: str, token: str) -> bool:
    """Whether a header has the token, as a bearer's or as a password; takes as long whatever is wrong with it."""
    scheme, _, given = authorization.partition(" ")
    found = given.strip().encode("latin-1")
    if scheme.lower() == "basic":
        try:
            found = base64.b64decode(found, validate=True).partition(b":")[2]
        except ValueError:
            return False
    return scheme.lower() in ("basic", "bearer") and hmac.compare_digest(found, token.encode())


def error_body(message: str) -> bytes:
    """What every error answers: `{"error": "one line"}`."""
    return json.dumps({"error": UNPRINTABLE.sub(" ", message)}, ensure_ascii=False).encode("utf-8", "replace")


def name_of(host: str) -> str:
    """The name or address in a `Host` header, without the port; nothing where anything else is in it."""
    found = re.fullmatch(r"(?:\[([^][]*)\]|([^][:]*))(?::\d*)?", host.lower())
    return (found[1] or found[2] or "") if found else ""


def is_loopback(name: str) -> bool:
    """Whether a name or an address can only mean this machine."""
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


def _place(origin: str) -> str:
    """Host and port of an origin. The scheme does not count: something before the service may add encryption."""
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""
