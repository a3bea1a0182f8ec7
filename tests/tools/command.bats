#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# The command zc itself, and what its parts print alike: sizes, tables, names.

load common

setup() {
    need_python
}

# Runs Python with the package at hand.
python() {
    PYTHONPATH=scripts python3 -c "$@"
}

@test "zc alone and --help list the commands" {
    run -2 zc
    [[ $output == *"  explain  say which rule takes a request"* ]]
    run -0 zc --help
    run -0 zc help run
    [[ ${lines[0]} == "usage: zc run "* ]]
}

@test "the version is the library's" {
    run -0 zc -V
    local short=$output
    run -0 zc --version
    [[ $output == "$short" ]]
    [[ $output == "zc $(sed -n 's/^#define ZC_VERSION "\(.*\)"/\1/p' shim/base/version.h)" ]]
}

@test "a misspelt command or option gets the nearest one" {
    run -2 zc chekc x
    [[ $output == "zc: there is no command 'chekc': did you mean 'check'? (see 'zc --help')" ]]
    run -2 zc version
    [[ $output == *"did you mean '--version'?"* ]]
    run -2 zc report --tpo=3 x
    [[ $output == "zc: there is no option '--tpo': did you mean '--top'? (see 'zc report "* ]]
    run -2 zc report --htlm
    [[ $output == *"there is no option '--htlm': did you mean '--html'?"* ]]
    run -125 zc run --comapre off ./app --tpo
    [[ $output == *"there is no option '--comapre': did you mean '--compare'?"* ]]
    run -125 zc run -x ./app
    [[ $output == "zc: there is no option '-x' (see 'zc run --help')" ]]
}

