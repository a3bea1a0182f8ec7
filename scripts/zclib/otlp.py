# SPDX-License-Identifier: MIT
"""The counters of a node's processes for OpenTelemetry, sent by its SDK.

Metrics and labels are those of the other form; `_total` is left out, as OpenTelemetry's names are,
and what translates them for Prometheus puts it back.  Of copies its semantic conventions know what
a GPU received and transmitted, which is sent as well.
"""

from __future__ import annotations

import os
import sys
from typing import Any, Iterable

from . import install
from .prometheus import FAMILIES, MOVED, READ, TOOK, UNREAD, Exporter, Labels, Metric

LAST_S = 5
# Names of the conventions for bytes over a GPU's link, and for their directions.
GPU_IO = Metric("hw.gpu.io", "counter", "Received and transmitted bytes by the GPU", "By")
DIRECTIONS = {"HtoD": "receive", "DtoH": "transmit"}


def _sdk() -> Any:
    """The parts of the SDK that are used.  Raises MissingPart."""
    try:
        from opentelemetry import metrics
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource
    except ImportError as error:
        raise install.MissingPart(
            "--opentelemetry needs the Python package "
            f"opentelemetry-exporter-otlp-proto-http, which {sys.executable} lacks: "
            f"pip install 'libzc[opentelemetry]' ({error})") from error
    return metrics, OTLPMetricExporter, MeterProvider, PeriodicExportingMetricReader, Resource


class Sender:
    """Sends all samples every `period` seconds, and once more at stop().  Where to, and how, say
    the SDK's own variables OTEL_EXPORTER_OTLP_*.  Raises MissingPart."""

    def __init__(self, exporter: Exporter, period: float) -> None:
        self._metrics, sends, provider, reader, resource = _sdk()
        self._exporter = exporter
        self._samples: dict[Metric, list[Any]] = {}
        self._provider = provider(
            [reader(sends(), export_interval_millis=period * 1000)],
            resource.create({"service.name": "libzc", "service.version": install.version(),
                             "host.name": os.uname().nodename}))
        meter = self._provider.get_meter("libzc", install.version())
        # The SDK asks for one metric after the other, in this order: the first has all read.
        for metric in (READ, UNREAD, TOOK, *FAMILIES, GPU_IO):
            create = meter.create_observable_counter if metric.kind == "counter" else \
                meter.create_observable_gauge
            create(metric.name.removesuffix("_total"), [self._observer(metric)],
                   unit=metric.unit, description=metric.words)

    def _observer(self, metric: Metric) -> Any:
        def observe(options: Any) -> Iterable[Any]:
            if metric is READ:
                self._read()
            return self._samples.get(metric, ())
        return observe

    def _read(self) -> None:
        self._samples = {}

        crossed: dict[tuple[Labels, str], float] = {}

        def put(metric: Metric, whose: Labels, labels: Labels, value: float) -> None:
            self._add(metric, value, {**whose.pairs, **labels.pairs})
            direction = DIRECTIONS.get(labels.pairs["flow"].split()[0]) if metric is MOVED else None
            if direction:
                crossed[whose, direction] = crossed.get((whose, direction), 0) + value

        told = self._exporter.each(put)
        for (whose, direction), value in crossed.items():
            self._add(GPU_IO, value, {**whose.pairs, "hw.id": whose.pairs["gpu"], "hw.type": "gpu",
                                      "network.io.direction": direction})
        for metric, value in told:
            self._samples[metric] = [self._metrics.Observation(value)]

    def _add(self, metric: Metric, value: float, attributes: dict[str, str]) -> None:
        self._samples.setdefault(metric, []).append(self._metrics.Observation(value, attributes))

    def stop(self) -> None:
        """Sends what there is now; gives up after LAST_S."""
        self._provider.shutdown(timeout_millis=LAST_S * 1000)
