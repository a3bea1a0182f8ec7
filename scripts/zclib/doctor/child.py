# SPDX-License-Identifier: MIT
"""Runs a module of this package in a process of its own, which the driver may crash or hold up."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from typing import Any, Callable

from .. import helper

# A driver that wakes up many GPUs takes long, and one that hangs looks the same until then.
SLOW_SECONDS = 3.0
# A process that the driver holds in the kernel does not end by SIGKILL, so it is not waited for.
END_SECONDS = 1.0

# The facts that are about the asking; they are not handed on.
DONE, STEP = "done", "step"


def environment() -> dict[str, str]:
    """For what asks the driver itself: a library that is preloaded here has nothing to do there."""
    return {**os.environ, "ZC_LOG": "off", "ZC_SUMMARY": "0", "ZC_POLICY": "off"}


class Lines:
    """The lines of a pipe, as they come."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe
        self._rest = b""
        self.ended = False

    def within(self, seconds: float) -> list[bytes]:
        """The whole lines that come next; none where the time was over or the pipe has ended."""
        if not select.select([self._pipe], [], [], max(seconds, 0))[0]:
            return []
        part = os.read(self._pipe, 1 << 16)
        self.ended = not part
        *lines, self._rest = (self._rest + part).split(b"\n")
        return lines


def ask(module: str, seconds: float, slow: Callable[[str], None]) -> tuple[dict[str, Any], str]:
    """The facts that a module prints, and why it did not end well; "" where it did.  Where it
    prints nothing for some time, `slow` is told what it is doing, once."""
    facts: dict[str, Any] = {}
    with os.fdopen(os.memfd_create("zc-doctor"), "w+b") as errors:
        child = subprocess.Popen(helper.command(f"doctor.{module}", "main"), env=environment(),
                                 stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=errors, start_new_session=True)
        assert child.stdout
        with child.stdout:
            in_time = _follow(Lines(child.stdout.fileno()), facts, seconds, slow)
        status = _end(child, in_time)
        errors.seek(0)
        last = errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
    step = facts.pop(STEP, "the driver")
    if facts.pop(DONE, False):
        return facts, ""
    if not in_time:
        return facts, (f"{step} did not return within {seconds:g} s: the driver hangs; dmesg may "
                       "say why, and --timeout gives it longer")
    return facts, ": ".join([f"the process that asked the driver ended with status {status} in "
                             f"{step}", *last])


def _follow(lines: Lines, facts: dict[str, Any], seconds: float,
            slow: Callable[[str], None]) -> bool:
    """Reads facts to the end of the pipe; false where the time is over before."""
    start = heard = time.monotonic()
    told = False
    while not lines.ended:
        now = time.monotonic()
        if now >= start + seconds:
            return False
        if not told and now >= heard + SLOW_SECONDS:
            told = True
            slow(str(facts.get(STEP, "the driver")))
        until = start + seconds if told else min(start + seconds, heard + SLOW_SECONDS)
        for line in lines.within(until - now):
            heard = time.monotonic()
            _take(line, facts)
    return True


def _take(line: bytes, facts: dict[str, Any]) -> None:
    try:
        fact = json.loads(line)
        facts[fact["name"]] = fact["value"]
    except (ValueError, KeyError, TypeError):
        pass  # The driver's own output, or a line that a crash has cut.


def _end(child: subprocess.Popen[bytes], in_time: bool) -> int | None:
    """The status of a child that has ended or is ended; None where it can't be."""
    try:
        if in_time:
            return child.wait(END_SECONDS)
        child.kill()
        return child.wait(END_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        return None
