//! The backlog, in which bytes wait for all sinks.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::copy_state::CopyState;
use crate::endpoint::Endpoint;
use crate::engine::fan_out::backlog::{Backlog, Storage};
use crate::fd_info::FdInfo;
use crate::pipe::{self, Pipe};
use crate::side::Side;
use crate::sim::SimKernel;
use crate::sim::objects::{Object, patterned};
use crate::sim::script::Call;
use crate::step::Step;
use crate::sys::{Blocking, OFlags};

/// Another reader of the same socket may have taken the bytes behind an urgent byte. Without
/// `RWF_NOWAIT` a read would then sleep.
#[test]
fn a_stream_is_not_read_past_its_mark_before_it_answers() {
    let kernel = SimKernel::default();
    kernel.state.borrow_mut().may_sleep = false;
    kernel.state.borrow_mut().supports_nowait = false;
    let source =
        Object::written_by_peer(true, &patterned(1000), &[]).with_delay(Duration::from_secs(5));
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
    let [from, to] = [&source, &sink].map(|fd| {
        let info = FdInfo::of(&&kernel, fd.as_fd()).unwrap();
        Endpoint::new(fd.as_fd(), info, None)
    });
    let mut backlog = Backlog {
        storage: Storage::Pipe,
        state: CopyState::new(from, to),
        head_position: 0,
        surplus: Vec::new(),
    };
    backlog.state.pipe = Some(Pipe::open(&&kernel, pipe::WANTED).unwrap());
    let answer = backlog
        .fill_by_read(&&kernel, 1000, Blocking::Nonblocking)
        .unwrap();
    assert_eq!(answer, Step::Blocked(Some(Side::Source)));
    assert!(kernel.results(Call::Read).is_empty());
}
