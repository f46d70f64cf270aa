"""A receiver of OTLP over HTTP, as a process of its own: `python -m tests.tracing.receiver FILE`. It writes where it
listens as the first line of the file, and each span that it is sent as a further line of JSON."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def spans_of(body: bytes) -> list[dict[str, Any]]:
    """The spans of a request, in plain values."""
    request = ExportTraceServiceRequest.FromString(body)
    return [
        {
            "trace": span.trace_id.hex(),
            "id": span.span_id.hex(),
            "parent": span.parent_span_id.hex(),
            "name": span.name,
            "kind": span.kind,
            "start_ns": span.start_time_unix_nano,
            "end_ns": span.end_time_unix_nano,
            "attributes": {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes},
            "links": [link.span_id.hex() for link in span.links],
            "state": span.trace_state,
            "resource": {one.key: one.value.string_value for one in part.resource.attributes},
        }
        for part in request.resource_spans
        for scope in part.scope_spans
        for span in scope.spans
    ]


class Handler(BaseHTTPRequestHandler):
    file: Path

    def do_POST(self) -> None:
        assert self.path == "/v1/traces", self.path
        spans = spans_of(self.rfile.read(int(self.headers["content-length"])))
        with self.file.open("a") as lines:
            lines.writelines(json.dumps(span) + "\n" for span in spans)
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        return


def main(file: str) -> None:
    Handler.file = Path(file)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.file.write_text(f"http://127.0.0.1:{server.server_address[1]}\n")
    server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1])
