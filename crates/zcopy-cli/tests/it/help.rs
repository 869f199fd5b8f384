//! What `--help` shows.

use std::io::Read as _;
use std::process::Command;

use rustix::termios::Winsize;

use crate::generated::{generated, help};
use crate::pty;
use crate::skip::has_program;
use crate::tools::TOOLS;

/// The help where COLUMNS says this.
fn help_in_columns(program: &str, columns: &str) -> String {
    let help = Command::new(program)
        .arg("--help")
        .env("COLUMNS", columns)
        .output()
        .unwrap();
    String::from_utf8(help.stdout).unwrap()
}

/// The help on a terminal that is this wide.
fn help_on_terminal(program: &str, columns: u16) -> String {
    let (mut screen, terminal) = pty::terminal();
    let size = Winsize {
        ws_row: 24,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let mut child = Command::new(program)
        .arg("--help")
        .env_remove("COLUMNS")
        .stdout(terminal)
        .spawn()
        .unwrap();
    let mut help = Vec::new();
    // At the end, when the program is gone, the terminal fails.
    let _ = screen.read_to_end(&mut help);
    assert!(child.wait().unwrap().success());
    String::from_utf8(help).unwrap().replace("\r\n", "\n")
}

fn width(help: &str) -> usize {
    let widths = help.lines().map(|line| line.chars().count());
    widths.max().unwrap_or_default()
}

/// The help in one line, as nobody wraps it.
fn unwrapped(help: &str) -> String {
    help.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn help_is_as_wide_as_the_terminal_up_to_100_columns() {
    for (name, program) in TOOLS {
        assert!(width(&help_on_terminal(program, 90)) <= 90, "{name}");
        let wide = help_on_terminal(program, 200);
        assert!(width(&wide) <= 100, "{name}");
        assert_eq!(wide, help_in_columns(program, "200"), "{name}");
    }
    let (_, zc_cat) = TOOLS[0];
    assert!((91..=100).contains(&width(&help_on_terminal(zc_cat, 200))));
    assert!((71..=75).contains(&width(&help_on_terminal(zc_cat, 75))));
}

#[test]
fn help_in_a_file_has_80_columns() {
    for (name, program) in TOOLS {
        assert!(width(&help(program)) <= 80, "{name}");
        for nonsense in ["", "0", "wide"] {
            assert_eq!(help_in_columns(program, nonsense), help(program), "{name}");
        }
    }
}

#[test]
fn help_is_as_wide_as_columns_says() {
    let (_, zc_cat) = TOOLS[0];
    assert!((51..=60).contains(&width(&help_in_columns(zc_cat, "60"))));
    // It need not be possible.
    assert!(!help_in_columns(zc_cat, "1").is_empty());
}

#[test]
fn help_shows_no_markup() {
    for (name, program) in TOOLS {
        for text in [help(program), generated(program, "man")] {
            assert!(!text.contains('`'), "{name}: {text}");
        }
        assert!(!help(program).contains(r"\\"), "{name}");
    }
}

/// The help referred to another place for the meaning of this option.
#[test]
fn the_help_says_what_output_error_chooses() {
    let (_, program) = TOOLS.iter().find(|(tool, _)| *tool == "zc-tee").unwrap();
    let help = unwrapped(&help(program));
    for words in [
        "whether zc-tee reports a write error and whether it exits",
        "MODE says what happens if an output cannot be written:",
    ] {
        assert!(help.contains(words), "{words}: {help}");
    }
}

/// The default of an option is told in other words than that of its value.
#[test]
fn defaults_stand_in_brackets() {
    for (name, option, default) in [
        (
            "zc-cat",
            "--timestamp",
            "without FORMAT: %Y-%m-%dT%H:%M:%S%.6f%z",
        ),
        ("zc-cat", "--color", "auto"),
        ("zc-tee", "--output-error", "without MODE: warn-nopipe"),
        ("zc-tee", "--cache", "without WHAT: drop"),
        ("zc-dircopy", "--overwrite-policy", "default"),
        ("zc-dircopy", "--lanes", "auto"),
        ("zc-dircopy", "--queue-size", "10"),
        ("zc-pv", "--interval", "1"),
        ("zc-pv", "--average-rate-window", "30"),
        ("zc-pv", "--every", "10"),
    ] {
        let (_, program) = TOOLS.iter().find(|(tool, _)| *tool == name).unwrap();
        let help = help(program);
        // Other options' descriptions may name it, too.
        let (_, from_here) = [format!("\n      {option}"), format!(", {option}")]
            .iter()
            .find_map(|start| help.split_once(start))
            .expect("it has the option");
        // Up to the next option.
        let description = unwrapped(from_here.split("\n  -").next().unwrap());
        let description = description.split(" --").next().unwrap();
        let default = if default.starts_with("without ") {
            format!("[{default}]")
        } else {
            format!("[default: {default}]")
        };
        assert!(description.contains(&default), "{name}: {description}");
    }
}

/// The words in single quotes that follow `for example` in the description of `--highlight`.
fn highlight_examples(text: &str) -> Vec<String> {
    let text = unwrapped(text);
    let (_, examples) = text.split_once("for example ").expect("it has examples");
    let examples = examples.split(';').next().unwrap();
    let quoted = examples.split('\'').skip(1).step_by(2);
    quoted.map(|example| format!("'{example}'")).collect()
}

/// Pastes the examples into a shell, and sees that each colours what it should.
fn assert_examples_work(text: &str) {
    let examples = highlight_examples(text);
    assert_eq!(examples.len(), 2, "{text}");
    for example in examples {
        let (_, program) = TOOLS[0];
        let script = format!(
            "printf 'connection refused id=42\\n' | '{program}' --color --highlight={example}"
        );
        let output = Command::new("sh").args(["-c", &script]).output().unwrap();
        let coloured = String::from_utf8(output.stdout).unwrap();
        let expected = if example.contains("refused") {
            "\x1b[1;31mrefused"
        } else {
            "\x1b[38;5;208;40m42"
        };
        assert!(coloured.contains(expected), "{example}: {coloured:?}");
    }
}

#[test]
fn examples_of_highlight_in_the_help_work_when_pasted() {
    assert_examples_work(&help(TOOLS[0].1));
}

#[test]
fn examples_of_highlight_in_the_manual_page_work_when_pasted() {
    if !has_program("mandoc") {
        return;
    }
    let directory = tempfile::TempDir::new().unwrap();
    let page = directory.path().join("zc-cat.1");
    std::fs::write(&page, generated(TOOLS[0].1, "man")).unwrap();
    let shown = Command::new("mandoc")
        .args(["-T", "utf8"])
        .arg(page)
        .output()
        .unwrap();
    // Bold and underlined letters are struck over.
    let shown = String::from_utf8(shown.stdout).unwrap();
    let mut plain = String::new();
    for c in shown.chars() {
        if c == '\x08' {
            plain.pop();
        } else {
            plain.push(c);
        }
    }
    assert_examples_work(&plain);
}
