"""A server with the interface of SQS, moto's, that writes down what becomes of each video.

    python broker.py LOG

It prints its URL. What was handed out, extended, given back and deleted, by whom and when, is known
here to the millisecond, however late a busy process hears of it. `at` is when a request came, or
when its answer with messages left; `visible_at` is when others may have the message.
"""

import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import (
    DomainDispatcherApplication,
    MotoRequestHandler,
    create_backend_app,
)
from werkzeug.serving import make_server

Line = dict[str, Any]
Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Recorder:
    """Passes requests on, and writes down those about messages."""

    def __init__(self, application: Application, log: Path) -> None:
        self._application, self._log = application, log
        self._by_handle: dict[str, Line] = {}

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer a request."""
        came = time.time()
        asked = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(asked)
        said = b"".join(self._application(environ, start))
        action = environ.get("HTTP_X_AMZ_TARGET", "").rpartition(".")[2]
        if lines := list(self._lines(action, asked, said, came, environ["HTTP_USER_AGENT"])):
            with self._log.open("a") as log:
                log.write("".join(json.dumps(each) + "\n" for each in lines))
        return [said]

    def _lines(
        self, action: str, asked: bytes, said: bytes, came: float, agent: str
    ) -> Iterator[Line]:
        if action == "ReceiveMessage":
            visibility, now = json.loads(asked)["VisibilityTimeout"], time.time()
            for message in json.loads(said).get("Messages", ()):
                about = {
                    "video": json.loads(message["Body"])["args"]["video"],
                    "attempt": int(message["Attributes"]["ApproximateReceiveCount"]),
                    "worker": int(agent.rpartition("app/")[2].split()[0]),
                }
                self._by_handle[message["ReceiptHandle"]] = about
                yield {"what": "handed out", "at": now, "visible_at": now + visibility, **about}
        elif action in ("ChangeMessageVisibilityBatch", "DeleteMessageBatch"):
            done = {each["Id"] for each in json.loads(said).get("Successful", ())}
            for entry in json.loads(asked)["Entries"]:
                if entry["Id"] in done:
                    yield {**_change(entry, came), **self._by_handle[entry["ReceiptHandle"]]}


def _change(entry: Line, came: float) -> Line:
    seconds = entry.get("VisibilityTimeout")
    if seconds is None:
        return {"what": "deleted", "at": came}
    what = "extended" if seconds else "given back"
    return {"what": what, "at": came, "visible_at": came + seconds}


def main() -> None:
    """Serve until somebody ends the process."""
    recorder = Recorder(DomainDispatcherApplication(create_backend_app), Path(sys.argv[1]))
    server = make_server("127.0.0.1", 0, recorder, True, request_handler=MotoRequestHandler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
