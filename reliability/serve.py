"""Requests as strangers may send them to `mercer serve`: forged, broken, slow, and many at once.

*Requests.* They begin as good ones for each address. One to three things are then altered: method,
target, version, host, origin, type, length, other headers, values and names of JSON, bits and
bytes, how much is sent before the client leaves. Files for `/batch` are those of `tables.py`. Then
there are many connections at once, and slow ones that send a byte now and then.

*The promise.* Each request gets one whole answer with the status that HTTP has for it, and a clear
message if it is refused, never a fault (500) or a file of the machine. The server then answers good
requests as the model itself does, bit for bit; its memory, threads and open files do not grow.

To run it (Linux):

    python reliability/serve.py                      # long: 100,000 requests
    python reliability/serve.py --short              # a minute
    python reliability/serve.py --case 1234          # one request, with its answer
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import _rig  # one thread, before numpy reads the variables
import numpy as np
import tables
from tables import Random, _one

from mercer import load_model
from mercer_app.serve import Answers, ModelServer, _server

LONGEST_S = 15.0
ROUNDS = 12
#: Bytes, threads and files that half of the rounds may add: each of eight threads keeps what its
#: largest request took, and a connection may not be closed yet.
GROWTH = (64 * 2**20, 0, 5)
EVERY = 50  # cases after which a good request is sent
IDLE_SECONDS, WHOLE_SECONDS = 2, 4.0  # for clients that are slow, instead of 20 and 120
ROW = {name: tables.BASE[name][0] for name in ("x", "z", "count", "town", "note", "lift")}
ROW["when"] = "2024-03-01"
GOOD = {"rows": [ROW, {**ROW, "town": None, "x": -1.0}], "interval": 0.9}


@dataclass
class Request:
    """A request, and the statuses that are right for it."""

    method: str = "GET"
    target: str = "/health"
    version: str = "HTTP/1.1"
    headers: list[tuple[str, str]] = field(default_factory=lambda: [("Host", "localhost")])
    body: bytes = b""
    right: set[int] = field(default_factory=lambda: {200})
    may_be_silent: bool = False  # the client leaves before the end
    sent: float = 1.0  # share of its bytes that are sent
    raw: bytes | None = None  # instead of all that

    def content(self) -> bytes:
        """Return its bytes."""
        if self.raw is not None:
            return self.raw
        head = [f"{self.method} {self.target} {self.version}"]
        head += [f"{name}: {value}" for name, value in self.headers]
        return "\r\n".join(head).encode("utf-8", "surrogateescape") + b"\r\n\r\n" + self.body

    def put(self, name: str, value: str | None) -> None:
        """Set a header; None removes it."""
        self.headers = [pair for pair in self.headers if pair[0].lower() != name.lower()]
        if value is not None:
            self.headers.append((name, value))


# -- requests -------------------------------------------------------------------------------------


def good(rng: Random) -> Request:
    """A request that is right."""
    match int(rng.integers(8)):
        case 0:
            return Request(target="/health")
        case 1:
            return Request(target="/model")
        case 2:
            return Request(
                target=str(_one(rng, ("/", "/?x=1.5&town=Bern", "/?note=a+b&lift=true")))
            )
        case 3:
            return _posted("/batch", tables.text().content(rng), "text/csv")
        case 4:
            return Request("HEAD", str(_one(rng, ("/health", "/model", "/"))))
        case _:
            return _posted("/predict", json.dumps(GOOD).encode(), "application/json")


def _posted(target: str, body: bytes, kind: str) -> Request:
    request = Request("POST", target, body=body)
    request.headers += [("Content-Type", kind), ("Content-Length", str(len(body)))]
    return request


def method(rng: Random, request: Request) -> None:
    request.method = str(
        _one(rng, ("PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "OPTIONS", "PROPFIND", "get",
                   "G" * 300,
                   "GET\x00", "G\u00e9T"))
    )  # fmt: skip
    request.right = {400, 405}


def target(rng: Random, request: Request) -> None:
    request.target = str(
        _one(rng, ("/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd",
                   "/model/",
                   "/..%5c..%5cx", "/model%00", "/.git/config", "*", "http://evil.com/model",
                   "/Predict",
                   "/%", "/%zz", "/\u00e9", "/report/../model", "/predict;x=1", "/batch/",
                   "model", "?",
                   "/" + "a" * 5_000, "/" + "../" * 2_000, "/\x7f", "file:///etc/passwd",
                   "/%F0%9F%98%80"))
    )  # fmt: skip
    request.right = {400, 404}


def too_long(rng: Random, request: Request) -> None:
    if rng.random() < 0.5:
        request.target += "?x=" + "1" * 70_000
    else:
        request.headers.append(("X-Long", "a" * 70_000))
    request.right = {431}


def query(rng: Random, request: Request) -> None:
    odd = str(_one(rng, ("x=%ff", "x=1&x=2", "&" * 20_000, "x=nan", "x=1e999", "none=1", "=",
                         "%00=%00",
                         "x=" + "9" * 30_000 + "y", "interval=2", "interval=nan",
                         "interval=.9&interval=.8",
                         "keep=none", "keep=x", "interval=", "town=%3Cscript%3E",
                         "x=%ED%A0%80")))  # fmt: skip
    request.target = f"{request.target.partition('?')[0]}?{odd}"
    request.right = {200, 400}


def version(rng: Random, request: Request) -> None:
    request.version = str(
        _one(rng, ("HTTP/1.0", "HTTP/2.0", "HTTP/9.9", "HTTP/1.1.1", "", "HTCPCP/1.0"))
    )
    request.right = {200, 400, 505} if request.version == "HTTP/1.0" else {200, 400, 411, 505}


def host(rng: Random, request: Request) -> None:
    hosts = ("evil.com", "localhost.evil.com", "127.0.0.1.nip.io", "", "a@localhost",
             "localhost:99999999",
             "[::1]", "0.0.0.0", "127.1", "localhost,evil.com", "localhost\t", "2130706433",
             None)  # fmt: skip
    value = _one(rng, hosts)
    request.put("Host", value)
    request.right = {200, 400} if value == "localhost\t" else {400}
    if rng.random() < 0.1:
        request.headers += [("Host", "evil.com"), ("Host", "localhost")]
        request.right = {400}


def origin(rng: Random, request: Request) -> None:
    request.put("Origin", str(_one(rng, ("http://evil.com", "null", "https://localhost",
                                         "http://localhost:1",
                                         "http://localhost.evil.com", "", "file://"))))  # fmt: skip
    request.right = {403}


def kind(rng: Random, request: Request) -> None:
    if request.method == "POST":
        value = _one(rng, ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data",
                           "text/html", "application/jsonp", "", None, "a" * 500))  # fmt: skip
        request.put("Content-Type", value)
        request.right = {415}
    else:
        request.put("Accept", "application/x-nothing")


def length(rng: Random, request: Request) -> None:
    value = str(_one(rng, ("-1", "1e3", "0x10", "+5", " ", "a", "1,2", "\u0665", "9" * 400,
                           "18446744073709551616",
                           "99999999999", "67108866", "0", "1", "3")))  # fmt: skip
    request.put("Content-Length", value)
    number = int(value) if value.isascii() and value.isdigit() else None
    if number is None:
        request.right = {400}
    elif number > _server.MOST_BYTES:
        request.right = {413}
    else:  # what follows is taken for another request
        request.right = {200, 400}
    if rng.random() < 0.1:
        request.headers.append(("Content-Length", "7"))
        request.right |= {400}


def waits(rng: Random, request: Request) -> None:
    """Say that more comes than does."""
    request.put("Content-Length", str(len(request.body) + int(_one(rng, (1, 1_000)))))
    request.right, request.may_be_silent = {408}, True


def chunked(rng: Random, request: Request) -> None:
    request.put(
        "Transfer-Encoding",
        str(_one(rng, ("chunked", "gzip", "chunked, chunked", "identity", "x" * 99))),
    )
    size = str(_one(rng, ("5", "0", "-5", "zz", "fffffffff", "5;a=b")))
    request.body = f"{size}\r\nhello\r\n0\r\n\r\n".encode()
    request.put("Content-Length", str(len(request.body)))
    request.right = {400, 411, 501}


def other_header(rng: Random, request: Request) -> None:
    odd = _one(rng, (("Expect", "100-continue"), ("Expect", "x"), ("Connection", "close"),
                     ("Upgrade", "h2c"),
                     ("Connection", "upgrade, x"), ("Range", "bytes=0-1"), ("If-None-Match",
                     "*"), ("Cookie", "a"),
                     ("Forwarded", "for=1.2.3.4"), ("X-Forwarded-Host", "evil.com"),
                     ("Authorization", "Basic x"),
                     ("X-HTTP-Method-Override", "DELETE"), ("Accept-Encoding",
                     "gzip")))  # fmt: skip
    request.headers.append(odd)


def bad_header(rng: Random, request: Request) -> None:
    odd = _one(rng, (("X y", "a"), ("", "a"), (" X", "folded"), ("X\x00", "a"), ("X", "a\x00b"),
                     ("X", "a\rb"),
                     ("X", "a\nb"), ("Content_Length", "5"), ("X\u00e9", "b"), ("X",
                     "\udcff")))  # fmt: skip
    request.headers.insert(int(rng.integers(len(request.headers) + 1)), odd)
    request.right = {200, 400, 415}  # some go on with the header before


def many_headers(rng: Random, request: Request) -> None:
    request.headers += [(f"X-{i}", "a") for i in range(int(_one(rng, (100, 2_000))))]
    request.right = {200, 400, 431}


def encoding(rng: Random, request: Request) -> None:
    if request.method == "POST":
        request.put("Content-Encoding", str(_one(rng, ("gzip", "deflate", "x", ""))))
        request.right = {415}


def odd_json(rng: Random, request: Request) -> None:
    """Values and names of JSON."""
    value = str(_one(rng, tables.JSON))
    name = str(_one(rng, (*ROW, *tables.NAMES)))
    row = {**{key: json.dumps(cell) for key, cell in ROW.items()}, name: value}
    if rng.random() < 0.2:
        row.pop(str(_one(rng, list(ROW))), None)
    body = "{" + ", ".join(f"{json.dumps(key)}: {cell}" for key, cell in row.items()) + "}"
    match int(rng.integers(8)):
        case 0:
            body = f'{{"rows": {value}}}'
        case 1:
            body = f'{{"rows": [{body}], "interval": {value}}}'
        case 2:
            body = f'{{"rows": [{body}], "explain": {_one(rng, ("true", "1", "null", value))}}}'
        case 3:
            body = value
        case 4:
            body = f"[{', '.join([body] * int(_one(rng, (1, 300))))}]"
        case 5:
            body = f'{{"rows": [{body}, {json.dumps(ROW)}]}}'
        case 6:
            body = f'{body[:-1]}, "x": 1}}'
        case _:
            pass
    start = bytes(_one(rng, (b"", b"", b"", b"\xef\xbb\xbf", b"\xff\xfe", b"\x00")))
    _become(request, _posted("/predict", start + body.encode(), "application/json"))
    request.right = {200, 400, 413}


def bits(rng: Random, request: Request) -> None:
    body = json.dumps(GOOD).encode()
    _become(request, _posted("/predict", tables.bytes_altered(rng, body), "application/json"))
    request.right = {200, 400}


def odd_file(rng: Random, request: Request) -> None:
    maker = _one(rng, (tables.csv_file, tables.parquet_file, tables.arrow_file))
    _, content = maker(rng)
    _become(request, _posted("/batch", content, "application/octet-stream"))
    request.right = {200, 400, 413}


def no_http(rng: Random, request: Request) -> None:
    request.raw = bytes(
        _one(rng, (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(50), b"\r\n" * 500,
                   b"\x00" * 99,
                   b"GET\r\n\r\n", b"GET / HTTP/1.1\n\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                   b" \r\n\r\n",
                   b"GET /health\r\n\r\n", b"GET  /health  HTTP/1.1\r\nHost: localhost\r\n\r\n",
                   b"SSH-2.0-x\r\n",
                   rng.bytes(300) + b"\r\n\r\n", tables.bytes_altered(rng,
                   request.content()) + b"\r\n\r\n"))
    )  # fmt: skip
    request.method = "HEAD" if request.raw.startswith(b"HEAD") else "GET"
    request.right, request.may_be_silent = (
        {200, 400, 403, 404, 405, 411, 413, 415, 431, 501},
        True,
    )


def leaves(rng: Random, request: Request) -> None:
    request.sent, request.may_be_silent = float(rng.random()), True
    request.right = request.right | {400}


def _become(request: Request, other: Request) -> None:
    request.__dict__.update(other.__dict__)


ALTERATIONS: tuple[Callable[[Random, Request], None], ...] = (
    *(method, target, too_long, query, version, host, origin, kind, length, chunked, other_header),
    *(
        bad_header,
        many_headers,
        encoding,
        odd_json,
        odd_json,
        odd_json,
        odd_json,
        bits,
        odd_file,
        odd_file,
    ),
    *(no_http, leaves),
)


def request_of(number: int) -> tuple[str, Request]:
    """What is altered in a case, and the request."""
    rng = np.random.default_rng([58, number])
    request = good(rng)
    if rng.random() < 0.002:
        waits(rng, request)  # takes seconds
        return "waits", request
    names = []
    for place in range(int(rng.choice([1, 1, 1, 2, 3]))):
        alteration = _one(rng, ALTERATIONS)
        before = request.right
        alteration(rng, request)
        if place:  # either may be what is refused
            request.right = (request.right | before | {400, 403, 404, 405, 411, 413, 415, 431}) - {
                505
            }
            request.may_be_silent = request.may_be_silent or alteration is length
        names.append(alteration.__name__)
    request.may_be_silent = request.may_be_silent or "length" in names
    if request.version != "HTTP/1.0" and "version" in names:
        request.right |= {400, 404, 505}
    return ", ".join(names), request


# -- answers --------------------------------------------------------------------------------------


@dataclass
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes


def read_answer(file: Any, bodiless: bool) -> Answer | None:
    """Read one answer, whole; None if there is none."""
    while True:
        line = file.readline(2**16)
        if not line:
            return None
        words = line.decode("latin-1").split(" ", 2)
        if len(words) != 3 or words[0] not in ("HTTP/1.0", "HTTP/1.1") or not words[1].isdigit():
            raise RuntimeError(f"no line of a status: {line[:80]!r}")
        headers: dict[str, str] = {}
        while (line := file.readline(2**16)) not in (b"\r\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        if line != b"\r\n":
            raise RuntimeError("the headers have no end")
        status = int(words[1])
        if status != 100:
            break
    if "content-length" not in headers:
        raise RuntimeError(f"{status} has no length")
    size = int(headers["content-length"])
    body = b"" if bodiless else file.read(size)
    if not bodiless and len(body) != size:
        raise RuntimeError(f"{status} breaks off after {len(body)} of {size} bytes")
    return Answer(status, headers, body)


def asked(port: int, request: Request) -> Answer | None:
    """Send a request and return the answer, if there is one."""
    content = request.content()
    content = content[: int(request.sent * len(content))]
    with socket.create_connection(("127.0.0.1", port), timeout=LONGEST_S) as client:
        with contextlib.suppress(ConnectionError):  # it may be refused before all is sent
            client.sendall(content)
        if request.may_be_silent and 408 not in request.right:
            client.shutdown(socket.SHUT_WR)
        with client.makefile("rb") as file:
            try:
                answer = read_answer(file, request.method == "HEAD")
                if request.method == "HEAD" and request.right == {200} and file.read(1):
                    raise RuntimeError("something comes after the answer to HEAD")
                return answer
            except ConnectionError:
                if request.may_be_silent:
                    return None
                raise


def check(request: Request, answer: Answer | None) -> str:
    """How a request ended; RuntimeError if the answer is not as promised."""
    if answer is None:
        if request.may_be_silent:
            return "no answer"
        raise RuntimeError("no answer")
    status, said = answer.status, answer.body[:300]
    if status not in request.right:
        raise RuntimeError(f"{status}, not one of {sorted(request.right)}: {said!r}")
    if answer.headers.get("x-content-type-options") != "nosniff":
        raise RuntimeError(f"{status} without the headers of all answers")
    if b"Traceback" in answer.body or b"root:" in answer.body:
        raise RuntimeError(f"{status} shows what is inside: {said!r}")
    kind = answer.headers.get("content-type", "")
    if request.method == "HEAD":
        return str(status)
    if status != 200 and not kind.startswith("text/html"):
        words = json.loads(answer.body)
        if set(words) != {"error"} or not 15 <= len(words["error"]) < 3_000:
            raise RuntimeError(f"{status} without a clear message: {said!r}")
    if status == 200 and kind == "application/json":
        found = json.loads(answer.body, parse_constant=_refuse)
        if request.target == "/predict" and not found["predictions"]:
            raise RuntimeError("there are no predictions")
    if status == 200 and kind.startswith("text/csv"):
        rows = answer.body.decode().splitlines()
        if len(rows) - 1 != int(answer.headers["mercer-rows"]):
            raise RuntimeError(f"{len(rows) - 1} lines for {answer.headers['mercer-rows']} rows")
        if any(cell in ("nan", "inf", "-inf") for row in rows[1:] for cell in row.split(",")):
            raise RuntimeError("a prediction is not finite")
    return str(status)


def _refuse(name: str) -> Any:
    raise RuntimeError(f"an answer has {name}")


# -- the server -----------------------------------------------------------------------------------


class Served:
    """A server in a process of its own."""

    def __init__(self) -> None:
        model = load_model(tables.model("kind"))
        told = Answers(model).rows(GOOD["rows"], GOOD["interval"], explain=False)
        self.right = json.loads(json.dumps(told.predictions))
        reader, writer = os.pipe()
        self.process = os.fork()
        if self.process == 0:
            os.close(reader)
            try:
                self._serve(model, writer)
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader) as said:
            self.port = int(said.readline())

    def _serve(self, model: Any, writer: int) -> None:
        _server._SETTINGS["channel_timeout"] = IDLE_SECONDS
        _server.BODY_SECONDS = WHOLE_SECONDS
        warnings.simplefilter("ignore")
        with ModelServer(Answers(model), title="a", port=0) as server:
            os.write(writer, f"{server.server_address[1]}\n".encode())
            os.close(writer)
            server.serve_forever()

    def holds(self) -> tuple[int, int, int]:
        """Return bytes of memory, threads and open files of its process."""
        folder = Path(f"/proc/{self.process}")
        pages = int((folder / "statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), *(
            len(list((folder / name).iterdir())) for name in ("task", "fd")
        )

    def check_alive(self) -> None:
        """Raise RuntimeError unless it answers a good request as the model does."""
        answer = asked(
            self.port, _posted("/predict", json.dumps(GOOD).encode(), "application/json")
        )
        if answer is None or answer.status != 200:
            raise RuntimeError(f"a good request then gets {answer}")
        if json.loads(answer.body)["predictions"] != self.right:
            raise RuntimeError(f"a good request then gets other answers: {answer.body!r}")

    def close(self) -> None:
        """End it."""
        os.kill(self.process, signal.SIGTERM)
        os.waitpid(self.process, 0)


def at_once(served: Served, n: int) -> str:
    """Many good requests at the same time, more than there may be connections."""
    broken: list[str] = []

    def ask() -> None:
        try:
            served.check_alive()
        except Exception as error:
            broken.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=ask) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if broken:
        raise RuntimeError(f"{len(broken)} of {n} at once: {broken[0]}")
    return "at once"


def slowly(served: Served, n: int, longest_s: float = 2.0) -> str:
    """Connections that send a byte now and then, or none: others are answered, and they end."""
    content = _posted("/predict", json.dumps(GOOD).encode(), "application/json").content()
    clients = [socket.create_connection(("127.0.0.1", served.port)) for _ in range(n)]
    began, longest = time.monotonic(), 0.0
    living = dict(enumerate(clients))
    place = 0
    while living and time.monotonic() - began < 4 * WHOLE_SECONDS:
        for number, client in list(living.items()):
            try:
                if number % 3:
                    client.send(content[place : place + 1])
                client.settimeout(0.0)
                if client.recv(2**16) == b"":
                    del living[number]
            except BlockingIOError:
                pass
            except OSError:
                del living[number]
        place += 1
        start = time.monotonic()
        served.check_alive()
        longest = max(longest, time.monotonic() - start)
        time.sleep(0.2)
    for client in clients:
        client.close()
    if living:
        raise RuntimeError(f"{len(living)} of {n} slow connections are still open")
    if longest > longest_s:
        raise RuntimeError(f"beside slow connections an answer took {longest:.1f} s")
    return "slow"


def flat(served: Served, run: Callable[[int], str], first: int) -> str:
    """The same requests again and again: the server holds no more than before."""
    held = []
    for _ in range(ROUNDS):
        for number in range(first, first + 150):
            with contextlib.suppress(RuntimeError, OSError):  # which was said before
                run(number)
        held.append(served.holds())
    before, after = held[ROUNDS // 2], held[-1]
    print("bytes, threads and open files after each round:", *held)
    if any(now - then > most for now, then, most in zip(after, before, GROWTH, strict=True)):
        raise RuntimeError(f"the server held {before}, then {after}")
    return "flat"


def main(arguments: list[str]) -> int:
    """Run the cases and say what broke."""
    parser = _rig.parser(__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--requests", type=int)
    parser.add_argument("--case", type=int)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    report, served = _rig.Report("serve", options), Served()
    try:
        return _tried(served, options, report)
    finally:
        served.close()


def _tried(served: Served, options: Any, report: _rig.Report) -> int:
    if options.case is not None:
        altered, request = request_of(options.case)
        answer = asked(served.port, request)
        print(altered, request.content()[:400], answer, sep="\n")
        print(check(request, answer))
        served.check_alive()
        return 0
    n = options.requests if options.requests is not None else 500 if options.short else 100_000
    tally = _rig.Tally()

    def run(number: int) -> str:
        _, request = request_of(number)
        began = time.monotonic()
        found = check(request, asked(served.port, request))
        if time.monotonic() - began > LONGEST_S:
            raise RuntimeError(f"took {time.monotonic() - began:.1f} s")
        if number % EVERY == 0:
            served.check_alive()
        return found

    for place in range(n):
        number = options.first + place
        tally.add(number, *_rig.one(run, number))
    for turn in range(1 + n // 10_000):
        tally.add(-1 - turn, *_rig.one(lambda _: at_once(served, 150), 0))
        tally.add(
            -1 - turn, *_rig.one(lambda _: slowly(served, 60, 10.0 if options.short else 2.0), 0)
        )
    served.check_alive()
    if not options.short:  # what the server keeps for its threads levels off after some thousands
        try:
            tally.add(-1, flat(served, run, options.first))
        except RuntimeError as error:
            tally.add(-1, "grown", str(error))
    report.add_tally("requests", tally)
    return report.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