@test "every help fits 24 lines of 80 columns and has an example" {
    local command
    for command in '' $(zc --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        # No command is no word.
        # shellcheck disable=SC2086
        run -0 env COLUMNS=80 scripts/zc $command --help
        awk -v what="zc $command" '
            # A line that is broken before there is need is the second break of one.
            broken && NF && length(last) + 1 + length($1) <= 80 { print what ": " last; bad = 1 }
            { last = $0; broken = /^[^ ].*[^.:]$/ && NR > 1 }
            length($0) > 80 { print what ": too wide: " $0; bad = 1 }
            /^examples?:$/ { getline; shown = $0 ~ "^  " what }
            END { if (NR > 24) print what ": " NR " lines"
                  if (!shown) print what ": no example"
                  exit bad || NR > 24 || !shown }' <<<"$output"
    done
    # With no room beside the options it is below them, and no word is broken.
    run -0 env COLUMNS=40 scripts/zc export --help
    [[ $output == *$'\n  --listen [HOST]:PORT\n      answer at http://HOST:PORT/metrics\n'* ]]
    run -1 grep -nE '.{41}' <<<"${output%examples:*}"
}

# Arguments that name a file with nothing readable in it, one that is not there, a folder, or what
# is no word of the command's; and what of them the message has to name.
@test "every command says which of its arguments is wrong, and how" {
    local t=$BATS_TEST_TMPDIR code words wanted told=''
    head -c 300 /dev/zero >"$t/junk"
    mkdir "$t/folder"
    while IFS='|' read -r code words wanted; do
        told+=" ${words%% *}"
        # Arguments are words.
        # shellcheck disable=SC2086
        run "-$code" timeout 60 env -C "$t" "$PWD/scripts/zc" $words </dev/null
        echo "zc $words: $output"
        [[ $output == *"$wanted"* && $output != *Traceback* ]]
    done <<-END
	1|report gone|zc: gone: no such file or folder
	1|report junk|zc: junk: no line of it is a record of libzc
	1|report folder|zc: folder: no log
	1|diff gone gone|zc: gone: no such file or folder
	1|diff junk junk|zc: junk: no line
	1|export --prometheus gone|zc: gone:
	1|check gone|zc: gone: there is no such file
	1|check junk|junk:1:1: control byte
	1|check folder|zc: folder: not a regular file
	1|explain gone|zc: gone: No such file
	127|run gone|zc: gone: No such file
	126|run folder/|zc: folder/:
	126|run ./junk|zc: ./junk: Permission denied
	127|init gone|zc: gone: No such file
	127|tune gone|zc: gone: No such file
	1|presets gone|zc: there is no preset 'gone'
	1|top 99999999|zc: there is no process 99999999
	1|top gone|zc: gone: No such file
	2|pack gone|required: -o/--output
	1|auto gone|there is no profile of gone
	2|demo gone|zc: unrecognized arguments: gone
	2|doctor gone|zc: unrecognized arguments: gone
	2|jupyter gone|zc: argument install|remove: invalid choice: 'gone'
	END
    for words in $(zc --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
        [[ $told == *" $words"* ]] || { echo "not asked: zc $words"; return 1; }
    done
}

@test "a reader that has enough ends zc without a word" {
    run -0 bash -c 'set -o pipefail; scripts/zc check policy/presets/* 2>&1 | true; exit 0'
    [[ -z $output ]]
    # The reader has gone when zc begins.
    run -141 bash -c 'exec 3> >(exec 3>&-; exit); wait $!
        exec scripts/zc report tests/tools/logs/ranks/a --json >&3'
    [[ -z $output ]]
}

@test "a full disk behind standard output is an error of every command" {
    log=tests/tools/logs/gather.jsonl
    for command in "report $log" "report --csv $log" "report --json $log" "diff $log $log" \
        "explain $log" "check policy/policy.conf" "check --keys" doctor; do
        # The command is split into words.
        # shellcheck disable=SC2086
        run -1 bash -c 'exec scripts/zc "$@" >/dev/full' zc $command
        [[ $output == *"zc: standard output: No space left on device" ]]
        [[ $output != *Exception* && $output != *Traceback* ]]
    done
}

@test "where nothing can be written temporary files are memory, or the way out is said" {
    run -0 python '
import os, pwd, tempfile
from zclib import costs, last, logs, output
tempfile._candidate_tempdir_list = lambda: ["/proc"]
with output.scratch("zc-test-") as folder:
    assert os.path.dirname(folder) == "/dev/shm", folder
assert not os.path.exists(folder)
output.MEMORY = "/proc"
try:
    with output.scratch("zc-test-"):
        assert False
except logs.LogError as error:
    print(error)
# A user without an entry and without HOME, as containers have them, whose "~" is no folder.
os.environ.pop("HOME", None)
os.environ["XDG_CACHE_HOME"] = "not-absolute"
pwd.getpwuid = lambda user: {}[user]
try:
    costs.keep("host", "gpu", {})
except OSError as error:
    print(error)
os.environ["HOME"] = "" # Of which "~" is the root.
os.environ.pop("XDG_STATE_HOME", None)
print(costs.cache_file("x"), last._file())'
    [[ ${lines[0]} == "no folder takes temporary files: set TMPDIR to one that can be written"* ]]
    [[ ${lines[1]} == *"this user has no home folder: '~/.cache/libzc/costs.json'" ]]
    [[ ${lines[2]} == '~/.cache/libzc/x None' ]]
    # The text that is written has the name of the error.
    run -1 bash -c "ulimit -f 0; scripts/zc export --prometheus -o '$BATS_TEST_TMPDIR/x.prom'"
    [[ $output == "zc: $BATS_TEST_TMPDIR/x.prom: File too large" ]]
    [[ -z $(ls "$BATS_TEST_TMPDIR"/x.prom*) ]]
    XDG_CACHE_HOME=$BATS_TEST_TMPDIR run -0 python '
import resource
from zclib import costs
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
try:
    costs.keep("host", "gpu", {})
except OSError as error:
    print(error)'
    [[ $output == *"File too large: '$BATS_TEST_TMPDIR/libzc/costs.json'" ]]
    [[ -z $(ls "$BATS_TEST_TMPDIR/libzc") ]]
}

@test "Ctrl-C ends zc without a word, also while it starts" {
    mkdir "$BATS_TEST_TMPDIR/zclib"
    cp scripts/zc "$BATS_TEST_TMPDIR"
    echo 'import os, signal; os.kill(os.getpid(), signal.SIGINT)' \
        | tee "$BATS_TEST_TMPDIR/zclib/__init__.py" >"$BATS_TEST_TMPDIR/zclib/cli.py"
    run -130 env --default-signal=INT "$BATS_TEST_TMPDIR/zc"
    [[ -z $output ]]
}

@test "closed output streams are no error" {
    run -0 bash -c 'scripts/zc explain tests/tools/policies/rules.conf --size 1M >&-'
    run -0 bash -c 'scripts/zc check policy/policy.conf >&-'
    [[ -z $output ]]
    run -1 bash -c 'scripts/zc explain /nonexistent --size 1M 2>&-'
}

@test "sizes, counts and times are printed as the library's summary prints them" {
    run -0 python '
from zclib import units
print(*map(units.size, (0, 1023, 1024, 1025, 67112, 671744, 67783232, 67108864, 1 << 40, 1 << 62)),
      sep=", ")
print(*map(units.duration, (0, 999, 1000, 99999, 687000, 3_412_345, 12_000_000_000)), sep=", ")
print(*map(units.count, (0, 999999, 1000000, 123456789)), sep=", ")
print(units.percent(1, 3), units.percent(1, 1000), units.percent(1, 0), units.rate(10, 1))'
    [[ ${lines[0]} == "0 B, 1023 B, 1 KiB, 1.0 KiB, 65.5 KiB, 656 KiB, "*", 1 TiB, 4 EiB" ]]
    [[ ${lines[1]} == "0 ns, 999 ns, 1.0 us, 99.9 us, 687 us, 3.4 ms, 12.0 s" ]]
    [[ ${lines[2]} == "0, 999999, 1000k, 123M" ]]
    [[ ${lines[3]} == "33 % 0.1 % - 10.0 GB/s" ]]
}

@test "names can't act on a terminal, and bytes that are no text stay" {
    run -0 python '
import sys
from zclib import names, screen
screen.prepare()
print(names.shown("a\x1b[31m\n\x9b\u202eb é 日本"))
print(names.shown(b"caf\xe9".decode("utf-8", "surrogateescape")))
print(names.shorten("a-long-module-name.so+0x1234", 15), names.columns("日本"))
screen.say("Written to a\x1b[31m\n.")'
    [[ ${lines[0]} == 'a\x1b[31m\x0a\x9b\u202eb é 日本' ]]
    [[ ${lines[1]} == $'caf\xe9' ]]
    [[ ${lines[2]} == "a-long...0x1234 4" ]]
    [[ ${lines[3]} == 'Written to a\x1b[31m\x0a.' ]]
}

@test "names that the locale has no letters for are escaped" {
    LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 PYTHONIOENCODING=ascii run -0 python '
from zclib import names, screen
screen.prepare()
print(names.shown("\xe9 \u65e5"), b"\xff".decode("utf-8", "surrogateescape"))'
    [[ $output == $'\\xe9 \\u65e5 \xff' ]]
}

@test "a table shrinks its names, drops columns and then stacks its cells, and none is too wide" {
    run -0 python '
from zclib import table
columns = [table.text("Site", least=8), table.text("Caller", least=10),
           table.Column("Count", drop=1), table.Column("Asked"), table.text("Why", drop=2, least=5)]
rows = [("821ff7fb", "a-program-with-a-name+0x1502", 12, "64.6 MiB", "over max_device")]
for width in (None, 70, 50, 36, 30):
    left_out = []
    lines = table.render(columns, rows, width, left_out)
    assert width is None or max(map(len, lines)) <= width, (width, lines)
    print(*lines[1:], *left_out, sep="; ")
rows = [("821ff7fb", "main+0x1502", 12, "64.6 MiB", "over max_device")]
print(*table.render(columns, rows, 24), sep="\n")'
    [[ ${lines[0]} == "821ff7fb  a-program-with-a-name+0x1502     12  64.6 MiB  over max_device" ]]
    [[ ${lines[4]} == "821ff7fb  a-p...1502  64.6 MiB; Count; Why" ]]
    [[ ${lines[*]:5} == "821ff7fb     Caller: main+0x1502     Count: 12     Asked: 64.6 MiB    "* ]]
}
