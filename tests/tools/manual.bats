#!/usr/bin/env bats
# The manual pages and the completion: right in form, and about everything there is.

load common

setup() {
    need_python
}

# Prints the long options of a subcommand.
options() {
    zc "$1" --help | grep -oE '^ +-.*' | grep -oE -- '--[a-z_-]+' | sort -u
}

commands() {
    zc --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

# The text of a page without its markup.
page() {
    sed -E 's/^\.\\".*//; s/^\.[A-Z][a-z]+ //; s/ (Ns|Ar|Cm|Fl|Pa|No|Op) / /g' "docs/man/$1"
}

@test "mandoc finds nothing wrong with the pages" {
    command -v mandoc >/dev/null || skip "no mandoc"
    run -0 mandoc -Tlint -W warning docs/man/*
    [[ -z $output ]]
}

@test "man formats the pages without a warning" {
    command -v man >/dev/null || skip "no man"
    for file in docs/man/*; do
        MANWIDTH=80 run -0 man --warnings -l -Tutf8 "$file"
        [[ $output != *warning:* ]]
    done
}

@test "zc(1) has every command and every option" {
    [[ $(commands | wc -l) -ge 7 ]]
    for command in $(commands); do
        grep -q "^\.Ss zc $command$" docs/man/zc.1
        for option in $(options "$command"); do
            [[ $option == --help ]] && continue
            sed -n "/^\.Ss zc $command$/,/^\.S[sh] /p" docs/man/zc.1 |
                grep -qE -- "Fl -${option#--}( |$)" || { echo "$command $option"; return 1; }
        done
    done
}

@test "policy.conf(5) has every key" {
    for key in $(sed -nE 's/^ZC_KEY\([A-Z_]+, "([a-z_]+)".*/\1/p' policy/keys.def); do
        grep -q "^\.It Ic $key " docs/man/policy.conf.5 || { echo "$key"; return 1; }
    done
}

@test "libzc(7) has every variable" {
    for variable in $(grep -oE '"ZC_[A-Z_]+"' shim/base/options.h | tr -d '"'); do
        grep -q "^\.It Ev $variable$" docs/man/libzc.7 || { echo "$variable"; return 1; }
    done
}

@test "the commands of the pages' examples are there" {
    for command in $(grep -hoE '(^\.Dl \$|;) zc [a-z]+' docs/man/* | grep -oE '[a-z]+$'); do
        commands | grep -qx "$command"
    done
}

# Completes a command line as bash would: complete WORD...   The last word is the one at the cursor.
complete_words() {
    PATH=$PWD/scripts:$PATH bash -c '
        source scripts/completion/zc
        compopt() { :; }
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
        _zc
        printf "%s\n" "${COMPREPLY[@]}"' bash "$@"
}

@test "bash completes commands, options and their values" {
    [[ $(complete_words zc ch) == check ]]
    for command in $(commands); do
        complete_words zc '' | grep -qx "$command"
        for option in $(options "$command"); do
            complete_words zc "$command" -- | grep -qx -- "$option" || {
                echo "$command $option"
                return 1
            }
        done
    done
    [[ $(complete_words zc run -l e) == events ]]
    [[ $(complete_words zc check policy/presets/w) == policy/presets/watch-only.conf ]]
    complete_words zc run -p policy/policy.conf -- mk | grep -qx mkdir ||
        [[ -z $(complete_words zc run -p policy/policy.conf -- mk) ]]
}

@test "shellcheck finds nothing in the completion" {
    command -v shellcheck >/dev/null || skip "no shellcheck"
    shellcheck scripts/completion/zc
}
