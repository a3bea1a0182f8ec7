#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The log as a whole program writes it: its lines, and what happens where it can't be written.

load common

setup() {
    need_built "$LIBZC" "$ZC_BUILD/kernels/vecadd-shared" "$SIM/kernels/vecadd.so"
    sim_env vecadd
    program=$PWD/$ZC_BUILD/kernels/vecadd-shared
    headers=$PWD/tests/preload/programs
    export ZC_SUMMARY=0 ZC_LOG_LEVEL=events
    unset ZC_POLICY
    mkdir "$BATS_TEST_TMPDIR/run"
    cd "$BATS_TEST_TMPDIR/run" || return 1
}

# Runs the program with a log; its result must be right and its exit status 0.
logged() {
    ZC_LOG=$1 LD_PRELOAD=$LIBZC run --separate-stderr -0 "$program" 1000
    [[ $(json_field verified <<<"$output") == true ]]
}

# Prints the types of a log's lines, one a line; fails where a line is not JSON.  An end without
# newline is no line: SIGKILL may leave one.
types() {
    python3 -c 'import json, sys
for line in open(sys.argv[1]).read().split("\n")[:-1]: print(json.loads(line)["type"])' "$1"
}

@test "every line is a JSON object, the first is meta and the last is summary" {
    logged a.jsonl
    run -0 types a.jsonl
    [[ ${lines[0]} == meta && ${lines[-1]} == summary ]]
    for type in alloc site transfer free; do
        [[ $output == *"$type"* ]]
    done
}

# The kernel takes 5 to 20 ms to enlarge a table of descriptors that threads share.
@test "the first CUDA call of a program with threads enlarges no table of theirs" {
    "${CC:-gcc}" -I"$headers" -xc -pthread -o threaded - -xnone "$SIM/libcuda.so.1" <<-'END'
#include <pthread.h>
#include <unistd.h>
#include "descriptors.h"
int cuInit(unsigned);
static void *rest(void *unused) { pause(); return unused; }
int main(void)
{
    pthread_t thread;
    int failed = pthread_create(&thread, NULL, rest, NULL);
    size_t before = descriptors();
    return failed || cuInit(0) || !before || descriptors() != before;
}
END
    # A child has room for what its parent has open: bash has 255, timeout then has none.
    ZC_LOG=a.jsonl run -0 python3 -c 'import subprocess, sys
sys.exit(subprocess.run(sys.argv[1:], close_fds=True).returncode)' \
        timeout 60 env LD_PRELOAD="$LIBZC" ./threaded
    run -0 types a.jsonl
    [[ ${lines[0]} == meta && ${lines[-1]} == summary ]]
}

@test "the summary is last, whatever destructors still do" {
    "${CC:-gcc}" -xc -fPIC -shared -o libowner.so - -xnone "$SIM/libcuda.so.1" <<-'END'
	int cuMemFree_v2(unsigned long long p);
	unsigned long long owned;
	__attribute__((destructor)) static void release(void) { cuMemFree_v2(owned); }
	END
    "${CC:-gcc}" -xc -o owner - -xnone ./libowner.so "$SIM/libcuda.so.1" <<-'END'
	extern unsigned long long owned;
	int cuInit(unsigned), cuDevicePrimaryCtxRetain(void **, int), cuCtxSetCurrent(void *);
	int cuMemAlloc_v2(unsigned long long *, unsigned long);
	int main(void)
	{
	    void *context;
	    return cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	           cuMemAlloc_v2(&owned, 1000);
	}
	END
    export SIM_LEAKS=leaks
    run -0 env ZC_LOG=a.jsonl LD_PRELOAD="$LIBZC" ./owner
    [[ -e leaks && ! -s leaks ]]
    run -0 types a.jsonl
    [[ ${lines[-1]} == summary ]]
}

@test "threads with the smallest stacks write their lines" {
    small=$OLDPWD/$ZC_BUILD/tests/preload/programs/small_stack
    need_built "$small"
    run -0 "$small"
    ZC_LOG=a.jsonl run -0 under_policy 'api = malloc, realloc
place = pinned' "$small"
    run -0 types a.jsonl
    [[ $(grep -c site <<<"$output") -ge 2 && $output == *module* && $output == *alloc*free* ]]
}

