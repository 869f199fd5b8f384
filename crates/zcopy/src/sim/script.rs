//! What the simulated kernel does that a healthy one rarely does.

use std::collections::{HashMap, VecDeque};

use crate::sys::Errno;

/// The calls that a script can inject into.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Call {
    Read,
    Write,
    NextDatagram,
    Splice,
    Tee,
    Sendfile,
    CopyFileRange,
    CloneFile,
    CloneRange,
    Pipe,
    SetPipeCapacity,
    SocketPair,
    SeekExtent,
    PunchHole,
    WriteOut,
    SyncData,
    Close,
    Poll,
    /// `lseek(2)`. A script injects only into those for data and holes ([`Call::SeekExtent`]).
    Seek,
    /// `fstat(2)`, into which nothing is injected.
    Status,
}

/// One departure from the easy course of a call. An injection that a real kernel could not take at that
/// call is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// None.
    Normal,
    /// It moves no more than this many bytes.
    Short(usize),
    /// `EINTR`.
    Interrupted,
    /// `EAGAIN`, and the side is not ready for this many milliseconds.
    Stalled(u64),
    /// `EAGAIN`, though the side polls as ready.
    SpuriousWakeup,
    /// Success, and nothing moved.
    ReturnsZero,
    /// An errno that says "not this way", the n-th of those that this call has.
    Refused(usize),
    /// Exactly this errno.
    Fails(Errno),
}

/// The injections to come.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// For whatever call comes next.
    any: VecDeque<Injection>,
    /// For the next calls of one kind. These go first.
    by_call: HashMap<Call, VecDeque<Injection>>,
}

impl Script {
    pub(crate) fn of(injections: &[Injection]) -> Self {
        Self {
            any: injections.iter().copied().collect(),
            by_call: HashMap::new(),
        }
    }

    pub(crate) fn at(&mut self, call: Call, injections: &[Injection]) {
        self.by_call.entry(call).or_default().extend(injections);
    }

    pub(crate) fn next(&mut self, call: Call) -> Injection {
        let own = self.by_call.get_mut(&call).and_then(VecDeque::pop_front);
        own.or_else(|| self.any.pop_front())
            .unwrap_or(Injection::Normal)
    }
}

impl Call {
    /// Whether it moves bytes. A clone answers 0, whatever it has moved.
    pub(crate) fn moves_bytes(self) -> bool {
        matches!(
            self,
            Call::Read
                | Call::Write
                | Call::Splice
                | Call::Tee
                | Call::Sendfile
                | Call::CopyFileRange
                | Call::CloneFile
                | Call::CloneRange
        )
    }

    /// The n-th of the errnos by which a real kernel refuses this call to a pair that read and
    /// write can serve.
    pub(crate) fn refusal(self, n: usize) -> Option<Errno> {
        const SPLICE: &[Errno] = &[
            Errno::INVAL,
            Errno::NOSYS,
            Errno::PERM,
            Errno::OPNOTSUPP,
            Errno::XDEV,
            Errno::BADF,
            Errno::OVERFLOW,
        ];
        const COPY_FILE_RANGE: &[Errno] = &[
            Errno::XDEV,
            Errno::INVAL,
            Errno::OPNOTSUPP,
            Errno::NOSYS,
            Errno::PERM,
            Errno::BADF,
            Errno::OVERFLOW,
            Errno::FBIG,
        ];
        const CLONE: &[Errno] = &[
            Errno::OPNOTSUPP,
            Errno::NOTTY,
            Errno::NOSYS,
            Errno::XDEV,
            Errno::INVAL,
            Errno::PERM,
            Errno::TXTBSY,
        ];
        let errnos = match self {
            Call::Splice | Call::Tee | Call::Sendfile => SPLICE,
            Call::CopyFileRange => COPY_FILE_RANGE,
            Call::CloneFile | Call::CloneRange => CLONE,
            Call::Pipe | Call::SocketPair => &[Errno::MFILE, Errno::NFILE],
            Call::SetPipeCapacity => &[Errno::PERM, Errno::NOMEM, Errno::BUSY],
            Call::SeekExtent => &[Errno::INVAL],
            Call::PunchHole => &[Errno::OPNOTSUPP, Errno::NOSYS],
            Call::WriteOut => &[Errno::INVAL, Errno::SPIPE, Errno::NOSYS],
            Call::SyncData => &[Errno::INVAL, Errno::ROFS],
            Call::Read
            | Call::Write
            | Call::NextDatagram
            | Call::Close
            | Call::Poll
            | Call::Seek
            | Call::Status => return None,
        };
        Some(errnos[n % errnos.len()])
    }
}
