//! An archive to which several sources are copied over the years: its manifests tell one truth.

use std::io::Read as _;

use rustix::fs::{Mode, OFlags};

use super::*;
use crate::skip::has_program;

/// A directory that cards are copied to.
pub(super) struct Archive(pub(super) Trees);

impl Archive {
    pub(super) fn new() -> Self {
        Self(Trees::new())
    }

    /// Makes a card of these files. Each holds its own path.
    pub(super) fn card(&self, card: &str, files: &[&str]) -> PathBuf {
        let card = self.0.path().join(card);
        for file in files {
            put(&card.join(file), file);
            dated(&card.join(file), 1000);
        }
        card
    }

    pub(super) fn command(&self, card: &Path, options: &[&str]) -> Command {
        let mut command = zc_dircopy();
        command.arg("--quiet").args(options);
        command.arg(card).arg(self.0.copy());
        command
    }

    /// Copies a card.
    pub(super) fn add(&self, card: &Path, options: &[&str]) -> Run {
        run(&mut self.command(card, options))
    }

    /// What `--check` prints, and its status.
    pub(super) fn check(&self) -> Run {
        run(zc_dircopy().arg("--check").arg(self.0.copy()))
    }

    /// The same with `--strict`, which reports files that are not listed.
    pub(super) fn check_strictly(&self) -> Run {
        let mut command = zc_dircopy();
        run(command.args(["--check", "--strict"]).arg(self.0.copy()))
    }

    /// Every file has its digest; there are these.
    #[track_caller]
    pub(super) fn is_intact(&self, files: &[&str]) {
        let check = self.check();
        let expected = files.join(": OK\n") + ": OK\n";
        assert_eq!(
            (check.status, check.stdout),
            (0, expected),
            "{}",
            check.stderr
        );
        self.newest().lists(files);
    }

    /// These files fail, and no others.
    #[track_caller]
    pub(super) fn fails(&self, files: &[&str]) {
        let check = self.check();
        assert_eq!(check.status, 1, "{check:?}");
        let failed = check.stdout.lines().filter_map(|line| {
            let (file, verdict) = line.split_once(": ").unwrap();
            verdict.starts_with("FAILED").then_some(file)
        });
        assert_eq!(failed.collect::<Vec<_>>(), files, "{check:?}");
    }

    pub(super) fn newest(&self) -> Sums {
        let time = |sums: &Sums| {
            let bytes = fs::read_to_string(&sums.path).unwrap();
            let time = bytes.lines().find_map(|line| line.strip_prefix("# time: "));
            time.map(|time| time.parse::<jiff::Timestamp>().unwrap())
        };
        let all = Sums::all_in(&self.0.copy());
        all.into_iter().max_by_key(time).unwrap()
    }

    /// Changes a byte, and neither size nor time.
    pub(super) fn rot(&self, file: &str) {
        let path = self.0.copied(file);
        let modified = fs::metadata(&path).unwrap().modified().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        bytes[0] ^= 1;
        fs::write(&path, bytes).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(modified).unwrap();
    }
}

#[test]
fn a_second_card_does_not_hide_the_first() {
    let archive = Archive::new();
    let first = archive.card("one", &["a/1", "a/2"]);
    let second = archive.card("two", &["a/15", "b"]);
    archive.add(&first, &[]).is_quiet();
    archive.add(&second, &[]).is_quiet();
    archive.is_intact(&["a/1", "a/15", "a/2", "b"]);
    archive.newest().satisfies_sha256sum(&archive.0.copy());
    archive.rot("a/1");
    archive.fails(&["a/1"]);
}

#[test]
fn a_rotten_byte_fails_until_it_is_repaired_or_accepted() {
    for (options, status) in [
        // It is read, and compared with what was recorded.
        (&[][..], 1),
        (&["--verify-existing"], 1),
        (&["--overwrite-policy=never"], 1),
        // It is not read.
        (&["--no-hash-skipped"], 0),
        (&["--no-hash"], 0),
    ] {
        let archive = Archive::new();
        let card = archive.card("one", &["a", "b", "c"]);
        archive.add(&card, &[]).is_quiet();
        archive.rot("b");
        for _ in 0..2 {
            let run = archive.add(&card, options);
            assert_eq!(run.status, status, "{options:?}: {run:?}");
            if status > 0 {
                run.failed_naming(&[&["b", "differs"]]);
            }
            archive.fails(&["b"]);
        }
        // Another card does not hide it either.
        let other = archive.card("two", &["d"]);
        archive.add(&other, options);
        archive.fails(&["b"]);
    }
}

