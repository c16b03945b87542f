"""Runs a server of a test in a thread."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from typing import TypeVar

Server = TypeVar("Server", bound=http.server.HTTPServer)


@contextlib.contextmanager
def serving(server: Server) -> Iterator[Server]:
  """Lets a server answer while the block runs, and closes it then."""
  with server:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
