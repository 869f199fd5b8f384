//! The injections: deviations that a test requests from the simulated kernel.

use std::collections::{HashMap, VecDeque};

use crate::sys::Errno;

/// The system calls that a script can inject into.
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
    /// `lseek(2)`. A script injects only into `SEEK_DATA` and `SEEK_HOLE`, which are
    /// [`Call::SeekExtent`].
    Seek,
    /// `fstat(2)`. A script injects nothing into it.
    Status,
}

/// The result that a script requests of one call. The call ignores an injection that a real kernel
/// could not produce there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// No deviation.
    Normal,
    /// The call moves at most this many bytes.
    Short(usize),
    /// `EINTR`.
    Interrupted,
    /// The call fails with `EAGAIN`, and the descriptor is not ready for this many milliseconds.
    Stalled(u64),
    /// The call fails with `EAGAIN` although `poll(2)` reports the descriptor as ready.
    SpuriousWakeup,
    /// The call returns 0.
    ReturnsZero,
    /// The call fails with the n-th errno of [`Call::refusal`].
    Refused(usize),
    /// The call fails with this errno.
    Fails(Errno),
}

/// The injections that are left.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// For the next call of any kind.
    any: VecDeque<Injection>,
    /// For the next calls of one kind. They take precedence.
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

    /// Returns whether a call of any kind gets this injection.
    #[cfg(feature = "tokio")]
    pub(crate) fn has(&self, injection: Injection) -> bool {
        self.any.contains(&injection)
    }

    pub(crate) fn next(&mut self, call: Call) -> Injection {
        let own = self.by_call.get_mut(&call).and_then(VecDeque::pop_front);
        own.or_else(|| self.any.pop_front())
            .unwrap_or(Injection::Normal)
    }
}

impl Call {
    /// Returns whether the call moves bytes. A clone returns 0 however much it has cloned.
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

    /// Returns the n-th errno by which a real kernel refuses this call for a pair that read and
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
            Call::Pipe => &[Errno::MFILE, Errno::NFILE, Errno::NOMEM],
            Call::SocketPair => &[Errno::MFILE, Errno::NFILE],
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
