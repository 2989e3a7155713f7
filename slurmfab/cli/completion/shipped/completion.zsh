#compdef slurmfab fab
# Completes the command lines of slurmfab and fab in zsh; slurmfab itself says what fits.

_slurmfab() {
    local program=slurmfab
    local -a lines found
    [[ ${words[1]} == */* ]] && program=${words[1]:h}/slurmfab
    whence -- "$program" >/dev/null || program=@PROGRAM@
    lines=("${(@f)$("$program" --complete zsh "${(@Q)words[1,CURRENT]}" 2>/dev/null)}")
    case ${lines[1]} in
        files | directories)
            # What stands in front of the path in this word stays, as in --key=PATH and @PATH.
            [[ $PREFIX == *${lines[2]} ]] && compset -p $(( $#PREFIX - ${#lines[2]} ))
            if [[ ${lines[1]} == files ]]; then _files; else _files -/; fi
            ;;
        *)
            found=("${(@)lines[2,-1]}")
            (( $#found )) && _describe -V value found
            ;;
    esac
}

(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _slurmfab slurmfab fab
