# SPDX-License-Identifier: MIT
"""A plugin of pytest that writes a line of JSON when a test begins and when it has ended, at once:
what a process has done is known wherever it crashes.  Tests that have ended before are left out.
A process whose CUDA context a failed test has lost ends with the status CONTEXT_LOST: the tests
behind it would fail as well.

ZC_SUITE_EVENTS names the file.  Alone in its folder, because that is in the tests' sys.path.
"""

import ctypes
import json
import os

CONTEXT_LOST = 70
# CUDA's errors that leave the process in an inconsistent state (CUresult), of kernels all.
LOSING = {700, 702, 710, 714, 715, 716, 717, 718, 719}

_path = os.environ["ZC_SUITE_EVENTS"]
_session, _lost = None, False
_outcome, _why = "passed", ""


def _write(**event):
    # Opened anew: tests may fork, and close what they do not know.
    with open(_path, "a", encoding="utf-8") as file:
        file.write(json.dumps(event) + "\n")


def _ended():
    with open(_path, encoding="utf-8") as file:
        return {event["test"] for event in map(json.loads, file) if "outcome" in event}


def pytest_collection_modifyitems(config, items):
    ended = _ended()
    left = [item for item in items if item.nodeid not in ended]
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in ended])
    items[:] = left


def pytest_runtest_logstart(nodeid, location):
    global _outcome, _why
    _outcome, _why = "passed", ""
    _write(test=nodeid, begins=True)


def _reason(report):
    lines = str(report.longrepr).strip().splitlines()
    errors = [line[1:].strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[-1][:300]


def pytest_collectreport(report):
    if report.outcome == "failed":
        _write(lost=report.nodeid, why=_reason(report))


def pytest_runtest_logreport(report):
    global _outcome, _why
    if report.outcome == "failed" and _outcome != "failed":
        _outcome, _why = "failed", _reason(report)
    elif report.outcome == "skipped" and _outcome == "passed":
        _outcome = "skipped"


def _context_lost():
    """True if the thread's context answers each call with the error of a kernel from now on."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1", mode=os.RTLD_NOLOAD | os.RTLD_NOW)
    except OSError:  # No test has loaded it.
        return False
    return cuda.cuCtxSynchronize() in LOSING


def pytest_sessionstart(session):
    global _session
    _session = session


def pytest_runtest_logfinish(nodeid, location):
    global _lost
    _write(test=nodeid, outcome=_outcome, why=_why)
    if _outcome == "failed" and _context_lost():
        _lost = True
        _session.shouldstop = "the CUDA context is lost"


def pytest_sessionfinish(session):
    if _lost:
        session.exitstatus = CONTEXT_LOST
