# SPDX-License-Identifier: MIT
"""zc explain: which rule takes a request and why; or what became of every site of a log."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass, field
from typing import Callable, Iterable, Iterator

from .. import auto, counters, logs, policies, presets, screen, table, units
from .. import learn as lessons

EPILOG = "Logs need the level `allocs` or `events` (ZC_LOG_LEVEL, or zc run)."
EXAMPLES = ("zc explain policy.conf --size 64M   one request against every rule",
            "zc explain logs                     every site of logs: its rule and place",
            "zc explain policy.conf logs         every site, and the rule it would get",
            "zc explain auto logs                the same by what ZC_POLICY=auto has learned")

# Options that describe a request, by their names in policies.Request.
FACTS = {
    "api": ("API", "the call that asks, of runtime, driver or libc (cudaMalloc)"),
    "size": ("SIZE", "bytes asked for: 4096, 64K, 2M, 1G"),
    "module": ("NAME", "file name of the object whose code asks"),
    "site": ("ID", "call path, as the log prints it"),
    "exe": ("NAME", "file name of the program"),
    "thread": ("NAME", "name of the calling thread"),
    "device": ("N", "CUDA ordinal of the current device"),
    "grown": ("yes|no", "whether an array on the device has grown (no)"),
    "nth": ("N", "which of the requests that fit the other keys (1)"),
}


def _number(text: str) -> str:
    """Digits from the command line, for argparse; the policy's parser reads them."""
    if not (text.isascii() and text.isdigit()):
        raise ValueError
    return text


def _site(text: str) -> str:
    """A call path as logs have it, for argparse."""
    int(text, 16)
    return text


_number.__name__, _site.__name__ = "number", "site"  # As argparse names them in messages.
CHOICES = {"grown": ("yes", "no")}
FORMS = {"device": _number, "nth": _number, "site": _site}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="POLICY|LOG", nargs="+", help="a policy, logs, or both")
    for name, (metavar, line) in FACTS.items():
        parser.add_argument(f"--{name}", metavar=metavar, help=line, type=FORMS.get(name, str),
                            choices=CHOICES.get(name))
    parser.epilog = EPILOG
    parser.examples = EXAMPLES


def run(args: argparse.Namespace) -> int:
    learns = args.file[0] == auto.NAMES[0]
    args.file = [auto.one() if name == auto.NAMES[0] else presets.path(name)
                 for name in args.file]
    facts = {name: getattr(args, name) for name in FACTS if getattr(args, name) is not None}
    is_log = [_is_log(path) for path in args.file]
    policy = None if is_log[0] else args.file[0]
    paths = args.file[0 if policy is None else 1:]
    if not all(is_log[1:]):
        screen.message("the first file may be a policy, all others must be logs")
        return 2
    if policy is not None and not paths:
        if "size" not in facts:
            screen.message("which request? Give a --size and what else is known of it, or a log")
            return 2
        return _explain_request(policy, facts, learns)
    if facts:
        screen.message(f"--{next(iter(facts))} describes one request; a log has its own")
        return 2
    return _explain_logs(policy, paths)


def _is_log(path: str) -> bool:
    """A log begins with a brace, a counters file with its magic; a folder holds logs."""
    try:
        with open(path, "rb") as file:
            head = file.read(len(counters.MAGIC))
    except IsADirectoryError:
        return True
    return head.startswith(b"{") or head == counters.MAGIC or (
        not head and logs.is_log_name(path))


def _explain_request(policy: str, facts: dict[str, str], learns: bool) -> int:
    request = policies.Request(**{"api": "cudaMalloc", "device": "0", "nth": "1", **facts})
    try:
        with policies.Judge(policy) as judge:
            taker, verdicts = judge.ask(request)
    except policies.Refused as refused:
        screen.message(str(refused))
        return 2
    except policies.Failed as failed:
        return failed.status
    columns = [table.text("Rule"), table.Column("Line"), table.text("Verdict", least=0),
               table.text("Because", least=0)]
    if verdicts:
        lines = table.render(columns, [(v.rule, v.line, v.outcome, _because(v)) for v in verdicts],
                             screen.width())
        print("\n".join(lines) + "\n")
    place = next((v.places for v in verdicts if v.outcome == "takes"), "")
    said = (f"{request.api} of {request.size}{' bytes' if request.size.isdigit() else ''} "
            + (f"goes to rule '{taker}': {place}" if taker else
               "is taken by no rule: it stays where the program puts it"))
    if learns and not taker and "realloc" not in request.api and lessons.tried(verdicts):
        said += (". Of a call path the first two such blocks, the 16th, 32nd and "
                 f"so on are tried as rule '{lessons.BASE}' has it; once they have paid, "
                 "so are the others of that run")
    screen.say(said)
    return 0


def _because(verdict: policies.Verdict) -> str:
    if verdict.outcome == "takes":
        return f"place = {verdict.places}"
    if verdict.outcome == "behind":
        return "it fits, but an earlier rule takes the request"
    if verdict.key == "place":
        return f"such a request can't go to {verdict.wanted}"
    has = units.size(int(verdict.got)) if verdict.key == "size" else verdict.got
    got = f"the request has {has}" if has else "the request's is not known"
    return f"{verdict.key} = {verdict.wanted}; {got}"


@dataclass
class Site:
    """The requests of one site that fared alike."""

    blocks: int = 0
    bytes: int = 0


