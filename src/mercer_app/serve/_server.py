"""The server: HTTP on this machine, for this machine.

Whoever asks can reach the model and nothing else. No path is one of a file: all addresses are in a
table. What is sent stays in memory. A page of another site cannot ask through the browser of
somebody who is on this machine: `Host` and `Origin` must be those of this machine, and what is
posted must be of types that forms cannot send.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Timer
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from mercer_app.cli._messages import in_words_of_the_command
from mercer_app.serve._answers import Answers, TooLarge
from mercer_app.serve._page import POLICY, Shown, page

HOST = "127.0.0.1"
MOST_BYTES = 64 * 2**20  # of a request
IDLE_SECONDS = 20.0  # without a byte
BODY_SECONDS = 120.0  # for all of a body
_LINGER_SECONDS = 2.0
_PIECE = 2**16
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
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
    "Connection": "close",
}


class _Refusal(Exception):  # noqa: N818  # an answer, too
    """A request that is refused, and how."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.headers = status, headers or {}


class _Reply(NamedTuple):
    body: bytes
    kind: str
    status: int = 200
    headers: Mapping[str, str] = {}


def _json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> _Reply:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return _Reply(text.encode(), "application/json", status, headers or {})


class ModelServer(ThreadingHTTPServer):
    """Serves a model on 127.0.0.1; ``serve_forever`` begins, ``shutdown`` of another thread ends.

    Parameters
    ----------
    answers : Answers
        The model.
    title : str
        Of the page.
    port : int, default=8000
        To listen at; 0 for any that is free.
    report : bytes or None, default=None
        HTML to show at ``/report``.

    Attributes
    ----------
    address : str
        Of the page.

    Raises
    ------
    OSError
        If the port is taken.

    Examples
    --------
    >>> import threading
    >>> from urllib.request import urlopen
    >>> from mercer import KernelClassifier
    >>> from mercer.columns import TablePreprocessor
    >>> from mercer.estimators import TableModel
    >>> table = {"town": ["Bern", "Bonn"] * 100, "height": [540.0, 60.0] * 100}
    >>> columns = TablePreprocessor(exclude=("town",))
    >>> model = TableModel(KernelClassifier(random_state=0), columns, "town").partial_fit(table)
    >>> with ModelServer(Answers(model), title="towns", port=0) as server:
    ...     threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    ...     with urlopen(f"{server.address}health") as answer:
    ...         print(answer.read().decode())
    ...     server.shutdown()
    {"status": "ok"}
    """

    daemon_threads = True
    allow_reuse_address = os.name == "posix"  # elsewhere two servers could share a port
    request_queue_size = 64

    def __init__(
        self, answers: Answers, *, title: str, port: int = 8000, report: bytes | None = None
    ) -> None:
        self.answers, self.title, self.report = answers, title, report
        super().__init__((HOST, port), _Handler)

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{HOST}:{self.server_address[1]}/"

    def server_bind(self) -> None:
        """Listen, without asking the network for the name of this machine."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, self.allow_reuse_address)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that go away."""
        if os.environ.get("MERCER_DEBUG") and not isinstance(sys.exception(), OSError):
            traceback.print_exc()


