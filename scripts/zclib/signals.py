# SPDX-License-Identifier: MIT
"""Signals that end zc: each raises KeyboardInterrupt, so that nothing of zc's is left behind."""

from __future__ import annotations

import signal

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def prepare() -> None:
    """From here on they are taken, but for those that zc's caller ignores."""
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


def _raise(number: int, _: object) -> None:
    raise KeyboardInterrupt(number)


def status(error: KeyboardInterrupt) -> int:
    """The exit status for it."""
    return 128 + (error.args[0] if error.args else signal.SIGINT)
