#compdef zc
# SPDX-License-Identifier: MIT
# Completion of the command zc for zsh, made by `zc --completion zsh`.
# shellcheck disable=all

typeset -ga _zc_commands _zc_keys _zc_presets
# @tables@

_zc_preset() {
    compadd "$@" -a _zc_presets
}

_zc_policy_or_off() {
    compadd "$@" -- off
    _zc_policy "$@"
}

_zc_policy() {
    compadd "$@" -P @ -a _zc_presets
    _files "$@" -g '*.conf(-.)'
}

_zc_log() {
    _files "$@" -g '*.(jsonl|counters)(-.)'
}

_zc_policy_or_log() {
    _files "$@" -g '*.(conf|jsonl|counters)(-.)'
}

_zc_process() {
    _alternative 'processes:process:_pids' 'logs:log:_zc_log'
}

# RULE.KEY= with the rules of the policy of this command line.
_zc_setting() {
    local policy=${ZC_POLICY:-policy.conf} line rule key
    local head='^[[:blank:]]*\[rule[[:blank:]]+([^]]*[^][:blank:]])[[:blank:]]*\]'
    local -a settings
    local at=${words[(I)(-p|--policy)]}
    (( at )) && policy=${(Q)words[at + 1]}
    settings=(${(M)_zc_keys:#defaults.*})
    if [[ -f $policy && -r $policy ]]; then
        while IFS= read -r line; do
            if [[ $line =~ $head ]]; then
                rule=$match[1]
                for key in ${_zc_keys:#defaults.*}; do
                    settings+=("$rule.$key")
                done
            fi
        done <$policy
    fi
    compadd "$@" -S = -a settings
}

_zc() {
    local curcontext=$curcontext state line
    _arguments -C '(- *)'{-h,--help}'[show the commands]' \
        '(- *)'{-V,--version}'[show the version]' \
        '1: :->command' '*:: :->argument'
    case $state in
    command) _describe -t commands command _zc_commands ;;
    argument) curcontext=${curcontext%:*}-$words[1]: && _zc_arguments $words[1] ;;
    esac
}

# Sourced it only names the function; found in $fpath it is the function's body.
if [[ $funcstack[1] == _zc ]]; then
    _zc "$@"
else
    compdef _zc zc
fi
