#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Completion by bash, zsh and fish, made from the parsers: no Tab starts a process of zc.

load common

setup_file() {
    bats_require_minimum_version 1.5.0
    command -v python3 >/dev/null || return 0
    mkdir "$BATS_FILE_TMPDIR/zsh"
    zc --completion bash >"$BATS_FILE_TMPDIR/zc.bash"
    zc --completion zsh >"$BATS_FILE_TMPDIR/zsh/_zc"
    zc --completion fish >"$BATS_FILE_TMPDIR/zc.fish"
}

setup() {
    need_python
    printf '[rule big tables]\nplace = vmm\n [rule b]\nplace = vmm\n' >"$BATS_TEST_TMPDIR/p.conf"
}

# Prints the commands, and the long options of each, as the helps have them: COMMAND OPTION...
options() {
    PYTHONPATH=scripts python3 -B -c 'import re
from zclib import cli
for name in cli.available():
    heads = re.findall(r"^  (-\S+(?: \S+)*)", cli.subparser(name).format_help(), re.M)
    print(name, *sorted(["--help", *re.findall(r"--[a-z_-]+", " ".join(heads))]))'
}

commands() {
    zc --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# Completes command lines as bash would, where it can start no program: a line each on standard
# input, the last word the one at the cursor, with the words between tabs.  Prints what fits.
bash_tab() {
    bash -c '
        source "$1"
        PATH=/nonexistent
        compopt() { :; }
        while IFS=$'"'\t'"' read -r -a COMP_WORDS; do
            [[ ${COMP_WORDS[-1]} != END ]] || COMP_WORDS[-1]=
            COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMPREPLY=()
            _zc
            echo "${COMPREPLY[*]}"
        done' bash "$BATS_FILE_TMPDIR/zc.bash"
}

# The words that bash makes of one command line; END for an empty word.
tab() {
    local IFS=$'\t'
    bash_tab <<<"$*"
}

@test "bash completes every command and every option" {
    local helps commands completed
    helps=$(options)
    commands=$(commands)
    [[ $(cut -d ' ' -f 1 <<<"$helps") == "$commands" ]]
    [[ $(tab zc END) == "${commands//$'\n'/ } --help --version" ]]
    completed=$(sed 's/.*/zc\t&\t--/' <<<"$commands" | bash_tab)
    diff <(cut -d ' ' -f 2- <<<"$helps") <(while read -r -a words; do
        printf '%s\n' "${words[@]}" | grep '^--' | sort | paste -sd ' '
    done <<<"$completed")
}

@test "bash completes the values of options, and what a command is about" {
    # The words on the command line, and the completion.
    cat >"$BATS_TEST_TMPDIR/cases" <<-'END'
	zc ch|check
	zc run -l e|events
	zc report --sort mo|moved
	zc report --sort = mo|moved
	zc explain x.conf --grown y|yes
	zc explain --api cudaMallocAs|cudaMallocAsync
	zc explain x.conf --size END|
	zc doctor --timeout END|
	zc diff --html READ|README.md
	zc check policy/presets/wa|policy/presets/watch-only.conf
	zc check tests/tools/logs/gather.js|
	zc run -p of|off
	zc run -p @shared-t|@shared-tables
	zc run -c off,@everyd|off,@everyday
	zc check of|
	zc presets every|everyday
	zc run --compare off,policy/pol|off,policy/policy.conf
	zc report tests/tools/logs/gather-s|tests/tools/logs/gather-summary.jsonl
	zc report policy/pol|
	zc run -o tests/to|tests/tools
	zc run -p policy/policy.conf ./app READ|README.md
	zc tune --ignore x ./app READ|README.md
	zc nothing x|
	END
    cut -d '|' -f 1 "$BATS_TEST_TMPDIR/cases" | tr ' ' '\t' | bash_tab |
        paste -d '|' <(cut -d '|' -f 1 "$BATS_TEST_TMPDIR/cases") - |
        diff "$BATS_TEST_TMPDIR/cases" -
    [[ " $(tab zc top "$$") " == *" $$ "* ]]
}

@test "bash completes the rules of the policy and all keys for --set" {
    local conf=$BATS_TEST_TMPDIR/p.conf
    [[ $(tab zc run -p "$conf" --set b.acc) == b.access= ]]
    # As the shell would have to read it; nothing of a name is the shell's.
    [[ $(tab zc run -p "$conf" -s 'big\ tables.chu') == 'big\ tables.chunk=' ]]
    echo '[rule $(touch ran)]' >>"$conf"
    [[ $(tab zc run -p "$conf" -s '\$\(touch\ ran\).chu') == '\$\(touch\ ran\).chunk=' ]]
    [[ $(tab zc run -p "$conf" -s '$') == '' ]]
    run -0 tab zc run -p "$conf" --set END
    for key in $(sed -nE 's/^ZC_KEY\([A-Z_]+, "([a-z_]+)", ZC_SCOPE_(MATCH|PLACE).*/\1/p' \
        policy/keys.def); do
        [[ " $output " == *" b.$key= "* ]] || { echo "$key"; return 1; }
    done
    [[ $output == *'defaults.max_pinned='* ]]
}

@test "bash on a terminal completes presets, whose @ it takes for the mark of a host" {
    run -0 python3 tests/tools/shell_tab.py bash "$BATS_FILE_TMPDIR" \
        'zc ch<TAB>' 'zc run -p @every<TAB>' 'zc run --compare off,@every<TAB>' \
        'zc run --policy=@every<TAB>' 'zc run -p @<TAB>everyday true' \
        'zc run -p @everyday --lev<TAB>ev<TAB>' 'zc run -p policy/pol<TAB>'
    echo "$output"
    [[ ${lines[0]} == check && ${lines[1]} == "run -p @everyday" ]]
    [[ ${lines[2]} == "run --compare off,@everyday" ]]
    [[ ${lines[3]} == "run --policy=@everyday" ]]
    [[ ${lines[4]} == "run -p @everyday true" ]]
    [[ ${lines[5]} == "run -p @everyday --level events" ]]
    [[ ${lines[6]} == "run -p policy/policy.conf" ]]
}

@test "zsh completes commands, options, values and the program's own line" {
    command -v zsh >/dev/null || skip "no zsh"
    run -0 python3 tests/tools/shell_tab.py zsh "$BATS_FILE_TMPDIR/zsh" \
        'zc ch<TAB>' 'zc report --so<TAB>mo<TAB>' 'zc check policy/presets/wa<TAB>' \
        'zc explain --api=cudaMallocAs<TAB> --gro<TAB>y<TAB>' \
        'zc run -c off,policy/pol<TAB>' "zc run -p $BATS_TEST_TMPDIR/p.conf -s b.acc<TAB>" \
        'zc run --le<TAB>ev<TAB>bats --ver<TAB>' 'zc run -q mkdi<TAB>policy/pr<TAB>' \
        'zc run -p @every<TAB>'
    [[ ${lines[0]} == "check" && ${lines[1]} == "report --sort=moved" ]]
    [[ ${lines[2]} == "check policy/presets/watch-only.conf" ]]
    [[ ${lines[3]} == "explain --api=cudaMallocAsync --grown=yes" ]]
    [[ ${lines[4]} == "run -c off,policy/policy.conf" ]]
    [[ ${lines[5]} == "run -p $BATS_TEST_TMPDIR/p.conf -s b.access=" ]]
    [[ ${lines[6]} == "run --level=events bats --ver" ]]
    [[ ${lines[7]} == "run -q mkdir policy/presets"* ]]
    [[ ${lines[8]} == "run -p @everyday" ]]
}

@test "fish completes commands, options, values and the program's own line" {
    command -v fish >/dev/null || skip "no fish"
    printf '[rule c%%s\\n]\n' >>"$BATS_TEST_TMPDIR/p.conf"
    run -0 fish --no-config -c 'source $argv[1]
        for line in $argv[2..-1]
            echo $line: (complete -C $line | string replace -r "\t.*" "")
        end' "$BATS_FILE_TMPDIR/zc.fish" 'zc ch' 'zc report --so' 'zc report --sort mo' \
        'zc check policy/presets/wa' 'zc explain --api cudaMallocAs' 'zc run -c off,policy/pol' \
        "zc run -p $BATS_TEST_TMPDIR/p.conf -s b.acc" 'zc run -q mkdi' 'zc run mkdir --le' \
        'zc run -p off mkdir READ' 'zc report tests/tools/logs/gather-s' 'zc run -c off,@every' \
        'zc tune -r 3 mkdi' 'zc tune -r 3 mkdir --forc' \
        "zc run -p $BATS_TEST_TMPDIR/p.conf -s 'c%s.acc"
    [[ ${lines[0]} == *": check" && ${lines[1]} == *": --sort" && ${lines[2]} == *": moved" ]]
    [[ ${lines[3]} == *": policy/presets/watch-only.conf" && ${lines[4]} == *": cudaMallocAsync" ]]
    [[ ${lines[5]} == *": off,policy/policy.conf" && ${lines[6]} == *": b.access=" ]]
    [[ ${lines[7]} == *": mkdir" && ${lines[8]} == *"--le:"* && ${lines[8]} != *--level* ]]
    [[ ${lines[9]} == *": README.md" ]]
    [[ ${lines[10]} == *": tests/tools/logs/gather-summary.jsonl" ]]
    [[ ${lines[11]} == *": off,@everyday" && ${lines[12]} == *": mkdir" ]]
    [[ ${lines[13]} == *"--forc:"* && ${lines[13]} != *--force* ]]
    [[ ${lines[14]} == *": c%s\\n.access=" ]]
}

@test "a shell that is not known is named with those that are" {
    run -2 zc --completion tcsh
    [[ $output == "zc: --completion is for one of bash, zsh, fish (see 'zc --help')" ]]
}

@test "shellcheck finds nothing in the completion" {
    command -v shellcheck >/dev/null || skip "no shellcheck"
    shellcheck "$BATS_FILE_TMPDIR/zc.bash"
}