@test "a pattern names the log after program and process" {
    logged 'zc.%e.%p.jsonl'
    files=(zc.vecadd-shared.*.jsonl)
    [[ -s ${files[0]} && ${#files[@]} == 1 ]]
}

@test "a clean exit leaves no counters file" {
    logged a.jsonl
    [[ ! -e a.counters ]]
}

@test "ZC_LOG=off leaves no file" {
    logged off
    [[ -z $(ls) ]]
}

@test "an existing log, a link, a folder and a FIFO are left alone" {
    echo old >file.jsonl
    ln -s victim link.jsonl
    mkdir folder.jsonl
    mkfifo fifo.jsonl
    for name in file link folder fifo; do
        logged "$name.jsonl"
        [[ -z $stderr ]]
        run -0 types "$name".[0-9]*.jsonl
    done
    [[ $(<file.jsonl) == old && ! -e victim ]]
}

@test "a log that can't be created is said once and the program goes on" {
    logged missing/a.jsonl
    [[ $stderr == "libzc: the log 'missing/a.jsonl' could not be created: "* ]]
    [[ $stderr == *"No such file or directory; ZC_LOG names another path" ]]
    [[ $(wc -l <<<"$stderr") == 1 ]]
}

@test "a file size limit ends the log with one message and no signal" {
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run --separate-stderr -0 \
        bash -c 'ulimit -f 1; exec "$@"' bash "$program" 1000
    [[ $stderr == *"the log 'a.jsonl' ends here: file size limit reached"* ]]
    run -0 types a.jsonl
    [[ ${lines[-1]} != summary ]]
}

@test "a file size limit keeps no block from being pinned" {
    ZC_LOG=off run -0 under_policy 'api = malloc
place = pinned' bash -c 'ulimit -S -f 1; exec "$@"' bash "$program" 1000000
    [[ $(json_field verified <<<"$output") == true ]]
}

@test "with stderr closed the program's own file on descriptor 2 stays clean" {
    ZC_SUMMARY=1 ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -0 bash -c '"$@" 2>&-' bash "$program" 1000
    [[ $(json_field verified <<<"$output") == true && $output != *libzc:* ]]
    run -0 types a.jsonl
    [[ ${lines[-1]} == summary ]]
}

@test "a summary on a stderr that nobody reads does not kill the program" {
    ZC_SUMMARY=1 ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run -0 \
        bash -c 'set -o pipefail; "$@" 2>&1 >out | true' bash "$program" 1000000
    [[ $(json_field verified <out) == true ]]
}

@test "the summary on stderr is at most eighty columns wide" {
    ZC_SUMMARY=1 logged a.jsonl
    [[ $stderr == *"libzc: vecadd-shared (pid "*" asked in 3 transfers:"* ]]
    [[ $stderr == *"log: a.jsonl; zc report shows it" ]]
    run -1 grep -E '.{81}' <<<"$stderr"
}

@test "a name with an escape and a line end reaches the terminal as neither" {
    printf -v name 'a\n\e[31mb'
    cp "$program" "$name"
    program=./$name
    ZC_SUMMARY=1 logged "$name.jsonl"
    [[ $stderr == *'libzc: a??[31mb (pid '*'log: a??[31mb.jsonl'* ]]
    [[ $stderr != *$'\e'* ]]
    types "$name.jsonl"
}

@test "a process that makes no CUDA call writes nothing" {
    ZC_SUMMARY=1 ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC run --separate-stderr -0 /bin/true
    [[ -z $output && -z $stderr && ! -e a.jsonl ]]
}

# Starts the program in the background, as pid, with the log a.jsonl, and waits until it copies.
start_long() {
    ZC_LOG=a.jsonl LD_PRELOAD=$LIBZC "$program" 50000000 >/dev/null 3>&- &
    pid=$!
    for ((i = 0; i < 500; i++)); do
        grep -qs '"type":"alloc"' a.jsonl && break
        sleep 0.02
    done
}

@test "a killed process leaves whole lines and its counters" {
    start_long
    kill -9 $pid
    wait $pid || true
    run -0 types a.jsonl
    [[ ${lines[0]} == meta && ${lines[-1]} != summary ]]
    [[ $(head -c 8 a.counters) == zc-count ]]
}

@test "counters whose log is gone are replaced once their process is, and only then" {
    start_long
    rm a.jsonl
    logged a.jsonl
    [[ $stderr == "libzc: the counters file 'a.counters' could not be made: File exists" ]]
    kill -9 $pid
    wait $pid || true
    [[ $(head -c 8 a.counters) == zc-count ]]
    rm a.jsonl
    logged a.jsonl
    [[ -z $stderr && ! -e a.counters ]]
    echo zc-other >a.counters
    rm a.jsonl
    logged a.jsonl
    [[ $stderr == *"File exists" && $(<a.counters) == zc-other ]]
}
