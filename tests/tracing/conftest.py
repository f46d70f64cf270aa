"""What the tests of spans share: fresh databases, and spans that stay in this process."""

from collections.abc import AsyncIterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from ficha import tracing
from tests.app.conftest import url

__all__ = ["url"]


class Kept:
    """The spans that were made so far."""

    def __init__(self, made: tracing.Tracing, exporter: InMemorySpanExporter) -> None:
        self._made = made
        self._exporter = exporter

    def all(self) -> list[ReadableSpan]:
        assert self._made._provider.force_flush()
        return sorted(self._exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all() if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.named(name)
        return span


@pytest.fixture
async def spans(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Kept]:
    exporter = InMemorySpanExporter()
    made = tracing.Tracing(exporter)
    monkeypatch.setattr(tracing, "active", made)
    monkeypatch.setattr(tracing, "steps", made)
    yield Kept(made, exporter)
    await made.close()