#[test]
fn a_rotten_file_is_repaired_from_its_source() {
    for policy in ["update", "always"] {
        let archive = Archive::new();
        let card = archive.card("one", &["a", "b", "c"]);
        archive.add(&card, &[]).is_quiet();
        archive.rot("b");
        archive
            .add(&card, &["--overwrite-policy", policy])
            .is_quiet();
        archive.is_intact(&["a", "b", "c"]);
    }
}

#[test]
fn a_file_is_accepted_by_its_name() {
    let archive = Archive::new();
    let first = archive.card("one", &["dir/a", "b"]);
    archive.add(&first, &[]).is_quiet();
    archive.rot("dir/a");
    // The source of this run has it.
    archive.add(&first, &["--accept=./dir/a"]).is_quiet();
    archive.is_intact(&["b", "dir/a"]);
    // Or has it not; and it need not have been recorded.
    archive.rot("dir/a");
    let second = archive.card("two", &["c"]);
    archive.0.put_copy("later", "made here");
    let accepted = ["--accept", "dir/a", "--accept", "later"];
    archive.add(&second, &accepted).is_quiet();
    archive.is_intact(&["b", "c", "dir/a", "later"]);
    let run = archive.add(&second, &["--accept=nowhere"]);
    run.failed_naming(&[&["nowhere", "cannot accept it", "no regular file"]]);
    archive.is_intact(&["b", "c", "dir/a", "later"]);
}

#[test]
fn what_is_gone_is_missed_until_it_is_forgotten() {
    let archive = Archive::new();
    let first = archive.card("one", &["dir/a", "b"]);
    let second = archive.card("two", &["c"]);
    archive.add(&first, &[]).is_quiet();
    fs::remove_dir_all(archive.0.copied("dir")).unwrap();
    archive.add(&second, &[]).is_quiet();
    archive.fails(&["dir/a"]);
    archive.add(&second, &["--forget-missing"]).is_quiet();
    archive.is_intact(&["b", "c"]);
    archive.add(&second, &[]).is_quiet();
    archive.is_intact(&["b", "c"]);
}

#[test]
fn a_clip_that_is_replaced_has_its_new_digest() {
    for options in [
        &[][..],
        &["--no-hash-skipped"],
        &["--overwrite-policy=update"],
    ] {
        let archive = Archive::new();
        let card = archive.card("one", &["a", "b"]);
        archive.add(&card, &[]).is_quiet();
        put(&card.join("a"), "another take");
        archive.add(&card, options).is_quiet();
        archive.is_intact(&["a", "b"]);
    }
}

/// Whatever replaces a file without a digest being made, the manifests tell no lie of it.
#[test]
fn a_file_that_is_replaced_without_a_digest_has_no_line() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b", "c"]);
    archive.add(&card, &[]).is_quiet();
    put(&card.join("a"), "another take");
    fs::remove_file(card.join("b")).unwrap();
    std::os::unix::fs::symlink("c", card.join("b")).unwrap();
    archive.add(&card, &["--no-hash"]).is_quiet();
    archive.is_intact(&["c"]);
    let n_manifests = Sums::all_in(&archive.0.copy()).len();
    archive.add(&card, &["--no-hash"]).is_quiet();
    assert_eq!(Sums::all_in(&archive.0.copy()).len(), n_manifests);
}

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
fn an_archive_is_repaired_from_its_own_copy() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b"]);
    archive.add(&card, &[]).is_quiet();
    let backup = archive.0.path().join("backup");
    run(zc_dircopy().arg("-q").arg(archive.0.copy()).arg(&backup)).is_quiet();
    archive.rot("a");
    let run = archive.add(&backup, &[]);
    run.failed_naming(&[&["a", "differs"]]);
    archive
        .add(&backup, &["--overwrite-policy=update"])
        .is_quiet();
    let check = archive.check();
    assert_eq!(check.status, 0, "{check:?}");
    assert!(check.stdout.starts_with("a: OK\nb: OK\n"), "{check:?}");
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

