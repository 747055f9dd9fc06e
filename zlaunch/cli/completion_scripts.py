"""The shells' side of completion: each asks `zlaunch __complete`, and shows the answer.

The first line of an answer says how: files, none, words, or nospace where a word may go on.
"""

from __future__ import annotations

_BASH = r"""# Completion of zlaunch for bash: source <(zlaunch completion bash)
_zlaunch() {
    local program=${1/#\~/$HOME} answer
    type -P -- "$program" >/dev/null || program=zlaunch
    mapfile -t answer < <(
        "$program" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null
    )
    COMPREPLY=()
    case ${answer[0]-} in
        files) compopt -o default ;;
        nospace) compopt -o nospace; COMPREPLY=("${answer[@]:1}") ;;
        words) COMPREPLY=("${answer[@]:1}") ;;
    esac
}
complete -o nosort -F _zlaunch zlaunch 2>/dev/null || complete -F _zlaunch zlaunch
"""

_ZSH = r"""#compdef zlaunch
# Completion of zlaunch for zsh: source <(zlaunch completion zsh), or as _zlaunch in $fpath.
_zlaunch() {
    local program=${${(Q)words[1]}/#\~/$HOME} line value
    local -a answer items end
    whence -- $program >/dev/null || program=zlaunch
    line=$($program __complete zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    answer=("${(@f)line}")
    case $answer[1] in
        files)
            [[ $PREFIX == --*=* ]] && compset -P '*='
            _files
            return ;;
        nospace) end=(-S '') ;;
        words) ;;
        *) return 1 ;;
    esac
    for line in "${(@)answer[2,-1]}"; do
        value=${${line%%$'\t'*}//:/\\:}
        [[ $line == *$'\t'* ]] && value+=:${line#*$'\t'}
        items+=("$value")
    done
    (( $#items )) && _describe -V zlaunch items "${(@)end}"
}
if [[ $funcstack[1] == _zlaunch ]]; then
    _zlaunch "$@"
else
    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i }
    compdef _zlaunch zlaunch
fi
"""

_FISH = r"""# Completion of zlaunch for fish: ~/.config/fish/completions/zlaunch.fish
function __zlaunch_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct | string replace -r '^["\']' '')
    set -l program (string replace -r '^~' $HOME -- $words[1])
    type -q -- $program; or set program zlaunch
    set -l answer ($program __complete fish $words[2..-1] "$current" 2>/dev/null)
    switch "$answer[1]"
        case files
            set -l before (string match -r -- '^--[^=]*=' $current)
            for path in (__fish_complete_path (string replace -r -- '^--[^=]*=' '' "$current"))
                echo "$before"$path
            end
        case words nospace
            printf '%s\n' $answer[2..-1]
    end
end
complete -c zlaunch -k -f -a '(__zlaunch_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}
