//! The implementation of `Kernel` by the simulated kernel.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use super::channel::{Channel, Peer};
use super::kernel::{Descriptor, SimKernel};
use super::objects::{BLOCK, Found, Object};
use super::script::Call;
use crate::side::Side;
use crate::sys::{
    Blocking, Errno, FdAt, FileSystemStatus, FileType, Kernel, LONGEST_DISCARD, Linux, OFlags,
    PollFd, Result, SealFlags, SeekFrom, SocketType, SpliceFlags, Status, WriteOut,
};

impl Kernel for &SimKernel {
    fn fstat(&self, fd: BorrowedFd<'_>) -> Result<Status> {
        let mut state = self.state.borrow_mut();
        state.begin_call(Call::Status);
        let object = state.descriptor(fd.as_raw_fd()).object;
        let mut status = Status {
            file_type: FileType::CharacterDevice,
            device: 0,
            inode: object as u64,
            names_device: 0,
            size: 0,
            allocated: 0,
        };
        match &state.objects[object] {
            Object::File(file) if file.is_block_device => {
                status.file_type = FileType::BlockDevice;
                status.names_device = rustix::fs::makedev(8, object as u32);
            }
            Object::File(file) => {
                status.file_type = FileType::RegularFile;
                status.device = file.device;
                status.size = file.size();
                status.allocated = file.allocated();
            }
            Object::Channel(channel) if channel.is_terminal => {
                status.names_device = rustix::fs::makedev(136, object as u32);
            }
            Object::Channel(channel) if !channel.is_stream => status.file_type = FileType::Fifo,
            Object::Channel(_) | Object::Messages(_) => status.file_type = FileType::Socket,
            Object::Null(_) => status.names_device = rustix::fs::makedev(1, 3),
            Object::Random(_) => status.names_device = rustix::fs::makedev(1, 9),
        }
        Ok(status)
    }

    fn status_flags(&self, fd: BorrowedFd<'_>) -> Result<OFlags> {
        Ok(self.state.borrow().descriptor(fd.as_raw_fd()).flags)
    }

    fn is_listening(&self, _: BorrowedFd<'_>) -> Result<bool> {
        Ok(false)
    }

    fn socket_type(&self, fd: BorrowedFd<'_>) -> Result<SocketType> {
        match self.state.borrow_mut().object(fd) {
            Object::Channel(channel) if channel.is_stream => Ok(SocketType::STREAM),
            Object::Messages(_) => Ok(SocketType::SEQPACKET),
            _ => Err(Errno::NOTSOCK),
        }
    }

    fn file_system(&self, fd: BorrowedFd<'_>) -> Result<FileSystemStatus> {
        let magic = match self.state.borrow_mut().object(fd) {
            Object::File(file) => file.magic,
            _ => 0,
        };
        Ok(FileSystemStatus {
            magic,
            block_size: BLOCK as u64,
            free: None,
        })
    }

    fn device_size(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        match self.state.borrow_mut().object(fd) {
            Object::File(file) if file.is_block_device => Ok(file.bytes.len() as u64),
            _ => Err(Errno::NOTTY),
        }
    }

    fn device_block_size(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        match self.state.borrow_mut().object(fd) {
            Object::File(file) if file.is_block_device => Ok(file.granularity),
            _ => Err(Errno::NOTTY),
        }
    }

    fn seals(&self, _: BorrowedFd<'_>) -> Result<SealFlags> {
        Err(Errno::INVAL)
    }

    fn direct_alignment(&self, _: BorrowedFd<'_>) -> Result<u64> {
        Ok(512)
    }

    fn send_buffer_size(&self, fd: BorrowedFd<'_>) -> Result<usize> {
        match self.state.borrow_mut().object(fd) {
            Object::Channel(channel) if channel.is_stream => Ok(channel.capacity),
            _ => Err(Errno::NOTSOCK),
        }
    }

    fn reopen(&self, fd: BorrowedFd<'_>, flags: OFlags) -> Result<OwnedFd> {
        let mut state = self.state.borrow_mut();
        if !state.has_proc {
            return Err(Errno::NOENT);
        }
        let Descriptor { object, side, .. } = *state.descriptor(fd.as_raw_fd());
        let own = state.name(object, flags | OFlags::NONBLOCK, side);
        state.descriptor_mut(own.as_raw_fd()).is_own = true;
        Ok(own)
    }

