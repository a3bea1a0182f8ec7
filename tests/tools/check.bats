#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# zc check: what it says of policy files, and its exit status.

load common

POLICIES=tests/tools/policies

setup() {
    need_python
}

@test "every fault has file, line and column, and the nearest known word" {
    golden check-faulty.txt check $POLICIES/faulty.conf
}

@test "the sample policy and the presets have no faults" {
    for file in policy/policy.conf policy/presets/*.conf; do
        run -0 zc check "$file"
        [[ $output == "$file: "*" 0 errors, 0 warnings" ]]
    done
}

@test "one faulty file among several makes the exit status 1" {
    run -1 zc check policy/policy.conf $POLICIES/faulty.conf
    run -0 zc check policy/policy.conf policy/presets/watch-only.conf
}

@test "without a file it takes the one that a program started there would get" {
    local zc=$PWD/scripts/zc
    cp $POLICIES/rules.conf "$BATS_TEST_TMPDIR/policy.conf"
    cd "$BATS_TEST_TMPDIR"
    run -0 "$zc" check
    [[ $output == "./policy.conf: 4 usable rules, "* ]]
    ZC_POLICY=/nonexistent run -1 "$zc" check
    [[ $output == "zc: /nonexistent: there is no such file" ]]
    chmod o+w policy.conf
    run -1 "$zc" check
    [[ $output == "zc: ./policy.conf: others may write to it; take that right away (chmod go-w)" ]]
}

@test "a file named off is a file" {
    local zc=$PWD/scripts/zc
    cp $POLICIES/rules.conf "$BATS_TEST_TMPDIR/off"
    cd "$BATS_TEST_TMPDIR"
    run -0 "$zc" check off
    [[ $output == "./off: 4 usable rules, "* ]]
}

@test "folders, devices, pipes and missing files are refused in one line" {
    mkfifo "$BATS_TEST_TMPDIR/pipe"
    for file in /nonexistent /dev/null tests "$BATS_TEST_TMPDIR/pipe"; do
        run -1 timeout 60 scripts/zc check "$file"
        [[ ${#lines[@]} == 1 && $output == "zc: $file: "* ]]
    done
}

@test "names with blanks and bytes that are no UTF-8 come out as they are" {
    local name=$BATS_TEST_TMPDIR/$'a b\xff.conf'
    cp $POLICIES/rules.conf "$name"
    run -0 zc check "$name"
    [[ $output == "$name: 4 usable rules, 0 errors, "* ]]
}

@test "control bytes of a name end no line and reach no terminal" {
    local name=$BATS_TEST_TMPDIR/$'a\nb\e[2J.conf' shown="$BATS_TEST_TMPDIR/a?b?[2J.conf"
    printf '[rule a]\nplcae = x\nplace = shared\n' >"$name"
    run -1 zc check "$name"
    [[ ${lines[0]} == "$shown:2:1: unknown key 'plcae'"* ]]
    printf '[rule a]\napi = malloc\nplace = pinned\nbudget = 1G\n' >"$name"
    run -0 zc check "$name"
    [[ ${#lines[@]} == 2 && ${lines[0]} == "$shown:4:10: warning: budget: "* ]]
    rm "$name"
    run -1 zc check "$name"
    [[ ${#lines[@]} == 1 && $output == "zc: $shown: there is no such file" ]]
}

@test "--keys prints the parser's own table of keys, as wide as the terminal" {
    run -0 zc check --keys
    [[ ${#lines[@]} -eq $(($(grep -c '^ZC_KEY(' policy/keys.def) + 1)) ]]
    [[ $output == *"grow "*"rule, place  vmm "*"yes | no "*"turn the copy of a growing array"* ]]
    run -0 script -qec "stty cols 70; TERM=dumb scripts/zc check --keys" /dev/null
    [ "$(tr -d '\r' <<<"$output" | grep -cE '^.{71,}')" -eq 0 ]
}

@test "presets have names, and each says when it pays" {
    run -0 zc presets
    names=$(grep '^@' <<<"$output")
    [[ $names == $(cd policy/presets && printf '@%s\n' *.conf | sed 's/\.conf$//') ]]
    [[ $(grep -c '^    Pays ' <<<"$output") == $(wc -l <<<"$names") ]]
    for name in $names; do
        run -0 zc check "$name"
        [[ $output == */presets/${name#@}.conf:*" 0 errors"* ]]
        diff <(zc presets "${name#@}") "policy/presets/${name#@}.conf"
    done
    run -0 zc explain @shared-tables --size 1G
    [[ $output == *device-tables* ]]
    run -1 zc check @shared-table
    [[ $output == "zc: there is no preset 'shared-table': did you mean '@shared-tables'?" ]]
}

@test "a build that is there no more is told, whatever its name" {
    library=${ZC_BUILD:-build}/libzc.so
    [[ -e $library ]] || skip "not built"
    cp "$library" "$BATS_TEST_TMPDIR/my app"
    printf '# build: %s 0123 %s\n' "my app" "$BATS_TEST_TMPDIR/my app" app /nowhere/app \
        >"$BATS_TEST_TMPDIR/p.conf"
    run -0 zc check "$BATS_TEST_TMPDIR/p.conf"
    [[ ${lines[0]} == *"p.conf:1:"*": warning: my app was rebuilt since: "* ]]
    [[ ${#lines[@]} == 2 && $output == *" 0 errors, 1 warning" ]]
}

@test "without a policy it is said how one is written" {
    local zc=$PWD/scripts/zc
    cd "$BATS_TEST_TMPDIR"
    run -1 "$zc" check
    [[ $output == "zc: there is no policy: neither "*"; \`zc init ./app\` writes one" ]]
}
