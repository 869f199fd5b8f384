//! Where a call has its count: in a register, or in the `iov_len` of the program's memory.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::ptr;

use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace;
use nix::unistd::Pid;

use crate::tracer::{Amount, Call};

/// A count that is lower than the program asked for, and what puts it back.
#[derive(Debug)]
pub(super) struct Lowered {
    pub(super) fds: String,
    pub(super) from: u64,
    pub(super) to: u64,
    /// The value of the count register.
    register: u64,
    /// The address of the `iov_len` that was lowered, and what it held.
    memory: Option<(u64, u64)>,
}

/// The decision of the tracer at the entry of a call.
#[derive(Debug)]
pub(super) enum Entry {
    Lowered(Lowered),
    /// The call asks for no more than the lower count.
    Low,
    /// A descriptor that accepts no lower count.
    LeftAlone,
}

/// The call that the registers enter or leave.
pub(super) fn call(registers: &user_regs_struct) -> Option<Call> {
    Some(match i64::try_from(registers.orig_rax).ok()? {
        libc::SYS_read => Call::Read,
        libc::SYS_write => Call::Write,
        libc::SYS_pread64 => Call::Pread64,
        libc::SYS_pwrite64 => Call::Pwrite64,
        libc::SYS_readv => Call::Readv,
        libc::SYS_writev => Call::Writev,
        libc::SYS_preadv => Call::Preadv,
        libc::SYS_pwritev => Call::Pwritev,
        libc::SYS_preadv2 => Call::Preadv2,
        libc::SYS_pwritev2 => Call::Pwritev2,
        libc::SYS_splice => Call::Splice,
        libc::SYS_tee => Call::Tee,
        libc::SYS_sendfile => Call::Sendfile,
        libc::SYS_copy_file_range => Call::CopyFileRange,
        _ => return None,
    })
}

/// Whether the program reads its own list of mappings, as Rust's runtime does before `main`.
pub(super) fn is_own_maps(thread: Pid, call: Call, registers: &user_regs_struct) -> bool {
    let link = || fs::read_link(format!("/proc/{thread}/fd/{}", registers.rdi));
    call == Call::Read
        && link().is_ok_and(|target| target == Path::new(&format!("/proc/{thread}/maps")))
}

/// Lowers the count of the call that `thread` enters.
pub(super) fn lower(
    thread: Pid,
    mut registers: user_regs_struct,
    call: Call,
    amount: Amount,
) -> nix::Result<Entry> {
    let fds = fds(call, &registers);
    let kinds: Vec<Kind> = fds.iter().map(|&fd| Kind::of(thread, fd)).collect();
    let register = *count_register(call, &mut registers);
    let from = if call.is_vectored() {
        let lengths = lengths(thread, &registers)?;
        lengths.iter().map(|&(_, len)| len).sum()
    } else {
        register
    };
    if kinds.contains(&Kind::Event) {
        return Ok(Entry::LeftAlone);
    }
    let direct = kinds.contains(&Kind::Direct);
    let Some(to) = amount.of(from, direct) else {
        let is_one_block = direct && amount.of(from, false).is_some();
        return Ok(if is_one_block {
            Entry::LeftAlone
        } else {
            Entry::Low
        });
    };

    let memory = if call.is_vectored() {
        let (vectors, address, len, lower) = last_vector(&lengths(thread, &registers)?, to);
        *count_register(call, &mut registers) = vectors;
        write(thread, address, lower)?;
        Some((address, len))
    } else {
        *count_register(call, &mut registers) = to;
        None
    };
    ptrace::setregs(thread, registers)?;
    let fds: Vec<String> = fds.iter().map(|&fd| describe(thread, fd)).collect();
    Ok(Entry::Lowered(Lowered {
        fds: fds.join(", "),
        from,
        to,
        register,
        memory,
    }))
}

impl Lowered {
    /// Puts back what the program had in its register and memory, at the call's exit.
    pub(super) fn restore(
        &self,
        thread: Pid,
        mut registers: user_regs_struct,
        call: Call,
    ) -> nix::Result<()> {
        if let Some((address, len)) = self.memory {
            write(thread, address, len)?;
        }
        *count_register(call, &mut registers) = self.register;
        ptrace::setregs(thread, registers)
    }
}

/// The register that holds the count, or the number of vectors.
fn count_register(call: Call, registers: &mut user_regs_struct) -> &mut u64 {
    match call {
        Call::Splice | Call::CopyFileRange => &mut registers.r8,
        Call::Sendfile => &mut registers.r10,
        _ => &mut registers.rdx,
    }
}

/// The descriptors that bytes move between.
fn fds(call: Call, registers: &user_regs_struct) -> Vec<u64> {
    match call {
        Call::Splice | Call::CopyFileRange => vec![registers.rdi, registers.rdx],
        Call::Tee | Call::Sendfile => vec![registers.rdi, registers.rsi],
        _ => vec![registers.rdi],
    }
}

/// The address and the value of each `iov_len`.
fn lengths(thread: Pid, registers: &user_regs_struct) -> nix::Result<Vec<(u64, u64)>> {
    // struct iovec { void *iov_base; size_t iov_len; }, of which the kernel takes IOV_MAX at most.
    let vectors = registers.rdx.min(1024);
    (0..vectors)
        .map(|n| {
            let address = registers.rsi.wrapping_add(n * 16 + 8);
            read(thread, address).map(|len| (address, len))
        })
        .collect()
}