    fn close(&self, fd: OwnedFd) -> Result<()> {
        drop(fd);
        let mut state = self.state.borrow_mut();
        let answer = state.inject(Call::Close, 1, &[], false).map(|_| ());
        if let Err(errno) = answer
            && errno != Errno::INTR
        {
            state.errors_reported.push((Side::Sink, errno));
        }
        state.log_call(Call::Close, answer, |()| 0)
    }

    fn socket_timeout(&self, fd: BorrowedFd<'_>, _side: Side) -> Result<Option<Duration>> {
        let mut state = self.state.borrow_mut();
        Ok(state.object(fd).timing().and_then(|timing| timing.timeout))
    }

    fn socket_error(&self, fd: BorrowedFd<'_>) -> Result<Option<Errno>> {
        let mut state = self.state.borrow_mut();
        let failure = match state.object(fd) {
            Object::Channel(channel) => channel.failure(),
            _ => None,
        };
        let at = state.at((fd, None), true);
        Ok(failure.map(|errno| state.report_error(at, errno)))
    }

    fn read_nothing(&self, _: BorrowedFd<'_>) -> Result<()> {
        Ok(())
    }

    fn write_nothing(&self, _: BorrowedFd<'_>) -> Result<()> {
        Ok(())
    }

    fn read(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        buffer: &mut [u8],
        blocking: Blocking,
    ) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if blocking == Blocking::Nonblocking && !state.supports_nowait {
            return state.log_call(Call::Read, Err(Errno::OPNOTSUPP), |n| n);
        }
        let may_wait = blocking == Blocking::MaySleep && !state.is_nonblocking(fd.as_raw_fd());
        let at = state.at((fd, offset), may_wait);
        let address = buffer.as_ptr().addr();
        if buffer.len() > 1 && state.descriptor(fd.as_raw_fd()).side == Side::Source {
            state.n_buffers += usize::from(address != state.last_buffer);
            state.last_buffer = address;
        }
        let answer = if state.is_misaligned(at, buffer, false) {
            Err(Errno::INVAL)
        } else {
            state.read(at, buffer)
        };
        state.log_call(Call::Read, answer, |n| n)
    }

    fn discard(&self, fd: BorrowedFd<'_>, len: usize) -> Result<usize> {
        let mut room = vec![0; len.min(LONGEST_DISCARD)];
        self.read(fd, None, &mut room, Blocking::MaySleep)
    }

    fn send_more(&self, fd: BorrowedFd<'_>, bytes: &[u8], blocking: Blocking) -> Result<usize> {
        self.write(fd, None, bytes, blocking)
    }

    fn write(
        &self,
        fd: BorrowedFd<'_>,
        offset: Option<u64>,
        bytes: &[u8],
        blocking: Blocking,
    ) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let is_file = matches!(state.object(fd), Object::File(_));
        if blocking == Blocking::Nonblocking && !state.supports_nowait && !is_file {
            return state.log_call(Call::Write, Err(Errno::OPNOTSUPP), |n| n);
        }
        let may_wait = blocking == Blocking::MaySleep && !state.is_nonblocking(fd.as_raw_fd());
        let at = state.at((fd, offset), may_wait);
        let answer = if state.is_misaligned(at, bytes, true) {
            Err(Errno::INVAL)
        } else {
            state.write(at, bytes)
        };
        state.log_call(Call::Write, answer, |n| n)
    }

    fn n_waiting(&self, fd: BorrowedFd<'_>) -> Result<u64> {
        let mut state = self.state.borrow_mut();
        let now = state.clock;
        match state.object(fd).readable(0, now) {
            Found::Some(n) => Ok(n as u64),
            Found::End | Found::Failed(_) | Found::Later => Ok(0),
        }
    }

    fn next_datagram(&self, fd: BorrowedFd<'_>, blocking: Blocking) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let may_wait = blocking == Blocking::MaySleep && !state.is_nonblocking(fd.as_raw_fd());
        let at = state.at((fd, None), may_wait);
        let injection = state.inject(Call::NextDatagram, 1, &[at], false);
        let found = injection.and_then(|_| state.await_bytes(at, state.clock));
        let answer = found.map_err(|errno| state.report_error(at, errno));
        state.log_call(Call::NextDatagram, answer, |n| n)
    }

    fn splice(
        &self,
        source: FdAt<'_>,
        sink: FdAt<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let answer = state.splice([source, sink], len, flags);
        state.log_call(Call::Splice, answer, |n| n)
    }

    fn tee(
        &self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        len: usize,
        flags: SpliceFlags,
    ) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let answer = state.tee([source, sink], len, flags);
        state.log_call(Call::Tee, answer, |n| n)
    }

    fn sendfile(&self, sink: BorrowedFd<'_>, source: FdAt<'_>, len: usize) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let answer = state.sendfile(sink, source, len);
        state.log_call(Call::Sendfile, answer, |n| n)
    }

    fn copy_file_range(&self, source: FdAt<'_>, sink: FdAt<'_>, len: usize) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let (source, sink) = (state.at(source, false), state.at(sink, false));
        let answer = state.copy_file_range(source, sink, len);
        state.log_call(Call::CopyFileRange, answer, |n| n)
    }

    fn clone_file(&self, source: BorrowedFd<'_>, sink: BorrowedFd<'_>) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let answer = state.clone(Call::CloneFile, [source, sink], None);
        state.log_call(Call::CloneFile, answer, |()| 0)
    }

    fn clone_range(
        &self,
        source: BorrowedFd<'_>,
        source_offset: u64,
        sink: BorrowedFd<'_>,
        sink_offset: u64,
        len: u64,
    ) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let range = Some([source_offset, sink_offset, len]);
        let answer = state.clone(Call::CloneRange, [source, sink], range);
        state.log_call(Call::CloneRange, answer, |()| 0)
    }

    fn pipe(&self, blocking: Blocking) -> Result<(OwnedFd, OwnedFd)> {
        let mut state = self.state.borrow_mut();
        if let Err(errno) = state.inject(Call::Pipe, 1, &[], false) {
            return state
                .log_call(Call::Pipe, Err(errno), |()| 0)
                .map(|()| unreachable!());
        }
        let capacity = state.pipe_capacity;
        let pipe = Channel::new(capacity, false, Peer::None);
        let mode = match blocking {
            Blocking::MaySleep => OFlags::empty(),
            Blocking::Nonblocking => OFlags::NONBLOCK,
        };
        let reader = state.open(Object::Channel(pipe), OFlags::RDONLY | mode, Side::Neither);
        let object = state.descriptor(reader.as_raw_fd()).object;
        let writer = state.name(object, OFlags::WRONLY | mode, Side::Neither);
        let _ = state.log_call(Call::Pipe, Ok(()), |()| 0);
        Ok((reader, writer))
    }

    fn descriptor_limit(&self) -> u64 {
        u64::MAX
    }

    fn pipe_capacity(&self, fd: BorrowedFd<'_>) -> Result<usize> {
        match self.state.borrow_mut().object(fd) {
            Object::Channel(channel) if !channel.is_stream => Ok(channel.capacity),
            _ => Err(Errno::BADF),
        }
    }

    fn set_pipe_capacity(&self, fd: BorrowedFd<'_>, bytes: usize) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let max = state.pipe_max;
        let injection = state.inject(Call::SetPipeCapacity, 1, &[], false);
        let answer = match (injection, state.object(fd)) {
            (Err(errno), _) => Err(errno),
            (_, Object::Channel(channel)) if !channel.is_stream => {
                assert!(bytes > channel.capacity, "a pipe is to shrink");
                if bytes <= max {
                    channel.capacity = bytes;
                    Ok(bytes)
                } else {
                    Err(Errno::PERM)
                }
            }
            _ => Err(Errno::BADF),
        };
        state.log_call(Call::SetPipeCapacity, answer, |n| n)
    }

    fn socket_pair(&self) -> Result<(OwnedFd, OwnedFd)> {
        let mut state = self.state.borrow_mut();
        let injection = state.inject(Call::SocketPair, 1, &[], false).map(|_| ());
        state.log_call(Call::SocketPair, injection, |()| 0)?;
        // Only one of the two directions is used.
        let stream = Channel::new(64 << 10, true, Peer::None);
        let flags = OFlags::RDWR | OFlags::NONBLOCK;
        let one = state.open(Object::Channel(stream), flags, Side::Neither);
        let object = state.descriptor(one.as_raw_fd()).object;
        let other = state.name(object, flags, Side::Neither);
        Ok((one, other))
    }

    fn seek(&self, fd: BorrowedFd<'_>, to: SeekFrom) -> Result<u64> {
        let mut state = self.state.borrow_mut();
        // A query of the position and the call that puts it back count as one, because no transfer
        // can prevent interference between them.
        let is_pair =
            matches!(to, SeekFrom::Current(..0)) && state.position_read_of == Some(fd.as_raw_fd());
        if !is_pair {
            state.begin_call(Call::Seek);
        }
        if to == SeekFrom::Current(0) {
            state.position_read_of = Some(fd.as_raw_fd());
        }
        let cursor = state.descriptor(fd.as_raw_fd()).cursor;
        let Object::File(file) = state.object(fd) else {
            return Err(Errno::SPIPE);
        };
        let found = match to {
            SeekFrom::Start(position) => Ok(position),
            SeekFrom::Current(by) => cursor.checked_add_signed(by).ok_or(Errno::INVAL),
            SeekFrom::End(by) => file.size().checked_add_signed(by).ok_or(Errno::INVAL),
            SeekFrom::Data(position) => file.seek_extent(position, true),
            SeekFrom::Hole(position) => file.seek_extent(position, false),
        };
        let found = match to {
            SeekFrom::Data(_) | SeekFrom::Hole(_) => {
                let is_own = state.descriptor(fd.as_raw_fd()).is_own;
                assert!(is_own, "the caller's cursor is moved to look for holes");
                let found = state.inject(Call::SeekExtent, 1, &[], false).and(found);
                if let (Err(Errno::NXIO), Object::File(file)) = (found, state.object(fd)) {
                    file.resize_after_search();
                }
                state.log_call(Call::SeekExtent, found, |n| n as usize)
            }
            _ => found,
        };
        if let Ok(position) = found {
            if matches!(to, SeekFrom::Current(1..)) {
                state.reserved.insert(fd.as_raw_fd(), cursor..position);
            }
            state.descriptor_mut(fd.as_raw_fd()).cursor = position;
        }
        found
    }

    fn punch_hole(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let answer = state.inject(Call::PunchHole, 1, &[], false).map(|_| ());
        if let (Ok(()), Object::File(file)) = (answer, state.object(fd)) {
            file.punch(offset as usize, len as usize);
        }
        state.log_call(Call::PunchHole, answer, |()| 0)
    }

    fn write_out(&self, fd: BorrowedFd<'_>, _: u64, len: u64, _: WriteOut) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let mut answer = state
            .inject(Call::WriteOut, len as usize, &[], false)
            .map(|_| ());
        if answer.is_ok() && state.disk_fails {
            state.errors_reported.push((Side::Sink, Errno::IO));
            state.errors_by_fd.push((fd.as_raw_fd(), Errno::IO));
            answer = Err(Errno::IO);
        }
        state.log_call(Call::WriteOut, answer, |()| 0)
    }

    fn sync_data(&self, fd: BorrowedFd<'_>) -> Result<()> {
        let mut state = self.state.borrow_mut();
        let injection = state.inject(Call::SyncData, 1, &[], false).map(|_| ());
        let answer = match injection {
            Ok(()) if state.disk_fails => Err(Errno::IO),
            answer => answer,
        };
        if let Err(errno @ (Errno::IO | Errno::NOSPC | Errno::DQUOT)) = answer {
            state.errors_reported.push((Side::Sink, errno));
            state.errors_by_fd.push((fd.as_raw_fd(), errno));
        }
        state.log_call(Call::SyncData, answer, |()| 0)
    }

    fn drop_pages(&self, fd: BorrowedFd<'_>, offset: u64, len: u64) -> Result<()> {
        let mut state = self.state.borrow_mut();
        state.dropped.push((fd.as_raw_fd(), offset, len));
        Ok(())
    }

    fn read_single_pages(&self, _: BorrowedFd<'_>) -> Result<()> {
        Ok(())
    }

    fn page_size(&self) -> u64 {
        4096
    }

    fn poll(&self, fds: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize> {
        let mut state = self.state.borrow_mut();
        let answer = state.poll(fds, timeout);
        state.log_call(Call::Poll, answer, |n| n)
    }

    fn now(&self) -> Duration {
        self.state.borrow().clock
    }
    /// The state is not `Sync`.
    fn for_another_thread(&self) -> Option<impl Kernel + Send + 'static> {
        None::<Linux>
    }
}
