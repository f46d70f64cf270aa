"""Samples as results: medians, and ratios within each round."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from .footprint import Footprint
from .measurements import Measurement, Sample
from .targets import BYTE_LIMITS, CEILING, FASTEST, LIMITS, OURS, TARGETS, ByteLimit, Limit, Target
from .workload import CALLERS, Size

CEILING_OF: Final = {
    **{f"submit_{n}": "bulk" for n in CALLERS if n > 1},
    "bulk": "bulk",
    "claim_finish": "claim_finish",
}
"""The figure of the ceiling that limits a measurement. Submits of many callers share transactions, as in a bulk."""


@dataclass
class Results:
    """All samples of a run: database → peer → measurement → one sample per round."""

    facts: dict[str, str]
    size: Size
    measurements: tuple[Measurement, ...]
    does: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    samples: dict[str, dict[str, dict[str, list[Sample]]]] = field(default_factory=dict)
    footprints: dict[str, Footprint] = field(default_factory=dict)

    def add(self, database: str, peer: str, key: str, sample: Sample) -> None:
        self.samples.setdefault(database, {}).setdefault(peer, {}).setdefault(key, []).append(sample)

    def measurement(self, key: str) -> Measurement:
        return next(measurement for measurement in self.measurements if measurement.key == key)

    def title(self, key: str) -> str:
        return self.measurement(key).title

    def as_json(self) -> dict[str, Any]:
        return {
            "machine": self.facts,
            "size": asdict(self.size),
            "peers": self.does,
            "remarks": self.remarks,
            "databases": {
                database: {
                    peer: {key: _summary(samples) for key, samples in by_key.items()} for peer, by_key in peers.items()
                }
                for database, peers in self.samples.items()
            },
            "ratios": {database: self._ratios(database) for database in self.samples},
            "fastest": {
                database: {m.key: peer for m in self.measurements if (peer := self._fastest(database, m.key))}
                for database in self.samples
            },
            "targets": [found for target in TARGETS if (found := self._reached(target))],
            "limits": [found for limit in LIMITS if (found := self._kept(limit))],
            "bytes": {peer: _rounded(footprint) for peer, footprint in self.footprints.items()},
            "byte_limits": [self._within(limit) for limit in BYTE_LIMITS if OURS in self.footprints],
        }

    def lives(self) -> list[tuple[str, str, str]]:
        """Our whole life beside a peer's bare submit, where both were measured: its key and those of the two."""
        measured = {measurement.key for measurement in self.measurements}
        pairs = [(f"life_{n}_to_submit_{n}", f"life_{n}", f"submit_{n}") for n in CALLERS]
        return [pair for pair in pairs if measured.issuperset(pair[1:])]

    def _ratios(self, database: str) -> dict[str, dict[str, float]]:
        """Ours to each other's, to the fastest of several, and to the ceiling, by measurement."""
        ratios: dict[str, dict[str, float]] = {}
        others = self._others(database)
        for peer in (*others, *([FASTEST] if len(others) > 1 else []), CEILING):
            pairs = [(m.key, m.key, CEILING_OF.get(m.key) if peer == CEILING else m.key) for m in self.measurements]
            pairs += self.lives() if peer != CEILING else []
            found = {
                name: round(ratio, 2)
                for name, key, theirs in pairs
                if theirs and (ratio := self._ratio(database, key, peer, theirs)) is not None
            }
            if found:
                ratios[peer] = found
        return ratios

    def _ratio(self, database: str, key: str, peer: str, theirs: str, among: tuple[str, ...] = ()) -> float | None:
        """The median of the ratios within each round."""
        if peer == FASTEST:
            peer = self._fastest(database, theirs, among) or ""
        peers = self.samples[database]
        ours, others = peers[OURS].get(key), peers.get(peer, {}).get(theirs)
        if not ours or not others:
            return None
        return statistics.median(a.per_second / b.per_second for a, b in zip(ours, others, strict=True))

    def _fastest(self, database: str, key: str, among: tuple[str, ...] = ()) -> str | None:
        peers = [peer for peer in self._others(database) if peer in (among or (peer,))]
        rates = {peer: _rate(self.samples[database][peer].get(key, [])) for peer in peers}
        return max((peer for peer in rates if rates[peer]), key=lambda peer: rates[peer], default=None)

    def _others(self, database: str) -> list[str]:
        return [peer for peer in self.samples[database] if peer not in (OURS, CEILING)]

    def _reached(self, target: Target) -> dict[str, Any] | None:
        if target.database not in self.samples:
            return None
        database, key, theirs, among = target.database, target.key, target.theirs, target.among
        ratio = self._ratio(database, key, target.peer, theirs, among)
        if ratio is None:
            return None
        peer = (self._fastest(database, theirs, among) or "") if target.peer == FASTEST else target.peer
        peers = self.samples[database]
        return {
            **asdict(target),
            "peer": peer,
            "is_fastest": target.peer == FASTEST,
            "ours_per_second": round(_rate(peers[OURS][key]), 1),
            "theirs_per_second": round(_rate(peers[peer][theirs]), 1),
            # Rounded down: what fell short must not look as if it had not.
            "ratio": math.floor(ratio * 100 + 1e-6) / 100,
            "reached": ratio >= target.least,
        }

    def _within(self, limit: ByteLimit) -> dict[str, Any]:
        measured = getattr(self.footprints[OURS], limit.what)
        return {**asdict(limit), "bytes": round(measured), "reached": measured <= limit.most}

    def _kept(self, limit: Limit) -> dict[str, Any] | None:
        samples = self.samples.get(limit.database, {}).get(OURS, {}).get(limit.key)
        if not samples:
            return None
        p50_ms = 1_000 / _rate(samples)
        return {**asdict(limit), "p50_ms": round(p50_ms, 3), "reached": p50_ms < limit.under_ms}


def _rounded(footprint: Footprint) -> dict[str, Any]:
    relations = sorted(footprint.relations.items(), key=lambda item: -item[1])
    return {
        "storage": round(footprint.storage),
        "log": round(footprint.log),
        "relations": {name: round(size) for name, size in relations if round(size)},
    }


def _rate(samples: list[Sample]) -> float:
    return statistics.median(sample.per_second for sample in samples) if samples else 0.0


def _summary(samples: list[Sample]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "per_second": round(_rate(samples), 1),
        "rounds": [round(sample.per_second, 1) for sample in samples],
        "cpu_us": round(statistics.median(sample.cpu_us for sample in samples), 1),
    }
    for name in ("p50_ms", "p99_ms"):
        values = [value for sample in samples if (value := getattr(sample, name)) is not None]
        if values:
            found[name] = round(statistics.median(values), 2)
    return found
