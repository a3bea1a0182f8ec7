# SPDX-License-Identifier: MIT
"""Asks zc-policy, the library's own parser as a program, about policy files."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from dataclasses import dataclass
from typing import NamedTuple, Sequence

from . import builds, install

FIELD_END = "\x1f"  # Between the fields of a line; no policy can hold it.


@dataclass
class Request:
    """One allocation as rules see it; an empty string is a fact that is not known."""

    api: str
    size: str
    module: str = ""
    site: str = ""
    exe: str = ""
    thread: str = ""
    device: str = ""
    nth: str = ""
    grown: str = ""

    def line(self) -> str:
        """As zc-policy reads it.  Separators inside names would shift the fields."""
        fields = (self.api, self.size, self.module, self.site, self.exe, self.thread, self.device,
                  self.nth, self.grown)
        return FIELD_END.join("".join("?" if char < " " else char for char in field)
                              for field in fields) + "\n"


@dataclass
class Verdict:
    """One rule's answer to a request."""

    rule: str
    line: int
    outcome: str   # takes, fails, behind
    key: str       # The first key that fails.
    wanted: str    # Its value in the file.
    got: str       # The request's value there.
    places: str    # The rule's list of places, as in the file.


class Failed(Exception):
    """zc-policy has refused, after a message of its own on stderr; the status is its own."""

    def __init__(self, status: int) -> None:
        super().__init__(f"zc-policy ended with status {status}")
        self.status = status


class Refused(Exception):
    """The name is that of no request; the text says why."""


class Judge:
    """The rules of one policy, for a series of requests: ordinals (`nth`) count on from one to the
    next, as in a process."""

    def __init__(self, policy: str) -> None:
        self._tool = subprocess.Popen(
            [install.policy_tool(), "explain", policy], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, encoding="utf-8", errors="surrogateescape", bufsize=1)

    def __enter__(self) -> Judge:
        return self

    def __exit__(self, *_: object) -> None:
        self._ended()

    def ask(self, request: Request) -> tuple[str, list[Verdict]]:
        """The name of the rule that takes the request ("" for none), and every rule's verdict.
        Raises Refused."""
        assert self._tool.stdin and self._tool.stdout
        try:
            self._tool.stdin.write(request.line())
            self._tool.stdin.flush()
        except BrokenPipeError:
            # The tool has ended with a message.  What is still buffered has nowhere to go.
            raise Failed(self._ended()) from None
        verdicts = []
        for line in self._tool.stdout:
            fields = line.rstrip("\n").split(FIELD_END)
            if fields[0] == "end" and len(fields) == 2:
                return fields[1], verdicts
            if fields[0] == "refused" and len(fields) == 2:
                raise Refused(fields[1])
            rule, at, outcome, key, wanted, got, places = fields
            verdicts.append(Verdict(rule, int(at), outcome, key, wanted, got, places))
        raise Failed(self._ended())

    def _ended(self) -> int:
        assert self._tool.stdin and self._tool.stdout
        try:
            self._tool.stdin.close()
        except BrokenPipeError:
            pass
        self._tool.stdout.close()
        return self._tool.wait()


def check(policy: str | None) -> int:
    """Prints the faults of a policy on stdout, and which modules of its call paths were rebuilt;
    returns 1 on errors."""
    done = subprocess.run([install.policy_tool(), "check", *([policy] if policy else [])],
                          check=False, stdout=subprocess.PIPE, encoding="utf-8",
                          errors="surrogateescape")
    *lines, last = done.stdout.splitlines() or [""]
    file = (policy or path(None)) if last else None
    stale = list(builds.rebuilt(file)) if file else []
    name = last.rpartition(": ")[0]
    lines += [f"{name}:{number}:1: warning: {text}" for number, text in stale]
    count = re.search(r"(\d+) warnings?$", last)
    if stale and count:
        warnings = int(count[1]) + len(stale)
        last = f"{last[:count.start()]}{warnings} warning{'s' * (warnings != 1)}"
    if last:
        print("\n".join([*lines, last]))
    return done.returncode


class Key(NamedTuple):
    """A key of policy.conf, as the parser's own table has it."""

    name: str
    scope: str    # match, place (both in a rule), defaults
    places: str   # Those that it has a meaning for; "" where that does not matter.
    values: str   # The accepted form.
    meaning: str


def keys() -> list[Key]:
    """All keys, in the order of the manual."""
    done = subprocess.run([install.policy_tool(), "keys"], check=True, stdout=subprocess.PIPE,
                          encoding="utf-8")
    return [Key(*line.split(FIELD_END)) for line in done.stdout.splitlines()]


def apis() -> list[str]:
    """Every name that `api` knows."""
    done = subprocess.run([install.policy_tool(), "apis"], check=True, stdout=subprocess.PIPE,
                          encoding="utf-8")
    return done.stdout.splitlines()


@functools.cache
def rank() -> int | None:
    """The rank of this process where a launcher has started it, as rules have it; else None."""
    done = subprocess.run([install.policy_tool(), "rank"], check=False, stdout=subprocess.PIPE)
    return int(done.stdout) if done.returncode == 0 else None


def faults(policy: str) -> str:
    """The output of check(), as text."""
    return subprocess.run([install.policy_tool(), "check", policy], check=False,
                          stdout=subprocess.PIPE, encoding="utf-8",
                          errors="surrogateescape").stdout


def path(asked: str | None) -> str | None:
    """The policy file that a program started here would get, absolute; None for none, after a
    message where there is one that must not be used."""
    done = subprocess.run([install.policy_tool(), "path", *([asked] if asked else [])],
                          check=False, stdout=subprocess.PIPE)
    return os.path.abspath(os.fsdecode(done.stdout)[:-1]) if done.returncode == 0 else None


def get(policy: str, key: str) -> str | None:
    """The value of a key, named RULE.KEY or defaults.KEY; None where it is not given.  "" is the
    policy that a program started here would get, which is opened as carefully."""
    done = subprocess.run([install.policy_tool(), "get", policy, key], check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return os.fsdecode(done.stdout).rstrip("\n") if done.returncode == 0 else None


def edited(policy: str, settings: Sequence[str]) -> bytes:
    """The text of a policy with settings RULE.KEY=VALUE.  Raises Failed, after a message."""
    done = subprocess.run([install.policy_tool(), "set", policy, *settings], check=False,
                          stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise Failed(done.returncode)
    return done.stdout
