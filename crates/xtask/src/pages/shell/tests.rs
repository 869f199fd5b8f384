use super::*;

/// Runs a page in an empty workspace.
fn run(page: &str) -> anyhow::Result<Vec<String>> {
    let workspace = tempfile::tempdir()?;
    let runner = Runner {
        workspace: workspace.path().to_owned(),
        programs: workspace.path().to_owned(),
        installed: workspace.path().to_owned(),
    };
    runner.run(Path::new("page.md"), &Page::parse(page)?)
}

#[test]
fn a_page_that_shows_what_its_commands_print_has_no_problem() {
    let page = "```console\n$ echo 1; echo b >&2\n2\nb\n$ true\n```\n";
    assert_eq!(run(page).unwrap(), [""; 0]);
}

#[test]
fn another_output_is_a_problem() {
    let problems = run("```console\n$ echo a\nb\n```\n").unwrap();
    assert_eq!(problems, ["page.md:2: `echo a` prints:\na"]);
}

#[test]
fn the_blocks_share_one_shell() {
    let page = "```sh\nname=a\ncd \"$(mktemp -d)\"\n```\n```console\n$ echo $name; ls -A\na\n```\n";
    assert_eq!(run(page).unwrap(), [""; 0]);
}

#[test]
fn a_line_that_fails_ends_the_page() {
    assert!(run("```sh\nfalse\ntrue\n```\n").is_err());
    assert!(run("```sh\nfalse | true\n```\n").is_err());
}

#[test]
fn a_failed_command_may_be_shown() {
    assert_eq!(
        run("```console\n$ echo a; false\na\n```\n").unwrap(),
        [""; 0]
    );
}

#[test]
fn other_blocks_are_not_run() {
    assert_eq!(
        run("```text\n$ false\n```\n```rust\nfn\n```\n").unwrap(),
        [""; 0]
    );
}

#[test]
fn nothing_is_left_at_home() {
    let page = "```sh\n[ -d \"$HOME\" ] && [ -d \"$CARGO_HOME\" ]\n```\n";
    run(page).unwrap();
    let page = "```console\n$ ls -A \"$HOME\"\n```\n";
    assert_eq!(run(page).unwrap(), [""; 0]);
}
