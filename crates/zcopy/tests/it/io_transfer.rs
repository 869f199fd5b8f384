//! Transfers from a reader and to a writer.

mod counts;
mod errors;
mod options;
mod panics;

use std::io::{self, ErrorKind, Read, Write};

/// Lengths around pages and the buffer of 256 KiB.
const LENGTHS: [usize; 9] = [
    0,
    1,
    4095,
    4096,
    4097,
    BUFFER - 1,
    BUFFER,
    BUFFER + 1,
    (3 << 20) + 7,
];

const BUFFER: usize = 256 << 10;

/// The most bytes that each call of a reader or writer moves: all, an odd number, or one. Every
/// second call of the odd one is interrupted.
const PIECES: [usize; 3] = [usize::MAX, 7777, 1];

/// Reads from memory, or writes to memory, at most `piece` bytes at a time.
struct InPieces<T> {
    inner: T,
    piece: usize,
    n_calls: usize,
    n_flushes: usize,
}

impl<T> InPieces<T> {
    fn new(inner: T, piece: usize) -> Self {
        Self {
            inner,
            piece,
            n_calls: 0,
            n_flushes: 0,
        }
    }

    /// Counts a call, and interrupts some.
    fn begin(&mut self) -> io::Result<()> {
        self.n_calls += 1;
        if self.piece > 1 && self.piece < usize::MAX && self.n_calls % 2 == 1 {
            return Err(ErrorKind::Interrupted.into());
        }
        Ok(())
    }
}

impl<R: Read> Read for InPieces<R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.begin()?;
        let len = room.len().min(self.piece);
        self.inner.read(&mut room[..len])
    }
}

impl<W: Write> Write for InPieces<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.begin()?;
        self.inner.write(&bytes[..bytes.len().min(self.piece)])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.begin()?;
        self.n_flushes += 1;
        self.inner.flush()
    }
}

/// The error that a reader or writer of these tests returns.
#[derive(Debug, PartialEq, Eq)]
struct Damaged(usize);

impl std::fmt::Display for Damaged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} is damaged", self.0)
    }
}

impl std::error::Error for Damaged {}

/// Calls a closure for each read.
struct ReadFn<F>(F);

impl<F: FnMut(&mut [u8]) -> io::Result<usize>> Read for ReadFn<F> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        (self.0)(room)
    }
}

/// Calls a closure for each write. A flush succeeds.
struct WriteFn<F>(F);

impl<F: FnMut(&[u8]) -> io::Result<usize>> Write for WriteFn<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (self.0)(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads `bytes` in pieces of at most `piece`, and fails with [`Damaged`] at call number `k`, which
/// counts from 0.
fn failing_reader(bytes: &[u8], piece: usize, k: usize) -> impl Read {
    let mut rest = bytes;
    let mut n_calls = 0;
    ReadFn(move |room: &mut [u8]| {
        if n_calls == k {
            return Err(io::Error::new(ErrorKind::InvalidData, Damaged(k)));
        }
        n_calls += 1;
        let len = room.len().min(piece);
        rest.read(&mut room[..len])
    })
}

/// Writes to `accepted` in pieces of at most `piece`, and fails with [`Damaged`] at call number
/// `k`, which counts from 0.
fn failing_writer(accepted: &mut Vec<u8>, piece: usize, k: usize) -> impl Write {
    let mut n_calls = 0;
    WriteFn(move |bytes: &[u8]| {
        if n_calls == k {
            return Err(io::Error::new(ErrorKind::InvalidData, Damaged(k)));
        }
        n_calls += 1;
        accepted.write(&bytes[..bytes.len().min(piece)])
    })
}