/// How many vectors hold `to` bytes; and of the last one the address of its length, the length, and
/// the lower one.
///
/// `to` is at least 1 and less than the sum.
fn last_vector(lengths: &[(u64, u64)], to: u64) -> (u64, u64, u64, u64) {
    let (mut vectors, mut before) = (0, 0);
    for &(address, len) in lengths {
        vectors += 1;
        if before + len >= to {
            return (vectors, address, len, to - before);
        }
        before += len;
    }
    unreachable!("{to} bytes are less than {lengths:?} hold")
}

fn read(thread: Pid, address: u64) -> nix::Result<u64> {
    ptrace::read(thread, pointer(address)?).map(i64::cast_unsigned)
}

fn write(thread: Pid, address: u64, value: u64) -> nix::Result<()> {
    ptrace::write(thread, pointer(address)?, value.cast_signed())
}

/// An address of the traced program, as ptrace(2) takes it.
fn pointer(address: u64) -> nix::Result<*mut libc::c_void> {
    let address = usize::try_from(address).map_err(|_| Errno::EFAULT)?;
    Ok(ptr::without_provenance_mut(address))
}

/// The kind of a descriptor, as far as it matters to counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A file or block device with `O_DIRECT`.
    Direct,
    /// An eventfd, a timerfd, a signalfd or the like.
    Event,
    Other,
}

impl Kind {
    /// Classifies a descriptor. A closed one is `Other`.
    fn of(thread: Pid, fd: u64) -> Kind {
        let link = format!("/proc/{thread}/fd/{fd}");
        let target = fs::read_link(&link).unwrap_or_default();
        if target.to_string_lossy().starts_with("anon_inode:") {
            return Kind::Event;
        }
        // On a pipe, O_DIRECT means packets.
        let has_blocks = fs::metadata(&link)
            .is_ok_and(|metadata| metadata.is_file() || metadata.file_type().is_block_device());
        if has_blocks && flags(thread, fd).is_some_and(|flags| flags & libc::O_DIRECT != 0) {
            return Kind::Direct;
        }
        Kind::Other
    }
}

/// The flags of an open file.
fn flags(thread: Pid, fd: u64) -> Option<i32> {
    let info = fs::read_to_string(format!("/proc/{thread}/fdinfo/{fd}")).ok()?;
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
    i32::from_str_radix(flags.trim(), 8).ok()
}

fn describe(thread: Pid, fd: u64) -> String {
    match fs::read_link(format!("/proc/{thread}/fd/{fd}")) {
        Ok(target) => format!("{fd} ({})", target.display()),
        Err(_) => format!("{fd}"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use nix::sys::ptrace::Options;
    use nix::sys::signal::{Signal, kill};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};

    use super::*;
    use crate::tracer::command;

    /// The registers that a call preserves: all but `rax`, `rcx` and `r11`.
    fn preserved(registers: &user_regs_struct) -> [u64; 11] {
        let r = registers;
        [
            r.rdi, r.rsi, r.rdx, r.r10, r.r8, r.r9, r.rbx, r.rbp, r.rsp, r.rip, r.r12,
        ]
    }

    #[test]
    fn after_the_call_all_registers_hold_what_they_held_before() {
        let mut dd = command("dd");
        dd.args(["if=/dev/zero", "bs=1000", "count=1"]);
        dd.stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = dd.spawn().unwrap();
        let dd = Pid::from_raw(child.id().cast_signed());
        let stopped = waitpid(dd, Some(WaitPidFlag::WUNTRACED)).unwrap();
        assert_eq!(stopped, WaitStatus::Stopped(dd, Signal::SIGSTOP));
        let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_EXITKILL;
        ptrace::seize(dd, options).unwrap();
        kill(dd, Signal::SIGCONT).unwrap();

        let mut before = None;
        loop {
            let signal = match waitpid(dd, None).unwrap() {
                WaitStatus::Stopped(_, signal) => Some(signal),
                WaitStatus::PtraceEvent(..) => None,
                WaitStatus::PtraceSyscall(_) => {
                    let registers = ptrace::getregs(dd).unwrap();
                    if let Some((held, lowered)) = before.take() {
                        let lowered: Lowered = lowered;
                        assert_eq!((registers.rdx, registers.rax), (500, 500));
                        lowered.restore(dd, registers, Call::Write).unwrap();
                        let restored = ptrace::getregs(dd).unwrap();
                        assert_eq!(preserved(&restored), held);
                        assert_eq!(restored.rax, 500);
                        break;
                    }
                    if call(&registers) == Some(Call::Write) {
                        let entry = lower(dd, registers, Call::Write, Amount::Half).unwrap();
                        let Entry::Lowered(lowered) = entry else {
                            panic!("{entry:?}");
                        };
                        before = Some((preserved(&registers), lowered));
                    }
                    None
                }
                status => panic!("{status:?}"),
            };
            ptrace::syscall(dd, signal).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn the_last_vector_is_the_one_that_the_lower_count_ends_in() {
        let lengths = [(8, 300), (24, 0), (40, 600), (56, 100)];
        assert_eq!(last_vector(&lengths, 1), (1, 8, 300, 1));
        assert_eq!(last_vector(&lengths, 300), (1, 8, 300, 300));
        assert_eq!(last_vector(&lengths, 301), (3, 40, 600, 1));
        assert_eq!(last_vector(&lengths, 999), (4, 56, 100, 99));
    }
}
