//! The kinds of sources.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::{MutexGuard, PoisonError};

use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::net::{SendFlags, SocketType};
use rustix::pipe::fcntl_getpipe_size;

use super::{fifo, pipe, tcp, terminal, unix};
use crate::files::{self, file_in, read_to_end, reopen, write_all};
use crate::mounts::{Device, Fs};
use crate::skip::skip;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    Regular(Fs),
    /// A file that claims size 0 and can be spliced.
    ProcVersion,
    /// A file that claims size 0 and cannot be spliced.
    ProcStatus,
    /// A file that claims 4096 bytes and is shorter.
    Sysfs,
    Memfd,
    SealedMemfd,
    Pipe,
    Fifo,
    Tcp,
    UnixStream,
    UnixDatagram,
    UnixSeqpacket,
    Terminal,
    Zero,
    Random,
    Block,
}

/// A source with known bytes in it.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) fd: OwnedFd,
    /// The limit of a source that has no end.
    pub(crate) limit: Option<u64>,
    /// Keeps a terminal from hanging up.
    _master: Option<OwnedFd>,
    _device: Option<MutexGuard<'static, File>>,
}

impl SourceKind {
    /// Whether the kernel determines the bytes, and not the test.
    pub(crate) fn has_own_bytes(self) -> bool {
        matches!(self, Self::ProcVersion | Self::ProcStatus | Self::Sysfs)
    }

    pub(crate) fn is_pipe(self) -> bool {
        matches!(self, Self::Pipe | Self::Fifo)
    }

    pub(crate) fn has_cursor(self) -> bool {
        use SourceKind as S;
        matches!(self, S::Regular(_) | S::Memfd | S::SealedMemfd | S::Block) || self.has_own_bytes()
    }

    fn path(self) -> Option<&'static str> {
        match self {
            Self::ProcVersion => Some("/proc/version"),
            Self::ProcStatus => Some("/proc/self/status"),
            Self::Sysfs => Some("/sys/kernel/mm/transparent_hugepage/enabled"),
            Self::Zero => Some("/dev/zero"),
            Self::Random => Some("/dev/urandom"),
            _ => None,
        }
    }
}

impl Source {
    /// A source that gives `bytes`, if the kernel does not determine its bytes. `None`, reported,
    /// if this machine has no such source.
    pub(crate) fn new(kind: SourceKind, bytes: &[u8]) -> Option<Self> {
        use SourceKind as S;
        let plain = |fd| Some(Self::around(kind, fd));
        match kind {
            S::Regular(fs) => {
                let file = file_in(&fs.dir()?, bytes);
                plain(reopen(&file, OFlags::RDONLY))
            }
            S::Memfd | S::SealedMemfd => {
                let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
                let memfd = File::from(rustix::fs::memfd_create("zcopy", flags).unwrap());
                memfd.write_all_at(bytes, 0).unwrap();
                if kind == S::SealedMemfd {
                    let seals = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW;
                    rustix::fs::fcntl_add_seals(&memfd, seals).unwrap();
                }
                plain(memfd.into())
            }
            S::Pipe => Some(Self::piped(kind, pipe(), bytes)),
            S::Fifo => Some(Self::piped(kind, fifo(), bytes)),
            S::Tcp => Some(Self::fed(kind, tcp(), bytes, 32 << 10)),
            S::UnixStream => {
                let pair = unix(SocketType::STREAM);
                Some(Self::fed(kind, pair, bytes, 64 << 10))
            }
            S::UnixDatagram => Some(Self::fed_with_messages(
                kind,
                unix(SocketType::DGRAM),
                bytes,
            )),
            S::UnixSeqpacket => Some(Self::fed_with_messages(
                kind,
                unix(SocketType::SEQPACKET),
                bytes,
            )),
            S::Terminal => {
                let (master, slave) = terminal();
                let writer = master.try_clone().unwrap();
                Some(Self {
                    limit: Some(bytes.len() as u64),
                    _master: Some(master),
                    ..Self::fed(kind, (slave, writer), bytes, 4 << 10)
                })
            }
            S::Block => {
                let device = Device::ForSource
                    .get()?
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner);
                device.write_all_at(bytes, 0).unwrap();
                let fd = reopen(&*device, OFlags::RDONLY);
                Some(Self {
                    limit: Some(bytes.len() as u64),
                    _device: Some(device),
                    ..Self::around(kind, fd)
                })
            }
            S::ProcVersion | S::ProcStatus | S::Sysfs | S::Zero | S::Random => {
                let path = kind.path()?;
                let Ok(file) = File::open(path) else {
                    skip(&format!("there is no {path}"));
                    return None;
                };
                let endless = matches!(kind, S::Zero | S::Random);
                Some(Self {
                    limit: endless.then_some(bytes.len() as u64),
                    ..Self::around(kind, file.into())
                })
            }
        }
    }

    fn around(kind: SourceKind, fd: OwnedFd) -> Self {
        Self {
            kind,
            fd,
            limit: None,
            _master: None,
            _device: None,
        }
    }

    /// Fills a pipe with the first bytes; a thread writes the rest. A new pipe of a user whose budget
    /// is used up holds less than 64 KiB.
    fn piped(kind: SourceKind, ends: (OwnedFd, OwnedFd), bytes: &[u8]) -> Self {
        let capacity = fcntl_getpipe_size(&ends.0).unwrap();
        Self::fed(kind, ends, bytes, capacity.min(64 << 10))
    }

    /// Writes the first bytes at once; a thread writes the rest as they are taken.
    fn fed(
        kind: SourceKind,
        (fd, writer): (OwnedFd, OwnedFd),
        bytes: &[u8],
        at_once: usize,
    ) -> Self {
        let (first, rest) = bytes.split_at(at_once.min(bytes.len()));
        assert!(write_all(&writer, first));
        let rest = rest.to_vec();
        if !rest.is_empty() {
            // If nobody takes the rest, closing the source ends the thread.
            std::thread::spawn(move || write_all(&writer, &rest));
        }
        Self::around(kind, fd)
    }

    /// A thread sends messages of several sizes, and an empty one at the end.
    fn fed_with_messages(kind: SourceKind, (fd, writer): (OwnedFd, OwnedFd), bytes: &[u8]) -> Self {
        let bytes = bytes.to_vec();
        let feed = move || {
            let sizes = [1, 4096, 999, 20_000].into_iter().cycle();
            let mut rest = &bytes[..];
            for size in sizes {
                let (message, later) = rest.split_at(size.min(rest.len()));
                if rustix::net::send(&writer, message, SendFlags::NOSIGNAL).is_err()
                    || message.is_empty()
                {
                    break;
                }
                rest = later;
            }
        };
        std::thread::spawn(feed);
        Self::around(kind, fd)
    }

    pub(crate) fn cursor(&self) -> Option<u64> {
        self.kind.has_cursor().then(|| files::cursor(&self.fd))
    }

    /// Reads the bytes that are left in the source.
    pub(crate) fn into_rest(self) -> Vec<u8> {
        let Some(limit) = self.limit else {
            return read_to_end(&self.fd);
        };
        // The source has no end, but has this many bytes.
        let mut rest = vec![0; usize::try_from(limit).unwrap()];
        let mut filled = 0;
        while filled < rest.len() {
            filled += rustix::io::read(&self.fd, &mut rest[filled..]).unwrap();
        }
        rest
    }
}
