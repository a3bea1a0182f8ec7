#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Files that commands write: whole or not at all, in the place of links and never through them.

load programs

# Every option that names a file to write, as the command's own help tells: a line each, with what
# FILE stands for.  An option without a line is a failure.
USES=(
    'run --export-json FILE -r 1 -c off -- killed 1 _exit'
    'run --export-markdown FILE -r 1 -c off -- killed 1 _exit'
    'tune --output FILE --force --time 1 --metric bytes -- gather 8192 64'
    'init --output FILE --force -- gather'
    'auto --export FILE --force killed'
    'report --html FILE log.jsonl'
    'report --trace FILE log.jsonl'
    'diff --html FILE log.jsonl log.jsonl'
    'export --output FILE --prometheus log.jsonl'
)

setup() {
    need_gpu_programs
    cd "$BATS_TEST_TMPDIR"
    mkdir bin
    ln -s "$KILLED" bin/killed
    # Its tables are enough to write a rule for, which is left out where nothing is to be gained.
    printf '#!/bin/sh\n"%s" "$@" | grep -o "checksum[^,]*"\n' "$GATHER" >bin/gather
    chmod +x bin/gather
    export PATH=$PWD/bin:$PATH XDG_CACHE_HOME=$PWD/cache
    mkdir -p cache/libzc/auto
    "$ZC" presets everyday >cache/libzc/auto/killed-0123456789abcdef.conf
    ZC_LOG=$PWD/log.jsonl ZC_LOG_LEVEL=events LD_PRELOAD=$LIBZC killed 1 _exit || true
}

# Runs a line of USES for a file; $status is its exit status: use LINE FILE [PREFIX...]
use() {
    local file=$2
    local -a words
    read -r -a words <<<"${1//FILE/$file}"
    run "${@:3}" "$ZC" "${words[@]}"
}

@test "every option that names a file to write is used here" {
    local command
    for command in $("$ZC" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        # Beside those that are read, and folders, which are made anew.
        "$ZC" "$command" --help | sed -nE "s/^  (-[a-z], )?(--[a-z-]+) FILE( .*|$)/$command \2/p"
    done | grep -vxE 'tune --same|jupyter --python' | sort >asked
    printf '%s\n' "${USES[@]}" | cut -d ' ' -f 1,2 | sort | diff asked -
}

@test "a link is replaced by the file, and what it leads to stays" {
    local line
    echo mine >target
    for line in "${USES[@]}"; do
        rm -f file
        ln -s target file
        use "$line" file
        [[ $line == tune* || $status == 0 ]]
        [[ $(cat target) == mine && -z $(find . -name '.zc-*') ]]
        # Nothing may be gained, so that no policy is written.
        [[ $line == tune* || -s file && ! -L file ]]
        if [[ ! -L file ]]; then
            [[ $(stat -c %a file) == 644 ]]
        fi
    done
}

@test "what was there stays as it was where writing fails, with its permissions where not" {
    local line
    for line in "${USES[@]}"; do
        # Programs write nothing under a limit that stands for a full disk.
        [[ $line == report* || $line == diff* || $line == export* ]] || continue
        echo mine >file
        chmod 600 file
        use "$line" file bash -c 'ulimit -f 0; exec "$@"' bash
        [[ $status == 1 && $output == *"zc: file: File too large" && $(cat file) == mine ]]
        use "$line" file
        [[ $status == 0 && $(cat file) != mine && $(stat -c %a file) == 600 ]]
        [[ -z $(find . -name '.zc-*') ]]
    done
}

@test "a signal leaves what was there, and no part of the new file" {
    echo mine >file
    run -130 env PYTHONPATH="${ZC%/*}" python3 -c '
from zclib import cli, output, signals
import os, signal, sys
signals.prepare()
try:
    with output.written("file") as out:
        out.write("part")
        out.flush()
        os.kill(os.getpid(), signal.SIGINT)
except KeyboardInterrupt as error:
    sys.exit(signals.status(error))'
    [[ $(cat file) == mine && -z $(find . -name '.zc-*') ]]
}

@test "pipes and open files are written to, a link to a device is replaced" {
    mkfifo pipe
    cat pipe >copy &
    "$ZC" report --html pipe log.jsonl >/dev/null
    wait $!
    grep -q uPlot copy
    "$ZC" report --html /dev/fd/7 log.jsonl 7>copy >/dev/null
    grep -q uPlot copy
    "$ZC" report --html /dev/stdout log.jsonl >copy
    grep -q uPlot copy
    ln -s /dev/null link
    "$ZC" report --html link log.jsonl >/dev/null
    [[ -s link && ! -L link ]]
}

@test "a file that may not be written to, and one whose folder takes none, is refused before" {
    ((EUID)) || skip "root may write to all"
    echo mine >file
    chmod 400 file
    run -1 "$ZC" report --html file log.jsonl
    [[ $output == "zc: file: Permission denied" && $(cat file) == mine ]]
}

@test "what programs print in a comparison goes to new files, and not through links" {
    mkdir -p logs/bare
    echo mine >target
    ln -s ../../target logs/bare/stdout
    "$ZC" run -o logs -r 1 -c off -- gather 2>/dev/null || true
    [[ $(cat target) == mine ]]
}
