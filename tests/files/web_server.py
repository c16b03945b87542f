"""A web server for tests, which can also do what a server should not."""

import dataclasses
import hashlib
import http.server
import io
import zipfile

from discipline_jax.files.downloads import Source


def sha256(content: bytes) -> str:
  return f"sha256:{hashlib.sha256(content).hexdigest()}"


def zipped(members: dict[str, bytes]) -> bytes:
  buffer = io.BytesIO()
  with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content in members.items():
      archive.writestr(name, content)
  return buffer.getvalue()


@dataclasses.dataclass
class Served:
  """The answer of the server at one path.

  Attributes:
    content: the whole file.
    ranges: whether the server can send a part of it.
    cut: number of bytes after which the connection is closed, although more were announced.
  """

  content: bytes
  ranges: bool = True
  cut: int | None = None


class Server(http.server.ThreadingHTTPServer):
  """Serves `files`, and keeps the path and the `Range` header of each request in `requests`."""

  def __init__(self):
    super().__init__(("127.0.0.1", 0), Handler)
    self.files: dict[str, Served] = {}
    self.requests: list[tuple[str, str | None]] = []

  def url(self, path: str) -> str:
    return f"http://127.0.0.1:{self.server_port}/{path}"

  def source(self, path: str, content: bytes, **how) -> Source:
    """Serves `content` at `path`, and returns its URL and checksum."""
    self.files[path] = Served(content, **how)
    return Source(self.url(path), sha256(content))


class Handler(http.server.BaseHTTPRequestHandler):
  def do_GET(self):
    wanted = self.headers.get("Range")
    self.server.requests.append((self.path[1:], wanted))
    served = self.server.files.get(self.path[1:])
    if served is None:
      return self.send_error(404)
    body, start = served.content, 0
    if wanted and served.ranges:
      start = int(wanted.removeprefix("bytes=").removesuffix("-"))
      if start >= len(body):
        return self.send_error(416)
      self.send_response(206)
      self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
    else:
      self.send_response(200)
    self.send_header("Content-Length", str(len(body) - start))
    self.end_headers()
    self.wfile.write(body[start : served.cut])

  def log_message(self, *_):
    pass
