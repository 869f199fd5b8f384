//! Verifies one file.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::thread::Scope;
use std::time::Instant;

use rustix::io::Errno;
use zcopy::{Ended, Sparse, Transfer};

use super::Shared;
use super::hash_thread::HashThread;
use super::verdict::{AlgorithmSource, FileResult, Hashed, Verdict};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::hash::transfers::{check_length, read_error, read_whole, stop_if_interrupted};
use crate::dircopy::manifest::checksum::{Checksum, ChecksumAlgorithm, Hasher};
use crate::dircopy::manifest::line::{self, ChecksumLine, ParseLineError};
use crate::dircopy::manifest::open_beneath::{self, Found};

/// Shorter files are hashed by the thread that reads them: 256 KiB take less time than to wake
/// another thread.
const SHORT: u64 = 256 << 10;

/// A file to verify, or a malformed line.
#[derive(Debug)]
pub(super) enum Job {
    Line(Result<Vec<u8>, ParseLineError>),
    Record(Vec<u8>, FileDigest),
    /// A file that cannot be read, so that it is unknown whether a killed run has changed it.
    Unreadable(Vec<u8>, io::Error),
    /// A file with its result.
    Verified(FileResult),
}

/// Verifies files of one tree, one at a time. Each thread has one of these.
#[derive(Debug)]
pub(super) struct Verifier<'a> {
    root: BorrowedFd<'a>,
    shared: Shared<'a>,
    hash_thread: Option<HashThread>,
}

