# SPDX-License-Identifier: MIT
"""The policies that come with libzc, by name: `@shared-tables`."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
from typing import NamedTuple

from . import install, logs

MARK = "@"
ENDING = ".conf"
LARGER = "@larger-than-gpu"


class Preset(NamedTuple):
    """A preset with what its own head says of it."""

    name: str
    path: str
    what: str        # The first sentence.
    pays: str        # `Pays when ...`, a sentence.
    does_not: str    # `Does not pay ...`, or "".


def path(asked: str) -> str:
    """The file of a policy: that of a preset for `@NAME`, else the one that was named.  Raises
    LogError for a preset that is not there."""
    if not asked.startswith(MARK):
        return asked
    files = _files()
    name = asked[len(MARK):]
    if name not in files:
        near = difflib.get_close_matches(name, files, n=1)
        hint = f"did you mean '{MARK}{near[0]}'?" if near else "`zc presets` lists them"
        raise logs.LogError(f"there is no preset '{name}': {hint}")
    return files[name]


def file(asked: str) -> str:
    """The absolute path of a policy that is there.  Raises LogError."""
    found = os.path.abspath(path(asked))
    if not os.path.exists(found):
        hint = f": did you mean '{MARK}{asked}'?" if asked in names() else ""
        raise logs.LogError(f"{asked}: there is no such policy{hint}")
    return found


def _files() -> dict[str, str]:
    folder = install.presets()
    return {name[:-len(ENDING)]: os.path.join(folder, name)
            for name in sorted(os.listdir(folder)) if name.endswith(ENDING)}


def shown(policy: str) -> str:
    """A policy as people name it: `@NAME` for the file of a preset."""
    folder, name = os.path.split(policy)
    with contextlib.suppress(install.MissingPart):
        if name.endswith(ENDING) and folder == install.presets():
            return MARK + name[:-len(ENDING)]
    return policy


def names() -> list[str]:
    return list(_files())


def all_presets() -> list[Preset]:
    return [_read(name, file) for name, file in _files().items()]


def _read(name: str, file: str) -> Preset:
    """The comment at the head of a preset, as one text."""
    with open(file, encoding="utf-8") as lines:
        head = []
        for line in lines:
            if not line.startswith("#"):
                break
            head.append(line[1:].strip())
    text = " ".join(filter(None, head))
    return Preset(name, file, _sentence(text, ""), _sentence(text, "Pays "),
                  _sentence(text, "Does not pay"))


def _sentence(text: str, begin: str) -> str:
    """The first sentence that begins so, "" for none."""
    found = re.search(rf"(?:^|(?<=\. ))\s*({re.escape(begin)}.*?\.)(?= |$)", text)
    return found[1] if found else ""
