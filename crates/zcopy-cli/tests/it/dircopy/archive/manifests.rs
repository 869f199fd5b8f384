//! Which files are manifests of the archive, and which came with a card.

use super::*;

#[test]
fn a_damaged_manifest_fails_the_check_and_the_next_run_which_copies_nothing() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b"]);
    archive.add(&card, &[]).is_quiet();
    let path = archive.newest().path;
    let whole = fs::read(&path).unwrap();
    let last_line = whole[..whole.len() - 1]
        .iter()
        .rposition(|byte| *byte == b'\n');
    let cut = &whole[..=last_line.unwrap()];
    let mut changed = whole.clone();
    let at = changed.len() / 2;
    changed[at] ^= 1;
    let garbage = [&whole[..], b"garbage\n"].concat();
    let more = archive.card("two", &["c"]);
    for damaged in [cut, &changed, &garbage, b""] {
        fs::write(&path, damaged).unwrap();
        let check = archive.check();
        assert_eq!(check.status, 1, "{check:?}");
        assert!(check.stderr.contains("manifest is damaged"), "{check:?}");
        let run = archive.add(&more, &[]);
        run.failed_naming(&[&["shasum.", "damaged", "nothing is copied"]]);
        assert!(!archive.0.copied("c").exists());
    }
    fs::write(&path, &whole).unwrap();
    archive.add(&more, &[]).is_quiet();
    archive.is_intact(&["a", "b", "c"]);
}

#[test]
fn a_manifest_that_came_with_a_card_is_never_the_newest_of_the_archive() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    let other = archive.card("two", &["b"]);
    // The card is an archive itself, and its clock was wrong.
    let manifest = "shasum.2030-01-01.00.00.00.txt";
    let mut own = zc_dircopy();
    run(own.arg("-q").arg(&card).arg(card.with_extension("copy"))).is_quiet();
    let copy = card.with_extension("copy");
    let made = Sums::newest_in(&copy).path;
    let text = fs::read_to_string(&made).unwrap();
    fs::remove_file(&made).unwrap();
    fs::write(copy.join(manifest), &text).unwrap();
    archive.add(&copy, &[]).is_quiet();
    archive.is_intact(&["a", manifest]);
    archive.add(&other, &[]).is_quiet();
    archive.is_intact(&["a", "b", manifest]);
    // Nor is one that anybody copies there.
    archive.0.put_copy(
        "shasum.2031-01-01.00.00.00.txt",
        format!("{}  b\n", "0".repeat(64)),
    );
    let check = archive.check();
    assert_eq!(check.status, 0, "{check:?}");
    archive.rot("a");
    archive.fails(&["a"]);
}

#[test]
fn no_file_of_a_source_replaces_a_manifest() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    let manifest = archive.newest().path;
    let before = fs::read(&manifest).unwrap();
    let name = manifest.file_name().unwrap();
    for policy in ["default", "always", "update"] {
        put(&card.join(name), "something else");
        let run = archive.add(&card, &["--overwrite-policy", policy]);
        run.failed_naming(&[&[name.to_str().unwrap(), "not replaced"]]);
        assert_eq!(fs::read(&manifest).unwrap(), before);
        archive.is_intact(&["a"]);
    }
}

#[test]
fn a_symbolic_link_by_the_name_of_a_manifest_is_refused() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    let planted = archive.0.copied("shasum.2030-01-01.00.00.00.txt");
    std::os::unix::fs::symlink("/etc/passwd", &planted).unwrap();
    assert_eq!(archive.check().status, 1);
    let run = archive.add(&card, &[]);
    run.failed_naming(&[&["shasum.2030", "symbolic link"]]);
    fs::remove_file(&planted).unwrap();
    archive.is_intact(&["a"]);
}

#[test]
fn digests_of_two_algorithms_live_side_by_side() {
    let archive = Archive::new();
    let first = archive.card("one", &["a", "b"]);
    let second = archive.card("two", &["c"]);
    archive.add(&first, &[]).is_quiet();
    archive.add(&second, &["--hash=blake3"]).is_quiet();
    let expected = "a: OK\nb: OK\nc: OK\n";
    assert_eq!(archive.check().stdout, expected);
    archive.rot("a");
    archive.fails(&["a"]);
    // What is read is compared by the algorithm that it was recorded with.
    let run = archive.add(&first, &["--hash=blake3"]);
    run.failed_naming(&[&["a", "differs"]]);
    archive.fails(&["a"]);
    archive
        .add(&first, &["--overwrite-policy=update"])
        .is_quiet();
    assert_eq!(archive.check().stdout, expected);
    archive.rot("c");
    archive.fails(&["c"]);
}

#[test]
fn blake3_manifests_are_those_that_b3sum_takes() {
    let archive = Archive::new();
    let first = archive.card("one", &["a", "b"]);
    let second = archive.card("two", &["c"]);
    archive.add(&first, &["--hash=blake3"]).is_quiet();
    archive.add(&second, &[]).is_quiet();
    let newest = Sums::newest_in(&archive.0.copy());
    newest.lists(&["a", "b", "c"]);
    assert_eq!(newest.algorithm(), Algorithm::Blake3);
    assert_eq!(archive.check().status, 0);
    let info = PathBuf::from(format!("{}.info", newest.path.display()));
    let text = fs::read_to_string(&info).unwrap();
    assert!(text.contains("\n# end: 3 lines, "), "{text}");
    if has_program("b3sum") {
        let check = Command::new("b3sum")
            .arg("-c")
            .arg(&newest.path)
            .current_dir(archive.0.copy())
            .output();
        assert!(check.unwrap().status.success());
    }
    fs::write(&info, text.replace("3 lines", "4 lines")).unwrap();
    assert!(archive.check().stderr.contains("damaged"));
}

