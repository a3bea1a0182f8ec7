# SPDX-License-Identifier: MIT
"""The report as Markdown, for the summary of a job or a comment on a pull request: the sentence,
the calls that copied, where the bytes went, and the findings folded up."""

from __future__ import annotations

import re
from typing import Sequence

from .. import names, units
from .data import Data
from .show import ends, few

SPECIAL = re.compile(r"([\\`*_|<>\[\]])")
# A comment by this mark can be found again, and replaced instead of repeated.
MARK = "<!-- zc report -->"


def _plain(text: object) -> str:
    """Text as it is, also in a table."""
    return SPECIAL.sub(r"\\\1", names.shown(text))


def _prose(text: str) -> str:
    """A sentence of the report, whose code stays code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return _plain(text)
    return "`".join(names.shown(part) if at % 2 else _plain(part) for at, part in enumerate(parts))


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table; columns with a `:` behind their headings hold numbers."""
    if not rows:
        return []
    return ["", f"**{title}**", "",
            "| " + " | ".join(heading.rstrip(":") for heading in headings) + " |",
            "|" + "|".join("---:" if heading.endswith(":") else "---"
                           for heading in headings) + "|",
            *("| " + " | ".join(map(_plain, row)) + " |" for row in rows)]


def _findings(data: Data) -> list[str]:
    lines = []
    for number, finding in enumerate(data["findings"], 1):
        lines += ["", f"{number}. {_prose(finding['text'])}."]
        code = finding["rule"] or finding["command"]
        if code:
            lines += ["", "   ```", *(f"   {line}".rstrip() for line in code.splitlines()),
                      "   ```"]
    if not lines:
        return []
    title = f"{len(data['findings'])} finding{'s' * (len(data['findings']) > 1)}"
    return ["", f"<details><summary>{title}</summary>", *lines, "", "</details>"]


def lines(data: Data) -> list[str]:
    """All lines."""
    run, totals = data["run"], data["totals"]
    out = [MARK, f"### zc: {_plain(few(run['programs'], '?'))}", ""]
    out += [_prose(text) for text in (run["refused_text"], run["missed_text"]) if text]
    out += [f"**{_prose(data['headline'])}**", ""]
    gpu = f" on {_plain(few(run['gpus'], '?'))}" if run["gpus"] else ""
    policy = _plain(few(run["policies"], "")) if run["policies"] else "no policy"
    out.append(f"{units.size(totals['asked_bytes'])} asked, "
               f"{units.size(totals['moved_bytes'])} moved in {units.count(totals['asked_calls'])} "
               f"cop{'y' if totals['asked_calls'] == 1 else 'ies'}{gpu}, {policy}")
    out += _table("Calls that copied",
                  ("Caller", "Operation", "Copies:", "Asked:", "Moved:", "Time:"),
                  [[row["caller"], ", ".join(row["by_dir"]), units.count(row["asked_calls"]),
                    units.size(row["asked_bytes"]), units.size(row["moved_bytes"]),
                    units.duration(row["blocked_ns"])] for row in data["callers"]])
    out += _table("Where the bytes went", ("Operation", "From", "To", "Total:", "Count:", "Time:"),
                  [[*ends(row), units.size(row["asked_bytes"]), units.count(row["asked_calls"]),
                    units.duration(row["blocked_ns"])] for row in data["flows"]])
    return out + _findings(data)
