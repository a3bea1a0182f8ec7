#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# A policy that took nothing says so first, with the request that came nearest and the key that
# kept it out: in the summary, in the log and in the report.

load common.bash

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/matching
    need_built "$LIBZC" "$program"
    export LD_LIBRARY_PATH=$SIM SIM_DEVICES=2 ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
}

# Runs the program under a policy: its first line on standard error is the first that is given, its
# second begins with the second; the log has the third.
misses() {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy "$1" timeout 60 "$program"
    echo "$stderr"
    [[ ${stderr_lines[0]} == *"$2" ]]
    [[ ${stderr_lines[1]} == "$3"* ]]
    tail -n 1 "$ZC_LOG" | grep -F "\"missed\":{$4}"
}

@test "the nearest request and the key that it does not fit are named" {
    misses '[rule large]
size = 1M..
place = mapped' 'policy.conf took none of 4 requests' \
        '       nearest: cuMemAlloc of 7.8 KiB, not of rule large (line 1): size = 1M..' \
        "\"requests\":4,\"api\":\"cuMemAlloc\",\"size_bytes\":8000,\"site\":\"$(site_of 8000)\",\
\"rule\":\"large\",\"line\":1,\"misfit\":\"size = 1M..\""
    run -0 --separate-stderr "$PWD/scripts/zc" report "$ZC_LOG"
    [[ ${lines[0]} == *'took none of 4 requests; nearest: cuMemAlloc of 7.8 KiB (site '* ]]
    run -0 "$PWD/scripts/zc" report --json "$ZC_LOG"
    grep -q '"missed_text": ".*took none of 4 requests' <<<"$output"
}

# The site of the request of this many bytes.
site_of() {
    ZC_LOG=$BATS_TEST_TMPDIR/sites ZC_LOG_LEVEL=allocs ZC_SUMMARY=0 LD_PRELOAD=$LIBZC \
        timeout 60 "$program" >&2
    sed -nE 's/.*"type":"alloc".*"site":"([0-9a-f]{8})".*"size_bytes":'"$1"',.*/\1/p' \
        "$BATS_TEST_TMPDIR/sites"
}

@test "fewer keys that do not fit are nearer than more bytes" {
    misses '[rule small]
size = ..1500
thread = none
place = mapped' 'policy.conf took none of 4 requests' \
        '       nearest: cuMemAlloc of 1000 B, not of rule small (line 1): thread = none' \
        "\"requests\":4,\"api\":\"cuMemAlloc\",\"size_bytes\":1000,\"site\":\"$(site_of 1000)\",\
\"rule\":\"small\",\"line\":1,\"misfit\":\"thread = none\""
}

@test "a rule for other requests is named by what it asks for" {
    misses '[rule others]
api = cudaHostAlloc
place = pinned' 'policy.conf took none of 4 requests' \
        '       nearest: cuMemAlloc of 7.8 KiB, not of rule others (line 1): api = cudaHostAlloc' \
        "\"requests\":4,\"api\":\"cuMemAlloc\",\"size_bytes\":8000,\"site\":\"$(site_of 8000)\",\
\"rule\":\"others\",\"line\":1,\"misfit\":\"api = cudaHostAlloc\""
}

@test "a policy that took something, or has no rules, or was not tried, says nothing of it" {
    run -0 --separate-stderr under_policy 'size = 8000
place = mapped' timeout 60 "$program"
    [[ ${stderr_lines[0]} == 'libzc: matching '* && $stderr != *took* ]]
    tail -n 1 "$ZC_LOG" | grep -vF '"missed"'
    run -0 "$PWD/scripts/zc" report --json "$ZC_LOG"
    grep -q '"missed_text": null' <<<"$output"
    run -0 --separate-stderr under_policy '[defaults]
log_level = allocs' timeout 60 "$program"
    [[ ${stderr_lines[0]} == 'libzc: matching '* ]]
    run -0 --separate-stderr under_policy 'place = mapped' true
    [[ -z $stderr ]]
}