/// Four cards, a rotten byte, a file that is deleted, a clip that is replaced, a run that is
/// interrupted, another zone and a clock that was set back.
#[test]
fn three_years_of_an_archive() {
    if !has_program("faketime") {
        return;
    }
    let archive = Archive::new();
    let at = |time: &str, zone: &str, card: &Path, options: &[&str]| {
        let command = archive.command(card, options);
        let mut faked = Command::new("faketime");
        faked.arg(time).arg(command.get_program());
        run(faked.args(command.get_args()).env("TZ", zone))
    };
    let one = archive.card("one", &["2026/a", "2026/b", "2026/c"]);
    at("2026-03-01 10:00:00", "UTC", &one, &[]).is_quiet();
    archive.is_intact(&["2026/a", "2026/b", "2026/c"]);
    let two = archive.card("two", &["2026/d"]);
    // On a journey, so that the name tells an earlier time.
    at("2026-03-01 11:00:00", "HST10", &two, &["--no-hash-skipped"]).is_quiet();
    archive.is_intact(&["2026/a", "2026/b", "2026/c", "2026/d"]);
    archive.rot("2026/b");
    let three = archive.card("three", &["2027/a", "2027/b"]);
    at("2027-05-01 10:00:00", "UTC", &three, &[]).is_quiet();
    archive.fails(&["2026/b"]);
    let rotten = at("2027-05-02 10:00:00", "UTC", &one, &[]);
    rotten.failed_naming(&[&["2026/b", "differs"]]);
    archive.fails(&["2026/b"]);
    at(
        "2027-05-03 10:00:00",
        "UTC",
        &one,
        &["--overwrite-policy=update"],
    )
    .is_quiet();
    let all = ["2026/a", "2026/b", "2026/c", "2026/d", "2027/a", "2027/b"];
    archive.is_intact(&all);
    // The battery of the clock was empty.
    fs::remove_file(archive.0.copied("2027/a")).unwrap();
    put(&two.join("2026/d"), "another take");
    at("2001-01-01 00:00:00", "UTC", &two, &[]).is_quiet();
    archive.fails(&["2027/a"]);
    at("2001-01-01 00:00:05", "UTC", &two, &["--forget-missing"]).is_quiet();
    archive.is_intact(&["2026/a", "2026/b", "2026/c", "2026/d", "2027/b"]);
    let four = archive.card("four", &["2028/a"]);
    at("2028-06-01 10:00:00", "UTC", &four, &["--no-hash-skipped"]).is_quiet();
    archive.is_intact(&["2026/a", "2026/b", "2026/c", "2026/d", "2027/b", "2028/a"]);
    archive.newest().satisfies_sha256sum(&archive.0.copy());
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
fn another_name_of_a_file_keeps_its_own_record() {
    for options in [
        &["--hash=blake3"][..],
        &["--no-hash-skipped"],
        &["--no-hash"],
        &[],
    ] {
        let archive = Archive::new();
        let card = archive.card("one", &["a"]);
        fs::hard_link(card.join("a"), card.join("b")).unwrap();
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&card).arg(archive.0.copy());
        assert!(copy.status().unwrap().success());
        let line = format!("{}  b\n", facts::hexadecimal(&archive.0.copied("b")));
        archive.0.put_copy("shasum.2020-01-01.00.00.00.txt", line);
        archive.rot("b");
        archive.add(&card, options);
        archive.fails(&["b"]);
    }
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

#[test]
fn a_source_that_has_rotted_does_not_replace_its_copy() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b"]);
    archive.add(&card, &[]).is_quiet();
    let rot = |path: &Path| {
        let modified = fs::metadata(path).unwrap().modified().unwrap();
        fs::write(path, "R").unwrap();
        let file = fs::File::options().write(true).open(path).unwrap();
        file.set_modified(modified).unwrap();
    };
    rot(&card.join("a"));
    let run = archive.add(&card, &["--overwrite-policy=update"]);
    run.failed_naming(&[&["a", "differs from its copy, which is as it was recorded"]]);
    archive.is_intact(&["a", "b"]);
    // Neither does it repair one that has rotted otherwise.
    archive.rot("a");
    let run = archive.add(&card, &["--overwrite-policy=update"]);
    run.failed_naming(&[&["a", "cannot repair"]]);
    archive.fails(&["a"]);
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
fn a_second_run_waits_for_the_first() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let before = archive.card("before", &["same", "x"]);
    archive.add(&before, &[]).is_quiet();
    let (slow, fast) = (
        archive.card("slow", &["slow"]),
        archive.card("fast", &["fast"]),
    );
    put(&slow.join("x"), "another take");
    put(&fast.join("same"), "another take too");
    let stop = traced::as_it_reads(&slow.join("x"));
    let mut second = None;
    let traced = traced::while_stopped(&archive.command(&slow, &[]), &stop, || {
        let mut command = archive.command(&fast, &[]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 64];
        let n = child.stderr.as_mut().unwrap().read(&mut said).unwrap();
        let said = String::from_utf8_lossy(&said[..n]).into_owned();
        assert!(said.contains("waiting"), "{said}");
        assert!(!archive.0.copied("fast").exists());
        second = Some(child);
    });
    traced.run.is_quiet();
    assert!(crate::child::end_of(second.unwrap()).success());
    archive.is_intact(&["fast", "same", "slow", "x"]);
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
fn what_cannot_be_accepted_is_refused() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    std::os::unix::fs::symlink("a", archive.0.copied("link")).unwrap();
    std::os::unix::fs::symlink("a", card.join("link")).unwrap();
    fs::create_dir(archive.0.copied("dir")).unwrap();
    for accepted in ["dir/../a", "/a", "..", "."] {
        let run = archive.add(&card, &["--accept", accepted]);
        assert_eq!(run.status, 2, "{accepted}: {run:?}");
    }
    assert_eq!(archive.add(&card, &["--no-hash", "--accept=a"]).status, 2);
    for accepted in ["dir", "link"] {
        let run = archive.add(&card, &["--accept", accepted]);
        run.failed_naming(&[&[accepted, "accept"]]);
        archive.is_intact(&["a"]);
    }
    // Nor is one that would be replaced by a link of the source.
    fs::remove_file(card.join("a")).unwrap();
    std::os::unix::fs::symlink("link", card.join("a")).unwrap();
    archive.rot("a");
    archive.add(&card, &["--accept=a"]).is_quiet();
    archive.is_intact(&["a"]);
    // A file that is accepted is not replaced.
    fs::remove_file(card.join("a")).unwrap();
    put(&card.join("a"), "another take");
    let before = fs::read(archive.0.copied("a")).unwrap();
    archive.rot("a");
    archive
        .add(&card, &["--overwrite-policy=always", "--accept=a"])
        .is_quiet();
    assert_ne!(fs::read(archive.0.copied("a")).unwrap(), before);
    assert_ne!(fs::read(archive.0.copied("a")).unwrap(), b"another take");
    archive.is_intact(&["a"]);
}

