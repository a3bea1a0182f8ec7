#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Every command of zc in a folder of somebody else, which has a file for each module that Python
# could look for there, and for each tool: none of them is run.

load programs

# How each command does all that it starts other processes for, or reads modules for: a line each.
# A command of zc without a line is a failure.
USES=(
    'run -q -o logs -- killed 1 _exit'
    'run -r 1 -c off --export-json times.json -- killed 1 _exit'
    'tune --force --time 3 --check true -- killed 1 _exit'
    'tune --force --time 3 --metric "echo 1" -- killed 1 _exit'
    'init --force -- killed 1 _exit'
    'auto --learn log.jsonl'
    'auto --show'
    'presets everyday'
    'check --keys'
    'explain --size 1M policy.conf log.jsonl'
    'report log.jsonl'
    'report --html page.html --trace trace.json log.jsonl'
    'report --engine dask log.jsonl'
    'report --engine ray log.jsonl'
    'report --engine mpi log.jsonl'
    'pack -o packed log.jsonl'
    'diff --html diff.html log.jsonl log.jsonl'
    'export --prometheus -o zc.prom log.jsonl'
    'export --opentelemetry log.jsonl'
    'top -n 1 log.jsonl'
    'jupyter remove'
    'doctor --measure'
    'demo --simulated'
)

setup() {
    need_gpu_programs
    # A terminal, on which some commands do more, as a program that starts another one.
    cat >"$BATS_TEST_TMPDIR/terminal.py" <<'PYTHON'
import os, pty, sys
sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))
PYTHON
    tree=$PWD
    mkdir "$BATS_TEST_TMPDIR/nvml" "$BATS_TEST_TMPDIR/poisoned" "$BATS_TEST_TMPDIR/bin"
    ${CC:-gcc} -shared -fPIC -o "$BATS_TEST_TMPDIR/nvml/libnvidia-ml.so.1" tests/tools/fake_nvml.c
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/nvml:$LD_LIBRARY_PATH XDG_CACHE_HOME=$BATS_TEST_TMPDIR
    export PATH=${KILLED%/*}:$PATH PYTHONDONTWRITEBYTECODE=1
    MARK=$BATS_TEST_TMPDIR/ran
    # An address in the program itself, so that addr2line is asked for.
    ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl ZC_LOG_LEVEL=events LD_PRELOAD=$LIBZC killed 1 _exit || true
    cd "$BATS_TEST_TMPDIR/poisoned"
    mv ../log.jsonl .
    "$ZC" presets everyday >policy.conf
    poison
}

# Puts a module for each of Python's, of zc's and of the packages that zc knows, and a tool for each
# that zc starts; all of them say their name in $MARK.
poison() {
    python3 -I - "$tree/scripts" "$MARK" <<'PYTHON'
import ast, pathlib, pkgutil, sys, sysconfig
names = set(getattr(sys, "stdlib_module_names", ()))
names |= {module.name for module in pkgutil.iter_modules([sysconfig.get_path("stdlib")])}
names |= {"zclib", "libzc", "sitecustomize", "usercustomize"}
names |= {"dask", "distributed", "ray", "mpi4py"}
for path in pathlib.Path(sys.argv[1]).rglob("*.py"):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
text = f"open({sys.argv[2]!r}, 'a').write(__name__ + '\\n')\n"
for name in names - set(sys.builtin_module_names):
    pathlib.Path(name + ".py").write_text(text)
for name in "sh", "addr2line", "debuginfod-find", "zc-policy", "zc-views", "env", "python3":
    tool = pathlib.Path(name)
    tool.write_text(f"#!/bin/sh\necho {name} >>'{sys.argv[2]}'\n")
    tool.chmod(0o755)
PYTHON
}

# Runs every line of USES by a command: use_all COMMAND...
use_all() {
    local use
    for use in "${USES[@]}"; do
        # With the packages to send with, it sends until it is ended.
        if [[ $use == *--opentelemetry* ]] && python3 -I -c 'import opentelemetry' 2>/dev/null; then
            continue
        fi
        # The line is split into words, as a shell does it.
        eval "set -- $use"
        run python3 -I "$BATS_TEST_TMPDIR/terminal.py" "${command[@]}" "$@"
        echo "# $use: $status" >&2
        [[ $status -lt 125 && $output != *Traceback* ]]
        if [[ -e $MARK ]]; then
            echo "zc $use ran: $(sort -u "$MARK" | tr '\n' ' ')"
            return 1
        fi
    done
}

@test "every command is used here" {
    run -0 python3 -I -c 'import sys
sys.path.insert(0, sys.argv[1])
from zclib import cli
print(*cli.available(), sep="\n")' "$tree/scripts"
    [[ $output == "$(printf '%s\n' "${USES[@]%% *}" | awk '!seen[$0]++')" ]]
}

@test "no command runs a module or a tool of the current folder" {
    command=("$ZC")
    use_all
}

@test "nor does zc behind a link in that folder, and with it in PATH" {
    ln -s "$ZC" zc
    command=(env PATH=":.:$PATH" DEBUGINFOD_URLS=x "$(command -v python3)" zc)
    use_all
}

@test "nor where empty parts of PYTHONPATH mean that folder" {
    # Python itself, and the packages installed for it, read these before any program's own line.
    python3 -I -c 'import sys; print(*(name + ".py" for name in sys.modules))' | xargs rm -f
    export PYTHONPATH=:
    until python3 -c pass && [[ ! -e $MARK ]]; do
        sed 's/$/.py/' "$MARK" | xargs rm
        rm "$MARK"
    done
    command=("$ZC")
    use_all
}
