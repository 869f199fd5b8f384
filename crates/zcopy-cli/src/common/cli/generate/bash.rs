//! Completions for bash. The script of `clap_complete` completes no operands.

use clap::{Arg, Command, ValueHint};

/// The script. `NAME`, `FUNCTION`, `VALUES`, `OPTIONS` and `OPERANDS` are replaced.
const TEMPLATE: &str = r#"# bash completion for NAME

FUNCTION() {
    local IFS=$' \t\n' cur=${COMP_WORDS[COMP_CWORD]} option=${COMP_WORDS[COMP_CWORD-1]} words= i
    COMPREPLY=()
    # Bash makes "=" a word of its own. A value behind it belongs to "=OPTION".
    if [[ $cur == = ]]; then
        cur= option="=$option"
    elif [[ $option == = ]] && ((COMP_CWORD > 1)); then
        option="=${COMP_WORDS[COMP_CWORD-2]}"
    fi
    # Only operands follow "--".
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} != -- ]] || option=--
    done
    # Where this returns without words, readline completes names of files.
    case $option in
VALUES        *)
            if [[ $cur == -* && $option != -- ]]; then
                words='OPTIONS'
            else
                OPERANDS
            fi
            ;;
    esac
    compopt +o bashdefault +o default 2>/dev/null
    COMPREPLY=($(compgen -W "$words" -- "$cur"))
    [[ ${COMPREPLY-} != *= ]] || compopt -o nospace 2>/dev/null
}

complete -o bashdefault -o default -F FUNCTION NAME
"#;

/// Returns the script for a program.
pub(super) fn script(command: &Command) -> String {
    let name = command.get_name();
    let options: Vec<String> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .flat_map(spellings)
        .collect();
    let values: String = command.get_opts().map(value_case).collect();
    let operands = command
        .get_positionals()
        .next()
        .map_or_else(|| ":".to_owned(), complete_value);
    TEMPLATE
        .replace("FUNCTION", &format!("_{}", name.replace('-', "_")))
        .replace("NAME", name)
        .replace("VALUES", &values)
        .replace("OPTIONS", &options.join(" "))
        .replace("OPERANDS", &operands)
}

/// Returns the short and the long form of an option, with `=` if a value has to follow in the same
/// word.
fn spellings(arg: &Arg) -> impl Iterator<Item = String> {
    let needs_value = arg.is_require_equals_set() && min_values(arg) > 0;
    let equals = if needs_value { "=" } else { "" };
    names(arg)
        .into_iter()
        .map(move |name| format!("{name}{equals}"))
}

/// Returns the short and the long form of an option.
fn names(arg: &Arg) -> Vec<String> {
    let short = arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|name| format!("--{name}"));
    short.into_iter().chain(long).collect()
}

fn min_values(arg: &Arg) -> usize {
    arg.get_num_args().map_or(0, |range| range.min_values())
}

/// Returns the `case` branch that completes the value of an option.
fn value_case(arg: &Arg) -> String {
    let mut patterns: Vec<String> = names(arg).iter().map(|name| format!("={name}")).collect();
    if !arg.is_require_equals_set() {
        patterns.extend(names(arg));
    }
    format!(
        "        {})\n            {}\n            ;;\n",
        patterns.join(" | "),
        complete_value(arg)
    )
}

/// Returns the commands that complete a value. They return from the function unless they set
/// `words`.
fn complete_value(arg: &Arg) -> String {
    let words: Vec<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    if !words.is_empty() {
        return format!("words='{}'", words.join(" "));
    }
    match arg.get_value_hint() {
        ValueHint::FilePath | ValueHint::AnyPath => "return",
        ValueHint::DirPath => {
            "compopt +o bashdefault +o default -o dirnames -o filenames 2>/dev/null; return"
        }
        ValueHint::CommandString => "words=$(compgen -c -- \"$cur\")",
        _ => ":",
    }
    .to_owned()
}
