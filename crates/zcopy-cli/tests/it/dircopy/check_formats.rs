//! Lists that other programs wrote, verified by `zc-dircopy --check --hash-file`.

use super::*;
use crate::skip::has_program;

/// The programs that write lists, and what `--hash` calls their algorithm.
const PROGRAMS: [(&str, &str); 6] = [
    ("md5sum", "md5"),
    ("sha1sum", "sha1"),
    ("sha256sum", "sha256"),
    ("sha512sum", "sha512"),
    ("b3sum", "blake3"),
    ("xxh128sum", "xxh128"),
];

/// A tree with files of several lengths.
fn tree() -> Trees {
    let trees = Trees::new();
    trees
        .put("a/long", crate::files::pattern(3_000_007))
        .put("empty", "")
        .put("one", "x")
        .put("two words", "yy");
    trees
}

const FILES: [&str; 4] = ["a/long", "empty", "one", "two words"];

/// The list that a program writes of the files, from within the tree.
fn list(trees: &Trees, program: &str, options: &[&str]) -> String {
    let mut command = Command::new(program);
    command.current_dir(trees.source());
    let output = command.args(options).args(FILES).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Verifies the source against a list of this name.
fn check(trees: &Trees, name: &str, list: impl AsRef<[u8]>, options: &[&str]) -> Run {
    fs::write(trees.path().join(name), list).unwrap();
    let mut command = zc_dircopy();
    command
        .current_dir(trees.path())
        .args(["--check", "--no-summary", "--hash-file", name]);
    run(command.args(options).arg("src"))
}

#[track_caller]
fn assert_all_match(run: &Run) {
    let lines: String = FILES
        .map(|name| {
            if name.contains(' ') {
                format!("'{name}': OK\n")
            } else {
                format!("{name}: OK\n")
            }
        })
        .concat();
    assert_eq!(
        (run.status, run.stdout.as_str(), run.stderr.as_str()),
        (0, lines.as_str(), "")
    );
}

#[test]
fn the_lists_of_every_program_are_verified_by_the_name_of_the_list() {
    let trees = tree();
    for (program, _) in PROGRAMS {
        if has_program(program) {
            let list = list(&trees, program, &[]);
            assert_all_match(&check(&trees, &format!("{program}s.txt"), list, &[]));
        }
    }
}

#[test]
fn the_option_names_the_algorithm_where_the_name_of_the_list_does_not() {
    let trees = tree();
    for (program, hash) in PROGRAMS {
        if has_program(program) {
            let list = list(&trees, program, &[]);
            assert_all_match(&check(&trees, "list", list, &["--hash", hash]));
        }
    }
}

#[test]
fn the_option_overrides_the_name_of_the_list() {
    let trees = tree();
    let list = list(&trees, "sha256sum", &[]);
    assert_all_match(&check(&trees, "b3sums", &list, &["--hash=sha256"]));
    let run = check(&trees, "b3sums", &list, &[]);
    assert_eq!(run.stdout.matches(": FAILED\n").count(), FILES.len());
}

#[test]
fn the_number_of_digits_tells_the_algorithm_of_a_list_of_any_name() {
    let trees = tree();
    let programs = ["md5sum", "sha1sum", "sha256sum", "sha512sum"];
    for program in programs {
        let list = list(&trees, program, &[]);
        assert_all_match(&check(&trees, "list", list, &[]));
    }
    // One list may hold several.
    let lists = programs.map(|program| list(&trees, program, &[]));
    let run = check(&trees, "list", lists.concat(), &[]);
    assert_eq!((run.status, run.stdout.matches(": OK").count()), (0, 16));
}

#[test]
fn a_tag_tells_the_algorithm_of_its_line_whatever_the_name_and_the_option() {
    let trees = tree();
    let mut programs = vec!["md5sum", "sha1sum", "sha256sum", "sha512sum"];
    if has_program("xxh128sum") {
        programs.push("xxh128sum");
    }
    for program in programs {
        let list = list(&trees, program, &["--tag"]);
        assert!(list.contains(" (a/long) = "), "{list}");
        for (name, options) in [("list", &[][..]), ("b3sums", &["--hash=blake3"])] {
            assert_all_match(&check(&trees, name, &list, options));
        }
    }
    // No b3sum before 1.5 has --tag.
    if has_program("b3sum") {
        let list = list(&trees, "b3sum", &[]);
        let tagged = list.lines().map(|line| {
            let (digits, name) = line.split_once("  ").unwrap();
            format!("BLAKE3 ({name}) = {digits}\n")
        });
        let tagged: String = tagged.collect();
        assert_all_match(&check(&trees, "list", tagged, &["--hash=md5"]));
    }
}

#[test]
fn a_file_with_another_checksum_has_failed_by_every_algorithm() {
    for (program, hash) in PROGRAMS {
        if !has_program(program) {
            continue;
        }
        let trees = tree();
        let list = list(&trees, program, &[]);
        let mut bytes = crate::files::pattern(3_000_007);
        bytes[2_000_000] ^= 1;
        trees.put("a/long", bytes);
        let run = check(&trees, "list", list, &["--hash", hash]);
        run.ended_with(1);
        assert_eq!(
            run.stdout, "a/long: FAILED\nempty: OK\none: OK\n'two words': OK\n",
            "{program}"
        );
    }
}

#[test]
fn lines_of_another_length_than_the_named_algorithm_are_improperly_formatted() {
    let trees = tree();
    let list = list(&trees, "sha1sum", &[]);
    let run = check(&trees, "list", list, &["--hash=sha256"]);
    run.failed_naming(&[&["list: no properly formatted checksum lines found"]]);
}

/// Since 9.0 the coreutils escape backslashes, newlines and carriage returns in both forms.
#[test]
fn escaped_names_are_the_names_of_their_files() {
    let trees = Trees::new();
    let names = ["new\nline", "back\\slash", "both\\\n"];
    for name in names {
        trees.put(name, name);
    }
    for program in ["md5sum", "sha1sum", "sha512sum"] {
        for options in [&[][..], &["--tag"]] {
            let mut command = Command::new(program);
            command.current_dir(trees.source()).args(options);
            let list = command.args(names).output().unwrap().stdout;
            assert!(list.starts_with(b"\\"), "{}", list.escape_ascii());
            let run = check(&trees, "list", list, &[]);
            assert_eq!((run.status, run.stdout.matches(": OK").count()), (0, 3));
        }
    }
}

#[test]
fn a_path_with_backslashes_that_is_not_found_is_one_with_slashes() {
    let trees = Trees::new();
    trees.put("dir/sub/file", "x");
    let digits = digest_of(Algorithm::Sha256, b"x");
    let list = format!("{digits}  dir\\sub\\file\r\n");
    let run = check(&trees, "list", &list, &[]);
    assert_eq!(
        (run.status, run.stdout.as_str(), run.stderr.as_str()),
        (0, "'dir\\sub\\file': OK\n", "")
    );
    let run = check(&trees, "list", &list, &["--no-convert-paths"]);
    run.failed_naming(&[&["'src/dir\\sub\\file'", "No such file"]]);
    assert_eq!(run.stdout, "'dir\\sub\\file': FAILED open or read\n");
}

#[test]
fn a_name_with_a_backslash_that_exists_is_taken_as_it_stands() {
    let trees = Trees::new();
    trees.put("dir\\file", "x").put("dir/file", "y");
    let digits = digest_of(Algorithm::Sha256, b"x");
    let run = check(&trees, "list", format!("{digits}  dir\\file\n"), &[]);
    assert_eq!(run.status, 0, "{run:?}");
}

#[test]
fn backslashes_in_an_escaped_line_are_meant() {
    let trees = Trees::new();
    trees.put("dir/file", "x");
    let digits = digest_of(Algorithm::Sha256, b"x");
    let run = check(&trees, "list", format!("\\{digits}  dir\\\\file\n"), &[]);
    run.failed_naming(&[&["'src/dir\\file'", "No such file"]]);
}

#[test]
fn backslashes_lead_out_of_the_tree_no_more_than_slashes() {
    let trees = tree();
    fs::write(trees.path().join("secret"), "x").unwrap();
    let digits = digest_of(Algorithm::Sha256, b"x");
    let list = format!("{digits}  ..\\secret\n{digits}  \\etc\\passwd\n");
    let run = check(&trees, "list", list, &[]);
    run.failed_naming(&[
        &["secret", "leads out of the directory"],
        &["passwd", "leads out of the directory"],
    ]);
}

#[test]
fn a_list_from_standard_input_may_be_of_any_algorithm() {
    let trees = tree();
    let list = list(&trees, "md5sum", &[]);
    fs::write(trees.path().join("list"), list).unwrap();
    let mut command = zc_dircopy();
    command.current_dir(trees.path());
    command.args(["--check", "--no-summary", "--hash-file=-", "src"]);
    let list = fs::File::open(trees.path().join("list")).unwrap();
    let output = command.stdin(list).output().unwrap();
    assert_all_match(&output.into());
}

#[test]
fn a_list_of_another_algorithm_of_that_length_gets_a_hint() {
    let trees = Trees::new();
    trees.put_copy("a", "x").put_copy("b", "y");
    let list = trees.path().join("checksums.txt");
    let line = |name: &str, bytes| format!("{}  {name}\n", digest_of(Algorithm::Blake3, bytes));
    fs::write(&list, line("a", b"x") + &line("b", b"y")).unwrap();
    let option = format!("--hash-file={}", list.display());
    let run = trees.check(&[&option]);
    let hint = "if the digests are of blake3, give --hash=blake3";
    assert_eq!(run.stderr.matches(hint).count(), 1, "{run:?}");
    for options in [
        &[&*option, "--hash=blake3"][..],
        &[&option, "--hash=sha256"],
    ] {
        assert!(!trees.check(options).stderr.contains("give --hash"));
    }
    // One that matches shows that the algorithm is right.
    let sha256 = format!("{}  a\n", digest_of(Algorithm::Sha256, b"x"));
    fs::write(&list, sha256 + &line("b", b"y")).unwrap();
    assert!(!trees.check(&[&option]).stderr.contains("give --hash"));
}

#[test]
fn the_first_line_behind_a_byte_order_mark_is_verified() {
    let trees = Trees::new();
    trees.put_copy("a", "rotten").put_copy("b", "y");
    let list = trees.path().join("checksums.txt");
    let line = |name: &str, bytes| format!("{}  {name}\r\n", digest_of(Algorithm::Sha256, bytes));
    let text = format!("\u{feff}{}{}", line("a", b"x"), line("b", b"y"));
    fs::write(&list, text).unwrap();
    let option = format!("--hash-file={}", list.display());
    let run = trees.check(&[&option]);
    assert_eq!((run.status, run.stdout.as_str()), (1, "a: FAILED\nb: OK\n"));
}