/// Puts an archive's backup back by hand, so that the archive has a manifest that names its own as
/// a file that came from a source.
#[test]
fn a_manifest_that_another_one_calls_a_copy_still_counts_for_what_nobody_else_knows() {
    let archive = Archive::new();
    let card = archive.card("one", &["x", "y"]);
    archive.add(&card, &[]).is_quiet();
    let backup = archive.0.path().join("backup");
    let mut command = zc_dircopy();
    command.args(["-q", "--exclude", "y"]);
    run(command.arg(archive.0.copy()).arg(&backup)).is_quiet();
    let mut restore = Command::new("cp");
    restore
        .arg("-rp")
        .arg(backup.join("."))
        .arg(archive.0.copy());
    assert!(restore.status().unwrap().success());
    archive.rot("y");
    archive.fails(&["y"]);
    let run = archive.add(&card, &[]);
    run.failed_naming(&[&["y", "differs"]]);
    archive.fails(&["y"]);
}

#[test]
fn a_manifest_is_not_taken_for_another_one_of_its_name() {
    let archive = Archive::new();
    let (one, two) = (archive.card("one", &["a"]), archive.card("two", &["b"]));
    let list = archive.0.copied("shasum.2020-01-01.00.00.00.txt");
    for card in [&one, &two] {
        archive.add(card, &["--no-hash"]).is_quiet();
    }
    let line = |file: &str| {
        let digest = facts::hexadecimal(&archive.0.copied(file));
        format!("{digest}  {file}\n")
    };
    fs::write(&list, line("a")).unwrap();
    archive.add(&one, &[]).is_quiet();
    // It is as long as before.
    fs::write(&list, line("b")).unwrap();
    archive.rot("b");
    archive.fails(&["b"]);
}

/// The source is an archive, and no digests are made of its copy.
#[test]
fn a_run_without_digests_tells_which_manifests_came_from_the_source() {
    let archive = Archive::new();
    let first = archive.card("one", &["x"]);
    archive.add(&first, &[]).is_quiet();
    let other = archive.0.path().join("other");
    put(&other.join("x"), "longer than the other");
    let second = archive.0.path().join("second");
    run(zc_dircopy().arg("-q").arg(&other).arg(&second)).is_quiet();
    let manifest = Sums::newest_in(&second).path;
    let renamed = second.join("shasum.2030-01-01.00.00.00.txt");
    fs::rename(manifest, renamed).unwrap();
    let options = ["--no-hash", "--overwrite-policy=never"];
    archive.add(&second, &options).is_quiet();
    archive.is_intact(&["x"]);
}

#[test]
fn a_file_of_a_source_by_the_name_of_a_manifest_is_compared() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    let manifest = archive.newest().path;
    let name = manifest.file_name().unwrap();
    fs::copy(&manifest, card.join(name)).unwrap();
    archive.add(&card, &[]).is_quiet();
    let mut bytes = fs::read(&manifest).unwrap();
    bytes[40] ^= 1;
    fs::write(card.join(name), bytes).unwrap();
    let run = archive.add(&card, &["--verify-existing"]);
    run.failed_naming(&[&[name.to_str().unwrap(), "not replaced"]]);
}

#[test]
fn comments_of_a_blake3_manifest_that_are_empty_are_damaged() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &["--hash=blake3"]).is_quiet();
    let newest = Sums::newest_in(&archive.0.copy()).path;
    fs::write(format!("{}.info", newest.display()), "").unwrap();
    let check = archive.check();
    assert_eq!(check.status, 1);
    assert!(check.stderr.contains("damaged"), "{check:?}");
}

#[test]
fn the_comments_of_a_manifest_take_no_name_of_a_card() {
    if !has_program("faketime") {
        return;
    }
    let archive = Archive::new();
    let name = "b3sum.2026-01-01.10.00.00.txt.info";
    let card = archive.card("one", &["a", name]);
    let command = archive.command(&card, &["--hash=blake3"]);
    let mut faked = Command::new("faketime");
    faked.args(["-f", "2026-01-01 10:00:00"]).env("TZ", "UTC");
    let faked = faked.arg(command.get_program()).args(command.get_args());
    run(faked).is_quiet();
    archive.is_intact(&["a", name]);
}

#[test]
fn a_symbolic_link_that_came_with_a_card_is_no_manifest() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    let name = "shasum.2030-01-01.00.00.00.txt";
    std::os::unix::fs::symlink("a", card.join(name)).unwrap();
    for _ in 0..3 {
        archive.add(&card, &[]).is_quiet();
        let check = archive.check();
        assert_eq!((check.status, check.stdout.as_str()), (0, "a: OK\n"));
    }
    assert!(archive.0.copied(name).is_symlink());
}
