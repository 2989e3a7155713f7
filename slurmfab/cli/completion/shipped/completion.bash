# Completes the command lines of slurmfab and fab in bash 3.2 and later; slurmfab itself says what fits.

_slurmfab_complete() {
    local program=slurmfab kind line path before=
    case $1 in */*) program=${1%/*}/slurmfab ;; esac
    command -v -- "$program" >/dev/null 2>&1 || program=@PROGRAM@
    COMPREPLY=()
    {
        IFS= read -r kind
        case $kind in
            files | directories)
                # What stands in front of the path in this word stays, as in --key=PATH and @PATH.
                IFS= read -r path
                case $2 in *"$path") before=${2%"$path"} ;; esac
                compopt -o filenames 2>/dev/null
                while IFS= read -r line; do COMPREPLY+=("$before$line"); done < <(compgen "-${kind:0:1}" -- "$path")
                ;;
            *)
                while IFS= read -r line; do [[ $line == "$2"* ]] && COMPREPLY+=("$line"); done
                ;;
        esac
    } < <("$program" --complete bash "$2" "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}

complete -F _slurmfab_complete slurmfab fab
