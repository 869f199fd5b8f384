//! The title of the process: the text that `ps` lists in place of the arguments.

use std::ffi::{CStr, c_char};
use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the environment has been moved, so that a title may use its bytes.
static ENVIRONMENT_IS_MOVED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// The environment of `environ(7)`, from which the C library and Rust's standard library read.
    static mut environ: *mut *mut c_char;
}

/// Copies the environment to the heap, so that a title may be as long as the arguments and the
/// environment together. Does nothing if the process has other threads, which could be reading the
/// environment.
pub(crate) fn make_room() {
    let is_alone = Stat::read().is_ok_and(|stat| stat.n_threads == 1);
    if !is_alone || ENVIRONMENT_IS_MOVED.swap(true, Ordering::Relaxed) {
        return;
    }
    let mut copies: Vec<*mut c_char> = Vec::new();
    // SAFETY: `environ` is null or points to an array of pointers to strings that ends with a null
    // pointer. No other thread exists, so nobody reads or changes it meanwhile. The copies and
    // their array live until the process ends. Neither library keeps pointers to the old strings.
    unsafe {
        let mut entry = environ;
        while !entry.is_null() && !(*entry).is_null() {
            copies.push(CStr::from_ptr(*entry).to_owned().into_raw());
            entry = entry.add(1);
        }
        copies.push(std::ptr::null_mut());
        environ = copies.leak().as_mut_ptr();
    }
}

/// Replaces the arguments of this process by `title`. Cuts the title off where the arguments ended,
/// or the environment after [`make_room`]. Reading the arguments afterwards returns the title.
///
/// # Errors
///
/// Returns an error if `/proc` does not give the address of the arguments.
pub(crate) fn replace_arguments(title: &[u8]) -> io::Result<()> {
    let stat = Stat::read()?;
    let begin = stat.arguments.0;
    let end = if ENVIRONMENT_IS_MOVED.load(Ordering::Relaxed) {
        stat.end_of_environment()
    } else {
        stat.arguments.1
    };
    let mut text = title.to_vec();
    // The last byte has to stay NUL. If the last byte of the arguments is not NUL, the kernel takes
    // the bytes up to the next NUL for the title.
    text.truncate(end - begin - 1);
    text.resize(end - begin, 0);
    let arguments = std::ptr::with_exposed_provenance_mut::<u8>(begin);
    // SAFETY: the kernel wrote the arguments, and the environment behind them, to these bytes of
    // the stack at the start of the process. The stack stays mapped and writable until the process
    // ends, and no Rust object lies there. Rust's standard library keeps pointers to the arguments
    // and copies them at each call of `args_os`. This crate makes such calls only while it parses
    // the command line and in `message::program`, which keeps its copy; both have returned before
    // anything sets a title. The environment is overwritten only after `make_room` has moved it.
    // The last byte is 0, so that later calls find strings that end.
    unsafe { std::ptr::copy_nonoverlapping(text.as_ptr(), arguments, text.len()) };
    Ok(())
}

/// What `/proc/self/stat` says (`proc_pid_stat(5)`).
struct Stat {
    n_threads: usize,
    /// The addresses at which the arguments begin and end. There is at least one byte.
    arguments: (usize, usize),
    /// The addresses at which the environment begins and ends, if they are known.
    environment: Option<(usize, usize)>,
}

impl Stat {
    fn read() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/self/stat")?;
        // The second field is the program's name, which may have parentheses and blanks itself.
        let (_, fields) = stat.rsplit_once(") ").unwrap_or_default();
        let field = |number: usize| fields.split_whitespace().nth(number - 3)?.parse().ok();
        match (field(20), field(48), field(49)) {
            (Some(n_threads), Some(begin), Some(end)) if 0 < begin && begin < end => Ok(Self {
                n_threads,
                arguments: (begin, end),
                environment: field(50).zip(field(51)),
            }),
            _ => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Returns the end of the environment if it follows the arguments, and otherwise that of the
    /// arguments.
    fn end_of_environment(&self) -> usize {
        let end = self.arguments.1;
        match self.environment {
            Some((begin, environment_end)) if begin == end => environment_end.max(end),
            _ => end,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that panics has failed")]
mod tests {
    #[test]
    fn the_arguments_are_where_the_kernel_says() {
        let (begin, end) = super::Stat::read().unwrap().arguments;
        let shown = std::fs::read("/proc/self/cmdline").unwrap();
        assert_eq!(end - begin, shown.len());
    }
}
