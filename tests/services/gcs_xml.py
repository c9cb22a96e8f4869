"""gcs_xml.py HOST PORT SERVER: the writes of Google's XML interface, told to a server that knows
them in JSON alone (fake-gcs-server).

Both interfaces are of one store: an object that is put, and its condition
(x-goog-if-generation-match), become an upload in JSON with ifGenerationMatch, which the server
decides. The parts of an upload are kept here until it is complete. Everything else is passed on.
"""

import hashlib
import itertools
import json
import sys
import xml.etree.ElementTree as ET
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, quote, unquote, urlencode, urlsplit

HOST, PORT, SERVER = sys.argv[1], int(sys.argv[2]), sys.argv[3].partition("://")[2]
OWN_INTERFACES = ("/storage/", "/upload/", "/download/", "/batch/", "/_internal/")
HOP = ("connection", "transfer-encoding", "content-length", "host")
uploads: dict[str, dict[int, bytes]] = {}
numbers = itertools.count(1)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def answer(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = urlsplit(self.path)
        query = parse_qs(parts.query, keep_blank_values=True)
        number = query.get("uploadId", [""])[0]
        if parts.path.startswith(OWN_INTERFACES) or self.command in ("GET", "HEAD"):
            self.reply(*self.ask(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() not in HOP}))
        elif "uploads" in query:
            number = f"upload-{next(numbers)}"
            uploads[number] = {}
            self.reply(200, {}, f"<InitiateMultipartUploadResult><UploadId>{number}</UploadId></InitiateMultipartUploadResult>".encode())
        elif number and number not in uploads:
            self.reply(404, {}, b"<Error><Code>NoSuchUpload</Code></Error>")
        elif self.command == "DELETE" and number:
            del uploads[number]
            self.reply(204, {}, b"")
        elif self.command == "PUT" and number:
            uploads[number][int(query["partNumber"][0])] = body
            self.reply(200, {"ETag": f'"{hashlib.md5(body).hexdigest()}"'}, b"")
        elif self.command == "POST" and number:
            chosen = [int(e.text) for e in ET.fromstring(body).iter() if e.tag.rpartition("}")[2] == "PartNumber"]
            status, headers, data = self.put(parts.path, b"".join(uploads[number][n] for n in chosen))
            if status == 200:
                del uploads[number]
                data = f"<CompleteMultipartUploadResult><ETag>{headers['ETag']}</ETag></CompleteMultipartUploadResult>".encode()
            self.reply(status, headers, data)
        elif self.command == "PUT":
            self.reply(*self.put(parts.path, body))
        else:
            self.reply(*self.ask(self.command, self.path, body, {}))

    def put(self, path, body):
        bucket, _, key = unquote(path).lstrip("/").partition("/")
        query = {"uploadType": "media", "name": key}
        if (condition := self.headers.get("x-goog-if-generation-match")) is not None:
            query["ifGenerationMatch"] = condition
        sent = {"Content-Type": self.headers.get("Content-Type") or "application/octet-stream"}
        status, _, data = self.ask("POST", f"/upload/storage/v1/b/{quote(bucket)}/o?{urlencode(query, quote_via=quote)}", body, sent)
        if status != 200:
            return status, {}, data
        told = json.loads(data)
        return 200, {"ETag": f'"{told["etag"]}"', "x-goog-generation": told["generation"]}, b""

    def ask(self, method, path, body, headers):
        server = HTTPConnection(SERVER, timeout=60)
        server.request(method, path, body, headers)
        given = server.getresponse()
        data = given.read()
        server.close()
        kept = {k: v for k, v in given.getheaders() if k.lower() not in HOP or (method == "HEAD" and k.lower() == "content-length")}
        return given.status, kept, data

    def reply(self, status, headers, data):
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if "content-length" not in {name.lower() for name in headers} and status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = do_PATCH = answer


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


Server((HOST, PORT), Handler).serve_forever()
