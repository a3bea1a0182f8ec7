#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc top: the counters of processes that run, have ended, or were killed.

load programs

setup() {
    need_gpu_programs
    GOLDEN=$PWD/tests/tools/golden
    cd "$BATS_TEST_TMPDIR"
    export ZC_SUMMARY=0
}

teardown() {
    [[ -z ${COPIER:-} ]] || kill "$COPIER" 2>/dev/null || true
    tmux -L "zc$$" kill-server 2>/dev/null || true
}

# Leaves NAME.counters of a process that was killed.
make_killed() {
    ZC_LOG=$1.jsonl LD_PRELOAD=$LIBZC run -137 "$KILLED" 4
    [[ -s $1.counters ]]
}

# Starts the copier under libzc with the log NAME.jsonl; $COPIER is its process, and a line to the
# descriptor 5 makes it copy again.
start_copier() {
    write_copier
    mkfifo lines
    ZC_LOG=$1.jsonl LD_PRELOAD=$LIBZC python3 copier.py <lines >ready &
    COPIER=$!
    exec 5>lines
    wait_ready 1
}

wait_ready() {
    until (($(grep -c ready ready) >= $1)); do
        kill -0 "$COPIER"
        sleep 0.05
    done
}

@test "the counters of a killed process are shown, once without a terminal" {
    make_killed a
    run -0 "$ZC" top a.counters
    sed -E 's/^ +//; s/^[0-9]+  killed/PID  killed/; s/[0-9.]+ (ns|us|ms|s) /T /g; s/ +/ /g
        s/[0-9a-f]{8} killed\+0x[0-9a-f]+/SITE killed+OFFSET/' <<<"$output" >out
    if [[ -n ${ZC_WRITE_GOLDEN:-} ]]; then
        cp out "$GOLDEN/top-killed.txt"
    fi
    diff "$GOLDEN/top-killed.txt" out
}

@test "what came over the links of other GPUs is told of a process" {
    SIM_DEVICES=2 ZC_LOG=a.jsonl run -137 --separate-stderr under_policy $'[defaults]\nlinks = 2' \
        python3 - <<'PYTHON'
import ctypes, os
SIZE = ctypes.c_size_t(64 << 20)
cuda = ctypes.CDLL("libcuda.so.1")
context, host, block = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0
assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
assert cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemHostAlloc(ctypes.byref(host), SIZE, 0) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), SIZE) == 0
assert cuda.cuMemcpyHtoD_v2(block, host, SIZE) == 0
os.kill(os.getpid(), 9)
PYTHON
    run -0 "$ZC" top a.counters
    [[ $output == *"HtoD "*" 64 MiB "*$'\n'"32 MiB of it over the links of other GPUs"* ]]
}

