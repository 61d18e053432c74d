"""Two small servers with backlinks, as DjangoLDP has them: one writes, the other keeps links to it.

What is written at the first is a row and an activity in one transaction. The second verifies each
activity, and does what it says with its backlinks.
"""

import asyncio
import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from mutirao import Mutirao
from mutirao.errors import UnverifiedActivity
from mutirao.federation import Federation, RemoteKeys, SigningKey, verify
from mutirao.webhooks import Guard

# Both are on this machine; out there a plain Guard() is what you want.
HERE = Guard(schemes=["http"], ports=range(1_024, 65_536), networks=["127.0.0.1/32"])


class Server:
    """A web server in a thread, which can go down and come back on the same port."""

    def __init__(self) -> None:
        self.port = 0
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Its URL."""
        return f"http://127.0.0.1:{self.port}"

    def up(self) -> None:
        """Answer requests from now on."""
        answers = self.answer

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                status, said = answers(self.command, self.path, dict(self.headers), body)
                self.send_response(status)
                self.send_header("Content-Type", "application/activity+json")  # or keys are refused
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            do_GET = do_POST = handle_any  # noqa: N815 (the names that http.server calls)

            def log_message(self, format: str, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self.port = self._server.server_port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def down(self) -> None:
        """Refuse connections from now on."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """Return status and body."""
        raise NotImplementedError


class Writer(Server):
    """The server of an author: notes and a collection, and what others are told of them."""

    def __init__(self, database: Path) -> None:
        super().__init__()
        self._key = Ed25519PrivateKey.generate()
        self._database = database
        self.app = Mutirao(f"sqlite:///{database}")
        self.federation = Federation(self.app, keys=self._signing_key, guard=HERE, window=0.2)
        self.app.migrate()
        with self.transaction() as conn:
            conn.execute("CREATE TABLE IF NOT EXISTS note (id text PRIMARY KEY, content text)")

    def note(self, kind: str, id: str, content: str, to: str, target: str | None = None) -> None:
        """Write a note, and tell a server of it, in one transaction."""
        url = f"{self.url}/notes/{id}"
        note = {"id": url, "type": "Note", "content": content}
        activity = {"type": kind, "actor": f"{self.url}/actor", "object": note}
        if target is not None:
            activity |= {"target": f"{self.url}/{target}"}
        with self.transaction() as conn:
            if kind == "Delete":
                conn.execute("DELETE FROM note WHERE id = ?", (url,))
            elif kind in ("Create", "Update"):
                conn.execute("REPLACE INTO note VALUES (?, ?)", (url, content))
            self.federation.outbox.deliver(activity, to=[to], sender=f"{self.url}/actor", conn=conn)

    def notes(self) -> dict[str, str]:
        """Return the notes there are."""
        with self.transaction() as conn:
            return dict(conn.execute("SELECT id, content FROM note"))

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Open a connection for one transaction, as a web framework does for a request."""
        conn = sqlite3.connect(self._database, timeout=30)
        try:
            with conn:
                yield conn
        finally:
            conn.close()

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """Publish the actor with its key."""
        if path != "/actor":
            return 404, b""
        pem = self._key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        actor = f"{self.url}/actor"
        key = {"id": f"{actor}#main-key", "owner": actor, "publicKeyPem": pem.decode()}
        return 200, json.dumps({"id": actor, "type": "Service", "publicKey": key}).encode()

    def _signing_key(self, sender: str) -> SigningKey:
        return SigningKey(f"{sender}#main-key", self._key)


class Got(NamedTuple):
    """An activity that was verified, and taken."""

    kind: str
    object: str
    content: str


class Reader(Server):
    """The server that keeps backlinks: what others have told it."""

    def __init__(self) -> None:
        super().__init__()
        self.backlinks: dict[str, str] = {}
        self.members: set[tuple[str, str]] = set()
        self.got: list[Got] = []
        self.refused: list[str] = []
        self._keys = RemoteKeys(HERE)

    def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        """Take an activity that is verified."""
        try:
            asyncio.run(verify(method, self.url + path, headers, body, keys=self._keys))
        except UnverifiedActivity as why:
            self.refused.append(str(why))
            return 401, str(why).encode()
        self._take(json.loads(body))
        return 202, b""

    def _take(self, activity: dict[str, Any]) -> None:
        kind, note = activity["type"], activity["object"]
        self.got.append(Got(kind, note["id"], note["content"]))
        match kind:
            case "Create" | "Update":
                self.backlinks[note["id"]] = note["content"]
            case "Delete":
                self.backlinks.pop(note["id"], None)
            case "Add":
                self.members.add((activity["target"], note["id"]))
            case "Remove":
                self.members.discard((activity["target"], note["id"]))
