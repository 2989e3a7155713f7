# Completes the command lines of slurmfab and fab in fish; slurmfab itself says what fits.

function __slurmfab_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program slurmfab
    string match -q '*/*' -- $words[1]; and set program (string replace -r '[^/]*$' slurmfab -- $words[1])
    command -sq -- $program; or set program @PROGRAM@
    set -l lines ($program --complete fish $words "$current" 2>/dev/null)
    # What stands in front of a path in this word stays, as in --key=PATH and @PATH.
    set -l before (string sub -l (math (string length -- "$current") - (string length -- "$lines[2]")) -- "$current")
    switch "$lines[1]"
        case files
            __fish_complete_path "$lines[2]" | string replace -r '^' -- "$before"
        case directories
            __fish_complete_directories "$lines[2]" | string replace -r '^' -- "$before"
        case '*'
            string join \n -- $lines[2..-1]
    end
end

complete -c slurmfab -f -a '(__slurmfab_complete)'
complete -c fab -f -a '(__slurmfab_complete)'
