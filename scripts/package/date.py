# SPDX-License-Identifier: MIT
"""When the source was written: packages of one commit have the same bytes on every day."""

from __future__ import annotations

import os
import subprocess
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# `git archive` puts the commit's time here, in seconds since 1970.
ARCHIVED = "$Format:%ct$"


def committed() -> int:
    """Seconds since 1970: SOURCE_DATE_EPOCH, else the time of the commit, else now."""
    for known in (os.environ.get("SOURCE_DATE_EPOCH", ""), ARCHIVED, _of_git()):
        if known.isdigit():
            return int(known)
    return int(time.time())


def _of_git() -> str:
    try:
        return subprocess.run(["git", "-C", HERE, "log", "-1", "--format=%ct"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              encoding="ascii").stdout.strip()
    except OSError:
        return ""
