//! The errors that are injected into each call: those that its man page names, and five that any
//! call may meet, from a filter, a signal, a broken disk or a lack of memory.

use rustix::io::Errno as Number;

use crate::verdict::Errno;

/// Errors of every call.
const COMMON: &str = "ENOSYS EPERM EINTR EIO ENOMEM";

/// Further errors, by call, from the man pages (Linux 6.x). A line serves several calls.
const BY_CALL: &[(&str, &str)] = &[
    ("splice", "EAGAIN EBADF EINVAL ESPIPE ENOSPC EPIPE"),
    ("tee", "EAGAIN EINVAL"),
    ("sendfile", "EAGAIN EBADF EFAULT EINVAL EOVERFLOW ESPIPE"),
    (
        "copy_file_range",
        "EBADF EFBIG EINVAL EISDIR ENOSPC EOPNOTSUPP EOVERFLOW ETXTBSY EXDEV",
    ),
    // ioctl_ficlonerange(2) and ioctl_tty(2)
    (
        "ioctl",
        "EBADF EINVAL EISDIR ENOTTY EOPNOTSUPP ETXTBSY EXDEV",
    ),
    (
        "read recvfrom recvmsg readv",
        "EAGAIN EBADF EFAULT EINVAL EISDIR ECONNRESET",
    ),
    (
        "write sendto sendmsg writev",
        "EAGAIN EBADF ECONNRESET EDQUOT EFAULT EFBIG EINVAL ENOSPC EPIPE",
    ),
    (
        "pread64 preadv preadv2",
        "EAGAIN EBADF EINVAL EISDIR ENXIO EOVERFLOW ESPIPE EOPNOTSUPP",
    ),
    (
        "pwrite64 pwritev pwritev2",
        "EAGAIN EBADF EDQUOT EFBIG EINVAL ENOSPC ENXIO EOVERFLOW EPIPE ESPIPE EOPNOTSUPP",
    ),
    ("pipe2 pipe", "EINVAL EMFILE ENFILE"),
    ("fcntl", "EACCES EAGAIN EBADF EBUSY EINVAL EMFILE ENOLCK"),
    (
        "fstat newfstatat statx stat lstat",
        "EACCES EBADF EINVAL ELOOP ENAMETOOLONG ENOENT ENOTDIR EOVERFLOW",
    ),
    // Not `ENXIO`, which says that no data follow.
    ("lseek", "EBADF EINVAL EOVERFLOW ESPIPE"),
    ("ftruncate", "EBADF EFBIG EINVAL EROFS ETXTBSY"),
    (
        "fallocate",
        "EBADF EFBIG EINVAL ENODEV ENOSPC EOPNOTSUPP ESPIPE ETXTBSY",
    ),
    (
        "fsync fdatasync syncfs sync_file_range",
        "EBADF EDQUOT EINVAL ENOSPC EROFS",
    ),
    (
        "openat openat2 open",
        "EACCES EAGAIN EBUSY EDQUOT EEXIST EINVAL EISDIR ELOOP EMFILE ENFILE ENODEV ENOENT ENOSPC ENOTDIR ENXIO \
         EOPNOTSUPP EOVERFLOW EROFS ETXTBSY EXDEV",
    ),
    (
        "mkdirat mkdir",
        "EACCES EDQUOT EEXIST EINVAL ELOOP EMLINK ENOENT ENOSPC ENOTDIR EROFS",
    ),
    (
        "renameat2 renameat rename",
        "EACCES EBUSY EDQUOT EEXIST EINVAL EISDIR ELOOP EMLINK ENOENT ENOSPC ENOTDIR ENOTEMPTY EROFS EXDEV",
    ),
    (
        "linkat symlinkat",
        "EACCES EDQUOT EEXIST ELOOP EMLINK ENOENT ENOSPC ENOTDIR EROFS EXDEV",
    ),
    (
        "unlinkat unlink",
        "EACCES EBUSY EISDIR ELOOP ENOENT ENOTDIR EROFS",
    ),
    (
        "utimensat",
        "EACCES EBADF EINVAL ELOOP ENOENT ENOTDIR EROFS",
    ),
    (
        "fchmod fchmodat fchmodat2 fchown fchownat",
        "EBADF EROFS EOPNOTSUPP",
    ),
    (
        "fsetxattr flistxattr fgetxattr setxattr",
        "EDQUOT EEXIST ENODATA ENOSPC EOPNOTSUPP ERANGE",
    ),
    // Not `ENOENT`, which ends a directory that has been removed, for readdir(3) as well.
    ("getdents64", "EBADF EINVAL ENOTDIR"),
    ("poll ppoll", "EFAULT EINVAL"),
    ("close", "EBADF EDQUOT ENOSPC"),
    (
        "accept4 accept",
        "EAGAIN EBADF ECONNABORTED EINVAL EMFILE ENFILE ENOBUFS EPROTO",
    ),
    (
        "connect",
        "EACCES EADDRINUSE EADDRNOTAVAIL EAGAIN EBADF ECONNREFUSED ENETUNREACH ETIMEDOUT",
    ),
    (
        "bind listen",
        "EACCES EADDRINUSE EADDRNOTAVAIL EBADF EINVAL",
    ),
    (
        "socket socketpair",
        "EACCES EAFNOSUPPORT EINVAL EMFILE ENFILE ENOBUFS",
    ),
    (
        "setsockopt getsockopt getsockname getpeername",
        "EBADF EINVAL ENOBUFS ENOPROTOOPT ENOTCONN",
    ),
    // Not `ENOTCONN`, which says that the peer has left.
    ("shutdown", "EBADF EINVAL"),
    ("fadvise64", "EBADF EINVAL ESPIPE"),
    ("clone clone3 vfork", "EAGAIN EINVAL"),
    ("prlimit64", "EFAULT EINVAL"),
    ("flock", "EBADF EAGAIN EINVAL ENOLCK"),
];

