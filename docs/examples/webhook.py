"""Receives events of a petstore service and saves each of them once in an SQLite file.

Usage: WEBHOOK_SECRET=whsec_... python3 webhook.py PORT FILE

It needs the package standardwebhooks, and a proxy in front of it that terminates TLS.
"""

import os, sqlite3, sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from standardwebhooks import Webhook, WebhookVerificationError

port, file = sys.argv[1:]
webhook = Webhook(os.environ["WEBHOOK_SECRET"])
MAX_BYTES = 1 << 20


def execute(statement, values=()):
    with closing(sqlite3.connect(file, timeout=10)) as db, db:
        db.execute(statement, values)


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # Keeps connections open for the next event.
    timeout = 60

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if not 0 <= length <= MAX_BYTES:
            self.close_connection = True
            return self.respond(413)
        body = self.rfile.read(length)  # Verify exactly these bytes, before parsing them.
        try:
            event = webhook.verify(body, dict(self.headers))
        except (WebhookVerificationError, ValueError):
            return self.respond(401)
        # The id is the same each time that the event is sent.
        values = (self.headers["webhook-id"], event.get("sequence"), body.decode())
        execute("INSERT OR IGNORE INTO events VALUES (?, ?, ?)", values)
        self.respond(204)  # Only now: whatever is not acknowledged is sent again.

    def respond(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


execute("""
    CREATE TABLE IF NOT EXISTS events
        (id TEXT PRIMARY KEY, sequence TEXT, event TEXT NOT NULL)
""")
server = ThreadingHTTPServer(("127.0.0.1", int(port)), Receiver)
print(f"Listening on port {server.server_port}", flush=True)
server.serve_forever()
