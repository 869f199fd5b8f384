//! The kinds of sinks.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::mpsc::{self, Receiver};
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{MemfdFlags, OFlags};
use rustix::net::SocketType;

use super::{fifo, null, pipe, tcp, terminal, unix};
use crate::files::{self, appending, contents, file_in, read_each, reopen};
use crate::mounts::{Device, Fs};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SinkKind {
    Regular(Fs),
    /// A file on ext4 in append mode, which begins with [`HEAD`].
    Append,
    Memfd,
    Pipe,
    Fifo,
    Tcp,
    UnixStream,
    Null,
    Terminal,
    Block,
}

/// The bytes that an appending sink holds before the transfer.
const HEAD: &[u8] = b"here already";

/// A sink, and the thread that reads from its other side.
#[derive(Debug)]
pub(crate) struct Sink {
    pub(crate) kind: SinkKind,
    pub(crate) fd: OwnedFd,
    /// The same file, to read its bytes.
    file: Option<File>,
    reader: Option<Receiver<Vec<u8>>>,
    _device: Option<MutexGuard<'static, File>>,
}

impl SinkKind {
    pub(crate) const ALL: [Self; 13] = [
        Self::Regular(Fs::Ext4),
        Self::Regular(Fs::Tmpfs),
        Self::Regular(Fs::Btrfs),
        Self::Regular(Fs::Xfs),
        Self::Append,
        Self::Memfd,
        Self::Pipe,
        Self::Fifo,
        Self::Tcp,
        Self::UnixStream,
        Self::Null,
        Self::Terminal,
        Self::Block,
    ];

    pub(crate) fn is_pipe(self) -> bool {
        matches!(self, Self::Pipe | Self::Fifo)
    }

    pub(crate) fn has_cursor(self) -> bool {
        use SinkKind as S;
        matches!(self, S::Regular(_) | S::Append | S::Memfd | S::Block)
    }
}

impl Sink {
    /// An empty sink; `None`, reported, if this machine has no such sink.
    pub(crate) fn new(kind: SinkKind) -> Option<Self> {
        use SinkKind as S;
        Some(match kind {
            S::Regular(fs) => {
                let file = file_in(&fs.dir()?, b"");
                let fd = reopen(&file, OFlags::WRONLY);
                Self {
                    file: Some(file),
                    ..Self::around(kind, fd)
                }
            }
            S::Append => {
                let file = file_in(&Fs::Ext4.dir()?, HEAD);
                let fd = appending(&file);
                Self {
                    file: Some(file),
                    ..Self::around(kind, fd)
                }
            }
            S::Memfd => {
                let memfd = rustix::fs::memfd_create("zcopy", MemfdFlags::CLOEXEC).unwrap();
                let file = File::from(memfd.try_clone().unwrap());
                Self {
                    file: Some(file),
                    ..Self::around(kind, memfd)
                }
            }
            S::Pipe => Self::read_behind(kind, pipe()),
            S::Fifo => Self::read_behind(kind, fifo()),
            S::Tcp => Self::read_behind(kind, tcp()),
            S::UnixStream => Self::read_behind(kind, unix(SocketType::STREAM)),
            S::Null => Self::around(kind, null()),
            S::Terminal => Self::read_behind(kind, terminal()),
            S::Block => {
                let device = Device::ForSink
                    .get()?
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                let file = device.try_clone().unwrap();
                let fd = reopen(&*device, OFlags::WRONLY);
                Self {
                    file: Some(file),
                    _device: Some(device),
                    ..Self::around(kind, fd)
                }
            }
        })
    }

    fn around(kind: SinkKind, fd: OwnedFd) -> Self {
        Self {
            kind,
            fd,
            file: None,
            reader: None,
            _device: None,
        }
    }

    /// A sink whose other side a thread reads to the end.
    fn read_behind(kind: SinkKind, (reader, fd): (OwnedFd, OwnedFd)) -> Self {
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            // The receiver is gone if the test has failed.
            read_each(&reader, |read| drop(sender.send(read.to_vec())));
        });
        Self {
            reader: Some(receiver),
            ..Self::around(kind, fd)
        }
    }

    /// The cursor of the sink, if it has one.
    pub(crate) fn cursor(&self) -> Option<u64> {
        self.kind.has_cursor().then(|| files::cursor(&self.fd))
    }

    /// The bytes that arrived, of which `n` are expected. Of a block device the first `n` bytes;
    /// `None` for `/dev/null`.
    pub(crate) fn into_bytes(self, n: u64) -> Option<Vec<u8>> {
        let Self {
            kind,
            fd,
            file,
            reader,
            _device,
        } = self;
        let mut bytes = Vec::new();
        if let Some(reader) = &reader
            && kind == SinkKind::Terminal
        {
            // Closing a terminal discards bytes for which its other side has no room.
            let time_limit = Duration::from_secs(10);
            while (bytes.len() as u64) < n {
                let Ok(read) = reader.recv_timeout(time_limit) else {
                    break;
                };
                bytes.extend(read);
            }
        }
        drop(fd);
        if let Some(reader) = reader {
            // A flattening iterator would cost as much for each byte as for a read.
            for read in reader {
                bytes.extend_from_slice(&read);
            }
            return Some(bytes);
        }
        let file = file?;
        if kind == SinkKind::Block {
            let mut bytes = vec![0; usize::try_from(n).unwrap()];
            file.read_exact_at(&mut bytes, 0).unwrap();
            return Some(bytes);
        }
        let bytes = contents(&file);
        Some(match kind {
            SinkKind::Append => bytes.strip_prefix(HEAD).unwrap().to_vec(),
            _ => bytes,
        })
    }
}
