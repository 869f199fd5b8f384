use std::fs;

use super::*;

fn problems(page: &str) -> Vec<String> {
    let workspace = tempfile::tempdir().unwrap();
    fs::create_dir(workspace.path().join("docs")).unwrap();
    fs::write(
        workspace.path().join("README.md"),
        "# Here\n\n## And there\n",
    )
    .unwrap();
    fs::write(workspace.path().join("docs/page.md"), page).unwrap();
    check(workspace.path(), Path::new("docs/page.md")).unwrap()
}

#[test]
fn links_to_files_and_headings_lead_somewhere() {
    let page = "# One\n[a](../README.md#and-there) [b](#one) [c](https://example.org/x) [d](..)\n";
    assert_eq!(problems(page), [""; 0]);
}

#[test]
fn a_missing_file_is_a_problem() {
    assert_eq!(
        problems("[a](README.md)"),
        ["docs/page.md:1: README.md: no such file"]
    );
}

#[test]
fn a_missing_heading_is_a_problem() {
    assert_eq!(
        problems("\n[a](../README.md#nowhere)"),
        ["docs/page.md:2: ../README.md#nowhere: no such heading"]
    );
}
