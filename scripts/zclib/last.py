# SPDX-License-Identifier: MIT
"""How long a command took when it last ran under `zc run` without a policy, and how much device
memory it lacked, in $XDG_STATE_HOME/libzc/runs.json: so that a run under one can say what it
gained, and the next one without what it will lack."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from typing import Sequence

from . import output, own

MOST_RUNS = 256         # Commands that are remembered, the latest ones.
MOST_BYTES = 64 << 10   # Of the file; a larger one is not ours.


def _file() -> str | None:
    """The file's name; None where this user has no folder for it."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(own.home(), ".local", "state")
    return os.path.join(state, "libzc", "runs.json") if os.path.isabs(state) else None


def _key(command: Sequence[str]) -> str:
    """The same words mean another program in another folder."""
    words = "\0".join([os.getcwd(), *command])
    return hashlib.sha256(words.encode(errors="surrogateescape")).hexdigest()[:16]


def _runs() -> dict[str, list[int]]:
    """Wall time in nanoseconds, day, in seconds of Unix time, and bytes that it lacked, by command.
    A file that is another user's, a link, or damaged holds none."""
    name = _file()
    try:
        kept = json.loads(own.read(name or "", MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return {key: run for key, run in kept.items() if isinstance(run, list) and len(run) in (2, 3)
            and all(isinstance(one, int) and one >= 0 for one in run)} \
        if isinstance(kept, dict) else {}


def keep(command: Sequence[str], wall_ns: int | None, lacking: int) -> None:
    """Keeps the time of a run without a policy, None: that of the one before, and the bytes that it
    lacked.  Where that can't be, the next run has nothing to compare with."""
    name = _file()
    if name is None:
        return
    runs, key = _runs(), _key(command)
    before = runs.get(key, [0])[0]
    runs[key] = [before if wall_ns is None else wall_ns, int(time.time()), lacking]
    latest = sorted(runs, key=lambda key: -runs[key][1])[:MOST_RUNS]
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(name), mode=0o700, exist_ok=True)
        with output.written(name, 0o600) as file:
            json.dump({key: runs[key] for key in latest}, file)


def of(command: Sequence[str]) -> int | None:
    """The wall time of the last run without a policy, in nanoseconds; None where none is known."""
    return _runs().get(_key(command), [0])[0] or None


def lacked(command: Sequence[str]) -> int:
    """Bytes of device memory that the last run without host memory for it lacked."""
    return (_runs().get(_key(command), []) + [0, 0, 0])[2]
