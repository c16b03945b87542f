"""Stands for Google Cloud Storage on loopback, and can fail as storage does.

It speaks what the clients in use speak of the JSON API: google-cloud-storage, gcsfs and tensorstore find it by the
variables in `environment`.
"""

import base64
import dataclasses
import email.parser
import email.policy
import hashlib
import http.server
import json
import re
import threading
import time
import urllib.parse

import google_crc32c

Query = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Object:
  data: bytes
  generation: int


@dataclasses.dataclass
class Upload:
  """A resumable upload: the object that it makes, and what has come of it."""

  bucket: str
  name: str
  query: Query
  data: bytes = b""


class Storage(http.server.ThreadingHTTPServer):
  """Keeps objects in memory.

  Attributes:
    buckets: the objects of each bucket, by name.
    closed: buckets that may be read, but not written.
    fail_every: every so manieth request is answered with 503; every second one of these was carried out. 0: none.
    gone_until: until then connections are closed without an answer, as of `time.monotonic()`.
    requests: method and path of each request.
  """

  daemon_threads = True

  def __init__(self):
    super().__init__(("127.0.0.1", 0), Handler)
    self.lock = threading.RLock()
    self.generation = 0
    self.uploads: dict[str, Upload] = {}
    self.reset()

  def handle_error(self, *_):
    """Says nothing of a client that is gone."""

  def reset(self) -> None:
    """Empties it, and lets it work without faults; there is one bucket, `bucket`."""
    self.buckets: dict[str, dict[str, Object]] = {"bucket": {}}
    self.closed: set[str] = set()
    self.fail_every, self.gone_until = 0, 0.0
    self.requests: list[tuple[str, str]] = []

  @property
  def environment(self) -> dict[str, str]:
    address = f"http://127.0.0.1:{self.server_port}"
    return {
      "STORAGE_EMULATOR_HOST": address,
      "TENSORSTORE_GCS_HTTP_URL": address,
      "CLOUD_STORAGE_EMULATOR_ENDPOINT": address,
      "GOOGLE_CLOUD_PROJECT": "test",
      "FSSPEC_GCS": '{"token": "anon"}',
      "NO_GCE_CHECK": "true",
    }

  def next_generation(self) -> int:
    """Returns a number that was not there before: the time in microseconds, as that of the storage."""
    with self.lock:
      self.generation = max(self.generation + 1, time.time_ns() // 1000)
      return self.generation

  def put(self, bucket: str, name: str, data: bytes) -> Object:
    with self.lock:
      self.buckets[bucket][name] = Object(data, self.next_generation())
      return self.buckets[bucket][name]

  def names(self, prefix: str = "") -> list[str]:
    """Returns the names of the objects in `bucket`."""
    return sorted(name for name in self.buckets["bucket"] if name.startswith(prefix))


class Problem(Exception):
  """An answer that is an error."""

  def __init__(self, code: int, message: str = ""):
    super().__init__(message)
    self.code = code


class Handler(http.server.BaseHTTPRequestHandler):
  protocol_version = "HTTP/1.1"
  wbufsize = -1  # headers and content leave together, or the kernel waits between them
  disable_nagle_algorithm = True
  server: Storage

  def log_message(self, *_):
    pass

  def parse_request(self) -> bool:
    if time.monotonic() < self.server.gone_until:
      self.close_connection = True
      return False
    return super().parse_request()

  def do_GET(self):
    body = self._body()
    with self.server.lock:
      self.server.requests.append((self.command, self.path))
      number = len(self.server.requests)
      fails = self.server.fail_every and number % self.server.fail_every == 0
      if fails and number // self.server.fail_every % 2:
        return self._send(503, b"busy")
      try:
        code, headers, content = self._answer(body)
      except Problem as problem:
        error = {"error": {"code": problem.code, "message": str(problem)}}
        code, headers, content = problem.code, {}, json.dumps(error).encode()
    if fails:
      return self._send(503, b"the answer is lost")
    self._send(code, content, headers)

  do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = do_GET

  def _body(self) -> bytes:
    if self.headers.get("Transfer-Encoding") == "chunked":
      parts = []
      while size := int(self.rfile.readline().strip(), 16):
        parts.append(self.rfile.read(size))
        self.rfile.readline()
      self.rfile.readline()
      return b"".join(parts)
    return self.rfile.read(int(self.headers.get("Content-Length", 0)))

  def _send(self, code: int, content: bytes, headers: dict[str, str] | None = None) -> None:
    self.send_response(code)
    for name, value in (headers or {}).items():
      self.send_header(name, value)
    self.send_header("Content-Length", str(len(content)))
    self.end_headers()
    if self.command != "HEAD" and code not in (204, 304):
      self.wfile.write(content)

  def _answer(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
    path, _, text = self.path.partition("?")
    query = dict(urllib.parse.parse_qsl(text, keep_blank_values=True))
    path = path.replace("//", "/")
    if path in ("/batch/storage/v1", "/batch"):
      return self._batch(body)
    found = re.fullmatch(
      r"(?:/(upload|download))?/storage/v1/b(?:/([^/]+)(/o(?:/(.*))?)?)?/?", path
    )
    if found is None:
      raise Problem(404, path)
    kind, bucket, name = found[1], found[2], urllib.parse.unquote(found[4] or "")
    if not bucket:
      raise Problem(403, "buckets are neither listed nor made here")
    if bucket not in self.server.buckets:
      raise Problem(404, "The specified bucket does not exist.")
    if self.command not in ("GET", "HEAD") and bucket in self.server.closed:
      raise Problem(403, "storage.objects.create access is denied")
    if kind == "upload":
      return self._upload(bucket, query, body)
    if not found[3]:
      return _json({"kind": "storage#bucket", "name": bucket, "id": bucket, "location": "US"})
    if not name:
      return self._list(bucket, query)
    raw = found[4].split("/")  # of an object's name every slash is quoted
    if len(raw) > 1:
      return self._copy(bucket, [urllib.parse.unquote(one) for one in raw], query, body)
    if self.command == "DELETE":
      self._check(bucket, name, query)
      self._existing(bucket, name)
      self.server.buckets[bucket].pop(name)
      return 204, {}, b""
    return self._get(
      bucket, name, query, is_media=query.get("alt") == "media" or kind == "download"
    )

  def _check(self, bucket: str, name: str, query: Query) -> None:
    """Raises Problem if the conditions of the request do not hold."""
    there = self.server.buckets[bucket].get(name)
    generation = 0 if there is None else there.generation
    if "generation" in query and generation != int(query["generation"]):
      raise Problem(404, "No such object")
    if "ifGenerationMatch" in query and generation != int(query["ifGenerationMatch"]):
      raise Problem(412, "At least one of the pre-conditions you specified did not hold.")
    if "ifGenerationNotMatch" in query and generation == int(query["ifGenerationNotMatch"]):
      raise Problem(304)

  def _existing(self, bucket: str, name: str) -> Object:
    if name not in self.server.buckets[bucket]:
      raise Problem(404, f"No such object: {bucket}/{name}")
    return self.server.buckets[bucket][name]

  def _get(self, bucket: str, name: str, query: Query, *, is_media: bool):
    self._check(bucket, name, query)
    there = self._existing(bucket, name)
    if not is_media:
      return _json(_resource(bucket, name, there))
    fields = _resource(bucket, name, there)
    headers = {
      "x-goog-generation": fields["generation"],
      "x-goog-hash": f"crc32c={fields['crc32c']},md5={fields['md5Hash']}",
      "ETag": fields["etag"],
      "Content-Type": "application/octet-stream",
    }
    wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
    if not wanted:
      return 200, headers, there.data
    size = len(there.data)
    first = int(wanted[1]) if wanted[1] else max(0, size - int(wanted[2]))
    last = min(int(wanted[2]) if wanted[1] and wanted[2] else size - 1, size - 1)
    if first >= size:
      raise Problem(416, "not satisfiable")
    headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return 206, headers, there.data[first : last + 1]

  def _list(self, bucket: str, query: Query):
    prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
    items, prefixes = [], set()
    for name, there in sorted(self.server.buckets[bucket].items()):
      if not name.startswith(prefix) or name < query.get("startOffset", ""):
        continue
      if query.get("endOffset") and name >= query["endOffset"]:
        continue
      rest = name[len(prefix) :]
      if delimiter and delimiter in rest:
        prefixes.add(prefix + rest.partition(delimiter)[0] + delimiter)
      else:
        items.append(_resource(bucket, name, there))
    start = int(query.get("pageToken", 0))
    end = start + min(
      int(query.get("maxResults", 50)), 50
    )  # small pages, so that there are several
    page = {"kind": "storage#objects", "items": items[start:end]}
    if end < len(items):
      page["nextPageToken"] = str(end)
    if start == 0 and prefixes:
      page["prefixes"] = sorted(prefixes)
    return _json(page)

  def _upload(self, bucket: str, query: Query, body: bytes):
    if "upload_id" in query:
      return self._continue(query["upload_id"], body)
    if query["uploadType"] == "resumable":
      name = query.get("name") or json.loads(body)["name"]
      key = f"upload{self.server.next_generation()}"
      self.server.uploads[key] = Upload(bucket, name, query)
      host = f"http://127.0.0.1:{self.server.server_port}"
      location = f"{host}/upload/storage/v1/b/{bucket}/o?uploadType=resumable&upload_id={key}"
      return 200, {"Location": location, "X-GUploader-UploadID": key}, b""
    if query["uploadType"] == "media":
      return self._make(bucket, query["name"], query, body)
    fields, data = _parts(self.headers["Content-Type"], body)
    return self._make(bucket, query.get("name") or json.loads(fields)["name"], query, data)

  def _continue(self, key: str, body: bytes):
    upload = self.server.uploads.get(key)
    if upload is None:
      raise Problem(404, "no such upload")
    if self.command == "DELETE":
      del self.server.uploads[key]
      return 499, {}, b""
    wanted = re.fullmatch(r"bytes (\*|(\d+)-(\d+))/(\*|\d+)", self.headers.get("Content-Range", ""))
    if wanted is None:
      upload.data = body
      return self._make(upload.bucket, upload.name, upload.query, upload.data)
    if wanted[1] != "*":
      first = int(wanted[2])
      if first > len(upload.data):
        raise Problem(503, "a part is missing")
      upload.data = upload.data[:first] + body
    if wanted[4] != "*" and len(upload.data) == int(wanted[4]):
      return self._make(upload.bucket, upload.name, upload.query, upload.data)
    headers = {"Range": f"bytes=0-{len(upload.data) - 1}"} if upload.data else {}
    return 308, headers, b""

  def _make(self, bucket: str, name: str, query: Query, data: bytes):
    self._check(bucket, name, {k: v for k, v in query.items() if k != "generation"})
    return _json(_resource(bucket, name, self.server.put(bucket, name, data)))

  def _copy(self, bucket: str, raw: list[str], query: Query, body: bytes):
    objects = self.server.buckets[bucket]
    if raw[1] == "compose":
      sources = [one["name"] for one in json.loads(body)["sourceObjects"]]
      return self._make(bucket, raw[0], query, b"".join(objects[one].data for one in sources))
    name, _, _, target, _, new = raw
    if name not in objects:
      raise Problem(404, "No such object")
    made = self.server.put(target, new, objects[name].data)
    resource = _resource(target, new, made)
    return _json(resource if raw[1] == "copyTo" else {"done": True, "resource": resource})

  def _batch(self, body: bytes):
    """Carries out several deletions."""
    boundary = re.search(r'boundary="?([^";]+)"?', self.headers["Content-Type"])[1]
    answers = []
    for part in body.decode().split(f"--{boundary}")[1:-1]:
      method, path, _ = re.search(r"^(\w+) (\S+) (HTTP\S+)", part, re.M).groups()
      identity = re.search(r"Content-ID: <(.*)>", part)
      inner = Handler.__new__(Handler)
      inner.server, inner.command, inner.path, inner.headers = self.server, method, path, {}
      try:
        code, _, content = inner._answer(b"")
      except Problem as problem:
        code, content = problem.code, json.dumps({"error": {"message": str(problem)}}).encode()
      name = "No Content" if code == 204 else "Answer"
      answers.append(
        f"--batch_x\r\nContent-Type: application/http\r\nContent-ID: <response-{identity and identity[1]}>\r\n\r\n"
        f"HTTP/1.1 {code} {name}\r\nContent-Length: {len(content)}\r\n\r\n{content.decode()}\r\n"
      )
    text = "".join(answers) + "--batch_x--\r\n"
    return 200, {"Content-Type": "multipart/mixed; boundary=batch_x"}, text.encode()


def _json(content: dict) -> tuple[int, dict[str, str], bytes]:
  return 200, {"Content-Type": "application/json"}, json.dumps(content).encode()


def _resource(bucket: str, name: str, there: Object) -> dict:
  quoted = urllib.parse.quote(name, safe="")
  stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(there.generation / 1e6))
  checksum = google_crc32c.value(there.data).to_bytes(4, "big")
  return {
    "kind": "storage#object",
    "id": f"{bucket}/{name}/{there.generation}",
    "bucket": bucket,
    "name": name,
    "size": str(len(there.data)),
    "generation": str(there.generation),
    "metageneration": "1",
    "etag": f'"{there.generation}"',
    "updated": f"{stamp}.{there.generation % 1000000:06}Z",
    "timeCreated": f"{stamp}.{there.generation % 1000000:06}Z",
    "md5Hash": base64.b64encode(hashlib.md5(there.data, usedforsecurity=False).digest()).decode(),
    "crc32c": base64.b64encode(checksum).decode(),
    "contentType": "application/octet-stream",
    "mediaLink": f"/download/storage/v1/b/{bucket}/o/{quoted}?alt=media",
  }


def _parts(kind: str, body: bytes) -> tuple[bytes, bytes]:
  """Returns the two parts of a multipart upload: the fields of the object, and its content."""
  parser = email.parser.BytesParser(policy=email.policy.HTTP)
  whole = parser.parsebytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n")
  boundary = whole.get_boundary().encode()
  _, fields, data, *_ = re.split(rb"(?:^|\r?\n)--" + re.escape(boundary) + rb"(?:--)?", body)
  return tuple(re.split(rb"\r?\n\r?\n", part, maxsplit=1)[1] for part in (fields, data))
