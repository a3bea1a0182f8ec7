#!/usr/bin/env bats
# Migrations and page faults of managed memory are CUPTI's to count: where the policy asks for it
# and CUPTI does, the log has the numbers; else it says that they are not measured, and never 0.

load common.bash

COUNTED='"measured": true, "why": null, "htod_bytes": '
ASKED=$'[defaults]\num_counters = yes\n[rule all]\nplace = managed'

setup() {
    program=$PWD/$ZC_BUILD/tests/preload/programs/requests
    need_built "$LIBZC" "$program" "$SIM/libcupti.so.13"
    export LD_LIBRARY_PATH=$SIM ZC_LOG=$BATS_TEST_TMPDIR/log.jsonl
}

# Runs the program under a policy; leaves the summary's field in $told, what people read in $text.
told_under() {
    rm -f "$ZC_LOG"
    run -0 --separate-stderr under_policy "$1" timeout 30 "${@:2}"
    text=$(grep '^unified memory' <<<"$stderr" || true)
    told=$(python3 -c 'import json, sys
print(json.dumps([json.loads(line) for line in open(sys.argv[1])][-1].get("unified_memory")))' \
        "$ZC_LOG")
    echo "$told"
    echo "$stderr"
}

@test "what CUPTI reports is summed up by kind" {
    export SIM_UM=1:4096,2:100,1:8192,3:140000000000,3:140000000001,4:7,4:3
    told_under "$ASKED" "$program" 1
    [[ $told == "{${COUNTED}12288, "'"dtoh_bytes": 100, "cpu_faults": 2, "gpu_fault_groups": 10}' ]]
    [[ $text == 'unified memory: at least 12 KiB HtoD, 100 B DtoH, 2 CPU faults, 10 GPU '* ]]
}

@test "what CUPTI does not report is unknown, not 0" {
    SIM_UM=1:4096 told_under "$ASKED" "$program" 1
    [[ $told == *': 4096, "dtoh_bytes": null, "cpu_faults": null, "gpu_fault_groups": null}' ]]
    [[ $text == 'unified memory: at least 4 KiB HtoD' ]]
    told_under "$ASKED" "$program" 1
    [[ $told == *'"htod_bytes": null, "dtoh_bytes": null'* ]]
    [[ $text == 'unified memory: nothing was reported' ]]
}

@test "where nobody asked the log says that it was not measured" {
    told_under 'place = managed' "$program" 1
    [[ $told == '{"measured": false, "why": "um_counters = yes is not set"}' ]]
    [[ $text == 'unified memory: not measured: um_counters = yes is not set' ]]
    told_under 'place = device' "$program" 1
    [[ $told == null && -z $text ]]
}

@test "a CUPTI that refuses is named with the reason, and the program runs on" {
    while read -r refusal why; do
        SIM_UM_REFUSE=$refusal SIM_UM=1:4096 told_under "$ASKED" "$program" 1
        [[ $told == '{"measured": false, "why": "'"$why"'"}' ]]
        [[ $text == "unified memory: not measured: $why" ]]
        [[ $stderr == *"migrations of managed memory are not measured: $why"* ]]
        [[ $output == 0 ]]
    done <<-END
	cuptiActivityRegisterCallbacks:39 CUPTI is in use by another
	cuptiActivityConfigureUnifiedMemoryCounter:35 CUPTI has no counters for this GPU or user
	cuptiActivityEnable:35 CUPTI refuses to count
	END
}

@test "without CUPTI nothing is measured, and the program runs on" {
    mkdir "$BATS_TEST_TMPDIR/sim"
    ln -s "$SIM/libcuda.so.1" "$BATS_TEST_TMPDIR/sim"
    [[ ! -e /usr/local/cuda/lib64/libcupti.so ]] || skip "this machine has CUPTI"
    export LD_LIBRARY_PATH=$BATS_TEST_TMPDIR/sim
    told_under "$ASKED" "$program" 1
    [[ $told == '{"measured": false, "why": "libcupti.so can'"'"'t be loaded"}' ]]
}

@test "a process that asks for no counters never loads CUPTI" {
    mkdir "$BATS_TEST_TMPDIR/files"
    local files=$BATS_TEST_TMPDIR/files
    LD_DEBUG=files LD_DEBUG_OUTPUT=$files/not run -0 under_policy 'place = managed' "$program" 1
    run ! grep -rl libcupti "$files"
    LD_DEBUG=files LD_DEBUG_OUTPUT=$files/asked run -0 under_policy "$ASKED" "$program" 1
    run -0 grep -rl libcupti "$files"
}
