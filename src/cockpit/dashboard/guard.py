"""Who may read the page: this machine alone, or whoever has the token; and what the browser may do with it."""

import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CHANGES = "/api/manage"  # the one address that changes anything
COOKIE = "cockpit_token"  # with the port behind it: cookies are shared by all ports of a machine
LOCAL = frozenset({"localhost", "127.0.0.1", "[::1]"})
LOOPBACK = frozenset({"127.0.0.1", "::1", "::ffff:127.0.0.1"})
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
FRESH = [(b"cache-control", b"no-cache")]  # the page of a new version is asked for after an upgrade
STRANGER = (
    "This page is only served to this machine. Open it as http://127.0.0.1 or http://localhost, or start it with "
    "--host to serve it to others; behind a proxy on this machine, such as a notebook server's, with --token."
)
FOREIGN = (
    "Another page asked for this, and only this page itself may. Open http://127.0.0.1 with the port of `cockpit ui`."
)
REMOTE = (
    "Runs are hidden, renamed and deleted only from the page itself, opened on this machine as http://127.0.0.1 or "
    "http://localhost (a tunnel by ssh -L is as good)."
)
LOCKED = (
    "This page asks for a token. Open the whole address that `cockpit ui` printed when it started; it ends with "
    "?token=... If that is lost, stop `cockpit ui` and start it again."
)


# Behind a proxy the page may lie below a path that the proxy leaves in the address.
BELOW = re.compile(r"(?:/(?!\.)[\w.~@-]+)*(?P<path>/(?:api/\w+|static/[\w.-]+|vega\.js)?)")


class Guard:
    """Lets a request through to the app, or answers what to do instead; adds the safety headers to every answer."""

    def __init__(self, app: App, token: str | None = None, on_close: Callable[[], None] = lambda: None) -> None:
        self.app = app
        self.token = token
        self.close = on_close  # to be called before the server stops

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        scope = {**scope, "path": below(scope["path"])}
        headers = {key.decode("latin-1").lower(): value.decode("latin-1") for key, value in scope["headers"]}

        async def guarded(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                given = list(message.get("headers", []))
                cached = any(key.lower() == b"cache-control" for key, _ in given)
                message["headers"] = [*given, *_encoded(HEADERS.items()), *([] if cached else FRESH)]
            await send(message)

        if scope["method"] not in ("GET", "HEAD") and not (scope["method"] == "POST" and scope["path"] == CHANGES):
            await _answer(guarded, 405, "This page only reads; use GET.")
        elif scope["method"] == "POST" and not _by_hand(scope, headers):
            await _answer(guarded, 403, REMOTE)
        elif _foreign(headers, scope["path"]):
            await _answer(guarded, 403, FOREIGN)
        elif self.token is None:
            friend = is_local(headers.get("host", "")) and _same(headers)
            await (self.app(scope, receive, guarded) if friend else _answer(guarded, 403, STRANGER))
        else:
            await self._with_token(scope, receive, guarded, headers)

    async def _with_token(self, scope: Scope, receive: Receive, send: Send, headers: dict[str, str]) -> None:
        """A token in the address moves into a cookie, so that it does not stay in the browser's history."""
        query = parse_qsl(scope["query_string"].decode("latin-1"))
        given = dict(query).get("token")
        if given is not None and self._right(given):
            rest = urlencode([(key, value) for key, value in query if key != "token"])
            here = scope["path"] == "/"  # perhaps below a proxy's path: then the cookie is for what lies there, too
            cookie = (
                f"{cookie_name(headers)}={quote(given, safe='')}; {'' if here else 'Path=/; '}HttpOnly; SameSite=Lax"
            )
            where = ("./" if here else "/") + (f"?{rest}" if rest else "")
            await _answer(send, 303, "", {"location": where, "set-cookie": cookie, "cache-control": "no-store"})
        elif given is None and self._right(_cookie(headers)) and _same(headers):
            await self.app(scope, receive, send)
        else:
            await _answer(send, 401, LOCKED)

    def _right(self, given: str | None) -> bool:
        return given is not None and hmac.compare_digest(given.encode(), (self.token or "").encode())


def below(path: str) -> str:
    """The path without what a proxy has put before it; one that is nothing of the page's stays as it is."""
    found = BELOW.fullmatch(path)
    return found["path"] if found is not None else path


def is_local(host: str) -> bool:
    """Whether a Host header names this machine; any other name is a page elsewhere that points here."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    return name.lower() in LOCAL


def _same(headers: dict[str, str]) -> bool:
    """Whether the request comes from the page itself, as far as the browser tells."""
    origin = headers.get("origin")
    try:
        return origin is None or urlsplit(origin).netloc == headers.get("host")
    except ValueError:  # no address at all
        return False


def _by_hand(scope: Scope, headers: dict[str, str]) -> bool:
    """Whether the page itself asks, in a browser on this machine: no other page can send JSON with its origin."""
    client = (scope.get("client") or ("",))[0]
    site = headers.get("sec-fetch-site", "same-origin")
    own = headers.get("origin") is not None and _same(headers) and site == "same-origin"
    said = headers.get("content-type", "").partition(";")[0].strip() == "application/json"
    return own and said and client in LOOPBACK and is_local(headers.get("host", ""))


def _foreign(headers: dict[str, str], path: str) -> bool:
    """Whether the browser says that a page from elsewhere asks; such a page may link to this one, and no more."""
    if headers.get("sec-fetch-site", "none") in ("none", "same-origin"):
        return False
    opened = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
    return not (opened and path == "/")


def cookie_name(headers: dict[str, str]) -> str:
    """The name of the cookie that holds the token for the port asked for."""
    port = headers.get("host", "").rpartition(":")[2]
    return f"{COOKIE}_{port}" if port.isdigit() and port.isascii() else COOKIE


def _cookie(headers: dict[str, str]) -> str | None:
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(cookie_name(headers))
    except CookieError:
        return None
    return unquote(found.value) if found else None


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(key.encode("latin-1"), value.encode("latin-1")) for key, value in headers]


async def _answer(send: Send, status: int, text: str, headers: dict[str, str] | None = None) -> None:
    given = {"content-type": "text/plain; charset=utf-8", **(headers or {})}
    await send({"type": "http.response.start", "status": status, "headers": _encoded(given.items())})
    await send({"type": "http.response.body", "body": text.encode()})
