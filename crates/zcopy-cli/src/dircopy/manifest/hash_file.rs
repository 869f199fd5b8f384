//! The digest of a file of the tree.

use std::fs::File;
use std::io;
use std::os::fd::BorrowedFd;

use zcopy::{Sparse, Transfer};

use super::open_beneath;
use crate::common::cli::message;
use crate::common::digest::{Algorithm, Stream};
use crate::dircopy::hash::FileDigest;
use crate::dircopy::hash::reader::read_whole;

/// Reads the file at `path` below `root`, and returns its digest. `null` is `/dev/null`.
///
/// # Errors
///
/// The file cannot be opened or read, or its path leads out of the tree.
pub(crate) fn hash_file(
    root: BorrowedFd<'_>,
    path: &[u8],
    algorithm: Algorithm,
    null: &File,
) -> io::Result<FileDigest> {
    let file = open_beneath::open(root, path)?;
    let mut stream = Stream::new(algorithm);
    let report = read_whole(&file, |limit| {
        let transfer = Transfer::new(&file, null).sparse(Sparse::KeepUnwritten);
        let transfer = transfer.inspect(|bytes| stream.update(bytes));
        transfer.limit(limit).run()
    });
    report.map_err(|error| message::cause(&error))?;
    let digest = stream.finish();
    Ok(FileDigest { algorithm, digest })
}
