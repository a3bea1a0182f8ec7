# SPDX-License-Identifier: MIT
"""zc export: the counters of this node's processes for Prometheus and OpenTelemetry."""

from __future__ import annotations

import argparse
import http.server
import os
import socket
import threading
from typing import Any

from .. import logs, otlp, output, screen, units
from ..prometheus import CONTENT_TYPE, Exporter, mapped
from .top import files

EPILOG = """\
Without PID or FILE: all processes under libzc with a log that may be looked at, \
for root those of all users. With --listen and --opentelemetry, those that begin later, too.
--opentelemetry sends until it is ended, as OTEL_EXPORTER_OTLP_ENDPOINT says.
Exit status: 0; 1 where nothing can be read, written or listened to.
"""

MOST_WAITING = 16
STALE_S = 10  # A client that says nothing so long is left.


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", metavar="PID|FILE", nargs="*",
                        help="process id, counters file, log, or folder of them")
    form = parser.add_mutually_exclusive_group(required=True)
    form.add_argument("--prometheus", action="store_true", help="Prometheus' text format, once")
    form.add_argument("--opentelemetry", action="store_true",
                      help="send by OpenTelemetry's protocol (OTLP over HTTP)")
    parser.add_argument("-o", "--output", metavar="FILE",
                        help="write to a file, as node_exporter's textfile collector reads it")
    parser.add_argument("--listen", metavar="[HOST]:PORT", type=address,
                        help="answer at http://HOST:PORT/metrics instead; HOST is localhost")
    parser.add_argument("-i", "--interval", metavar="SECONDS", type=units.seconds, default=5.0,
                        help="time between looks for new processes, and between sendings (5)")
    parser.epilog = EPILOG
    parser.examples = ("zc export --prometheus -o /var/lib/node_exporter/zc.prom",
                       "zc export --prometheus --listen :9945",
                       "zc export --opentelemetry -i 60")


def address(text: str) -> tuple[str, int]:
    """HOST:PORT of the command line, for argparse; an IPv6 host stands in brackets."""
    host, colon, port = text.rpartition(":")
    number = int(port)
    if not colon or not 0 <= number < 1 << 16:
        raise ValueError
    return host.strip("[]") or "localhost", number


def run(args: argparse.Namespace) -> int:
    if args.listen and args.output:
        screen.message("--listen and --output are two ways: choose one")
        return 2
    if args.opentelemetry and (args.listen or args.output):
        screen.message("--listen and --output are for --prometheus")
        return 2
    what = args.what
    for path in files(what) if what else ():
        if not os.path.exists(path):
            raise logs.LogError(f"{path}: no such file")
    exporter = Exporter((lambda: files(what)) if what else mapped)
    exporter.look()
    if args.opentelemetry:
        return _send(exporter, args.interval)
    if args.listen:
        return _listen(exporter, args.listen, args.interval)
    if args.output:
        # node_exporter may read it at any time, and no name but `*.prom`.
        output.try_out(args.output)
        with output.written(args.output) as out:
            out.write(exporter.text())
    else:
        print(exporter.text(), end="")
    return 0


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET /metrics."""

    exporter: Exporter
    timeout = STALE_S
    server_version = "zc"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] in ("/metrics", "/"):
            text = self.exporter.text().encode("utf-8")
            self.send_response(200)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)
        else:
            self.send_error(404, "it is /metrics")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = MOST_WAITING


class Server6(Server):
    address_family = socket.AF_INET6


def _look_on(exporter: Exporter, interval: float, ended: threading.Event) -> None:
    while not ended.wait(interval):
        try:
            exporter.look()
        except (OSError, logs.LogError):
            pass  # Its log is gone; its counters are no longer told.


def _send(exporter: Exporter, interval: float) -> int:
    sender = otlp.Sender(exporter, interval)
    try:
        _look_on(exporter, interval, threading.Event())
    finally:
        sender.stop()
    return 0


def _listen(exporter: Exporter, at: tuple[str, int], interval: float) -> int:
    handler = type("Bound", (Handler,), {"exporter": exporter})
    try:
        server = (Server6 if ":" in at[0] else Server)(at, handler)
    except OSError as error:
        raise logs.LogError(f"{at[0]}:{at[1]}: {error.strerror}") from error
    ended = threading.Event()
    threading.Thread(target=_look_on, args=(exporter, interval, ended), daemon=True).start()
    host, port = server.server_address[:2]
    print(f"http://{f'[{host}]' if ':' in str(host) else host}:{port}/metrics", flush=True)
    try:
        server.serve_forever()
    finally:
        ended.set()
        server.server_close()
    return 0
