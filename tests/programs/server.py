# SPDX-License-Identifier: Apache-2.0
"""A threaded HTTP server whose handlers measure themselves.

Each request spends processor time in render() and query(); /truth tells the seconds of each by
time.thread_time(). Prints "ready", then the port.
"""
import http.server
import json
import threading
import time

lock = threading.Lock()
spent = {"render": 0.0, "query": 0.0}


def measured(function):
    def call(*arguments):
        begin = time.thread_time()
        function(*arguments)
        took = time.thread_time() - begin
        with lock:
            spent[function.__name__] += took

    return call


def render(loops):
    total = 0
    for i in range(loops):
        total += i


def query(loops):
    total = 0
    for i in range(loops):
        total += i


timed_render, timed_query = measured(render), measured(query)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/truth":
            with lock:
                body = json.dumps(spent).encode()
        else:
            timed_query(20000)
            timed_render(60000)
            body = b"done"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print("ready", flush=True)
print(server.server_address[1], flush=True)
server.serve_forever()