class _Handler(BaseHTTPRequestHandler):
    """Answers one request."""

    server: ModelServer
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    _unread = False  # whether a body was sent that nobody has read
    _awaited = False  # whether the client waits to be told to send its body

    # -- requests -----------------------------------------------------------------------------

    def setup(self) -> None:
        """Begin, with a time by which the head of the request must be there."""
        super().setup()
        self._head = Timer(BODY_SECONDS, self._give_up)
        self._head.daemon = True
        self._head.start()

    def parse_request(self) -> bool:
        """Read the head."""
        found = super().parse_request()
        self._head.cancel()
        return found

    def finish(self) -> None:
        """End."""
        self._head.cancel()
        super().finish()

    def _give_up(self) -> None:
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:  # the name that http.server has
        """Answer."""
        self._unread = self.headers.get("Content-Length", "0") != "0"
        self._unread |= "Transfer-Encoding" in self.headers
        self._reply(self._answered())
        self.close_connection = True

    do_HEAD = do_POST = do_GET  # noqa: N815

    def handle_expect_100(self) -> bool:
        """Ask for the body once it is known to be wanted."""
        self._awaited = True
        return True

    def _answered(self) -> _Reply:
        """Find the answer, whatever happens."""
        try:
            return self._found()
        except _Refusal as refusal:
            return _json({"error": str(refusal)}, refusal.status, refusal.headers)
        except TooLarge as error:
            return _json({"error": str(error)}, 413)
        except UnicodeEncodeError:
            said = "The request holds text that is no Unicode: half of a pair of surrogates."
            return _json({"error": said}, 400)
        except ValueError as error:
            return _json({"error": _words(error)}, 400)
        except (ConnectionError, TimeoutError):
            return _json({"error": "The request took too long to arrive."}, 408)
        except Exception as error:
            if os.environ.get("MERCER_DEBUG"):
                traceback.print_exc()
            kind = type(error).__name__
            said = f"Unexpected {kind}. This is a fault of mercer, not of the request."
            return _json({"error": said}, 500)

    def _found(self) -> _Reply:
        """Check where a request comes from and goes to, and answer it."""
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or not _OURS.fullmatch(hosts[0].strip()):
            raise _Refusal(
                400,
                "The header Host must be localhost or 127.0.0.1, with the port: other names are "
                "not those of this server.",
            )
        path, _, query = self.path.partition("?")
        ways: dict[str, tuple[str, Callable[[str], _Reply]]] = {
            "/": ("GET", self._page),
            "/model": ("GET", lambda _: _json(self.server.answers.described())),
            "/health": ("GET", lambda _: _json({"status": "ok"})),
            "/report": ("GET", self._report),
            "/predict": ("POST", self._predict),
            "/batch": ("POST", self._batch),
        }
        if path not in ways:
            raise _Refusal(404, f"There is no such address. There are {', '.join(ways)}.")
        method, answer = ways[path]
        if self.command != method and (self.command, method) != ("HEAD", "GET"):
            raise _Refusal(405, f"{path} takes {method} only.", {"Allow": method})
        if method == "POST":
            origin = self.headers.get("Origin")
            if origin is not None and origin.lower() != f"http://{hosts[0].strip().lower()}":
                raise _Refusal(403, "The page that asks is none of this server's.")
        return answer(query)

    def _page(self, query: str) -> _Reply:
        """Return the page, with a prediction if the address has a row."""
        server, status = self.server, 200
        cells, shown = _cells(query), Shown()
        if cells:
            try:
                row, notes = server.answers.cells(cells)
                explain = not server.answers.no_explanation
                told = server.answers.rows([row], server.answers.coverage, explain=explain)
                shown = Shown(cells, told, notes)
            except ValueError as error:
                shown, status = Shown(cells, error=_words(error)), 400
        html = page(
            server.title,
            server.answers,
            shown,
            report=server.report is not None,
            most_bytes=MOST_BYTES,
        )
        headers = {"Content-Security-Policy": POLICY}
        return _Reply(html.encode(), "text/html; charset=utf-8", status, headers)

    def _report(self, query: str) -> _Reply:
        if self.server.report is None:
            raise _Refusal(404, "There is no report: `mercer serve --report FILE` shows one.")
        headers = {"Content-Security-Policy": _REPORT_POLICY}
        return _Reply(self.server.report, "text/html; charset=utf-8", 200, headers)

    def _predict(self, query: str) -> _Reply:
        asked = self._asked(_read_json(self._body(_JSON)))
        explain = asked.get("explain", False)
        if not isinstance(explain, bool):
            raise ValueError(f"`explain` must be true or false, got {explain!r}.")
        told = self.server.answers.rows(asked["rows"], asked.get("interval"), explain=explain)
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
        if "rows" not in asked or (
            "rows" in self.server.answers.by_name and type(rows) is not list
        ):
            return {"rows": [asked]}
        if not isinstance(rows, list):
            raise ValueError('"rows" must be a list of objects of columns and values.')
        others = sorted(set(asked) - {"rows", "interval", "explain"})
        if others:
            raise ValueError(f"Besides rows there can be interval and explain, got {others[0]!r}.")
        return asked

    def _batch(self, query: str) -> _Reply:
        coverage, keep = None, []
        for name, value in _pairs(query):
            if name == "interval" and coverage is None:
                coverage = _number(value)
            elif name == "interval":
                raise ValueError("/batch takes one `interval`, got several.")
            elif name == "keep":
                keep.append(value)
            else:
                raise ValueError(f"/batch takes `interval` and `keep`, got {name!r}.")
        batch = self.server.answers.batch(self._body(_FILES), coverage, keep)
        notes = list(batch.notes)
        while len(json.dumps(notes)) > _MOST_NOTES:
            notes.pop()
        headers = {
            "Content-Disposition": 'attachment; filename="predictions.csv"',
            "Mercer-Rows": str(batch.n_rows),
            "Mercer-Notes": json.dumps(notes),
        }
        return _Reply(bytes(batch.csv), "text/csv; charset=utf-8", 200, headers)

    # -- bodies ---------------------------------------------------------------------------------

    def _body(self, kinds: tuple[str, ...]) -> bytes:
        """Read what is sent, if it is of a type and size that are taken."""
        kind = self.headers.get_content_type() if "Content-Type" in self.headers else "none"
        if kind not in kinds:
            raise _Refusal(415, f"The Content-Type must be {' or '.join(kinds)}, got {kind}.")
        if self.headers.get("Content-Encoding", "identity") != "identity":
            raise _Refusal(415, "The Content-Encoding must be identity.")
        lengths = self.headers.get_all("Content-Length") or []
        if "Transfer-Encoding" in self.headers or len(lengths) != 1:
            raise _Refusal(411, "The header Content-Length must say how many bytes are sent.")
        if not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
            raise _Refusal(400, "The header Content-Length must be a number of bytes.")
        left = int(lengths[0])
        if left > MOST_BYTES:
            raise _Refusal(
                413,
                f"The request has {left:,} bytes, but {MOST_BYTES:,} are the most. Use `mercer "
                "predict`, which reads files of any size.",
            )
        if self._awaited:
            self.send_response_only(100)
            self.end_headers()
        pieces, until = [], time.monotonic() + BODY_SECONDS
        while left:
            if (seconds := until - time.monotonic()) <= 0.0:
                raise TimeoutError
            self.connection.settimeout(min(seconds, IDLE_SECONDS))
            piece = self.rfile.read1(min(left, _PIECE))
            if not piece:
                raise _Refusal(400, "The request ended before all of it was sent.")
            pieces.append(piece)
            left -= len(piece)
        self._unread = False
        return b"".join(pieces)

    # -- replies --------------------------------------------------------------------------------

    def _reply(self, reply: _Reply) -> None:
        self.connection.settimeout(IDLE_SECONDS)
        self.send_response(reply.status)
        for name, value in {**_ALWAYS, **reply.headers}.items():
            self.send_header(name, value)
        if "Content-Security-Policy" not in reply.headers:
            self.send_header("Content-Security-Policy", "default-src 'none'; sandbox")
        self.send_header("Content-Type", reply.kind)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        if self.command != "HEAD":
            body = memoryview(reply.body)
            for start in range(0, len(body), _PIECE):  # a piece may take as long as the first bytes
                self.wfile.write(body[start : start + _PIECE])
        if self._unread:
            self._linger()

    def _linger(self) -> None:
        """Take what is still being sent, or the client would see an error in place of the reply."""
        self.wfile.flush()
        until = time.monotonic() + _LINGER_SECONDS
        try:
            self.connection.shutdown(socket.SHUT_WR)
            self.connection.settimeout(_LINGER_SECONDS)
            while time.monotonic() < until and self.connection.recv(_PIECE):
                pass
        except OSError:
            pass

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse what is no request, or of a method that nothing takes."""
        self.close_connection = True
        if code == 501:
            said = "The methods are GET, HEAD and POST."
            reply = _json({"error": said}, 405, {"Allow": "GET, HEAD, POST"})
        else:
            said = "The address is too long." if code == 414 else "This is no HTTP request."
            reply = _json({"error": said}, code)
        self._reply(reply)

    def version_string(self) -> str:
        """Return the name of the server, without the versions of anything."""
        return "mercer"

    def log_message(self, format: str, *args: Any) -> None:
        """Keep no log: addresses hold what was typed."""


def _words(error: Exception) -> str:
    """Say an error as `mercer predict` does."""
    said = in_words_of_the_command(error).replace("`--interval`", "`interval`")
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
