use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use super::*;
use crate::common::digest::checksum::ChecksumAlgorithm;
use crate::common::digest::{Algorithm, AlgorithmSet, digests};
use crate::dircopy::test_support::{open, scratch};
use crate::dircopy::walk::listing::leftovers;

/// A directory with an original, and the files that a run leaves in it.
struct Scene {
    scratch: tempfile::TempDir,
    directory: Arc<OwnedFd>,
    original: Stat,
}

/// The name of the original.
const NAME: &CStr = c"b .mov";

impl Scene {
    fn new() -> Self {
        let scratch = scratch();
        let path = scratch.path().join("b .mov");
        fs::write(&path, [7; 1000]).unwrap();
        let original = rustix::fs::stat(&path).unwrap();
        let directory = Arc::new(open(scratch.path()));
        Self {
            scratch,
            directory,
            original,
        }
    }

    /// Leaves a partial file of 300 bytes with these checkpoints.
    fn leave(&self, offsets: &[u64]) {
        let keep = Keep::if_set(&Arc::new(AtomicBool::new(true)));
        let OpenPartial { file, mut log, .. } = OpenPartial::create(
            &self.directory,
            NAME,
            &self.original,
            &keep,
            Durability::Synced,
        )
        .unwrap();
        file.file().write_all(&[7; 300]).unwrap();
        for offset in offsets {
            log.add(file.as_fd(), checkpoint(*offset)).unwrap();
        }
    }

    fn find(&self) -> Vec<LeftPartial> {
        let names = leftovers(self.directory.as_fd()).unwrap();
        LeftPartial::find(self.directory.as_fd(), names.files()).unwrap()
    }

    fn open(&self) -> Option<OpenPartial> {
        let keep = Keep::if_set(&Arc::new(AtomicBool::new(true)));
        let new = AtomicFile::new(Arc::clone(&self.directory)).unwrap();
        let new = rustix::fs::fstat(&new).unwrap();
        let [left] = &self.find()[..] else {
            panic!("there is one");
        };
        // A child of another test may hold the lock of a file that was closed, until it executes its
        // program.
        let mut opened = (0..50).map(|nth| {
            std::thread::sleep(std::time::Duration::from_millis(nth.min(10)));
            let opened = left.open(&self.directory, &new, &keep, Durability::Cached);
            opened.unwrap()
        });
        opened.find_map(|opened| opened)
    }

    fn path(&self, name: &CStr) -> PathBuf {
        let name = std::ffi::OsString::from_vec(name.to_bytes().to_vec());
        self.scratch.path().join(name)
    }

    fn n_files(&self) -> usize {
        fs::read_dir(self.scratch.path()).unwrap().count()
    }
}

fn checkpoint(offset: u64) -> Checkpoint {
    Checkpoint {
        offset,
        algorithm: Algorithm::Sha256,
        digest: digests(Algorithm::Sha256, &[&offset.to_le_bytes()])[0],
    }
}

#[test]
fn a_run_finds_what_another_has_left() {
    let scene = Scene::new();
    scene.leave(&[100, 200]);
    let [left] = &scene.find()[..] else {
        panic!("there is one");
    };
    assert!(left.is_of(NAME) && !left.is_of(c"b"));
    assert!(left.has_version(&scene.original));
    assert_eq!(left.forecast(scene.directory.as_fd()).unwrap().0, 200);
    fs::write(scene.path(NAME), [7; 1001]).unwrap();
    let changed = rustix::fs::stat(scene.path(NAME)).unwrap();
    assert!(!left.has_version(&changed));
    let mut opened = scene.open().unwrap();
    assert_eq!(opened.checkpoints, [checkpoint(100), checkpoint(200)]);
    // A run goes on with the log.
    let several = AlgorithmSet::from(ChecksumAlgorithm::Md5)
        .with(ChecksumAlgorithm::Xxh64)
        .unwrap();
    let other = Checkpoint {
        offset: 300,
        algorithm: several.into(),
        digest: digests(several.into(), &[b"abc"])[0],
    };
    opened.log.add(opened.file.as_fd(), other).unwrap();
    drop(opened);
    let opened = scene.open().unwrap();
    assert_eq!(
        opened.checkpoints,
        [checkpoint(100), checkpoint(200), other]
    );
    assert!(scene.find()[0].forecast(scene.directory.as_fd()).is_some());
}

/// One that is wrong would stop each later run.
#[test]
fn checkpoints_that_are_not_proven_leave_the_log() {
    for (noted, proven, left) in [
        (&[100, 200, 300][..], &[100][..], &[100][..]),
        (&[100, 200], &[100, 200], &[100, 200]),
        (&[100, 100], &[100], &[100, 100]),
        (&[200, 300, 100], &[100], &[100]),
        (&[100, 300, 200], &[100, 200], &[100, 200]),
    ] {
        let scene = Scene::new();
        scene.leave(noted);
        let proven: Vec<_> = proven.iter().map(|offset| checkpoint(*offset)).collect();
        let mut opened = scene.open().unwrap();
        opened.cut(&proven).unwrap();
        let len = opened.file.file().metadata().unwrap().len();
        assert_eq!(Some(len), proven.last().map(|last| last.offset));
        opened
            .log
            .add(opened.file.as_fd(), checkpoint(250))
            .unwrap();
        opened.log.keep();
        drop(opened);
        let found = scene.open().unwrap().checkpoints;
        let found: Vec<_> = found.iter().map(|checkpoint| checkpoint.offset).collect();
        assert_eq!(found, [left, &[250]].concat());
    }
}

