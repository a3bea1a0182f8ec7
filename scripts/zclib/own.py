# SPDX-License-Identifier: MIT
"""Files that zc keeps for its user: read only where they can be nobody else's."""

from __future__ import annotations

import errno
import os
import stat


def home() -> str:
    """This user's folder, as libzc takes it: with an empty HOME there is none, and not that of the
    root.  A path that is not absolute where there is none."""
    return os.path.expanduser("~") if os.environ.get("HOME", "~") else "~"


def read(name: str, most: int) -> str:
    """The text of a file of at most so many bytes.  Raises OSError for a link and for what is
    another user's, larger, or no file, and ValueError for what is no UTF-8."""
    with open(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC),
              encoding="utf-8") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_size > most:
            raise OSError(errno.EPERM, "no file of this user's own, or a large one", name)
        return file.read()
