"""Somebody who sends bytes to whoever reads an address."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def sent(content: bytes | Callable[[socket.socket], object], path: Path) -> Iterator[str]:
    """An address, a socket at a path, from which bytes come once, or what a function sends."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen(1)
        listening.settimeout(30.0)  # where nobody comes, and nobody says that it is over

        def send() -> None:
            with contextlib.suppress(OSError):
                connection, _ = listening.accept()
                with connection:
                    content(connection) if callable(content) else connection.sendall(content)

        thread = threading.Thread(target=send)
        thread.start()
        try:
            yield f"unix:{path}"
        finally:
            with contextlib.suppress(OSError):  # nobody may have come
                listening.shutdown(socket.SHUT_RDWR)
            thread.join()