@dataclass
class Sites:
    """Every site of some logs, by how its requests fared."""

    fared: dict[tuple[str, ...], Site] = field(default_factory=dict)
    caller: dict[str, str] = field(default_factory=dict)
    module: dict[str, str] = field(default_factory=dict)
    native: dict[str, str] = field(default_factory=dict)  # The id that rules match.
    learned: list[str] = field(default_factory=list)      # Decisions of runs meanwhile.

    def frames(self, record: logs.Record) -> None:
        frames = logs.strings(record, "frames")
        if frames:
            site = logs.string(record, "site")
            self.caller[site] = logs.innermost(logs.call_path(record))
            self.module[site] = frames[0].rpartition("+")[0]
            self.native[site] = logs.string(record, "native", site)

    def add(self, site: str, size: int, *how: str) -> None:
        entry = self.fared.setdefault((site, *how), Site())
        entry.blocks += 1
        entry.bytes += size

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Site, caller, blocks, bytes and how they fared, the most bytes first."""
        ranked = sorted(self.fared.items(), key=lambda item: (-item[1].bytes, item[0]))
        for (site, *how), entry in ranked:
            yield (site, self.caller.get(site, "?"), units.count(entry.blocks),
                   units.size(entry.bytes), *how)


def _rule_of(record: logs.Record) -> str:
    """The rule and its line, as messages of the library name them."""
    name = logs.string(record, "rule")
    return f"{name}:{logs.number(record, 'line')}" if name else "-"


def _request_of(record: logs.Record, exe: str, sites: Sites) -> policies.Request:
    site = logs.string(record, "site")
    device = logs.number(record, "device")
    return policies.Request(
        api=logs.string(record, "api"), size=str(logs.number(record, "size_bytes")),
        module=sites.module.get(site, ""), site=sites.native.get(site, site), exe=exe,
        device=str(device) if device >= 0 else "",
        thread=logs.string(record, "thread_name"))


def _read(paths: Iterable[str], each: Callable[[logs.Record, logs.Log, Sites], None]) -> Sites:
    sites = Sites()
    for path in paths:
        log = logs.Log(path, lambda problem: screen.message(str(problem)))
        for record in log.records(("site", "alloc", "warn")):
            if record["type"] == "site":
                sites.frames(record)
            elif record["type"] == "warn" and record.get("code") == auto.NAMES[0]:
                sites.learned.append(logs.string(record, "text"))
            elif record["type"] == "alloc" and record.get("foreign") is not True:
                each(record, log, sites)
    return sites


def _explain_logs(policy: str | None, arguments: list[str]) -> int:
    paths = logs.discover(arguments)
    columns = [table.text("Site", least=8), table.text("Caller"), table.Column("Blocks"),
               table.Column("Bytes"), table.text("Request", least=0, drop=1)]
    if policy is None:
        columns += [table.text("Rule", least=0), table.text("Place", least=0),
                    table.text("Why", least=0)]
        sites = _read(paths, lambda record, log, sites: sites.add(
            logs.string(record, "site"), logs.number(record, "size_bytes"),
            logs.string(record, "api"), _rule_of(record), logs.string(record, "place", "?"),
            logs.string(record, "why")))
    else:
        columns += [table.text("Was", least=0), table.text("Rule", least=0),
                    table.text("Place", least=0)]
        try:
            sites = _judge(policy, paths)
        except policies.Failed as failed:
            return failed.status
    if not sites.fared:
        screen.message("no request is logged there: logs have them at the levels 'allocs' and "
                       "'events' (ZC_LOG_LEVEL, or 'zc run')")
        return 1
    width, left_out = screen.width(), []
    print("\n".join(table.render(columns, sites.rows(), width, left_out)
                    + table.told(left_out, width)))
    for said in sites.learned:
        screen.say(f"Within the run: {said}.")
    return 0


def _judge(policy: str, paths: Iterable[str]) -> Sites:
    """The places of logs' requests under a policy, each process from its first request on.
    Says which rules ask for what the log does not tell."""
    sites = Sites()
    untold: dict[tuple[str, int, str], int] = {}
    refused: dict[tuple[str, str], int] = {}
    for path in paths:
        with policies.Judge(policy) as judge:
            def each(record: logs.Record, log: logs.Log, seen: Sites) -> None:
                request = _request_of(record, logs.string(log.meta, "exe"), seen)
                try:
                    rule, verdicts = judge.ask(request)
                except policies.Refused as why:
                    key = log.path, str(why)
                    refused[key] = refused.get(key, 0) + 1
                    return
                taking = next((v for v in verdicts if v.outcome == "takes"), None)
                for rule_of, line, key in _untold(record, verdicts):
                    untold[rule_of, line, key] = untold.get((rule_of, line, key), 0) + 1
                sites.add(logs.string(record, "site"), int(request.size), request.api,
                          logs.string(record, "place", "?"),
                          f"{rule}:{taking.line}" if taking else "-",
                          taking.places if taking else "as asked")

            seen = _read([path], each)
        sites.caller.update(seen.caller)
    for (path, why), count in refused.items():
        screen.message(f"{path}: {units.count(count)} {'request' if count == 1 else 'requests'} "
                       f"left out: {why}")
    for (name, line, key), count in untold.items():
        fact = "growth of arrays" if key == "grown" else key
        screen.message(f"rule '{name}' in line {line} asks for the {fact}, which the log does not "
                       f"tell of {units.count(count)} {'request' if count == 1 else 'requests'}: "
                       "taken as not fitting")
    return sites


def _untold(record: logs.Record,
            verdicts: Iterable[policies.Verdict]) -> Iterator[tuple[str, int, str]]:
    """Name and line of each rule that fails for want of a fact, and its key: threads of libc's
    blocks and whether an array had grown are not in the log."""
    for verdict in verdicts:
        if verdict.outcome == "fails" and (
                verdict.key == "grown" or verdict.key == "thread" and not verdict.got):
            yield verdict.rule, verdict.line, verdict.key
