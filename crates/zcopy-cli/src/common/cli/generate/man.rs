//! The manual page of a tool, in the macros of man(7).
//!
//! NAME, SYNOPSIS, DESCRIPTION and OPTIONS come from the definition that parses the command line.
//! The other sections stand in a file beside each tool, `manual.man`.

use clap::{Arg, ArgAction, Command};

/// The day on which the pages changed last.
const DATE: &str = "2026-11-27";

/// The longest line, in bytes, as `mandoc -T lint` advises.
const LINE_LENGTH: usize = 78;

/// Returns the page of `command`.
///
/// `manual` holds sections in the macros of man(7). The text before its first heading continues the
/// DESCRIPTION, and the sections follow OPTIONS. Hyphens and quotes need no escapes there.
pub(super) fn page(command: &Command, manual: &str) -> String {
    let (description, sections) = match manual.find(".SH ") {
        Some(start) => manual.split_at(start),
        None => (manual, ""),
    };
    [
        title(command),
        name(command),
        synopsis(command),
        about(command),
        literal(description),
        options(command),
        generated(command),
        literal(sections),
    ]
    .concat()
}

fn title(command: &Command) -> String {
    let title = escaped(&command.get_name().to_uppercase());
    let version = command.get_version().unwrap_or_default();
    format!(".TH {title} 1 {DATE} \"zcopy {version}\" \"User Commands\"\n")
}

/// Returns the line that `apropos` shows: the name, and the first sentence of the description.
fn name(command: &Command) -> String {
    let about = about_text(command);
    let summary = about.lines().next().unwrap_or_default();
    let mut letters = summary.trim_end_matches('.').chars();
    let first = letters.next().map(char::to_lowercase);
    let summary: String = first.into_iter().flatten().chain(letters).collect();
    let line = escaped(&format!("{} - {summary}", command.get_name()));
    format!(".SH NAME\n{}", wrapped(&line))
}

/// Returns the forms of the command line, with the name in bold and values in italics.
fn synopsis(command: &Command) -> String {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:");
    let forms = usage.lines().map(|form| {
        let words = form.trim().replace("[OPTIONS]", "[OPTION]...");
        let words: Vec<_> = words.split(' ').map(synopsis_word).collect();
        wrapped(&words.join(" "))
    });
    format!(".SH SYNOPSIS\n{}", forms.collect::<Vec<_>>().join(".br\n"))
}

/// Formats a word of the synopsis: words in capitals are values, and all others are literal.
fn synopsis_word(word: &str) -> String {
    let value = word.trim_matches(|c: char| !c.is_ascii_uppercase());
    if value.is_empty() || word.starts_with('-') {
        return format!(r"\fB{}\fR", escaped(word));
    }
    let mut marked = String::new();
    let mut rest = word;
    while let Some(start) = rest.find(|c: char| c.is_ascii_uppercase()) {
        let (before, from_here) = rest.split_at(start);
        let end = from_here
            .find(|c: char| !c.is_ascii_uppercase())
            .unwrap_or(from_here.len());
        let (value, after) = from_here.split_at(end);
        marked += &escaped(before);
        marked.extend([r"\fI", value, r"\fR"]);
        rest = after;
    }
    marked + &escaped(rest)
}

fn about(command: &Command) -> String {
    let paragraphs = about_text(command);
    let paragraphs: Vec<_> = paragraphs
        .split("\n\n")
        .map(|paragraph| wrapped(&escaped(paragraph)))
        .collect();
    format!(".SH DESCRIPTION\n{}", paragraphs.join(".PP\n"))
}

