# SPDX-License-Identifier: MIT
"""The policy that comes of a search."""

from __future__ import annotations

import os
import textwrap
from typing import Mapping, Sequence

from .. import output
from ..names import shown
from ..report.findings import HOST_APIS
from .candidates import Candidate

# Rules that name call paths come before those that take the rest.
ORDER = ("parallel", "shared", "mapped", "grow", "pinned", "together")
WIDTH = 100
SHARED_HOSTS = "shared-hosts"


def private(folder: str, name: str, text: str) -> str:
    """A file with this policy in a folder of zc's own; its path."""
    path = os.path.join(folder, name + ".conf")
    with output.written(path) as file:
        file.write(text)
    return path


def policy(candidates: Sequence[Candidate], comments: Mapping[int, str] | None = None) -> str:
    """The sections of candidates, each behind its comment (by the candidate's place in the
    sequence)."""
    order = sorted(range(len(candidates)), key=lambda at: ORDER.index(candidates[at].kind))
    parts = []
    # Those of all candidates are one rule, but where rules are not for all blocks.
    hosts: dict[int | None, dict[str, None]] = {}
    for at in order:
        hosts.setdefault(at if candidates[at].where else None, {}).update(
            dict.fromkeys(candidates[at].hosts))
    for at in order:
        one = candidates[at]
        head = comment(comments[at]) if comments else ""
        if one.settings:
            parts.append(f"{head}[defaults]\n{one.settings}")
            head = ""
        for number, (name, keys) in enumerate(one.rules.items()):
            parts.append(f"{head if number == 0 else ''}[rule {name}]\n{one.where}{keys}")
        named = hosts.pop(at if one.where else None, None) if one.kind == "shared" else None
        if named:
            parts.append(comment("The host's side of what is shared.") * bool(comments)
                         + f"[rule {SHARED_HOSTS}{f'-{at}' if one.where else ''}]\n{one.where}"
                         f"api = {HOST_APIS}\nsite = {', '.join(named)}\n"
                         "place = shared, pageable\n")
    return "\n".join(parts)


def comment(text: str) -> str:
    """Text as lines of a comment; no byte of it can end the comment."""
    return "".join(f"# {line}\n" if line else "#\n" for paragraph in text.split("\n")
                   for line in textwrap.wrap(shown(paragraph), WIDTH - 2, break_long_words=False,
                                             break_on_hyphens=False) or [""])


def taken(path: str, force: bool) -> str:
    """Why a policy can't be written there; "" where it can."""
    if os.path.lexists(path) and not force:
        return f"{path} is there already: name another file by -o, or overwrite it by --force"
    folder = os.path.dirname(path) or "."
    if not path or os.path.lexists(path) and not (os.path.isfile(path) or os.path.islink(path)):
        return f"'{path}' is no file to write a policy to"
    if not os.path.isdir(folder):
        return f"{path}: there is no such folder"
    if not os.access(folder, os.W_OK | os.X_OK, effective_ids=True):
        return f"{path}: no file can be made in this folder: name one in another by -o"
    return ""


def publish(path: str, text: str, force: bool) -> None:
    """Writes the policy, which nobody else may write to: libzc would not take it then.  Raises
    FileExistsError where a file is there, unless it may be overwritten."""
    with output.written(path, 0o644, anew=not force) as file:
        file.write(text)