/// The errors of a call, with the common ones first.
pub(super) fn of_call(call: &str) -> Vec<Errno> {
    let named = BY_CALL
        .iter()
        .find(|(calls, _)| calls.split(' ').any(|name| name == call));
    let named = named.map_or("EBADF EINVAL EACCES", |(_, errnos)| errnos);
    let all = COMMON.split_whitespace().chain(named.split_whitespace());
    all.filter_map(by_name).collect()
}

/// An error by its name.
pub(super) fn by_name(name: &str) -> Option<Errno> {
    let (name, number) = NUMBERS.iter().find(|(known, _)| *known == name)?;
    Some(Errno {
        name,
        number: number.raw_os_error(),
    })
}

const NUMBERS: &[(&str, Number)] = &[
    ("EACCES", Number::ACCESS),
    ("EADDRINUSE", Number::ADDRINUSE),
    ("EADDRNOTAVAIL", Number::ADDRNOTAVAIL),
    ("EAFNOSUPPORT", Number::AFNOSUPPORT),
    ("EAGAIN", Number::AGAIN),
    ("EBADF", Number::BADF),
    ("EBUSY", Number::BUSY),
    ("ECONNABORTED", Number::CONNABORTED),
    ("ECONNREFUSED", Number::CONNREFUSED),
    ("ECONNRESET", Number::CONNRESET),
    ("EDQUOT", Number::DQUOT),
    ("EEXIST", Number::EXIST),
    ("EFAULT", Number::FAULT),
    ("EFBIG", Number::FBIG),
    ("EINTR", Number::INTR),
    ("EINVAL", Number::INVAL),
    ("EIO", Number::IO),
    ("EISDIR", Number::ISDIR),
    ("ELOOP", Number::LOOP),
    ("EMFILE", Number::MFILE),
    ("EMLINK", Number::MLINK),
    ("ENAMETOOLONG", Number::NAMETOOLONG),
    ("ENETUNREACH", Number::NETUNREACH),
    ("ENFILE", Number::NFILE),
    ("ENOBUFS", Number::NOBUFS),
    ("ENODATA", Number::NODATA),
    ("ENODEV", Number::NODEV),
    ("ENOENT", Number::NOENT),
    ("ENOLCK", Number::NOLCK),
    ("ENOMEM", Number::NOMEM),
    ("ENOPROTOOPT", Number::NOPROTOOPT),
    ("ENOSPC", Number::NOSPC),
    ("ENOSYS", Number::NOSYS),
    ("ENOTCONN", Number::NOTCONN),
    ("ENOTDIR", Number::NOTDIR),
    ("ENOTEMPTY", Number::NOTEMPTY),
    ("ENOTTY", Number::NOTTY),
    ("ENXIO", Number::NXIO),
    ("EOPNOTSUPP", Number::OPNOTSUPP),
    ("EOVERFLOW", Number::OVERFLOW),
    ("EPERM", Number::PERM),
    ("EPIPE", Number::PIPE),
    ("EPROTO", Number::PROTO),
    ("ERANGE", Number::RANGE),
    ("EROFS", Number::ROFS),
    ("ESPIPE", Number::SPIPE),
    ("ETIMEDOUT", Number::TIMEDOUT),
    ("ETXTBSY", Number::TXTBSY),
    ("EXDEV", Number::XDEV),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_table_has_a_number_and_comes_once() {
        for (calls, errnos) in BY_CALL {
            let all: Vec<_> = COMMON
                .split_whitespace()
                .chain(errnos.split_whitespace())
                .collect();
            for name in &all {
                assert!(by_name(name).is_some(), "{name}");
                assert_eq!(
                    all.iter().filter(|other| *other == name).count(),
                    1,
                    "{calls}: {name}"
                );
            }
        }
    }

    #[test]
    fn a_call_without_a_row_gets_the_common_errors_too() {
        let names: Vec<_> = of_call("accept4").iter().map(|errno| errno.name).collect();
        assert_eq!(names[..5], ["ENOSYS", "EPERM", "EINTR", "EIO", "ENOMEM"]);
    }
}
