# SPDX-License-Identifier: MIT
# Completion of the command zc for bash, made by `zc --completion bash`.
# shellcheck shell=bash

# @tables@

# Completes one of some words.  $1 words, $2 word so far
_zc_from() {
    local -a found
    mapfile -t found < <(compgen -W "$1" -- "$2")
    COMPREPLY+=("${found[@]}")
}

# Completes folders, and files that fit one of some globs.  $1 word so far, $2... globs
_zc_files() {
    local word=$1 glob
    shift
    [[ $word != @* ]] || return # A preset; and `-o filenames` would quote the @.
    compopt -o filenames
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(
        for glob in "$@"; do
            compgen -f -X "!$glob" -- "$word"
        done
        [[ $* == '*' ]] || compgen -d -- "$word"
    )
}

# Completes RULE.KEY= with the rules of the policy of this command line.  $1 word so far
_zc_setting() {
    local at policy=${ZC_POLICY:-policy.conf} key line
    local head='^[[:blank:]]*\[rule[[:blank:]]+([^]]*[^][:blank:]])[[:blank:]]*\]'
    local -a rules=()
    for ((at = 2; at < COMP_CWORD; at++)); do
        [[ ${COMP_WORDS[at]} == -p || ${COMP_WORDS[at]} == --policy ]] &&
            policy=${COMP_WORDS[at + 1]}
    done
    if [[ -f $policy && -r $policy ]]; then
        while IFS= read -r line; do
            # The name goes onto the command line, where the shell would act on what is in it.
            [[ $line =~ $head ]] && printf -v line %q "${BASH_REMATCH[1]}" && rules+=("$line")
        done <"$policy"
    fi
    compopt -o nospace
    for key in $_zc_keys; do
        if [[ $key == defaults.* ]]; then
            [[ $key == "$1"* ]] && COMPREPLY+=("$key=")
        else
            for line in "${rules[@]}"; do
                [[ $line.$key == "$1"* ]] && COMPREPLY+=("$line.$key=")
            done
        fi
    done
}

# The processes of this user.  $1 word so far
_zc_processes() {
    local folder
    for folder in /proc/[0-9]*; do
        [[ ${folder##*/} == "$1"* && -O $folder ]] && COMPREPLY+=("${folder##*/}")
    done
}

# Completes a value.  $1 its kind, $2 its words, $3 word so far
_zc_value() {
    case $1 in
    words) _zc_from "$2" "$3" ;;
    preset) _zc_from "$_zc_presets" "$3" ;;
    policy | policy_or_off)
        [[ $1 == policy ]] || _zc_from off "$3"
        _zc_from "@${_zc_presets// / @}" "$3"
        _zc_files "$3" '*.conf'
        ;;
    policies)
        local front=
        [[ $3 == *,* ]] && front=${3%,*},
        _zc_value policy_or_off '' "${3##*,}"
        COMPREPLY=("${COMPREPLY[@]/#/$front}")
        compopt -o nospace
        ;;
    policy_or_log) _zc_files "$3" '*.conf' '*.jsonl' '*.counters' ;;
    log) _zc_files "$3" '*.jsonl' '*.counters' ;;
    process)
        _zc_processes "$3"
        _zc_files "$3" '*.jsonl' '*.counters'
        ;;
    folder) _zc_files "$3" ;;
    file) _zc_files "$3" '*' ;;
    setting) _zc_setting "$3" ;;
    program) mapfile -t COMPREPLY < <(compgen -c -- "$3") ;;
    esac
}

# The beginning of the program's own command line; empty where it has not begun.  $1 command
_zc_program_at() {
    local at kind words
    for ((at = 2; at < COMP_CWORD; at++)); do
        case ${COMP_WORDS[at]} in
        --) echo $((at + 1)) && return ;;
        -*) _zc_option "$1" "${COMP_WORDS[at]}" && ((at++)) ;;
        *) echo "$at" && return ;;
        esac
    done
}

# bash parts words at each @ where it completes host names (COMP_WORDBREAKS): joins them again.
_zc_join() {
    local line=$COMP_LINE gap at last=-1 cursor=0
    local -a joined=()
    for ((at = 0; at < ${#COMP_WORDS[@]}; at++)); do
        gap=${line%%[![:space:]]*}
        line=${line#"$gap"}
        line=${line#"${COMP_WORDS[at]}"}
        if [[ -z $gap && $last -ge 0 && ${joined[last]} != = ]] &&
            [[ ${COMP_WORDS[at]} == @* || ${joined[last]} == *@ ]]; then
            joined[last]+=${COMP_WORDS[at]}
        elif [[ ${COMP_WORDS[at]} == =@ ]]; then # Marks that follow each other are one word.
            joined[++last]='='
            joined[++last]=@
        else
            joined[++last]=${COMP_WORDS[at]}
        fi
        ((at > COMP_CWORD)) || cursor=$last
    done
    COMP_WORDS=("${joined[@]}") COMP_CWORD=$cursor
}

_zc() {
    local parted=
    [[ -n $COMP_LINE && $COMP_WORDBREAKS == *@* ]] && parted=1 && _zc_join
    _zc_words
    # The replacement of the last @ and of all behind it.
    local word=${COMP_WORDS[COMP_CWORD]}
    [[ -z $parted || $word != *@* ]] || COMPREPLY=("${COMPREPLY[@]#"${word%@*}"}")
}

_zc_words() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local command=${COMP_WORDS[1]} at options='' kind='' words=''
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _zc_from "$_zc_commands --help --version" "$word"
        return
    fi
    _zc_command "$command" || return
    if [[ $kind == program ]]; then
        at=$(_zc_program_at "$command")
        if [[ -n $at ]]; then
            # The program's arguments are completed as if it stood alone.
            if declare -F _command_offset >/dev/null; then
                _command_offset "$at"
            else
                _zc_files "$word" '*'
            fi
            return
        fi
    fi
    # bash has --option=value in three words.
    if [[ $word == = ]]; then
        word=
    elif [[ $before == = ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    if [[ $before == -* ]] && _zc_option "$command" "$before"; then
        _zc_value "$kind" "$words" "$word"
    elif [[ $word == -* ]]; then
        _zc_from "$options" "$word"
    else
        _zc_value "$kind" "$words" "$word"
    fi
}
complete -F _zc zc
