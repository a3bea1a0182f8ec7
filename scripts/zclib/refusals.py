# SPDX-License-Identifier: MIT
"""Calls that libzc refused: a program that ignores errors goes on with wrong data."""

from __future__ import annotations

from typing import Any, Iterable

from .logs import Log, LogError, Record, number, rows, string


class Refusals:
    """How many calls were refused, and by which rules."""

    __slots__ = ("calls", "rules")

    def __init__(self) -> None:
        self.calls = 0
        # By policy, rule and its line; a process names the first 16 rules.
        self.rules: dict[tuple[str, str, int], int] = {}

    @staticmethod
    def of(parts: Iterable[Refusals]) -> Refusals:
        """The sum."""
        total = Refusals()
        for part in parts:
            total._add(part)
        return total

    def _add(self, other: Refusals) -> None:
        self.calls += other.calls
        for rule, calls in other.rules.items():
            self.rules[rule] = self.rules.get(rule, 0) + calls

    def take(self, summary: Record, policy: str) -> None:
        """Adds what the summary of a process says."""
        self.calls += number(summary, "refused_calls")
        for row in rows(summary, "refused"):
            rule = (policy, string(row, "rule"), number(row, "line"))
            self.rules[rule] = self.rules.get(rule, 0) + number(row, "calls")

    def words(self) -> str:
        """`3 calls were refused because of rule tables (policy.conf:4): do not trust the results`;
        "" where none was."""
        if not self.calls:
            return ""
        because = ", ".join(f"rule {rule} ({policy or 'line '}{':' if policy else ''}{line})"
                            for policy, rule, line in list(self.rules)[:3])
        more = f" and {len(self.rules) - 3} more" if len(self.rules) > 3 else ""
        return (f"{self.calls} {'call was' if self.calls == 1 else 'calls were'} refused"
                f"{' because of ' if because else ''}{because}{more}: do not trust the results")

    def as_rows(self) -> list[dict[str, Any]]:
        return [{"policy": policy or None, "rule": rule, "line": line, "calls": calls}
                for (policy, rule, line), calls in self.rules.items()]


def in_logs(paths: Iterable[str]) -> Refusals:
    """Of a run's logs.  What can't be read of them is the report's to say."""
    total = Refusals()
    for path in paths:
        log = Log(path, lambda problem: None)
        try:
            for record in log.records(()):
                if record["type"] == "summary":
                    policy = log.meta.get("policy")
                    total.take(record, string(policy, "file") if isinstance(policy, dict) else "")
        except LogError:
            continue
    return total
