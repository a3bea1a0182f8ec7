#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc explain: which rule takes a request, and what became of the sites of a log.

load common

RULES=tests/tools/policies/rules.conf

setup() {
    need_python
}

@test "each rule says why it does not take a request, and the first that does is named" {
    golden explain-taken.txt explain $RULES --size 64M --module gather-shared
}

@test "a request that no rule takes stays where it is" {
    golden explain-free.txt explain $RULES --size 1M
}

@test "the ordinal of a request is given by --nth" {
    run -0 zc explain $RULES --size 1M --nth 3
    [[ ${lines[-1]} == "cudaMalloc of 1M goes to rule 'third': vmm" ]]
    run -0 zc explain $RULES --size 1M --nth 4
    [[ ${lines[-1]} == *"taken by no rule"* ]]
}

@test "facts of all kinds decide" {
    local policy=$BATS_TEST_TMPDIR/policy.conf fact
    for fact in api=malloc site=3f9a1c22 exe=python3.11 thread=loader-1 device=2 module=libf.so \
        grown=yes; do
        printf '[rule r]\n%s\nplace = shared\naccess = read\n' "${fact/=/ = }" >"$policy"
        run -0 zc explain "$policy" --size 1M "--${fact%%=*}" "${fact#*=}"
        [[ ${lines[-1]} == *"goes to rule 'r': shared" ]]
        run -0 zc explain "$policy" --size 1M --exe other
        [[ ${lines[-1]} == *"taken by no rule"* ]]
    done
    printf '[rule r]\nplace = managed\n' >"$policy"
    run -0 zc explain "$policy" --size 1M --api cudaMallocAsync
    [[ ${lines[-1]} == *"taken by no rule"* ]]
}

@test "a log tells every site with its rule and place" {
    golden explain-log.txt explain $LOGS/gather-mapped.jsonl $LOGS/gather.jsonl
}

@test "a policy and a log tell which rule each site would get" {
    golden explain-policy-log.txt explain $RULES $LOGS/gather.jsonl
}

@test "ordinals count through a log as in the process" {
    printf '[rule second]\nnth = 2\nplace = vmm\n' >"$BATS_TEST_TMPDIR/policy.conf"
    run -0 zc explain "$BATS_TEST_TMPDIR/policy.conf" $LOGS/gather.jsonl
    [ "$(grep -c ' second:1 ' <<<"$output")" -eq 1 ]
}

@test "threads of a log decide, and where it does not tell them that is said" {
    printf '[rule g]\ngrown = yes\nplace = vmm\n' >"$BATS_TEST_TMPDIR/policy.conf"
    run -0 --separate-stderr zc explain "$BATS_TEST_TMPDIR/policy.conf" $LOGS/gather.jsonl
    [[ $stderr == "zc: rule 'g' in line 1 asks for the growth of arrays, which the log "* ]]
    printf '[rule t]\nthread = load*\nplace = vmm\n' >"$BATS_TEST_TMPDIR/policy.conf"
    alloc='{"type":"alloc","block":1,"api":"cuMemAlloc","size_bytes":8,"place":"device","site":'
    printf '%s\n' '{"type":"meta","schema":1,"recorder":"a test"}' \
        "$alloc"'"00000001","thread_name":"load-1"}' "$alloc"'"00000002","thread_name":"a"}' \
        "$alloc"'"00000003"}' >"$BATS_TEST_TMPDIR/a.jsonl"
    run -0 --separate-stderr zc explain "$BATS_TEST_TMPDIR/policy.conf" "$BATS_TEST_TMPDIR/a.jsonl"
    grep -qE '^00000001 .* t:1 +vmm$' <<<"$output"
    grep -qE '^00000002 .* - +as asked$' <<<"$output"
    grep -qE '^00000003 .* - +as asked$' <<<"$output"
    untold="which the log does not tell of 1 request: taken as not fitting"
    [[ $stderr == *"rule 't' in line 1 asks for the thread, $untold"* ]]
}

@test "damaged logs are explained as far as they can be read" {
    golden explain-corrupt.txt explain $LOGS/corrupt.jsonl
}

@test "a request that this version can't judge is named and left out" {
    log=$BATS_TEST_TMPDIR/a.jsonl
    sed -E '/"block":2,/s/"api":"[a-zA-Z]+"/"api":"cuMemAllok"/; /"block":3,/s/"size_bytes":/&-/' \
        $LOGS/gather.jsonl >"$log"
    run -0 zc explain $RULES "$log"
    [[ ${lines[0]} == "zc: $log: 1 request left out: 'cuMemAllok' is no request that a policy can \
name (nearest: cuMemAlloc)" ]]
    [[ ${lines[1]} == "zc: $log: 1 request left out: '-671744' is no size "* ]]
    [[ ${lines[3]} == "821ff7fb "*" 64 MiB "* && ${#lines[@]} == 4 ]]
}

@test "a log without requests says at which level they are logged" {
    run -1 zc explain $LOGS/gather-summary.jsonl
    [[ $output == *"levels 'allocs' and 'events'"* ]]
}

@test "the faults of a policy are mentioned before it is judged" {
    run -0 zc explain tests/tools/policies/faulty.conf --size 4M
    [[ ${lines[0]} == "zc: "*"faulty.conf: 3 faulty parts are left out; 'zc check' names them" ]]
}

@test "what makes no sense is said in one line, with status 2" {
    run -2 zc explain $RULES
    [[ $output == *"--size"* && ${#lines[@]} == 1 ]]
    run -2 zc explain $RULES --size 3X
    [[ $output == "zc: '3X' is no size "* ]]
    run -2 zc explain $RULES --size 1M --api cudaMaloc
    [[ $output == "zc: 'cudaMaloc' is no request that a policy can name (nearest: cudaMalloc)" ]]
    run -2 zc explain $RULES --size 1M --api cudaFree
    [[ $output == "zc: 'cudaFree' is no request that a policy can name" ]]
    for fact in --device=x --device=-1 --nth=first --site=load; do
        run -2 zc explain $RULES --size 1M "$fact"
        [[ $output == "zc: argument ${fact%=*}: invalid "*" value: '${fact#*=}' "* ]]
    done
    run -2 zc explain $RULES --size 1M --grown sideways
    [[ $output == *"--grown: invalid choice: 'sideways' (choose from 'yes', "* ]]
    run -2 zc explain $LOGS/gather.jsonl --size 1M
    [[ $output == *"a log has its own"* ]]
    run -2 zc explain $RULES $RULES
    [[ $output == *"all others must be logs"* ]]
    run -1 zc explain /nonexistent --size 1M
    [[ $output == "zc: /nonexistent: "* ]]
}

@test "separators in a name do not become fields" {
    run -0 zc explain $RULES --size 64M --module $'gather\x1fx\ny'
    [[ ${lines[-1]} == *"goes to rule 'big': mapped, device" ]]
}

@test "a narrow terminal gets narrow tables" {
    run -0 script -qec "stty cols 50; scripts/zc explain $RULES --size 64M | cat; \
        scripts/zc explain $RULES --size 64M --module m" /dev/null
    # The pipe has lines of full length, the terminal has not.
    [ "$(grep -c "the request's is not known" <<<"$output")" -eq 1 ]
    [ "$(tail -n 7 <<<"$output" | head -n 5 | tr -d '\r' | grep -cE '^.{51,}')" -eq 0 ]
}
