//! The manual pages beside the source: what it reads from the environment, what it exits with, and
//! what the help says.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;

use crate::generated::{generated, help, plain, section, tags};
use crate::tools::TOOLS;

/// The source of the tools without its unit tests: the text of each file, by its path in `src`.
fn sources() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let unit_tests = Regex::new(r"#\[cfg\(test\)\]\s+(?:#\[[^;{]*?\]\s+)*mod \w+ \{").unwrap();
    let mut sources = BTreeMap::new();
    let mut directories = vec![root.clone()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let is_test = path.file_stem().is_some_and(|stem| stem == "tests");
            if path.is_dir() && !is_test {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !is_test {
                let text = std::fs::read_to_string(&path).unwrap();
                let text = unit_tests.splitn(&text, 2).next().unwrap_or_default();
                let code = text
                    .lines()
                    .filter(|line| !line.trim_start().starts_with("//"));
                let code = code.collect::<Vec<_>>().join("\n");
                sources.insert(path.strip_prefix(&root).unwrap().to_owned(), code);
            }
        }
    }
    sources
}

/// The paths of modules that `code` names behind `crate::` or `zcopy_cli::`, each with its parents.
fn modules_named(code: &str) -> BTreeSet<PathBuf> {
    let path = Regex::new(r"\b(?:crate|zcopy_cli)((?:::[a-z_0-9]+)*)(?:::\{([^;]*?)\};)?").unwrap();
    let word = Regex::new(r"[a-z_0-9]+(?:::[a-z_0-9]+)*").unwrap();
    let mut named = BTreeSet::new();
    for found in path.captures_iter(code) {
        let parent: PathBuf = found[1].split("::").collect();
        named.insert(parent.clone());
        if let Some(group) = found.get(2) {
            named.extend(word.find_iter(group.as_str()).map(|found| {
                let child: PathBuf = found.as_str().split("::").collect();
                parent.join(child)
            }));
        }
    }
    let parents = |path: &PathBuf| {
        let parents = path.ancestors().map(Path::to_owned);
        parents
            .filter(|path| path.components().count() > 0)
            .collect::<Vec<_>>()
    };
    named.iter().flat_map(parents).collect()
}

/// The files of a tool: its program, the modules that this names, and so on.
fn files_of<'a>(tool: &str, sources: &'a BTreeMap<PathBuf, String>) -> BTreeMap<&'a Path, &'a str> {
    let program = Path::new("bin").join(format!("{tool}.rs"));
    let mut files = BTreeMap::new();
    let mut to_visit = vec![program];
    while let Some(path) = to_visit.pop() {
        let Some((path, code)) = sources.get_key_value(&path) else {
            continue;
        };
        if files.insert(path.as_path(), code.as_str()).is_some() {
            continue;
        }
        to_visit.extend(
            modules_named(code)
                .iter()
                .map(|module| module.with_extension("rs")),
        );
        // A folder of shared code brings the modules that are named, and a tool brings all of its.
        let shared = Path::new("common");
        if path.with_extension("") != shared && path.parent() != Some(shared) {
            let folder = path.with_extension("");
            let below = sources.keys().filter(|other| other.starts_with(&folder));
            to_visit.extend(below.cloned());
        }
    }
    files
}