impl<'a> Verifier<'a> {
    /// Makes a verifier of the tree at `root`. If the options set a queue, a thread in `scope`
    /// hashes.
    pub(super) fn new<'scope>(
        root: BorrowedFd<'a>,
        shared: Shared<'a>,
        scope: &'scope Scope<'scope, '_>,
    ) -> Self {
        let queue_size = shared.options.queue_size;
        Self {
            root,
            shared,
            hash_thread: queue_size.and_then(|size| HashThread::start(scope, size.get())),
        }
    }

    /// Verifies the file that a record or a line of `list` names.
    pub(super) fn verify(&mut self, job: Job, list: &Path) -> FileResult {
        let mut others = Vec::new();
        let line = match job {
            Job::Verified(result) => {
                // Files without a record are not counted.
                if !matches!(result.verdict, Verdict::Unlisted | Verdict::Damaged) {
                    self.shared.progress.add_file(false);
                    self.shared.progress.add_bytes(result.bytes());
                }
                return result;
            }
            Job::Line(line) => line.and_then(|line| line::parse_any(&line)).ok(),
            Job::Unreadable(path, error) => {
                self.shared.progress.add_file(false);
                let verdict = Verdict::Unreadable(error);
                return FileResult { path, verdict };
            }
            Job::Record(path, file) => {
                let mut checksums: Vec<_> = file.checksums().collect();
                // The result names the function with the longest digest.
                checksums.sort_by_key(|(algorithm, _)| algorithm.n_digits());
                let longest = checksums.pop();
                let hasher = |(algorithm, checksum)| (Hasher::new(algorithm), checksum);
                others = checksums.into_iter().map(hasher).collect();
                longest.map(|(algorithm, checksum)| ChecksumLine {
                    checksum,
                    path,
                    is_escaped: true,
                    algorithm: Some(algorithm),
                })
            }
        };
        let line = line.and_then(|line| {
            let algorithm = self.algorithm(&line, list)?;
            Some((line, algorithm))
        });
        let Some((line, algorithm)) = line else {
            return FileResult {
                path: Vec::new(),
                verdict: Verdict::Malformed,
            };
        };
        let source = match line.algorithm.or(self.shared.options.hash) {
            Some(_) => AlgorithmSource::Named,
            None => AlgorithmSource::Implied,
        };
        let started = Instant::now();
        let verdict = match self.open(&line) {
            Err(error) if is_missing(&error) && self.is_gone(&line.path) => Verdict::Missing(error),
            Err(error) => Verdict::Unreadable(error),
            Ok(file) => {
                let size = file.metadata().map_or(0, |facts| facts.len());
                match self.checksum(&file, size, algorithm, &mut others) {
                    Err(error) => Verdict::Unreadable(error),
                    Ok(None) => Verdict::Interrupted,
                    Ok(Some((found, bytes))) => {
                        let hashed = Hashed {
                            algorithm,
                            bytes,
                            elapsed: started.elapsed(),
                            source,
                        };
                        let mut others = others.into_iter();
                        let are_equal =
                            others.all(|(hasher, checksum)| hasher.finish() == checksum);
                        if found == line.checksum && are_equal {
                            Verdict::Matches(hashed)
                        } else {
                            match check_length(&file, size, bytes) {
                                Ok(()) => Verdict::Differs(hashed),
                                Err(error) => Verdict::Unreadable(error),
                            }
                        }
                    }
                }
            }
        };
        if !matches!(verdict, Verdict::Interrupted) {
            let is_match = matches!(verdict, Verdict::Matches(_));
            self.shared.progress.add_file(is_match);
        }
        FileResult {
            path: line.path,
            verdict,
        }
    }

    /// The algorithm of a line: that of its tag, or of the options, or the one that the name of the
    /// list implies. `None` if the checksum has another number of digits.
    fn algorithm(&self, line: &ChecksumLine, list: &Path) -> Option<ChecksumAlgorithm> {
        let n_digits = line.checksum.n_digits();
        let algorithm = line.algorithm.or(self.shared.options.hash);
        match algorithm {
            None => ChecksumAlgorithm::from_list(list, n_digits),
            Some(algorithm) => (algorithm.n_digits() == n_digits).then_some(algorithm),
        }
    }

    /// Opens the file that a line names. If it does not exist and its path is unescaped, this tries
    /// slashes in place of the backslashes.
    fn open(&self, line: &ChecksumLine) -> io::Result<File> {
        let missing = match open_beneath::open(self.root, &line.path) {
            Err(error) if is_missing(&error) => error,
            opened => return opened,
        };
        let is_candidate = self.shared.options.converts_paths && !line.is_escaped;
        if !is_candidate || !line.path.contains(&b'\\') {
            return Err(missing);
        }
        let mut path = line.path.clone();
        line::convert_backslashes(&mut path);
        match open_beneath::open(self.root, &path) {
            Err(error) if is_missing(&error) => Err(missing),
            opened => opened,
        }
    }

    /// Whether a path that cannot be opened leads to nothing, and not to a symbolic link.
    fn is_gone(&self, path: &[u8]) -> bool {
        // A path that cannot be looked up without links is not shown to lead anywhere.
        matches!(
            open_beneath::find(self.root, path),
            Ok(Found::Nothing) | Err(_)
        )
    }

    /// Reads a file of this size. Returns its checksum and the number of its bytes. `None` after a
    /// signal. The other hashers get the bytes too.
    fn checksum(
        &mut self,
        file: &File,
        size: u64,
        algorithm: ChecksumAlgorithm,
        others: &mut [(Hasher, Checksum)],
    ) -> io::Result<Option<(Checksum, u64)>> {
        let is_long = size >= SHORT;
        let shared = self.shared;
        let mut bytes = 0;
        let mut count = |block: &[u8]| {
            bytes += block.len() as u64;
            for (hasher, _) in &mut *others {
                hasher.update(block);
            }
            shared.progress.add_bytes(block.len() as u64);
        };
        let checksum = match &mut self.hash_thread {
            Some(thread) if is_long => {
                thread.begin(algorithm);
                let is_read = read(&shared, file, |block| {
                    thread.push(block);
                    count(block);
                })?;
                if !is_read {
                    return Ok(None);
                }
                let exited = || io::Error::other("the hashing thread has exited");
                thread.finish().ok_or_else(exited)?
            }
            _ => {
                let mut hasher = Hasher::new(algorithm);
                let is_read = read(&shared, file, |block| {
                    hasher.update(block);
                    count(block);
                })?;
                if !is_read {
                    return Ok(None);
                }
                hasher.finish()
            }
        };
        Ok(Some((checksum, bytes)))
    }
}

/// Reads a file and calls `inspect` with its bytes. Returns false after a signal.
fn read(
    shared: &Shared<'_>,
    file: &File,
    mut inspect: impl FnMut(&[u8]) + Send,
) -> io::Result<bool> {
    let report = read_whole(file, |limit| {
        let mut transfer = Transfer::new(file, shared.null)
            .sparse(Sparse::KeepUnwritten)
            .limit(limit);
        if let Some(block_size) = shared.options.block_size {
            transfer = transfer.buffer_size(block_size.get());
        }
        let interrupt = shared.interrupt;
        let transfer = transfer.observe(|_| stop_if_interrupted(interrupt));
        transfer.inspect(&mut inspect).run()
    });
    let report = report.map_err(|error| read_error(&error))?;
    Ok(report.ended() != Ended::Stopped)
}

/// Whether opening failed because the file does not exist.
fn is_missing(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::NOENT | Errno::NOTDIR))
}
