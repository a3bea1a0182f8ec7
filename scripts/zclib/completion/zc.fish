# SPDX-License-Identifier: MIT
# Completion of the command zc for fish, made by `zc --completion fish`.
# shellcheck disable=all

function __zc_needs_command
    test (count (commandline -opc)) -eq 1
end

# Whether the words before the cursor are those of this command, and of no program that it runs.
function __zc_in
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]; or return 1
    not contains -- $argv[1] $__zc_running; or not __zc_has_program
end

function __zc_has_program
    set -l words (commandline -opc)
    set -l at 3
    while test $at -le (count $words)
        if test $words[$at] = --; or not string match -q -- '-*' $words[$at]
            return 0
        end
        contains -- $words[$at] $__zc_valued; and set at (math $at + 1)
        set at (math $at + 1)
    end
    return 1
end

# Whether a program, or its arguments, may stand here: not an option of the command.
function __zc_runs
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]; or return 1
    __zc_has_program; or not string match -q -- '-*' (commandline -ct)
end

function __zc_presets
    printf '%s\n' $__zc_presets
end

# Folders, and files of some suffixes; of the last word behind a comma.
function __zc_files
    set -l word (commandline -ct)
    set -l front (string match -r '.*,' -- $word)
    set -l fits '.*(?:/|\.(?:'(string join '|' $argv)'))$'
    complete -C "__fish_command_without_completions "(string replace -r '.*[,=]' '' -- $word) |
        string match -r -- $fits | string replace -r '^' "$front"
end

function __zc_policies
    set -l front (string match -r '.*,' -- (commandline -ct))
    printf '%s\n' "$front"$argv
    printf '%s\n' "$front"@$__zc_presets
    __zc_files conf
end

function __zc_processes
    __fish_complete_pids
    __zc_files jsonl counters
end

# RULE.KEY= with the rules of the policy of this command line.
function __zc_settings
    set -l words (commandline -opc)
    set -l policy policy.conf
    set -q ZC_POLICY; and set policy $ZC_POLICY
    for at in (seq 2 (count $words))
        contains -- $words[$at] -p --policy; and set policy $words[(math $at + 1)]
    end
    string match -- 'defaults.*' $__zc_keys | string replace -r '$' =
    test -f "$policy"; or return
    for rule in (string match -rg '^\s*\[rule\s+([^]]*[^]\s])\s*\]' <$policy)
        printf '%s\n' $rule.(string match -v -- 'defaults.*' $__zc_keys)=
    end
end

complete -c zc -f
complete -c zc -n __zc_needs_command -l help -s h -d 'show the commands'
complete -c zc -n __zc_needs_command -l version -s V -d 'show the version'
# @tables@
