"""A collector of OTLP over HTTP: it decodes what comes by the published protocol."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(ThreadingHTTPServer):
    """The spans that came, in the order of arrival, and the names of their services."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.spans: list[Span] = []
        self.services: set[str] = set()

    @property
    def url(self) -> str:
        """Where an exporter sends spans to."""
        return f"http://127.0.0.1:{self.server_port}/v1/traces"

    def named(self, name: str) -> list[Span]:
        """Return the spans of a name."""
        return [span for span in self.spans if span.name == name]

    def take(self, body: bytes) -> None:
        """Take a request."""
        request = ExportTraceServiceRequest.FromString(body)
        for resource in request.resource_spans:
            for each in resource.resource.attributes:
                if each.key == "service.name":
                    self.services.add(each.value.string_value)
            for scope in resource.scope_spans:
                self.spans += scope.spans


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        assert self.headers["Content-Type"] == "application/x-protobuf"
        self.server.take(body)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector."""
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()
