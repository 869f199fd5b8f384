//! Where bytes wait for all sinks.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::end::End;
use crate::endpoint::Endpoint;
use crate::engine::fan_out::hub::{Form, Hub};
use crate::pipe::{self, Pipe};
use crate::route::Route;
use crate::scripted::Scripted;
use crate::scripted::objects::{Object, patterned};
use crate::scripted::script::Call;
use crate::side::Side;
use crate::step::Step;
use crate::sys::{OFlags, Patience};

/// Another reader of the same socket may have taken what came behind an urgent mark. Where the kernel cannot be told not to
/// wait, a read would sleep.
#[test]
fn a_stream_is_not_read_past_its_mark_before_it_answers() {
    let kernel = Scripted::default();
    kernel.state.borrow_mut().may_sleep = false;
    kernel.state.borrow_mut().knows_nowait = false;
    let source = Object::feeding(true, &patterned(1000), &[]).slowly(Duration::from_secs(5));
    let source = kernel.source(source, OFlags::empty());
    let sink = kernel.sink(Object::Null(Vec::new()), OFlags::empty());
    let [from, to] = [&source, &sink].map(|fd| {
        let endpoint = Endpoint::of(&&kernel, fd.as_fd()).unwrap();
        End::new(fd.as_fd(), endpoint, None)
    });
    let mut hub = Hub {
        form: Form::Pipe,
        route: Route::new(from, to),
        head: 0,
        surplus: Vec::new(),
    };
    hub.route.pipe = Some(Pipe::open(&&kernel, pipe::WANTED).unwrap());
    let answer = hub.fill_by_read(&&kernel, 1000, Patience::NoWait).unwrap();
    assert_eq!(answer, Some(Step::Blocked(Side::Source)));
    assert!(kernel.answers(Call::Read).is_empty());
}
