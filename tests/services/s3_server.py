"""s3_server.py HOST PORT: moto's S3 for clients of other processes.

Requests are answered one at a time: moto looks at If-Match and If-None-Match first and writes then,
so two at a time could both win.
"""
import sys
import threading

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server


class Handler(WSGIRequestHandler):
    # connections end with their answer all the same: werkzeug says so
    protocol_version = "HTTP/1.1"

    def log_request(self, *_):
        pass


app, turn = create_backend_app("s3"), threading.Lock()


def one_at_a_time(environ, start_response):
    with turn:
        return list(app(environ, start_response))


make_server(sys.argv[1], int(sys.argv[2]), one_at_a_time, threaded=True, request_handler=Handler).serve_forever()