/// The environment variables that a file reads, or sets for others.
///
/// In a file that asks for the environment each string of capitals is one. The C library's locale
/// and the directory for temporary files come from variables that the libraries know.
fn variables(code: &str) -> BTreeSet<String> {
    let mut variables = BTreeSet::new();
    if ["env::var", ".env("].iter().any(|call| code.contains(call)) {
        let name = Regex::new(r#"(value_name = )?"([A-Z][A-Z_0-9]+)""#).unwrap();
        let names = name
            .captures_iter(code)
            .filter(|found| found.get(1).is_none());
        variables.extend(names.map(|found| found[2].to_owned()));
    }
    if code.contains("newlocale") || code.contains("setlocale") {
        variables.extend(["LC_ALL", "LC_CTYPE", "LANG"].map(ToOwned::to_owned));
    }
    if code.contains("tempfile::tempfile()") || code.contains("temp_dir()") {
        variables.insert("TMPDIR".to_owned());
    }
    variables
}

#[test]
fn a_manual_page_has_every_environment_variable_that_its_tool_reads_and_no_other() {
    let sources = sources();
    for (name, program) in TOOLS {
        let files = files_of(name, &sources);
        let mut read: BTreeSet<_> = files.values().flat_map(|code| variables(code)).collect();
        if name == "zc-dircopy" {
            // It asks the module that knows terminals, and draws without colours.
            read.remove("NO_COLOR");
        }
        assert!(read.contains("POSIXLY_CORRECT"), "{name}: {read:?}");
        let page = generated(program, "man");
        let told: BTreeSet<_> = tags(section(&page, "ENVIRONMENT"))
            .iter()
            .flat_map(|tag| tag.split(", "))
            .map(ToOwned::to_owned)
            .collect();
        assert_eq!(told, read, "{name}");
    }
}

/// The numbers that a tool exits with, apart from those of signals.
fn statuses(files: &BTreeMap<&Path, &str>) -> BTreeSet<u8> {
    // Every tool exits with 0 after --help.
    let mut statuses = BTreeSet::from([0]);
    let number = Regex::new(r"\b(?:Self\(|MISUSE: u8 = |parse\w*::<\w[^>]*>\()(\d+)").unwrap();
    for (path, code) in files {
        let is_program = path.starts_with("bin");
        if is_program && code.contains("ExitCode::FAILURE") {
            statuses.insert(1);
        }
        if is_program || code.contains("for ExitCode") || code.contains("MISUSE: u8") {
            let found = number.captures_iter(code);
            statuses.extend(found.map(|found| found[1].parse::<u8>().unwrap()));
        }
    }
    statuses
}

#[test]
fn a_manual_page_has_every_exit_status_of_its_tool_and_no_other() {
    let sources = sources();
    for (name, program) in TOOLS {
        let page = generated(program, "man");
        let told: Vec<u8> = tags(section(&page, "EXIT STATUS"))
            .iter()
            .map(|status| status.parse().unwrap())
            .collect();
        let used: Vec<_> = statuses(&files_of(name, &sources)).into_iter().collect();
        assert_eq!(told, used, "{name}");
        let expected = match name {
            "zc-pv" => &[0, 1, 2, 4, 8, 16, 32, 64][..],
            "zc-dircopy" => &[0, 1, 2],
            _ => &[0, 1],
        };
        assert_eq!(used, expected, "{name}");
    }
}

/// The format sequences of a text, such as `%{eta}`.
fn sequences(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || c == ',' || c == '"');
    words
        .filter(|word| word.starts_with('%') && word.len() > 1)
        .map(|word| word.trim_end_matches('.').to_owned())
        .collect()
}

#[test]
fn the_page_of_zc_pv_has_the_sequences_of_the_help() {
    let (_, program) = TOOLS[2];
    let help = sequences(&help(program));
    assert!(help.len() > 30, "{help:?}");
    let page = plain(&generated(program, "man"));
    assert_eq!(sequences(section(&page, "FORMATS")), help);
}

#[test]
fn a_page_has_the_words_that_the_help_explains_below_the_options() {
    for (tool, heading, words) in [
        (
            "zc-tee",
            "WRITE ERRORS",
            &["warn", "warn-nopipe", "exit", "exit-nopipe"][..],
        ),
        (
            "zc-dircopy",
            "POLICIES",
            &["default", "never", "always", "update"],
        ),
    ] {
        let (_, program) = TOOLS.iter().find(|(name, _)| *name == tool).unwrap();
        let help = help(program);
        let page = generated(program, "man");
        assert_eq!(tags(section(&page, heading)), words, "{tool}");
        for word in words {
            assert!(help.contains(&format!("\n  {word} ")), "{tool}: {word}");
        }
    }
}

/// The lines of a page that are longer than 100 columns, without code and tables.
fn long_lines(page: &str) -> Vec<&str> {
    let mut is_code = false;
    let lines = page.lines().filter(|line| {
        is_code ^= line.starts_with("```");
        !is_code && !line.starts_with('|') && line.chars().count() > 100
    });
    lines.collect()
}

#[test]
fn no_line_of_these_pages_is_longer_than_100_columns() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tools");
    for name in ["install", "pv", "cat", "tee", "yes"] {
        let page = std::fs::read_to_string(directory.join(name).with_extension("md")).unwrap();
        assert_eq!(long_lines(&page), [""; 0], "{name}");
    }
}