/// What a check calls missing is forgotten. What it calls unreadable stays recorded: the files may
/// have been moved elsewhere, with a link in their place.
#[test]
fn a_file_is_forgotten_only_if_nothing_is_in_its_place() {
    let files = [
        "b", "d/gone", "d2/gone", "dir", "fifo", "in/file", "link", "out/file",
    ];
    let archive = Archive::new();
    let card = archive.card("one", &files);
    archive.add(&card, &[]).is_quiet();
    let copied = |name: &str| archive.0.copied(name);
    for name in ["dir", "fifo", "link"] {
        fs::remove_file(copied(name)).unwrap();
    }
    for name in ["d", "d2"] {
        fs::remove_dir_all(copied(name)).unwrap();
    }
    put(&copied("d2"), "no directory any more");
    fs::create_dir(copied("dir")).unwrap();
    mkfifo(&copied("fifo"));
    std::os::unix::fs::symlink("nowhere", copied("link")).unwrap();
    fs::rename(copied("out"), archive.0.path().join("moved")).unwrap();
    std::os::unix::fs::symlink("../moved", copied("out")).unwrap();
    // A check follows this one.
    fs::rename(copied("in"), copied("inner")).unwrap();
    std::os::unix::fs::symlink("inner", copied("in")).unwrap();

    let there = ["dir", "fifo", "link", "out/file"];
    let check = archive.check();
    let counts = "2 matching, 0 differing, 2 missing, 4 unreadable";
    assert!(check.stderr.contains(counts), "{check:?}");
    archive.fails(&["d/gone", "d2/gone", "dir", "fifo", "link", "out/file"]);
    let other = archive.card("two", &["b"]);
    for run in [
        archive.add(&other, &["--forget-missing"]),
        run(zc_dircopy()
            .args(["--check", "--forget-missing", "--silent", "--no-summary"])
            .arg(archive.0.copy())),
    ] {
        assert_eq!(run.status, 1);
        for name in there {
            let kept =
                format!("zc-dircopy: {name}: its record stays: what is there is no regular file\n");
            assert!(run.stderr.contains(&kept), "{run:?}");
        }
        archive.fails(&there);
    }
}

