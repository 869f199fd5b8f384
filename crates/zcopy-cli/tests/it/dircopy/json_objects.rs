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

/// Copies a file whose times cannot be set.
fn without_times(trees: &Trees) -> Run {
    trees.put("dateless", "x");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null"]);
    strace.arg("--inject=utimensat:error=EIO");
    strace.args([env!("CARGO_BIN_EXE_zc-dircopy"), "--json"]);
    run(strace.arg(trees.source()).arg(trees.copy()))
}

#[test]
fn an_entry_without_all_attributes_has_not_failed_and_the_status_is_1() {
    if !has_program("strace") {
        return;
    }
    let trees = Trees::new();
    let run = without_times(&trees);
    assert_eq!(run.status, 1);
    let message = "cannot keep the times: Input/output error";
    // The root has no times either.
    let both = format!("zc-dircopy: dateless: {message}\nzc-dircopy: .: {message}\n");
    assert_eq!(run.stderr, both);
    trees.holds("dateless", "x");
    let objects: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of = |event: &str| objects.iter().find(|object| object["event"] == event);
    assert_eq!(of("error"), None);
    let attributes = of("attributes").unwrap();
    assert_eq!(
        (&attributes["path"], &attributes["message"]),
        (&"dateless".into(), &message.into())
    );
    let file = of("file").unwrap();
    assert_eq!(
        (&file["action"], &file["attributes_not_kept"]),
        (&"copied".into(), &message.into())
    );
    let summary = of("summary").unwrap();
    let fields = ["state", "failed", "attributes_not_kept"].map(|field| summary[field].to_string());
    assert_eq!(fields, ["\"failed\"", "0", "2"]);
}

/// The object of each file, by its path.
fn files(run: &Run) -> BTreeMap<String, Value> {
    let objects = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let files = objects.filter(|object: &Value| object["event"] == "file");
    let by_path = files.map(|file| (file["path"].as_str().unwrap().to_owned(), file));
    by_path.collect()
}

#[test]
fn json_has_the_result_of_each_entry() {
    let trees = Trees::new();
    trees.put("replaced", "old").put("same", "as it is");
    for name in ["replaced", "same"] {
        dated(&trees.original(name), 20);
    }
    trees.succeeds(&[]);
    trees
        .put("replaced", "newer")
        .put("d/new", "12345")
        .put("two\nlines", "");
    fs::hard_link(trees.original("d/new"), trees.original("e")).unwrap();
    std::os::unix::fs::symlink("nowhere", trees.original("link")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(trees.original("socket")).unwrap();
    let run = trees.run_aloud(&["--json"]);
    let files = files(&run);
    let told = |name: &str| {
        let file = &files[name];
        let digest = file["digest"].as_str().map(str::to_owned);
        assert_eq!(
            file["algorithm"].as_str(),
            digest.as_ref().map(|_| "sha256")
        );
        assert_eq!(file["digests"]["sha256"].as_str(), digest.as_deref());
        (
            format!(
                "{} {}",
                file["kind"].as_str().unwrap(),
                file["action"].as_str().unwrap()
            ),
            file["replaced"].as_bool().unwrap(),
            file["bytes"].as_u64().unwrap(),
            digest,
        )
    };
    let digest = |bytes: &str| Some(digest_of(Algorithm::Sha256, bytes.as_bytes()).to_string());
    let is_cloned = files["d/new"]["action"] == "cloned";
    let copied = if is_cloned {
        "file cloned"
    } else {
        "file copied"
    };
    let row =
        |words: &str, is_replaced, bytes, digest| (words.to_owned(), is_replaced, bytes, digest);
    assert_eq!(told("replaced"), row(copied, true, 5, digest("newer")));
    assert_eq!(
        told("same"),
        row("file skipped", false, 8, digest("as it is"))
    );
    assert_eq!(told("d/new"), row(copied, false, 5, digest("12345")));
    assert_eq!(told("e"), row("file linked", false, 5, digest("12345")));
    assert_eq!(told("two\nlines"), row("file copied", false, 0, digest("")));
    assert_eq!(told("link"), row("symlink made", false, 0, None));
    assert_eq!(told("socket"), row("special failed", false, 0, None));
    assert_eq!(files.len(), 7);
    assert!(
        files
            .values()
            .all(|file| file["attributes_not_kept"].is_null())
    );
}

#[test]
fn a_file_that_is_not_read_has_no_digest() {
    let trees = Trees::new();
    trees.put("file", "x");
    trees.succeeds(&[]);
    let run = trees.run_aloud(&["--json", "--no-hash-skipped"]);
    let file = &files(&run)["file"];
    assert_eq!(
        (&file["action"], &file["digest"]),
        (&"skipped".into(), &Value::Null)
    );
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
    add(&mut written, &without_times(&Trees::new()));
    let trees = Trees::new();
    trees.put("kept", "x").put_copy("gone", "x");
    add(&mut written, &trees.run_aloud(&["--json", "--delete"]));
    assert_eq!(written.len(), 8, "{run:?}");
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
