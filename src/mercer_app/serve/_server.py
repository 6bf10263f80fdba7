"""The server: waitress, on this machine and for this machine.

Requests stay in memory; clients that are slow or send too much are disconnected.
"""

from __future__ import annotations

import logging
import socket
import time
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any

from waitress import wasyncore
from waitress.channel import HTTPChannel
from waitress.parser import HTTPRequestParser
from waitress.server import create_server

from mercer_app.serve._answers import Answers
from mercer_app.serve._routes import MOST_BYTES, NO_LENGTH, Routes, refusal

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
    port : int, default=8000
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
        self, answers: Answers, *, title: str, port: int = 8000, report: bytes | None = None
    ) -> None:
        self.routes = Routes(answers, title=title, report=report)
        listening = socket.create_server((HOST, port), backlog=64)
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
        return used

    def refuse(self, status: int) -> None:
        """Refuse further data."""
        self.error, self.completed, self.expect_continue = _Error(status), True, False


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
        if self.will_close and self.connected and self._until is None:
            with suppress(OSError):
                self.socket.shutdown(socket.SHUT_WR)
                self._until, self.will_close = time.monotonic() + _LINGER_SECONDS, False
                return
        super().handle_close()
