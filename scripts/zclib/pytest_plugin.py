# SPDX-License-Identifier: MIT
"""`pytest --zc`: tests run under libzc, fail where they copy more than their marker allows, and the
session ends with those that copied most.

    @pytest.mark.limit_copies("64 MB")                  # bytes that were moved
    @pytest.mark.limit_copies(copies=10, blocked="5 ms")

The numbers are those of the test's own process while the test itself ran, without its fixtures.
pytest imports this at each start, so that all else is imported where it is asked for.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

PROPERTY = "zc"
MOST = 5  # Tests that the end names.


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("zc", "copies between host and device")
    group.addoption("--zc", action="store_true",
                    help="run under libzc: limit_copies holds, and the end says what copied most")
    group.addoption("--zc-policy", metavar="POLICY",
                    help="with --zc: policy, =@PRESET or off")
    group.addoption("--zc-logs", metavar="DIR", help="with --zc: keep the logs in this folder")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line(
        "markers", "limit_copies(moved, **limits): with --zc, the test fails where it moved more "
        "bytes than that, as in '64 MB'; or by name: moved, asked, copied, elided, pageable, "
        "copies, blocked")
    if config.getoption("zc"):
        config.pluginmanager.register(Plugin(), "zc-session")


# Before pytest takes what is printed: the new process would not get it back.
@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: Any) -> Any:
    asked = early_config.known_args_namespace
    if getattr(asked, "zc", False):
        _start_under_libzc(asked.zc_policy, asked.zc_logs)
    yield


def _start_under_libzc(policy: str | None, folder: str | None) -> None:
    """Starts pytest again, unless libzc is there.  Raises UsageError."""
    import tempfile

    from . import enable, install, logs, program

    if program.present():
        return
    try:
        chosen = enable.file(policy)
        why = enable.NOT_PRELOADED if enable.was_started_again() else \
            next(iter(enable.obstacles()), "")
    except (ValueError, install.MissingPart, logs.LogError) as error:
        why = str(error)
    if why:
        _remove_logs()
        raise pytest.UsageError(f"--zc: {why}")
    if folder is not None:
        os.makedirs(folder, exist_ok=True)
    kept = os.path.abspath(folder or tempfile.mkdtemp(prefix="zc-pytest-"))
    os.environ["ZC_LOG"] = os.path.join(kept.replace("%", "%%"), "zc.%h.%e.%p.jsonl")
    os.environ["ZC_SUMMARY"] = "0"
    os.environ.setdefault("ZC_LOG_LEVEL", "allocs")
    if folder is None:
        os.environ["ZC_PYTEST_LOGS"] = f"{os.getpid()}:{kept}"  # To be removed at the end.
    enable.start_again(chosen)


def _remove_logs() -> None:
    """Removes the folder that this process made for its logs."""
    import shutil

    pid, _, folder = os.environ.get("ZC_PYTEST_LOGS", "").partition(":")
    if pid == str(os.getpid()):
        shutil.rmtree(folder, ignore_errors=True)


class Plugin:
    """The plugin of a session with --zc."""

    def __init__(self) -> None:
        from .meter import Meter

        self._meter = Meter()

    @pytest.hookimpl(specname="pytest_runtest_call", tryfirst=True)
    def pytest_zc_before(self, item: Any) -> None:
        self._meter.begin()
        item.user_properties[:] = [one for one in item.user_properties if one[0] != PROPERTY]

    @pytest.hookimpl(specname="pytest_runtest_call", trylast=True)
    def pytest_zc_after(self, item: Any) -> None:
        """Only where the test has not failed otherwise."""
        self._keep(item)
        for marker in item.iter_markers("limit_copies"):
            for broken in _broken(marker, self._meter.since()):
                pytest.fail(broken, pytrace=False)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: Any) -> None:
        self._keep(item)

    def _keep(self, item: Any) -> None:
        """Reports carry it, those of other processes (pytest-xdist) as well."""
        if not any(name == PROPERTY for name, _ in item.user_properties):
            amounts = self._meter.since().amounts
            if amounts["copies"]:
                item.user_properties.append((PROPERTY, [amounts[name] for name in (
                    "moved", "copies", "blocked")]))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from . import units

        found = {}
        for reports in terminalreporter.stats.values():
            for report in reports:
                for name, value in getattr(report, "user_properties", ()):
                    if name == PROPERTY:
                        found[report.nodeid] = value
        terminalreporter.section("zc: tests that copied most")
        ranked = sorted(found.items(), key=lambda item: (-item[1][0], -item[1][1], item[0]))
        for test, (moved, calls, blocked_ns) in ranked[:MOST]:
            terminalreporter.write_line(
                f"{units.size(moved)} moved in {units.count(calls)} "
                f"{'copy' if calls == 1 else 'copies'}, {units.duration(blocked_ns)}: {test}")
        if len(ranked) > MOST:
            terminalreporter.write_line(f"and {len(ranked) - MOST} more that copied")
        if not ranked:
            terminalreporter.write_line("no test copied")

    def pytest_unconfigure(self) -> None:
        _remove_logs()


def _broken(marker: Any, copied: Any) -> list[str]:
    """How a test broke a marker's limits, in words.  Raises UsageError for one that is wrong."""
    from . import gate

    limits = dict(marker.kwargs)
    if len(marker.args) > 1 or not (marker.args or limits):
        raise pytest.UsageError("limit_copies takes a limit, as in limit_copies('64 MB')")
    if marker.args:
        limits["moved"] = marker.args[0]
    broken = []
    for name, limit in limits.items():
        try:
            condition = gate.condition(f"{name} > {limit}")
        except ValueError as error:
            raise pytest.UsageError(f"limit_copies: {error}") from None
        value = copied.amounts[name]
        if value > condition.limit:
            broken.append(f"limit_copies allows {name} {limit}: this test has "
                          f"{condition.metric.shown(value)}")
    return broken
