"""The partner's server: it verifies each webhook with a library of its own, and keeps it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from standardwebhooks import Webhook, WebhookVerificationError


class Got(NamedTuple):
    """A webhook that was verified: its id, its bytes, and what these say."""

    id: str
    body: bytes
    said: dict[str, Any]


class Partner:
    """What the server has got; it answers once `open` is set."""

    def __init__(self, secret: str) -> None:
        self._webhook = Webhook(secret)
        self.got: list[Got] = []
        self.refused: list[str] = []
        self.open, self.asked = threading.Event(), threading.Event()

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Keep a webhook; return the status of the answer."""
        self.asked.set()
        self.open.wait()
        try:
            said = self._webhook.verify(body, headers)
        except WebhookVerificationError as error:
            self.refused.append(str(error))
            return 401
        self.got.append(Got(headers["webhook-id"], body, said))
        return 204


@contextmanager
def serving(partner: Partner) -> Iterator[str]:
    """Serve a partner; lend the URL of its orders."""

    class Orders(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.send_response(partner.take(headers, body))
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Orders) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/orders"
        finally:
            partner.open.set()
            server.shutdown()