#[test]
fn paths_of_other_programs_are_those_of_the_walk() {
    let archive = Archive::new();
    let card = archive.card("one", &["a/b", "c"]);
    archive.add(&card, &["--no-hash"]).is_quiet();
    let digest = |file: &str| facts::hexadecimal(&archive.0.copied(file));
    let lines = format!("{}  .//a//b\n{}  ./c\n", digest("a/b"), digest("c"));
    archive.0.put_copy("shasum.2020-01-01.00.00.00.txt", lines);
    assert_eq!(archive.check().stdout, "a/b: OK\nc: OK\n");
    put(&card.join("a/b"), "another take");
    archive.add(&card, &[]).is_quiet();
    archive.is_intact(&["a/b", "c"]);
}

#[test]
fn a_path_longer_than_any_call_takes_keeps_its_line() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    let name = "d".repeat(200);
    let mut directory = rustix::fd::OwnedFd::from(fs::File::open(&card).unwrap());
    let (mode, flags) = (Mode::from_raw_mode(0o777), OFlags::CREATE | OFlags::WRONLY);
    for _ in 0..30 {
        rustix::fs::mkdirat(&directory, &name, mode).unwrap();
        directory = rustix::fs::openat(&directory, &name, OFlags::DIRECTORY, mode).unwrap();
    }
    rustix::fs::openat(&directory, "file", flags, mode).unwrap();
    archive.add(&card, &[]).is_quiet();
    let other = archive.card("two", &["b"]);
    for options in [&[][..], &["--forget-missing"]] {
        archive.add(&other, options).is_quiet();
        let check = archive.check();
        assert_eq!(
            (check.status, check.stdout.lines().count()),
            (0, 3),
            "{check:?}"
        );
    }
}

/// The run adds files, and replaces some that have been recorded. Wherever it is killed, no file
/// that is whole fails, and the next run has all digests without reading the copies.
#[test]
fn a_run_that_is_killed_leaves_its_digests() {
    if !has_program("strace") {
        return;
    }
    let files = ["a", "b", "c/1", "c/2", "d", "e"];
    for options in [&[][..], &["--jobs=1"], &["--durable"]] {
        let mut n_killed = 0;
        for call in [
            "linkat",
            "renameat",
            "renameat2",
            "write",
            "unlinkat",
            "fsync",
        ] {
            for nth in 1..200 {
                let archive = Archive::new();
                let card = archive.card("one", &["a", "c/1", "d"]);
                archive.add(&card, &[]).is_quiet();
                for file in files {
                    put(&card.join(file), format!("another take of {file}"));
                }
                fs::hard_link(card.join("a"), card.join("z")).unwrap();
                let kills = format!("--inject={call}:signal=KILL:when={nth}");
                let command = archive.command(&card, options);
                let trace = [format!("--trace={call}"), kills];
                let status = traced::traced(&command, &trace).run.status;
                let what = format!("{options:?} {call} {nth}");
                let check = archive.check_strictly();
                assert_eq!(check.status, 0, "{what}: {check:?}");
                if status == 0 {
                    break;
                }
                assert_eq!(status, 128 + 9, "{what}");
                n_killed += 1;
                let other = archive.card("other", &["f"]);
                archive.add(&other, &["--no-hash-skipped"]).is_quiet();
                let check = archive.check();
                assert_eq!(check.status, 0, "{what}: {check:?}");
                archive.add(&card, &["--no-hash-skipped"]).is_quiet();
                archive.is_intact(&["a", "b", "c/1", "c/2", "d", "e", "f", "z"]);
                hides_nothing(&archive.0.copy());
            }
        }
        assert!(n_killed >= 12, "{options:?}: {n_killed} runs were killed");
    }
}

