# SPDX-License-Identifier: MIT
"""Runs one test case against one build of the library."""

import os
import re
import resource
import signal
import subprocess
import time

from .build import ROOT


def names(file):
    """The test cases of a .bats file."""
    found = re.findall(r'^@test (["\'])(.*)\1 \{', (ROOT / file).read_text(), re.M)
    return [re.sub(r"\\(.)", r"\1", name) for _, name in found]


def command(test, folder):
    file, _, case = test.partition(" ")
    if not file.endswith(".bats"):
        return [str(ROOT / folder / "unit" / file)]
    literal = re.sub(r"([^A-Za-z0-9_ ,:'\"/=<>%&;#@!~-])", r"\\\1", case)
    return ["bats", "--tap", "-f", f"^{literal}$", file]


def environment(folder, more):
    keep = {k: v for k, v in os.environ.items()
            if not k.startswith(("ZC_", "SIM_", "BATS_")) and k != "LD_PRELOAD"}
    return {**keep, "ZC_BUILD": folder, "LC_ALL": "C", **more}


def cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(test, folder, seconds, inside, **more):
    """One of passed, failed, hung; and the seconds of CPU and of the clock that it took.  The
    library is that of `folder`; the test runs in the tree of the Folder `inside`, and what it
    started or wrote there is gone at the end."""
    began, used = time.monotonic(), cpu()
    # Should this process be killed, nobody else ends what loops.
    most = (4 * max(int(seconds), 1),) * 2
    process = subprocess.Popen(command(test, folder), cwd=inside.tree, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, most),
                               env=environment(folder, {"TMPDIR": inside.tree / "tmp", **more}),
                               start_new_session=True)
    try:
        out, _ = process.communicate(timeout=seconds)
        result = "passed" if process.returncode == 0 else "failed"
        if test.split(" ")[0].endswith(".bats") and b"\nok 1" not in out:
            result = "failed"
    except subprocess.TimeoutExpired:
        result = "hung"
    for _ in range(2):
        end_session(process.pid)
    process.wait()
    process.stdout.close()
    inside.clean()
    return result, cpu() - used, time.monotonic() - began


def end_session(leader):
    """`timeout` gives what it runs a process group of its own, but everything has the session."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()
            if int(fields[3]) == leader:
                os.kill(int(entry), signal.SIGKILL)
        except (OSError, IndexError):
            continue
