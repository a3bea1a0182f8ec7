#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# fork(2), vfork(2), exec and daemons: a child is a process of its own, and its parent's counts
# are the parent's alone.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/fork
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM ZC_SUMMARY=0 ZC_LOG_LEVEL=allocs
    export ZC_LOG="$BATS_TEST_TMPDIR/log.%p.jsonl"
}

# Runs a scenario in a place; $asked is what each process's log says was asked, sorted by size.
asked_by_process() {
    rm -f "$BATS_TEST_TMPDIR"/log.*
    run -0 --separate-stderr under_policy "place = $2" timeout 60 "$program" "$1"
    [[ -z $(find "$BATS_TEST_TMPDIR" -name '*.counters') ]]
    asked=$(python3 -c 'import json, sys
asked = []
for log in sys.argv[1:]:
    lines = [json.loads(line) for line in open(log)]
    types = [l["type"] for l in lines]
    assert types.count("meta") == 1 and types.index("summary") == len(types) - 1
    assert types.count("alloc") == types.count("free")
    asked.append(lines[-1]["asked_bytes"])
print(*sorted(asked))' "$BATS_TEST_TMPDIR"/log.*.jsonl)
}

@test "a child made before the first CUDA call has a log of its own" {
    for scenario in before_init from_thread; do
        for place in device mapped vmm; do
            asked_by_process "$scenario" "$place"
            [[ $asked == '1000 6000' ]]
        done
    done
}

@test "a child of a process that uses CUDA gets the driver's own codes" {
    run -0 --separate-stderr "$program" after_init
    bare=$output
    [[ $bare == *'cuMemAlloc(&q, 1000) -> 3'* ]]
    for place in device mapped managed vmm; do
        run -0 --separate-stderr under_policy "place = $place" timeout 30 "$program" after_init
        [[ $output == "$bare" ]]
    done
}

@test "such a child writes no log, and its parent's counts stay" {
    for place in device mapped vmm; do
        # 3000 up and down, and 16 down after the fork.
        asked_by_process after_init "$place"
        [[ $asked == '6016' ]]
    done
}

@test "a child that only the kernel knows to be one leaves its parent's log alone" {
    asked_by_process by_clone mapped
    [[ $asked == '12000' ]]
}

@test "a program that is started by fork or vfork and exec has a log of its own" {
    for scenario in with_exec with_vfork; do
        asked_by_process "$scenario" mapped
        [[ $asked == '1000 6000' ]]
    done
}

@test "a daemon is seen" {
    asked_by_process as_daemon mapped
    [[ $asked == '1000' ]]
}

@test "200 forks beside 8 allocating threads end, and the parent's log is whole" {
    for place in device mapped; do
        asked_by_process storm "$place"
        [[ $asked -gt 0 && $((asked % 1000)) == 0 ]]
    done
}

@test "200 forks beside 8 threads that allocate before the first CUDA call end" {
    export ZC_LOG=off
    run -0 under_policy "api = malloc
place = pinned" timeout 60 "$program" host_storm
}

@test "a handler that a fork runs first may wait for a thread that allocates" {
    export ZC_LOG=off
    run -0 under_policy "api = malloc
place = pinned" timeout 10 "$program" with_handler
}

# Runs a scenario with a rule for host blocks; $pinned is how many blocks it took in all logs.
pinned_by() {
    run -0 under_policy "api = malloc
place = pinned
${2-}" timeout 10 "$program" "$1"
    pinned=$(cat "$BATS_TEST_TMPDIR"/log.*.jsonl |
        grep -c '"type":"alloc".*"place":"pinned"' || true)
}

@test "a child forked while another thread reads the policy reads it itself" {
    pinned_by while_reading
    ((pinned == 1))
    export ZC_LOG=off
    run -0 under_policy $'api = malloc\nplace = pinned' timeout 10 "$program" while_starting
}

@test "a child has the rules that its parent read, and counts requests for them from 1" {
    pinned_by after_first 'nth = 1'
    ((pinned == 1))
    rm "$BATS_TEST_TMPDIR"/log.*
    pinned_by after_first $'nth = 5\n[rule first]\napi = malloc\nnth = 1\nplace = pinned'
    ((pinned == 1))
}

# Runs a scenario with its host block in `pinned`; $ended is how many registrations ended.
ended_by() {
    export SIM_TRACE=$BATS_TEST_TMPDIR/trace
    rm -f "$SIM_TRACE"
    run -0 under_policy $'api = malloc\nplace = pinned' timeout 60 "$program" "$1"
    grep -q '^cuMemHostRegister' "$SIM_TRACE"
    ended=$(grep -c '^cuMemHostUnregister' "$SIM_TRACE" || true)
}

@test "a fork ends the registration of host blocks, whose pages Linux would copy" {
    ended_by beside_staged
    ((ended == 1))
}

@test "not in a handler or host function, nor where a device has work or a graph copies them" {
    export SIM_DEVICES=2
    for scenario in handler_beside_staged stream_beside_staged busy_beside_staged \
        elsewhere_beside_staged graph_beside_staged; do
        ended_by "$scenario"
        ((ended == 0))
    done
}

@test "a child that writes a pinned block which its parent has freed changes no other block" {
    run -0 "$program" freed_in_parent
    run -0 under_policy $'api = cudaHostAlloc\nplace = pinned' "$program" freed_in_parent
}

@test "a library that forks in its constructor, before libzc's, has its children" {
    "${CC:-gcc}" -D_GNU_SOURCE -shared -fPIC -w -xc -o "$BATS_TEST_TMPDIR/libearly.so" - <<-'END'
	#include <stdio.h>
	#include <sys/wait.h>
	#include <unistd.h>
	extern pid_t _Fork(void) __attribute__((weak)); /* From glibc 2.34 on. */
	static void child_of(pid_t (*how)(void))
	{
	    int status = -1;
	    pid_t child = how();
	    if (child == 0)
	        _exit(3);
	    printf("%d\n", waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1);
	}
	__attribute__((constructor)) static void early(void)
	{
	    child_of(_Fork ? _Fork : fork);
	    child_of(fork);
	    fflush(stdout);
	}
	END
    echo 'int main(void) { return 0; }' |
        "${CC:-gcc}" -Wl,--no-as-needed -xc -o "$BATS_TEST_TMPDIR/early" - -xnone \
            "$BATS_TEST_TMPDIR/libearly.so"
    run -0 --separate-stderr env LD_PRELOAD="$LIBZC" "$BATS_TEST_TMPDIR/early"
    [[ $output == $'3\n3' && -z $stderr ]]
}