fn about_text(command: &Command) -> String {
    command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Returns the operands and options, in the groups of the help.
fn options(command: &Command) -> String {
    let mut page = ".SH OPTIONS\n".to_owned();
    let is_shown = |arg: &&Arg| !arg.is_hide_set();
    for operand in command.get_positionals().filter(is_shown) {
        page += &entry(&operand_tag(operand), operand);
    }
    let mut headings: Vec<Option<&str>> = Vec::new();
    let all = || {
        command
            .get_arguments()
            .filter(is_shown)
            .filter(|arg| !arg.is_positional())
    };
    for option in all() {
        let heading = option.get_help_heading();
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    // The options without a group come last, as --help and --version do.
    headings.sort_by_key(Option::is_none);
    for heading in &headings {
        if headings.len() > 1 {
            page.extend([".SS ", heading.unwrap_or("Other"), "\n"]);
        }
        for option in all() {
            if option.get_help_heading() == *heading {
                page += &entry(&option_tag(option), option);
            }
        }
    }
    page
}

/// Returns the paragraph about `--generate`, which the help leaves out.
fn generated(command: &Command) -> String {
    let name = escaped(command.get_name());
    let formats = r"\fBman\fR|\fBbash\fR|\fBzsh\fR|\fBfish\fR";
    format!(
        ".PP\n\\fB{name} \\-\\-generate\\fR {formats}\nprints this page, or completions for a \
         shell.\nNo other argument may stand beside it.\n"
    )
}

/// Returns the paragraph about an option or operand.
fn entry(tag: &str, arg: &Arg) -> String {
    let mut help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let defaults = arg.get_default_values();
    if arg.get_action().takes_values() && !arg.is_hide_default_value_set() && !defaults.is_empty() {
        let defaults: Vec<_> = defaults
            .iter()
            .map(|value| value.to_string_lossy())
            .collect();
        help.extend([" [default: ", &defaults.join(" "), "]"]);
    }
    format!(".TP\n{tag}\n{}", wrapped(&escaped(&help)))
}

/// Returns the heading of an option: `-A, --last-written N`.
fn option_tag(option: &Arg) -> String {
    let short = option.get_short().map(|letter| format!("-{letter}"));
    let long = option.get_long().map(|name| format!("--{name}"));
    let names: Vec<_> = [short, long]
        .into_iter()
        .flatten()
        .map(|name| format!(r"\fB{}\fR", escaped(&name)))
        .collect();
    let names = names.join(", ");
    if !option.get_action().takes_values() {
        return names;
    }
    let value = synopsis_word(&value_name(option));
    let is_optional = option.get_num_args().is_some_and(|n| n.min_values() == 0);
    match (is_optional, option.is_require_equals_set()) {
        (true, _) => format!("{names}[={value}]"),
        (false, true) => format!("{names}={value}"),
        (false, false) => format!("{names} {value}"),
    }
}

fn operand_tag(operand: &Arg) -> String {
    let dots = match operand.get_action() {
        ArgAction::Append => "...",
        _ => "",
    };
    synopsis_word(&value_name(operand)) + dots
}

fn value_name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    names.join(" ")
}

/// Escapes what roff would interpret.
fn escaped(text: &str) -> String {
    literal(&text.replace('\\', r"\e"))
}

/// Escapes characters that typesetters replace, and characters beyond ASCII. Keeps existing
/// escapes.
fn literal(text: &str) -> String {
    let mut literal = String::new();
    let mut follows_backslash = false;
    for c in text.chars() {
        match c {
            _ if follows_backslash => literal.push(c),
            '-' => literal += r"\-",
            '\'' => literal += r"\(aq",
            '`' => literal += r"\(ga",
            '^' => literal += r"\(ha",
            '~' => literal += r"\(ti",
            c if !c.is_ascii() => {
                let code = format!("{:04X}", u32::from(c));
                literal.extend([r"\[u", &code, "]"]);
            }
            c => literal.push(c),
        }
        follows_backslash = c == '\\' && !follows_backslash;
    }
    literal
}

/// Wraps the text to the longest line, and escapes lines that would be macros.
fn wrapped(text: &str) -> String {
    let mut page = String::new();
    let mut length = 0;
    for word in text.split_whitespace() {
        if length > 0 && length + 1 + word.len() > LINE_LENGTH {
            page.push('\n');
            length = 0;
        }
        if length > 0 {
            page.push(' ');
            length += 1;
        } else if word.starts_with('.') {
            page += r"\&";
        }
        page += word;
        length += word.len();
    }
    page + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_typesetter_would_replace_is_escaped() {
        assert_eq!(
            escaped(r"it's -a '\d' ^~`"),
            r"it\(aqs \-a \(aq\ed\(aq \(ha\(ti\(ga"
        );
        assert_eq!(escaped("[…]"), r"[\[u2026]]");
    }

    #[test]
    fn escapes_of_a_manual_stay() {
        assert_eq!(literal(r"\fB-a\fR \- \e-"), r"\fB\-a\fR \- \e\-");
    }

    #[test]
    fn no_line_of_text_is_taken_for_a_macro() {
        let text = ["word"; 40].join(" ") + " .TH";
        let wrapped = wrapped(&text);
        assert!(
            wrapped
                .lines()
                .all(|line| line.len() <= LINE_LENGTH && !line.starts_with('.'))
        );
        assert_eq!(super::wrapped(".. a"), "\\&.. a\n");
    }

    #[test]
    fn values_of_a_synopsis_are_told_from_options() {
        assert_eq!(synopsis_word("zc-pv"), r"\fBzc\-pv\fR");
        assert_eq!(synopsis_word("-R"), r"\fB\-R\fR");
        assert_eq!(synopsis_word("[FILE]..."), r"[\fIFILE\fR]...");
        assert_eq!(synopsis_word("PID[:FD]..."), r"\fIPID\fR[:\fIFD\fR]...");
    }
}
