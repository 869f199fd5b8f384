//! The objects of `--json` beside the manual page, which names their fields.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::*;
use crate::generated::{generated, plain};
use crate::skip::has_program;

/// The fields of each kind of object.
type Fields = BTreeMap<String, BTreeSet<String>>;

/// The fields that the manual page describes below this heading. The tags of the inner paragraphs
/// are the fields of the kind that the outer tag names.
fn described(heading: &str) -> Fields {
    let page = plain(&generated(env!("CARGO_BIN_EXE_zc-dircopy"), "man"));
    let heading = format!(".SS {heading}\n");
    let (_, text) = page.split_once(&heading).unwrap();
    let text = text.split("\n.S").next().unwrap();
    let mut fields = Fields::new();
    let (mut kind, mut is_inner) = (String::new(), false);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match line {
            ".RS" => is_inner = true,
            ".RE" => is_inner = false,
            ".TP" => {
                let tag = lines.next().unwrap();
                let tag = tag.trim_start_matches(".BR ").trim_start_matches(".B ");
                let names = tag.split(r#" ", " "#).map(ToOwned::to_owned);
                if is_inner {
                    fields.get_mut(&kind).unwrap().extend(names);
                } else {
                    tag.clone_into(&mut kind);
                    fields.insert(kind.clone(), BTreeSet::new());
                }
            }
            _ => {}
        }
    }
    fields
}

/// Adds the fields of the objects that a run wrote.
fn add(fields: &mut Fields, run: &Run) {
    for line in run.stdout.lines() {
        let Ok(Value::Object(object)) = serde_json::from_str(line) else {
            panic!("{line}");
        };
        let kind = object["event"].as_str().unwrap().to_owned();
        let names = object.keys().filter(|name| *name != "event").cloned();
        fields.entry(kind).or_default().extend(names);
    }
}

/// Reads of this file take so long that a run writes its progress.
fn slowed(path: &Path) -> Command {
    let mut strace = Command::new("strace");
    strace
        .args(["-f", "-qq", "-o", "/dev/null", "-P"])
        .arg(path);
    strace.arg(
        "--inject=read,readv,pread64,preadv,preadv2,splice,copy_file_range,sendfile:delay_exit=300000",
    );
    strace.arg(env!("CARGO_BIN_EXE_zc-dircopy"));
    strace.args(["--json", "--jobs=1", "--block-size=128K"]);
    strace
}

#[test]
fn the_manual_page_has_every_field_of_a_copy_and_no_other() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    // The damaged copy of another run, an entry that cannot be copied, and one that is left out.
    trees.put("clip", [[0; 4096], [1; 4096]].concat());
    trees.put("clip.damaged", damage_maps::map('-', '+'));
    trees.put(".zc-dircopy-AbCdEfGh", "left");
    trees.put("slow", vec![7; 1 << 20]);
    let _listener = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    let mut command = slowed(&trees.original("slow"));
    command.arg("--skip-errors");
    let run = run(command.arg(trees.source()).arg(trees.copy()));
    let mut written = Fields::new();
    add(&mut written, &run);
    assert_eq!(written.len(), 5, "{run:?}");
    assert_eq!(written, described("Objects of a copy"));
}

#[test]
fn the_manual_page_has_every_field_of_a_dry_run_and_no_other() {
    let trees = Trees::new();
    trees.put("file", "x");
    let _listener = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    let mut written = Fields::new();
    add(&mut written, &trees.run_aloud(&["--json", "--dry-run"]));
    assert_eq!(written.len(), 3, "{written:?}");
    assert_eq!(written, described("Objects of --dry-run"));
}

#[test]
fn the_manual_page_has_every_field_of_a_check_and_no_other() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    trees.put("gone", "x").put("slow", vec![7; 1 << 20]);
    trees.succeeds(&[]);
    let mut written = Fields::new();
    let mut command = slowed(&trees.copied("slow"));
    add(&mut written, &run(command.arg("--check").arg(trees.copy())));
    fs::remove_file(trees.copied("gone")).unwrap();
    add(&mut written, &trees.check(&["--json"]));
    add(&mut written, &trees.check(&["--json", "--forget-missing"]));
    add(&mut written, &trees.check(&["--json", "--accept=nosuch"]));
    assert_eq!(written.len(), 5, "{written:?}");
    assert_eq!(written, described("Objects of --check"));
}
