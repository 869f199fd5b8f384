//! An archive to which several sources are copied over the years: its manifests tell one truth.

use std::io::Read as _;

use rustix::fs::{Mode, OFlags};

use super::*;
use crate::skip::has_program;

mod killed;
mod manifests;
mod repaired;

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
