"""The server: waitress, on this machine and for this machine, and a WSGI function of the routes.

Requests stay in memory; clients that are slow or send too much are disconnected.
"""

from __future__ import annotations

import json
import logging
import os
import re
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from threading import Event
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import create_server

from mercer_app.messages import in_one_line, in_words_of_the_command
from mercer_app.serve._answers import Answers, TooLarge
from mercer_app.serve._page import POLICY, Shown, page

MOST_BYTES = 64 * 2**20  # of a request
_MOST_NOTES = 4000  # characters of a header

_OURS = re.compile(r"(?:localhost|127\.0\.0\.1)(?::\d{1,5})?", re.IGNORECASE)
_JSON = ("application/json",)
_FILES = (
    *("application/octet-stream", "text/csv", "text/tab-separated-values"),
    *("application/gzip", "application/x-gzip", "application/x-bzip2"),
    *("application/vnd.apache.parquet", "application/x-parquet"),
    *("application/vnd.apache.arrow.file", "application/vnd.apache.arrow.stream"),
)
_REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_ALWAYS = {
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class _Refusal(Exception):  # noqa: N818  # an answer, too
    """A request that is refused, and how."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers


class Reply(NamedTuple):
    """What is sent back."""

    body: bytes
    kind: str
    status: int
    more: Mapping[str, str]

    @property
    def line(self) -> str:
        """Status, as the first line has it."""
        return f"{self.status} {HTTPStatus(self.status).phrase}"

    @property
    def headers(self) -> list[tuple[str, str]]:
        """All headers."""
        size = {"Content-Type": self.kind, "Content-Length": str(len(self.body))}
        return [*{**_ALWAYS, **self.more, **size}.items()]


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return Reply(text.encode(), "application/json", status, headers or {})


def refusal(status: int, message: str, headers: Mapping[str, str] | None = None) -> Reply:
    """Return the error that explains why there is no answer."""
    return _json({"error": message}, status, headers)


class Routes:
    """A WSGI application: the addresses of a model.

    A request can reach the model and nothing else. No path is a file: all addresses are in a table.
    A page of another site cannot send requests through the browser of a user of this machine:
    ``Host`` and ``Origin`` must be this machine, and posted content must have types that forms
    cannot send.

    Parameters
    ----------
    answers : Answers
        The model.
    title : str
        Title of the page.
    report : bytes or None, default=None
        HTML to show at ``/report``.
    """

    def __init__(self, answers: Answers, *, title: str, report: bytes | None = None) -> None:
        self.answers, self.title, self.report = answers, title, report

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        """Answer one request."""
        reply = self._answered(environ)
        start_response(reply.line, reply.headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [reply.body]

    def _answered(self, environ: dict[str, Any]) -> Reply:
        """Find the answer, whatever happens."""
        try:
            return self._found(environ)
        except _Refusal as error:
            return refusal(error.status, str(error), error.headers)
        except TooLarge as error:
            return refusal(413, str(error))
        except UnicodeEncodeError:
            said = "The request holds text that is no Unicode: half of a pair of surrogates."
            return refusal(400, said)
        except ValueError as error:
            return refusal(400, _words(error))
        except Exception as error:
            if os.environ.get("MERCER_DEBUG"):
                traceback.print_exc()
            kind = type(error).__name__
            said = f"Unexpected {kind}. This is a fault of mercer, not of the request."
            return refusal(500, said)

    def _found(self, environ: dict[str, Any]) -> Reply:
        """Check the origin and target of a request, and answer it."""
        host = environ.get("HTTP_HOST", "")  # several hosts are joined by a comma
        if not _OURS.fullmatch(host):
            raise _Refusal(
                400,
                "The header Host must be localhost or 127.0.0.1, with the port: other names are "
                "not those of this server.",
            )
        # As it was sent: PATH_INFO is without the encoding and the host that it may have.
        path = environ["REQUEST_URI"].partition("?")[0]
        ways: dict[str, tuple[str, Callable[[dict[str, Any]], Reply]]] = {
            "/": ("GET", self._page),
            "/model": ("GET", lambda _: _json(self.answers.described())),
            "/health": ("GET", lambda _: _json({"status": "ok"})),
            "/report": ("GET", self._report),
            "/predict": ("POST", self._predict),
            "/batch": ("POST", self._batch),
        }
        if path not in ways:
            raise _Refusal(404, f"There is no such address. There are {', '.join(ways)}.")
        (method, answer), asked = ways[path], environ["REQUEST_METHOD"]
        if asked != method and (asked, method) != ("HEAD", "GET"):
            raise _Refusal(405, f"{path} takes {method} only.", {"Allow": method})
        origin = environ.get("HTTP_ORIGIN")
        if origin is not None and origin.lower() != f"http://{host.lower()}":
            raise _Refusal(403, "The page that asks is none of this server's.")
        return answer(environ)

    def _page(self, environ: dict[str, Any]) -> Reply:
        """Return the page, with a prediction if the address has a row."""
        answers, status = self.answers, 200
        cells, shown = _cells(environ["QUERY_STRING"]), Shown()
        if cells:
            try:
                row, notes = answers.cells(cells)
                explain = not answers.no_explanation
                told = answers.rows([row], answers.coverage, explain=explain)
                shown = Shown(cells, told, notes)
            except ValueError as error:
                shown, status = Shown(cells, error=_words(error)), 400
        report = self.report is not None
        html = page(self.title, answers, shown, report=report, most_bytes=MOST_BYTES)
        headers = {"Content-Security-Policy": POLICY}
        return Reply(html.encode(), "text/html; charset=utf-8", status, headers)

    def _report(self, environ: dict[str, Any]) -> Reply:
        if self.report is None:
            raise _Refusal(404, "There is no report: `mercer serve --report FILE` shows one.")
        headers = {"Content-Security-Policy": _REPORT_POLICY}
        return Reply(self.report, "text/html; charset=utf-8", 200, headers)

    def _predict(self, environ: dict[str, Any]) -> Reply:
        asked = self._asked(_read_json(_body(environ, _JSON)))
        explain = asked.get("explain", False)
        if not isinstance(explain, bool):
            raise ValueError(f"`explain` must be true or false, got {explain!r}.")
        told = self.answers.rows(asked["rows"], asked.get("interval"), explain=explain)
        found: dict[str, Any] = {"predictions": told.predictions}
        if told.explanations is not None:
            found["explanations"] = told.explanations
        return _json(found | {"notes": told.notes})

    def _asked(self, asked: Any) -> dict[str, Any]:
        """Put what was sent into the form of many rows."""
        if isinstance(asked, list):
            return {"rows": asked}
        if not isinstance(asked, dict):
            raise ValueError(
                'The request must be a row, or {"rows": [...]} with "interval" and "explain".'
            )
        rows = asked.get("rows")
        if "rows" not in asked or ("rows" in self.answers.by_name and type(rows) is not list):
            return {"rows": [asked]}
        if not isinstance(rows, list):
            raise ValueError('"rows" must be a list of objects of columns and values.')
        others = sorted(set(asked) - {"rows", "interval", "explain"})
        if others:
            raise ValueError(f"Besides rows there can be interval and explain, got {others[0]!r}.")
        return asked

    def _batch(self, environ: dict[str, Any]) -> Reply:
        coverage, keep = None, []
        for name, value in _pairs(environ["QUERY_STRING"]):
            if name == "interval" and coverage is None:
                coverage = _number(value)
            elif name == "interval":
                raise ValueError("/batch takes one `interval`, got several.")
            elif name == "keep":
                keep.append(value)
            else:
                raise ValueError(f"/batch takes `interval` and `keep`, got {name!r}.")
        batch = self.answers.batch(_body(environ, _FILES), coverage, keep)
        notes = batch.notes
        while len(json.dumps(notes)) > _MOST_NOTES:
            notes.pop()
        headers = {
            "Content-Disposition": 'attachment; filename="predictions.csv"',
            "Mercer-Rows": str(batch.n_rows),
            "Mercer-Notes": json.dumps(notes),
        }
        return Reply(bytes(batch.csv), "text/csv; charset=utf-8", 200, headers)


def _body(environ: dict[str, Any], kinds: tuple[str, ...]) -> bytes:
    """Read what was sent, if it is of a type that is taken."""
    kind = environ.get("CONTENT_TYPE", "none").partition(";")[0].strip().lower()
    if kind not in kinds:
        raise _Refusal(415, f"The Content-Type must be {' or '.join(kinds)}, got {kind}.")
    if environ.get("HTTP_CONTENT_ENCODING", "identity") != "identity":
        raise _Refusal(415, "The Content-Encoding must be identity.")
    if "CONTENT_LENGTH" not in environ:
        raise _Refusal(411, NO_LENGTH)
    body: bytes = environ["wsgi.input"].read()
    return body


NO_LENGTH = "The header Content-Length must say how many bytes are sent."


def _words(error: Exception) -> str:
    """Say an error as `mercer predict` does."""
    said = in_one_line(in_words_of_the_command(error)).replace("`--interval`", "`interval`")
    if "`--" in said:
        said += " Such options are those of `mercer predict`."
    return said[:1].upper() + said[1:]


def _pairs(query: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(query, keep_blank_values=True, errors="strict", max_num_fields=10_000)
    except ValueError:
        raise ValueError(
            "The address has too many values, or they are not written in UTF-8."
        ) from None


def _cells(query: str) -> dict[str, str]:
    """Read the row of an address."""
    cells: dict[str, str] = {}
    for name, value in _pairs(query):
        if name in cells:
            raise ValueError(f"The address has the column {name!r} twice.")
        cells[name] = value
    return cells


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text


def _read_json(body: bytes) -> Any:
    """Read JSON as the standard has it: no NaN, and no name twice."""
    try:
        return json.loads(
            body.decode("utf-8-sig"),
            parse_constant=_refuse_constant,
            parse_int=lambda digits: int(digits) if len(digits) < 19 else float(digits),
            object_pairs_hook=_once,
        )
    except json.JSONDecodeError as error:
        raise ValueError(
            f"The request is no JSON: {error.msg} in line {error.lineno}, column {error.colno}."
        ) from None
    except UnicodeDecodeError:
        raise ValueError("The request is no JSON: it is not in UTF-8.") from None
    except RecursionError:
        raise ValueError("The request is nested too deeply.") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no number in JSON. A missing value is null.")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        repeated = next(name for name, n in counts.items() if n > 1)
        raise ValueError(f"The request has {repeated!r} twice in one object.")
    return found


HOST = "127.0.0.1"
IDLE_SECONDS = 20  # without a byte
BODY_SECONDS = 120.0  # for all of a request
_LINGER_SECONDS = 2.0
_SETTINGS = {
    "threads": 8,
    "ident": "mercer",
    "log_socket_errors": False,  # clients go away
    "max_request_header_size": 2**16,
    "max_request_body_size": MOST_BYTES + 1,
    "recv_bytes": 2**16,
    # Never a file, and no thread that waits for slow readers.
    **dict.fromkeys(("inbuf_overflow", "outbuf_overflow", "outbuf_high_watermark"), 2**62),
    "connection_limit": 100,  # others wait
    "channel_timeout": IDLE_SECONDS,
    "cleanup_interval": 1,
}

# Keep no log, unless a program asks for one: addresses hold what was typed.
logging.getLogger("waitress").addHandler(logging.NullHandler())


class ModelServer:
    """Serves a model on 127.0.0.1, in the thread that calls ``serve_forever``.

    Parameters
    ----------
    answers : Answers
        The model.
    title : str
        Title of the page.
    port : int
        To listen at; 0 for any that is free.
    report : bytes or None, default=None
        HTML to show at ``/report``.

    Attributes
    ----------
    address : str
        Address of the page.

    Raises
    ------
    OSError
        If the port is taken.

    Examples
    --------
    >>> import threading
    >>> from urllib.request import urlopen
    >>> import pandas
    >>> from mercer import KernelClassifier
    >>> heights = pandas.DataFrame({"height": [540.0, 60.0] * 100})
    >>> model = KernelClassifier(random_state=0).fit(heights, ["Bern", "Bonn"] * 100)
    >>> with ModelServer(Answers(model), title="towns", port=0) as server:
    ...     threading.Thread(target=server.serve_forever, daemon=True).start()
    ...     with urlopen(f"{server.address}health") as answer:
    ...         print(answer.read().decode())
    {"status": "ok"}
    """

    def __init__(
        self, answers: Answers, *, title: str, port: int, report: bytes | None = None
    ) -> None:
        self.routes = Routes(answers, title=title, report=report)
        listening = socket.create_server((HOST, port))
        self.server_address: tuple[str, int] = listening.getsockname()
        self._sockets: dict[int, Any] = {}
        self._server = create_server(
            self.routes, map=self._sockets, sockets=[listening], **_SETTINGS
        )
        self._server.channel_class = _Channel
        self._ended = Event()
        self._ended.set()

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def serve_forever(self) -> None:
        """Answer until another thread calls ``close``, or until Ctrl-C."""
        self._ended.clear()
        try:
            self._server.run()
        finally:
            self._ended.set()

    def close(self) -> None:
        """End."""
        close = partial(wasyncore.close_all, self._sockets)
        if not self._ended.is_set():
            self._server.trigger.pull_trigger(close)
            self._ended.wait()
        self._server.task_dispatcher.shutdown()
        close()

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Error:
    """An error as waitress sends it."""

    def __init__(self, status: int) -> None:
        self.code = status

    def to_response(self, ident: str) -> tuple[str, list[tuple[str, str]], bytes]:
        """Return status, headers and body."""
        reply = refusal(self.code, _SAID[self.code])
        return reply.line, reply.headers, reply.body


_SAID = {
    400: "This is no HTTP request.",
    408: "The request took too long to arrive.",
    411: NO_LENGTH,
    413: f"The request is too large: {MOST_BYTES:,} bytes are the most. Use `mercer predict`, "
    "which reads files of any size.",
    431: "The address or the headers are too long.",
    501: NO_LENGTH,  # it is sent in another way
}


class _Request(HTTPRequestParser):
    """What has come of a request, refused as soon as it can be."""

    path = ""

    def __init__(self, adj: Any) -> None:
        super().__init__(adj)
        self.begun = time.monotonic()

    def received(self, data: bytes) -> int:
        """Take what comes."""
        used: int = super().received(data)
        if self.error is not None or self.chunked:
            self.refuse(self.error.code if self.error is not None else 411)
        if self.completed:  # there is nothing to ask for
            self.expect_continue = False
        return used

    def refuse(self, status: int) -> None:
        """Refuse further data."""
        self.error, self.completed = _Error(status), True


class _Channel(HTTPChannel):
    """A connection, with an end to patience."""

    parser_class = _Request
    request: _Request | None  # what has come of one
    requests: list[_Request]  # to be answered
    _until: float | None = None  # when it closes, if it was refused while more may be coming

    def readable(self) -> Any:
        """Return whether to read, after checking the time limit."""
        now = time.monotonic()
        if self._until is not None:
            self.will_close = now > self._until
            return True
        with self.requests_lock:
            request = self.request
            if request and not self.requests and now - request.begun > BODY_SECONDS:
                request.refuse(408)
                self.requests, self.request = [request], None
                self.server.add_task(self)
        return super().readable()

    def received(self, data: bytes) -> Any:
        """Read on, unless the reply was the last word."""
        return self._until is None and super().received(data)

    def handle_close(self) -> None:
        """Take what is still being sent, or the client would see an error in place of the reply."""
        if self.connected and self._until is None:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
                self._until = time.monotonic() + _LINGER_SECONDS
                return
        super().handle_close()
