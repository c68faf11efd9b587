"""The web application: static page, data, downloads, events."""

import asyncio
import gzip
import threading
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from cockpit.core.errors import CockpitError
from cockpit.dashboard import download, wire
from cockpit.dashboard.api import ANSWERS
from cockpit.dashboard.events import Events
from cockpit.dashboard.fleet import Fleet
from cockpit.dashboard.guard import Guard
from cockpit.dashboard.manage import BODY, manage
from cockpit.dashboard.query import Query, read
from cockpit.dashboard.scripts import Scripts
from cockpit.plots.artist import Artist

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

STATIC = Path(__file__).parent / "static"
MEDIA = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
SMALL = 1400  # bytes that are not worth compressing

Download = Callable[[Fleet, Query], tuple[bytes, str, str]]


def create_app(folder: Path, token: str | None = None) -> Guard:
    """Make the application for the runs below a folder; with a token only for those who have it."""
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as error:
        raise CockpitError(
            "the page needs starlette, which is not installed; pip install 'cockpit-deck[ui]'"
        ) from error
    fleet, scripts = Fleet(folder), Scripts()
    threading.Thread(target=fleet.listing, name="cockpit-listing", daemon=True).start()  # read before it is asked for
    events, artist = Events(fleet), Artist()
    routes = [
        Route("/", _static("index.html")),
        Route("/vega.js", _script(scripts)),
        Route("/api/events", _events(events)),
        *(Route(f"/api/{name}", _data(fleet, name)) for name in ANSWERS),
        Route("/api/figure", _file(fleet, partial(download.figure, artist), asyncio.Lock())),
        Route("/api/manage", _changes(fleet), methods=["POST"]),
        Route("/api/data", _file(fleet, download.data)),
        Route("/static/{name}", _static()),
    ]

    def close() -> None:
        events.close()
        artist.close()

    return Guard(Starlette(routes=routes), token, on_close=close)


def _static(always: str = "") -> Callable[..., Any]:
    """Serve the page's own files from memory; a name is looked up, never joined to a path."""
    files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.suffix in MEDIA}

    async def answer(request: "Request") -> "Response":
        from starlette.responses import Response

        name = always or request.path_params["name"]
        if name not in files:
            return Response("there is no such file", 404, media_type="text/plain")
        return _cached(request, files[name], MEDIA[Path(name).suffix], {})

    return answer


def _cached(request: "Request", body: bytes, media: str, headers: dict[str, str]) -> "Response":
    """Answer with the content, unless the browser has it already."""
    from starlette.responses import Response

    headers = {**headers, "etag": f'"{crc32(body):08x}"'}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers={"etag": headers["etag"]})
    return Response(body, media_type=media, headers=headers)


def _script(scripts: Scripts) -> Callable[..., Any]:
    async def answer(request: "Request") -> "Response":
        try:
            packed = await asyncio.to_thread(scripts.bundle)
        except CockpitError as error:
            return _json(request, {"error": str(error)}, 500)
        if not _gzips(request):
            return _cached(request, gzip.decompress(packed), MEDIA[".js"], {"vary": "accept-encoding"})
        return _cached(request, packed, MEDIA[".js"], {"content-encoding": "gzip", "vary": "accept-encoding"})

    return answer


def _events(events: Events) -> Callable[..., Any]:
    async def answer(request: "Request") -> "Response":
        from starlette.responses import StreamingResponse

        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(events.stream(), media_type="text/event-stream", headers=headers)

    return answer


def _data(fleet: Fleet, name: str) -> Callable[..., Any]:
    async def answer(request: "Request") -> "Response":
        return await asyncio.to_thread(_asked, request, lambda query: _json(request, ANSWERS[name](fleet, query)))

    return answer


def _file(fleet: Fleet, make: Download, turn: asyncio.Lock | None = None) -> Callable[..., Any]:
    """Send what ``make`` gives; with a turn one after the other: those that wait take no thread from other requests."""

    def send(query: Query) -> "Response":
        from starlette.responses import Response

        content, media, name = make(fleet, query)
        headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
        return Response(content, media_type=media, headers=headers)

    async def answer(request: "Request") -> "Response":
        async with turn or nullcontext():
            return await asyncio.to_thread(_asked, request, send)

    return answer


def _changes(fleet: Fleet) -> Callable[..., Any]:
    """Hide, rename or delete a run; the guard has seen to it that the page itself asks."""

    async def answer(request: "Request") -> "Response":
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > BODY:
                return _json(request, {"error": f"the request has more than {BODY} bytes"}, 413)
        return await asyncio.to_thread(_asked, request, lambda query: _json(request, manage(fleet, body)))

    return answer


def _asked(request: "Request", answer: Callable[[Query], "Response"]) -> "Response":
    """Answer, or say what is wrong and what to do about it."""
    try:
        return answer(read(request.url.query))
    except CockpitError as error:
        return _json(request, {"error": str(error)}, 400)
    except LookupError as error:
        return _json(request, {"error": str(error.args[0] if error.args else error)}, 404)
    except Exception as error:
        said = f"{type(error).__name__}: {error}. This is a fault of cockpit; reload, and if it stays, report it."
        return _json(request, {"error": said}, 500)


def _json(request: "Request", content: Any, status: int = 200) -> "Response":
    """Write and compress in the thread that made the content: the event loop stays free."""
    from starlette.responses import Response

    body = wire.answer(content).encode()
    headers = {"cache-control": "no-store"}
    if len(body) > SMALL and _gzips(request):
        body = gzip.compress(body, 1)
        headers |= {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(body, status, headers, "application/json")


def _gzips(request: "Request") -> bool:
    return "gzip" in request.headers.get("accept-encoding", "")