@test "a log stands for the counters beside it, and a folder for all in it" {
    make_killed a
    make_killed b
    run -0 "$ZC" top a.jsonl
    [[ ${lines[1]} == *" killed "*"killed "*"1.5 MiB"* ]]
    run -0 "$ZC" top .
    [[ ${#lines[@]} == 3 ]]
}

@test "a running process is found by its id, and without one" {
    start_copier a
    run -0 "$ZC" top "$COPIER"
    [[ ${lines[1]} == *"$COPIER"*running*"10 MiB"*"10 MiB"* ]]
    run -0 "$ZC" top
    [[ $output == *"$COPIER"*running*"10 MiB"* ]]
}

@test "zc report takes the id of a process that runs, and says that it goes on" {
    start_copier a
    run -0 --separate-stderr "$ZC" report "$COPIER"
    [[ $output == *"1 process of copier.py (python3"*", still running; log level"* ]]
    [[ $output == *" asked in 10 copies"* ]]
    run -1 "$ZC" report 999999999
    [[ $output == "zc: there is no process 999999999; "* ]]
    exec 5>&-
    wait "$COPIER"
}

@test "with --host each job is one row, with the sums of its processes" {
    export SLURM_JOB_ID=77
    make_killed b
    start_copier a
    unset SLURM_JOB_ID
    make_killed c
    run -0 "$ZC" top --host .
    [[ ${#lines[@]} == 3 && ${lines[0]} == Running* ]]
    [[ ${lines[1]} == *" 1  77: copier.py (python3"*", killed"*running*" 810 "*"11.5 MiB"* ]]
    [[ ${lines[2]} == *" 0  (no job): killed "*killed*" 800 "*"1.5 MiB"* ]]
    # One job has details: of both processes what was copied, of the one that runs what is live.
    run -0 "$ZC" top --host a.counters b.counters
    [[ $output == *$'\n'"HtoD "*" Pageable "*" 410 "*"11.1 MiB"* ]]
    [[ $output == *$'\n'"device "*" 1 "*" 1 MiB "*" 1 MiB"* ]]
}

@test "frames after the first have rates, and the end of the process is seen" {
    start_copier a
    "$ZC" top -n 1000 -i 0.1 "$COPIER" >frames 5>&- &
    until grep -qs running frames; do
        sleep 0.1
    done
    for round in 2 3 4; do
        echo >&5
        wait_ready "$round"
    done
    # The end takes the counters away: what was copied since the last frame is not known then.
    until grep -qE '[1-9][0-9.]* [KM]iB/s' frames && grep -q '40 MiB' frames; do
        kill -0 $!
        sleep 0.1
    done
    exec 5>&-
    wait $!
    tail -n 12 frames | grep -q ended
    tail -n 12 frames | grep -q '40 MiB'
}

@test "a clean end between a reading and the look for the process is no kill" {
    make_killed a
    run -0 python3 - "${ZC%/*}" <<'PYTHON'
import os, sys
sys.path.insert(0, sys.argv[1])
from zclib import live

def ends(path, remove):
    def writer(pid, path):
        if remove:
            os.unlink(path)
        return 0
    live.writer = writer
    view = live.View(path)
    view.read()
    return view.state, view.error, bool(view.summary)

assert ends("a.counters", False) == ("killed", "", True)
assert ends("a.counters", True) == ("ended", "", True)
PYTHON
}

@test "a process in a container runs until it ends, whoever has its id outside" {
    unshare --pid --fork --mount-proc true || skip "no PID namespaces"
    mkfifo lines
    write_copier
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC unshare --pid --fork --mount-proc --kill-child \
        python3 copier.py <lines >out 2>&1 5>&- &
    exec 4>lines
    until [[ -s out ]]; do kill -0 $!; sleep 0.05; done
    pid=$(pgrep -P $!)
    run -0 "$ZC" top -n 1 a.counters
    [[ ${lines[1]} =~ ^\ *$pid\ +copier.py\ \(python3[.0-9]*\)\ +running\  ]]
    run -0 "$ZC" export --prometheus a.counters
    [[ $output == *"zc_running{"*"pid=\"$pid\""*"} 1"* ]]
    kill -9 "$pid"
    wait $! || true
    exec 4>&-
    # Inside it was process 1, which always runs outside.
    run -0 "$ZC" top -n 1 a.counters
    [[ ${lines[1]} =~ ^\ *1\ +copier.py\ \(python3[.0-9]*\)\ +killed\  ]]
    run -0 "$ZC" export --prometheus a.counters
    [[ $output == *"zc_running{"*"pid=\"1\""*"} 0"* ]]
    run -0 "$ZC" report --json a.jsonl
    [[ $output == *'"state": "killed"'* ]]
}

# Runs zc top in a terminal of tmux's, of so many columns and lines.  $1, $2; $3... its arguments
in_tmux() {
    command -v tmux >/dev/null || skip "no tmux; make deps"
    tmux -L "zc$$" -f /dev/null new-session -d -x "$1" -y "$2" \
        "LC_ALL=C.UTF-8 $ZC top ${*:3}; echo ended with \$?; cat"
}

# Waits until the terminal shows all of some texts at once, because a frame may be there in part:
# shows REGEX...; `screen` has what it shows then.
shows() {
    local pattern missing
    for _ in {1..200}; do
        screen=$(tmux -L "zc$$" capture-pane -p)
        missing=
        for pattern; do
            [[ $screen =~ $pattern ]] || missing=$pattern
        done
        [[ -n $missing ]] || return 0
        sleep 0.05
    done
    printf 'missing: %s\n' "$missing"
    printf '%s\n' "$screen"
    return 1
}

press() {
    tmux -L "zc$$" send-keys "$@"
}

@test "on a terminal keys sort, choose, open, pause and quit, and the last frame stays" {
    make_killed a
    start_copier b
    mkdir nvml
    ${CC:-gcc} -shared -fPIC -o nvml/libnvidia-ml.so.1 "$OLDPWD/tests/tools/fake_nvml.c"
    LD_LIBRARY_PATH=$PWD/nvml:$LD_LIBRARY_PATH in_tmux 120 30 -i 0.1 .
    shows 'GPU 0  Stand-in GPU  \[███(░)+\] 34 GiB of 139 GiB  ' \
        'use 45 %  link to 12.3 from 0.4 GB/s' '^zc top  .*1 running, 1 killed' 'every 0.1 s' \
        $'\n'".*$COPIER.*running.*killed" \
        'pinned 0 B.*q quit  h help  s sort: asked  p pause  Enter detail  d hide'
    [[ $screen != *"Top sites"* ]]
    # Its copies make a rate, and a bar that moves on.
    echo >&5
    wait_ready 2
    shows '20 MiB .*█'
    press s s s s s
    shows 'sort: program' 'copier.*running.*killed.*killed'
    # Enter opens the chosen process; the first one is the copier.
    press Enter
    shows 'Top sites' "$COPIER.*HtoD.*Pageable.*Device" 'Enter back'
    press Escape
    shows 'Enter detail'
    press d
    shows 'd show ended' '1 running, 1 killed'
    for _ in {1..200}; do
        [[ $screen == *' killed '* ]] || break
        shows 'd show ended'
    done
    [[ $screen != *' killed '* ]]
    press p
    shows 'PAUSED'
    echo >&5
    wait_ready 3
    sleep 0.3
    shows '20 MiB'
    press p
    shows '30 MiB'
    press h
    shows 'any other key: back' $'\nAsked is what a process.*\n''did not have to be copied'
    # On 40 columns no line is broken, the columns that matter are there, and the arrows show what
    # has no room.
    tmux -L "zc$$" resize-window -x 40 -y 12
    shows '^q        quit; what was seen' '1-11 of [0-9]+: up, down  q quit  h help'
    press Down
    shows '^ +on the terminal' '2-12 of '
    press x
    shows 'up, down  q quit  h help' 'PID  Program .*Moved .*Moving' '30 MiB'
    [[ $screen != *'Top sites'* ]]
    press Down Down Down Down Down Down Down Down Down Down Down Down Down Down Down Down Down Down
    shows 'Top sites|Caller: ' 'PID  Program .*Moved .*Moving' '([0-9]+)-([0-9]+) of [0-9]+: up'
    # The chosen process is among those that there is room for.
    press d
    tmux -L "zc$$" resize-window -x 40 -y 7
    shows '1-1 of 2: up, down' '[0-9]  co'
    press Down
    shows '2-2 of 2: up, down' ' killed'
    press q
    shows 'ended with 0'
    tmux -L "zc$$" kill-server
}

@test "a terminal gets its other screen, colours unless NO_COLOR is set, and a number of frames" {
    make_killed a
    for colour in '' 1; do
        run -0 script -qec "stty cols 60 rows 20; NO_COLOR=$colour TERM=xterm-256color $ZC top \
            -i 0.1 -n 2 a.counters" /dev/null </dev/null
        [[ $output == *$'\e[?1049h'*'zc top  '*$'\e[?1049l'*PID*killed* ]]
        # Yellow, for a process that was killed.
        [[ -n $colour || $output == *$'\e[33m'* ]]
        [[ -z $colour || ! $output =~ $'\e[3'[0-7]m ]]
        plain=$(sed -E '1,/\x1b\[\?1049l/d; s/\x1b\[[0-9;?]*[A-Za-z]//g; s/\r//g' <<<"$output")
        [ "$(grep -cE '^.{61,}' <<<"$plain")" -eq 0 ]
    done
}

@test "neither a locale that is not installed nor a closed standard input matters" {
    make_killed a
    run -0 script -qec "LC_ALL=xx_YY.UTF-8 TERM=xterm $ZC top -i 0.1 -n 2 a.counters <&-" \
        /dev/null </dev/null
    [[ $output == *$'\e[?1049l'*PID*killed* && $output != *Traceback* ]]
}

@test "a terminal that can't write over its text gets frame after frame" {
    start_copier b
    run -0 script -qec "TERM=dumb $ZC top -i 0.1 -n 3 $COPIER" /dev/null
    [[ $output != *$'\e'* && $(grep -c '^ *PID ' <<<"$output") -eq 3 ]]
}

@test "what is no counters file is named, and the others are shown" {
    make_killed a
    : >empty.counters
    head -c 100000 a.counters >short.counters
    head -c 200000 /dev/zero >unborn.counters
    echo nonsense >other.counters
    run -0 "$ZC" top empty.counters short.counters unborn.counters other.counters gone.counters \
        a.counters
    [[ ${lines[0]} == "zc: empty.counters: the file is empty" ]]
    [[ ${lines[1]} == "zc: short.counters: the file ends after 100000 of "*" bytes" ]]
    [[ ${lines[2]} == "zc: unborn.counters: its process ended while it made the file" ]]
    [[ ${lines[3]} == "zc: other.counters: this is no counters file of libzc" ]]
    [[ ${lines[4]} == "zc: gone.counters: No such file or directory" ]]
    [[ ${lines[6]} == *" killed "* ]]
    run -1 "$ZC" top empty.counters
}

@test "no header makes it fail otherwise than in one line" {
    make_killed a
    python3 - "$ZC" <<'PYTHON'
import random, struct, subprocess, sys
data = open("a.counters", "rb").read()
random.seed(1)
SLOTS, KINDS = 24, 40  # Without slots, nothing else bounds the flows.
changes = [{SLOTS: 0, KINDS: 0x7fffffff}]
for _ in range(40):
    changes.append({random.randrange(8, 120, 4): random.choice((0, 1, 7, 0xffff, 0xffffffff))
                    for _ in range(random.randint(1, 4))})
for change in changes:
    head = bytearray(data[:144])
    for at, value in change.items():
        head[at:at + 4] = struct.pack("<I", value)
    with open("hostile.counters", "wb") as file:
        file.write(bytes(head) + data[144:])
    done = subprocess.run([sys.argv[1], "top", "hostile.counters"], capture_output=True, timeout=60)
    assert done.returncode in (0, 1) and b"Traceback" not in done.stderr, (head, done)
PYTHON
}

@test "processes and logs without counters are told in one line" {
    run -1 "$ZC" top 1
    [[ $output == "zc: process 1 has no counters file: "* ]]
    run -1 "$ZC" top 999999999
    [[ $output == "zc: there is no process 999999999; "* ]]
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -0 "$GATHER"
    run -1 "$ZC" top a.jsonl
    [[ $output == "zc: a.jsonl: its process has ended, "*"'zc report' shows them" ]]
    run -1 "$ZC" top .
    [[ $output == "zc: .: no counters file in this folder: "* ]]
    run -2 "$ZC" top -n 0
    for seconds in 0 -1 nan inf 1e300 soon; do
        run -2 "$ZC" top -i "$seconds"
        [[ $output == *"invalid seconds value: '$seconds' (see 'zc top --help')" ]]
    done
}

@test "names with blanks and bytes that are no UTF-8 are shown and opened" {
    local name=$'a b\xff'
    make_killed "$name"
    run -0 "$ZC" top "$name.counters"
    [[ ${lines[1]} == *" killed "* ]]
    : >"$name.empty.counters"
    run -1 "$ZC" top "$name.empty.counters"
    [[ $output == "zc: $name.empty.counters: the file is empty" ]]
}