#[test]
fn two_manifests_are_finished_together_or_not_at_all() {
    if !has_program("strace") {
        return;
    }
    for fault in ["signal=KILL", "error=ENOSPC"] {
        for call in ["linkat", "fsync", "write"] {
            for nth in 1..100 {
                let archive = Archive::new();
                let (one, two) = (archive.card("one", &["a"]), archive.card("two", &["b"]));
                archive.add(&one, &[]).is_quiet();
                archive.add(&two, &["--hash=blake3"]).is_quiet();
                let trace = [
                    format!("--trace={call}"),
                    format!("--inject={call}:{fault}:when={nth}"),
                ];
                let command = archive.command(&two, &["--hash=blake3"]);
                let traced = traced::traced(&command, &trace);
                archive.rot("a");
                archive.rot("b");
                archive.fails(&["a", "b"]);
                archive.add(&one, &[]).failed_naming(&[&["a", "differs"]]);
                archive.fails(&["a", "b"]);
                if traced.run.status == 0 {
                    break;
                }
            }
        }
    }
}

/// Whatever call fails, a rotten file still fails, and no file that was recorded is forgotten.
#[test]
fn no_failing_call_costs_a_record() {
    if !has_program("strace") {
        return;
    }
    let calls =
        "openat,read,pread64,write,linkat,fsync,fcntl,flock,getdents64,newfstatat,fstat,lseek";
    for call in calls.split(',') {
        for nth in 1..300 {
            let archive = Archive::new();
            let card = archive.card("one", &["a", "b", "c"]);
            archive.add(&card, &[]).is_quiet();
            archive.rot("b");
            let other = archive.card("two", &["c", "d"]);
            put(&other.join("c"), "another take");
            let trace = [
                format!("--trace={call}"),
                format!("--inject={call}:error=EIO:when={nth}"),
            ];
            let traced = traced::traced(&archive.command(&other, &[]), &trace);
            let what = format!("{call} {nth}: {:?}", traced.run);
            let check = archive.check();
            for line in ["a: OK\n", "b: FAILED\n", "c: OK\n"] {
                assert!(check.stdout.contains(line), "{what}: {check:?}");
            }
            archive.add(&other, &["--no-hash-skipped"]).is_quiet();
            archive.fails(&["b"]);
            let listed = archive.newest();
            let listed = listed.paths();
            for path in ["a", "b", "c"] {
                assert!(listed.contains(&Path::new(path)), "{what}: {listed:?}");
            }
            if traced.injected().is_empty() {
                assert!(nth > 1, "{call} is never called");
                break;
            }
        }
    }
}

#[test]
fn strict_reports_files_that_no_manifest_lists() {
    let archive = Archive::new();
    let card = archive.card("one", &["a", "b/c"]);
    archive.add(&card, &["--hash=blake3"]).is_quiet();
    let strict = || archive.check_strictly();
    assert_eq!(strict().status, 0, "{:?}", strict());
    archive
        .0
        .put_copy("b.txt", "extra")
        .put_copy("b/z", "extra");
    std::os::unix::fs::symlink("a", archive.0.copied("link")).unwrap();
    assert_eq!(archive.check().status, 0);
    let check = strict();
    let expected = "a: OK\nb/c: OK\nb.txt: FAILED not listed\nb/z: FAILED not listed\n";
    assert_eq!((check.status, check.stdout.as_str()), (1, expected));
    assert!(check.stderr.contains("2 not listed"), "{check:?}");
    archive
        .add(&card, &["--accept=b.txt", "--accept=b/z"])
        .is_quiet();
    assert_eq!(strict().status, 0);
}