#[test]
fn both_files_go_with_the_copy_that_is_not_kept() {
    let scene = Scene::new();
    let keep = Keep::if_set(&Arc::default());
    let create = || {
        OpenPartial::create(
            &scene.directory,
            NAME,
            &scene.original,
            &keep,
            Durability::Cached,
        )
    };
    let OpenPartial { file, log, .. } = create().unwrap();
    assert_eq!(scene.n_files(), 3);
    drop((file, log));
    assert_eq!(scene.n_files(), 1);
    let OpenPartial { mut file, log, .. } = create().unwrap();
    log.keep();
    let replace = super::super::atomic_file::Replace::No;
    file.try_commit(c"copy", replace, Durability::Cached)
        .unwrap();
    drop((file, log));
    assert_eq!(scene.n_files(), 2, "the original and the copy");
}

#[test]
fn a_file_whose_temporary_name_is_another_files_gets_no_name() {
    let scene = Scene::new();
    let keep = Keep::if_set(&Arc::default());
    let OpenPartial { mut file, log, .. } = OpenPartial::create(
        &scene.directory,
        NAME,
        &scene.original,
        &keep,
        Durability::Cached,
    )
    .unwrap();
    let temp_name = scene.path(file.temp_name().unwrap());
    fs::rename(&temp_name, scene.path(c"elsewhere")).unwrap();
    fs::write(&temp_name, "another").unwrap();
    let replace = super::super::atomic_file::Replace::Yes;
    let error = file.try_commit(c"copy", replace, Durability::Cached);
    let error = error.unwrap_err().to_string();
    assert_eq!(error, "another file has got its temporary name");
    assert!(!scene.path(c"copy").exists());
    drop((file, log));
}

/// Reading stops at the first line that is damaged, and the next run writes behind what it has read.
#[test]
fn each_byte_of_a_log_is_checked() {
    let scene = Scene::new();
    scene.leave(&[100, 200]);
    let log = scene.path(&scene.find()[0].log);
    let whole = fs::read(&log).unwrap();
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(&log, &damaged).unwrap();
        let file = File::open(&log).unwrap();
        let found = read_log(&file).unwrap();
        let lines = whole[..at].split(|byte| *byte == b'\n').count() - 1;
        let checkpoints = found.map(|(_, checkpoints, _)| checkpoints);
        let expected = [checkpoint(100), checkpoint(200)];
        match lines {
            0 | 1 => assert_eq!(checkpoints, None, "{at}"),
            n => assert_eq!(checkpoints.as_deref(), Some(&expected[..n - 2]), "{at}"),
        }
        fs::write(&log, &whole[..at]).unwrap();
        let found = read_log(&File::open(&log).unwrap()).unwrap();
        let n_found = found.map(|(_, checkpoints, _)| checkpoints.len());
        assert_eq!(n_found, lines.checked_sub(2), "{at}");
        if lines >= 2 {
            let mut opened = scene.open().unwrap();
            opened.log.add(opened.file.as_fd(), checkpoint(7)).unwrap();
            drop(opened);
            let last = scene.open().unwrap().checkpoints.pop();
            assert_eq!(last, Some(checkpoint(7)), "{at}");
        }
    }
}

#[test]
fn what_others_could_have_made_is_not_gone_on_with() {
    let scene = Scene::new();
    scene.leave(&[100]);
    let partial = scene.path(&scene.find()[0].partial);
    let link = scene.path(c"link");
    fs::hard_link(&partial, &link).unwrap();
    assert!(scene.open().is_none(), "another name");
    fs::remove_file(&link).unwrap();
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o622)).unwrap();
    assert!(scene.open().is_none(), "others may write");
    fs::set_permissions(&partial, fs::Permissions::from_mode(0o600)).unwrap();
    let held = scene.open().unwrap();
    assert!(scene.open().is_none(), "another run has it");
    scene.find()[0].remove(scene.directory.as_fd());
    assert_eq!(scene.n_files(), 3, "and it is not removed");
    drop(held);
    scene.find()[0].remove(scene.directory.as_fd());
    assert_eq!(scene.n_files(), 1);
}

#[test]
fn a_log_without_its_file_is_none() {
    let scene = Scene::new();
    scene.leave(&[100]);
    fs::remove_file(scene.path(&scene.find()[0].partial)).unwrap();
    assert!(scene.find().is_empty());
    let head = |partial: &CStr, name: &[u8]| Head {
        partial: partial.to_owned(),
        name: name.to_vec(),
        version: SourceVersion::of(&scene.original),
    };
    let good = head(c".zc-dircopy-aaaaaaaa", b"a\n\xff b");
    assert_eq!(Head::parse(&good.line()), Some(good));
    for (partial, name) in [
        (c".zc-dircopy-aaaaaaaa", &b"../a"[..]),
        (c".zc-dircopy-aaaaaaaa", b".."),
        (c".zc-dircopy-aaaaaaaa", b""),
        (c"important", b"a"),
    ] {
        assert_eq!(Head::parse(&head(partial, name).line()), None, "{name:?}");
    }
}

/// Where a name cannot be given without replacing, the file has both names for a moment.
#[test]
fn a_file_that_may_have_its_name_is_not_gone_on_with() {
    let scene = Scene::new();
    scene.leave(&[100]);
    let mut opened = scene.open().unwrap();
    opened.log.begin_naming();
    opened.log.keep();
    drop(opened);
    assert!(scene.open().is_none());

    let scene = Scene::new();
    scene.leave(&[100]);
    let mut opened = scene.open().unwrap();
    opened.log.begin_naming();
    opened.log.cancel_naming();
    opened
        .log
        .add(opened.file.as_fd(), checkpoint(200))
        .unwrap();
    opened.log.keep();
    drop(opened);
    assert_eq!(
        scene.open().unwrap().checkpoints,
        [checkpoint(100), checkpoint(200)]
    );
}
