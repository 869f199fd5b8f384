//! The files and trees that programs read.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rustix::fs::{Advice, fadvise};
use tempfile::TempDir;

use crate::MIB;
use crate::job::{Job, Load, Place, Source};

/// Scratch directories, gone when this is.
pub(crate) struct Scratch {
    memory: TempDir,
    disk: TempDir,
}

/// What one job reads.
pub(crate) struct Input {
    /// The operand `IN`, or the file that is standard input.
    pub(crate) path: PathBuf,
    /// The operands `FILES`, or the files of a tree, relative to its root.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) bytes: u64,
}

impl Scratch {
    /// Makes the directories.
    ///
    /// # Errors
    ///
    /// If there is no tmpfs at `/dev/shm`.
    pub(crate) fn new() -> anyhow::Result<Self> {
        Ok(Self {
            memory: tempfile::tempdir_in("/dev/shm").context("/dev/shm")?,
            disk: tempfile::tempdir()?,
        })
    }

    pub(crate) fn dir(&self, place: Place) -> &Path {
        match place {
            Place::Memory => self.memory.path(),
            Place::Disk => self.disk.path(),
        }
    }

    /// Makes what a job reads, if no earlier job has read the same.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub(crate) fn input(&self, job: &Job, size: u64) -> anyhow::Result<Input> {
        let bytes = job.load.bytes(size);
        let place = match job.source {
            Source::Disk | Source::ColdDisk => Place::Disk,
            Source::Tree(place) => place,
            _ => Place::Memory,
        };
        let dir = self.dir(place);
        let mut input = Input {
            path: PathBuf::new(),
            files: Vec::new(),
            bytes,
        };
        match job.source {
            Source::Memory | Source::Disk | Source::ColdDisk | Source::Input => {
                input.path = dir.join(format!("plain-{bytes}"));
                make_file(&input.path, |file| write_plain(file, bytes))?;
            }
            Source::Log => {
                input.path = dir.join(format!("log-{bytes}"));
                make_file(&input.path, |file| write_log(file, bytes))?;
            }
            Source::SmallFiles => {
                input.path = dir.join(format!("small-{bytes}"));
                let n_files = bytes.div_ceil(1024).max(1);
                let names = (0..n_files).map(|n| (PathBuf::from(n.to_string()), 1024));
                input.bytes = n_files * 1024;
                input.files = make_tree(&input.path, names)?;
            }
            Source::Tree(_) => {
                let (small, large) = match job.load {
                    Load::Tree { small, large } => ((small * size) >> 30, large),
                    _ => (0, 0),
                };
                input.path = dir.join(format!("tree-{small}-{large}-{bytes}"));
                // 0 to 16 KiB, in an order without a rule.
                let small = (0..small.max(1)).map(|n| {
                    let name = format!("small/{}/{n}", n / 100);
                    (PathBuf::from(name), (n * 7919) % 16384)
                });
                let large = (0..large).map(|n| (PathBuf::from(format!("large-{n}")), size / 8));
                let one = (job.load == Load::OneByte).then(|| (PathBuf::from("byte"), 1));
                let names: Vec<_> = match one {
                    Some(one) => vec![one],
                    None => small.chain(large).collect(),
                };
                input.bytes = names.iter().map(|(_, len)| len).sum();
                input.files = make_tree(&input.path, names.into_iter())?;
            }
            Source::WrittenPipe | Source::TeedPipe | Source::Endless => {}
        }
        Ok(input)
    }
}

/// Takes a file out of the page cache.
///
/// # Errors
///
/// If it cannot be opened or written back.
pub(crate) fn evict(path: &Path) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(())
}

/// Makes a file that is not there. What is still dirty would be written back in the middle of a
/// measurement.
fn make_file(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    if path.exists() {
        return Ok(());
    }
    let mut file = BufWriter::with_capacity(MIB, File::create(path)?);
    write(&mut file)?;
    file.into_inner()?.sync_all()?;
    Ok(())
}

fn make_tree(
    root: &Path,
    files: impl Iterator<Item = (PathBuf, u64)>,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut names = Vec::new();
    for (name, len) in files {
        let path = root.join(&name);
        if !path.exists() {
            fs::create_dir_all(path.parent().context("a file has a directory")?)?;
            let mut file = File::create(&path)?;
            write_plain(&mut file, len)?;
        }
        names.push(name);
    }
    Ok(names)
}

/// Bytes of every value, each MiB with another beginning.
fn write_plain(file: &mut impl Write, bytes: u64) -> std::io::Result<()> {
    let mut block: Vec<u8> = (0..MIB).map(|i| ((i * 31) >> 3) as u8).collect();
    let mut left = bytes;
    while left > 0 {
        block[..8].copy_from_slice(&left.to_le_bytes());
        let n = left.min(MIB as u64) as usize;
        file.write_all(&block[..n])?;
        left -= n as u64;
    }
    Ok(())
}

/// Lines of a log, some of them with tabs, carriage returns and letters that are not ASCII.
fn write_log(file: &mut impl Write, bytes: u64) -> std::io::Result<()> {
    let mut left = bytes as usize;
    let mut n = 0_u64;
    while left > 0 {
        let end = match n % 50 {
            0 => "\tcaf\u{e9}\r\n",
            1 => "\n\n",
            _ => "\n",
        };
        let line = format!(
            "2026-11-27T10:{:02}:{:02} INFO request {n} served in {} ms{end}",
            n / 60 % 60,
            n % 60,
            n * 37 % 1000
        );
        let line = line.as_bytes();
        let len = left.min(line.len());
        file.write_all(&line[..len])?;
        left -= len;
        n += 1;
    }
    Ok(())
}
