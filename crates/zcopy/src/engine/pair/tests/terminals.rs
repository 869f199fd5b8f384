//! Terminals do not delay a tick, because they are reopened in non-blocking mode.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::error::Error;
use crate::options::Options;
use crate::report::Report;
use crate::sim::SimKernel;
use crate::sim::objects::{Object, patterned};
use crate::sim::run::transfer;
use crate::sim::script::Call;
use crate::sys::OFlags;
use crate::{FanOut, Repeat};

const LEN: usize = 51_200;

/// The number of bytes that the library writes after each poll to a terminal that cannot be
/// reopened.
const WRITE_WITHOUT_REOPENING: usize = 256;

/// Writes [`LEN`] bytes to a terminal.
type Write = fn(&SimKernel, &OwnedFd, Options) -> Result<Report, Error>;

#[test]
fn a_ticking_transfer_writes_as_much_as_a_reopened_terminal_takes() {
    let writes: [(&str, Write); 3] = [
        ("transfer", by_transfer),
        ("fan-out", by_fan_out),
        ("repeat", by_repeat),
    ];
    for (name, write) in writes {
        for has_proc in [true, false] {
            let kernel = SimKernel::default();
            {
                let mut state = kernel.state.borrow_mut();
                state.has_proc = has_proc;
                state.may_sleep = false;
                // A terminal refuses `RWF_NOWAIT`.
                state.supports_nowait = false;
            }
            let terminal = kernel.sink(Object::terminal(), OFlags::empty());
            let options = Options {
                tick: Some(Duration::from_millis(10)),
                ..Options::default()
            };
            let report = write(&kernel, &terminal, options).unwrap();
            assert_eq!(report.bytes(), LEN as u64, "{name}");
            let writes = kernel.results(Call::Write);
            let longest = writes.into_iter().flatten().max().unwrap();
            if has_proc {
                assert!(longest > WRITE_WITHOUT_REOPENING, "{name}: {longest}");
            } else {
                assert_eq!(longest, WRITE_WITHOUT_REOPENING, "{name}");
            }
        }
    }
}

fn by_transfer(kernel: &SimKernel, sink: &OwnedFd, options: Options) -> Result<Report, Error> {
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::empty());
    transfer(kernel, (&source, sink), options)
}

fn by_fan_out(kernel: &SimKernel, sink: &OwnedFd, options: Options) -> Result<Report, Error> {
    let source = kernel.source(Object::file(&patterned(LEN)), OFlags::empty());
    let fan_out = FanOut::new(&source, sink).with_options(options);
    fan_out.run_with(kernel)
}

fn by_repeat(kernel: &SimKernel, sink: &OwnedFd, options: Options) -> Result<Report, Error> {
    let options = Options {
        limit: Some(LEN as u64),
        ..options
    };
    let repeat = Repeat::new("y\n").with_options(options);
    repeat.run_with(kernel, sink.as_fd())
}
