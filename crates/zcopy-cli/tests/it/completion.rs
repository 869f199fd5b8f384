//! Completions of the tools in interactive shells.

use std::fs;

use tempfile::TempDir;

use crate::interactive::{Session, Shell};

/// What Tab makes of a line, in each shell.
const COMPLETED: &[(&str, &str)] = &[
    // File names. Those of directories end in a slash and no space.
    ("zc-cat pl\t", "zc-cat plain.txt "),
    ("zc-cat wi\t", r"zc-cat with\ space.txt "),
    ("zc-cat fol\t", "zc-cat folder/"),
    ("zc-cat folder/in\t", "zc-cat folder/inside.txt "),
    (
        "zc-cat plain.txt wi\t",
        r"zc-cat plain.txt with\ space.txt ",
    ),
    ("zc-cat -n pl\t", "zc-cat -n plain.txt "),
    ("zc-cat -- pl\t", "zc-cat -- plain.txt "),
    ("zc-tee pl\t", "zc-tee plain.txt "),
    ("zc-pv pl\t", "zc-pv plain.txt "),
    // Options, also behind operands.
    ("zc-cat --show-n\t", "zc-cat --show-nonprinting "),
    ("zc-cat plain.txt --strict\t", "zc-cat plain.txt --strict "),
    ("zc-pv --no-s\t", "zc-pv --no-splice "),
    // Values out of a list.
    ("zc-cat --color=ne\t", "zc-cat --color=never "),
    (
        "zc-tee --output-error=exit-\t",
        "zc-tee --output-error=exit-nopipe ",
    ),
    ("zc-pv --hash sh\t", "zc-pv --hash sha256 "),
    ("zc-pv --hash=bl\t", "zc-pv --hash=blake3 "),
    ("zc-pv -u gra\t", "zc-pv -u granular "),
    ("zc-dircopy --lanes al\t", "zc-dircopy --lanes always "),
    // Values that are files.
    ("zc-pv -o wi\t", r"zc-pv -o with\ space.txt "),
    ("zc-pv --output pl\t", "zc-pv --output plain.txt "),
    ("zc-pv --output=pl\t", "zc-pv --output=plain.txt "),
    ("zc-pv --output fol\t", "zc-pv --output folder/"),
    (
        "zc-dircopy --hash-file pl\t",
        "zc-dircopy --hash-file plain.txt ",
    ),
    ("zc-pv -d wi\t", r"zc-pv -d with\ space.txt "),
    ("zc-pv --watchfd=pl\t", "zc-pv --watchfd=plain.txt "),
    ("zc-pv --json=pl\t", "zc-pv --json=plain.txt "),
    // A value that has to be attached is no argument of its own.
    (
        "zc-tee --output-error pl\t",
        "zc-tee --output-error plain.txt ",
    ),
    // No file has this place.
    ("zc-pv --hash pl\t", "zc-pv --hash pl"),
    ("zc-pv -u fol\t", "zc-pv -u fol"),
    ("zc-pv --rate-limit pl\t", "zc-pv --rate-limit pl"),
    ("zc-cat --highlight=pl\t", "zc-cat --highlight=pl"),
    ("zc-dircopy --exclude pl\t", "zc-dircopy --exclude pl"),
    ("zc-yes pl\t", "zc-yes pl"),
    // Directories.
    ("zc-dircopy fol\t", "zc-dircopy folder/"),
    (
        "zc-dircopy folder/an\t",
        r"zc-dircopy folder/another\ folder/",
    ),
    ("zc-dircopy --input fol\t", "zc-dircopy --input folder/"),
];

/// All that is offered for the last word.
const OFFERED: &[(&str, &[&str])] = &[
    ("zc-cat --color=", &["always", "auto", "never"]),
    ("zc-tee --cache=", &["drop", "keep"]),
    ("zc-dircopy ", &["folder", "second"]),
    ("zc-pv --hash ", &["blake3", "sha256"]),
    ("zc-pv -u ", &["block", "granular", "plain", "shaded"]),
    (
        "zc-pv --s",
        &[
            "--si",
            "--size",
            "--skip-errors",
            "--sparse",
            "--stable",
            "--stats",
            "--stop-at-size",
            "--store-and-forward",
            "--sync",
        ],
    ),
];

/// A directory with the files that lines above name.
fn directory() -> TempDir {
    let directory = TempDir::new().unwrap();
    for folder in ["folder", "second", "folder/another folder"] {
        fs::create_dir(directory.path().join(folder)).unwrap();
    }
    for file in ["plain.txt", "with space.txt", "folder/inside.txt"] {
        fs::write(directory.path().join(file), "").unwrap();
    }
    directory
}

fn completes_in(shell: Shell) {
    let directory = directory();
    let Some(mut session) = Session::start(shell, directory.path()) else {
        return;
    };
    let wrong: Vec<_> = COMPLETED
        .iter()
        .map(|(keys, line)| (keys, line, session.line_after(keys)))
        .filter(|(_, expected, line)| line != *expected)
        .collect();
    assert!(wrong.is_empty(), "{shell:?}: {wrong:#?}");
    for (line, expected) in OFFERED {
        let offered = session.candidates(line);
        assert_eq!(offered, *expected, "{shell:?} for {line:?}");
    }
    let offered = session.candidates("zc-cat ");
    assert!(offered.contains(&"plain.txt".to_owned()), "{offered:?}");
    assert!(
        !offered.iter().any(|word| word.starts_with('-')),
        "{offered:?}"
    );
    let offered = session.candidates("zc-cat -");
    for option in ["-A", "--show-all", "--help"] {
        assert!(
            offered.contains(&option.to_owned()),
            "{shell:?}: {offered:?}"
        );
    }
}

#[test]
fn bash_completes_files_options_and_values() {
    completes_in(Shell::Bash);
}

#[test]
fn zsh_completes_files_options_and_values() {
    completes_in(Shell::Zsh);
}

#[test]
fn fish_completes_files_options_and_values() {
    completes_in(Shell::Fish);
}

#[test]
fn bash_leaves_no_space_where_a_value_has_to_be_attached() {
    let directory = directory();
    let Some(mut session) = Session::start(Shell::Bash, directory.path()) else {
        return;
    };
    let line = session.line_after("zc-cat --hi\t");
    assert_eq!(line, "zc-cat --highlight=");
    let line = session.line_after("zc-cat --hi\t1=red\tnone\t");
    assert_eq!(line, "zc-cat --highlight=1=rednone");
}