/// Runs that make no digests, and runs that put symbolic links in the place of files, tell the
/// journal so.
#[test]
fn a_run_without_digests_that_is_killed_leaves_no_lie() {
    if !has_program("strace") {
        return;
    }
    for options in [&["--no-hash"][..], &[]] {
        for call in ["linkat", "renameat", "symlinkat", "write", "unlinkat"] {
            for nth in 1..200 {
                let archive = Archive::new();
                let card = archive.card("one", &["a", "b", "c", "d"]);
                archive.add(&card, &[]).is_quiet();
                fs::remove_file(archive.0.copied("b")).unwrap();
                put(&card.join("a"), "another take");
                put(&card.join("b"), "and another");
                fs::remove_file(card.join("c")).unwrap();
                std::os::unix::fs::symlink("d", card.join("c")).unwrap();
                let trace = [
                    format!("--trace={call}"),
                    format!("--inject={call}:signal=KILL:when={nth}"),
                ];
                let status = traced::traced(&archive.command(&card, options), &trace);
                let status = status.run.status;
                let what = format!("{options:?} {call} {nth}");
                let check = archive.check();
                let is_missing = !archive.0.copied("b").exists();
                let expected = i32::from(is_missing);
                assert_eq!(check.status, expected, "{what}: {check:?}");
                archive.add(&card, options).is_quiet();
                assert_eq!(archive.check().status, 0, "{what}: {:?}", archive.check());
                archive.add(&card, &[]).is_quiet();
                archive.is_intact(&["a", "b", "d"]);
                if status == 0 {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_name_is_not_linked_to_what_nobody_has_proven() {
    for (recorded, options) in [
        (&["--exclude=f"][..], &[][..]),
        (&[], &["--no-hash-skipped"]),
    ] {
        let archive = Archive::new();
        let card = archive.card("one", &["g"]);
        fs::copy(card.join("g"), card.join("f")).unwrap();
        dated(&card.join("f"), 1000);
        archive.add(&card, recorded).is_quiet();
        fs::remove_file(card.join("f")).unwrap();
        fs::hard_link(card.join("g"), card.join("f")).unwrap();
        archive.0.put_copy("f", "R");
        dated(&archive.0.copied("f"), 1000);
        archive.add(&card, options).is_quiet();
        assert_eq!(fs::read(archive.0.copied("g")).unwrap(), b"g");
    }
}

#[test]
fn a_name_that_becomes_a_link_loses_its_old_line() {
    for options in ["--no-hash", "--no-hash-skipped"] {
        let archive = Archive::new();
        let old = archive.card("old", &["g"]);
        archive.add(&old, &[]).is_quiet();
        let card = archive.card("one", &["a"]);
        put(&card.join("a"), "longer");
        fs::hard_link(card.join("a"), card.join("g")).unwrap();
        let mut copy = Command::new("cp");
        copy.arg("-p")
            .arg(card.join("a"))
            .arg(archive.0.copied("a"));
        assert!(copy.status().unwrap().success());
        archive.add(&card, &[options]).is_quiet();
        assert_eq!(archive.check().status, 0);
        archive.add(&card, &[]).is_quiet();
        archive.is_intact(&["a", "g"]);
    }
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

/// A run is killed after it has replaced a file.
fn killed_after_replacing(archive: &Archive) -> PathBuf {
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    put(&card.join("a"), "longer");
    put(&card.join("b"), "b");
    let trace = ["--trace=linkat", "--inject=linkat:signal=KILL:when=3"].map(str::to_owned);
    let command = archive.command(&card, &["--jobs=1"]);
    let traced = traced::traced(&command, &trace);
    assert_eq!(traced.run.status, 128 + 9);
    assert_eq!(fs::read(archive.0.copied("a")).unwrap(), b"longer");
    card
}

#[test]
fn a_file_that_rots_after_a_killed_run_is_repaired_from_its_source() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let card = killed_after_replacing(&archive);
    archive.rot("a");
    archive.fails(&["a"]);
    archive.add(&card, &[]).failed_naming(&[&["a", "differs"]]);
    archive
        .add(&card, &["--overwrite-policy=update"])
        .is_quiet();
    archive.is_intact(&["a", "b"]);
}

#[test]
fn a_journal_stays_if_its_files_cannot_be_read() {
    if !has_program("strace") {
        return;
    }
    let archive = Archive::new();
    let card = killed_after_replacing(&archive);
    let other = archive.card("two", &["c"]);
    let trace = ["--trace=openat2", "--inject=openat2:error=EIO"].map(str::to_owned);
    let traced = traced::traced(&archive.command(&other, &[]), &trace);
    assert_eq!(traced.run.status, 1);
    archive.add(&other, &[]).is_quiet();
    assert_eq!(archive.check().status, 0);
    archive.add(&card, &[]).is_quiet();
    archive.is_intact(&["a", "b", "c"]);
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

#[test]
fn a_journal_of_any_name_is_read() {
    let archive = Archive::new();
    let card = archive.card("one", &["a"]);
    archive.add(&card, &[]).is_quiet();
    let name = OsStr::from_bytes(b".zc-dircopy-journal-\xff");
    fs::write(archive.0.copied(name), "").unwrap();
    archive.add(&card, &[]).is_quiet();
    assert!(!archive.0.copied(name).exists());
    archive.is_intact(&["a"]);
}
