//! The traits of transfers, reports and errors: `Debug`, `Send`, `Sync`, and the conversion to
//! `io::Error`.

use std::fs::File;
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use zcopy::{
    Ended, ErrorKind, FanOut, FilterTransfer, Filtered, Input, Progressed, Session, Side, Sinks,
    Strategy, Transfer,
};

use crate::endpoints::{full, null, pipe};
use crate::files::{contents, file, write_all};
use crate::refused::needs;

/// Whether a type is `Send`. An inherent constant, which exists if the type is, hides that of the
/// trait.
macro_rules! is_send {
    ($type:ty) => {{
        #[allow(dead_code, reason = "the constant of `Ask` hides that of the trait")]
        trait Otherwise {
            const IS_SEND: bool = false;
        }
        impl<T: ?Sized> Otherwise for T {}

        struct Ask<T: ?Sized>(std::marker::PhantomData<T>);

        #[allow(dead_code, reason = "it does not exist for a type that is not `Send`")]
        impl<T: ?Sized + Send> Ask<T> {
            const IS_SEND: bool = true;
        }

        <Ask<$type>>::IS_SEND
    }};
}

/// Returns the error of 5 bytes that a full disk does not accept.
fn full_disk_error() -> zcopy::Error {
    let (source, writer) = pipe();
    assert!(write_all(&writer, b"hello"));
    zcopy::copy(&source, full()).unwrap_err()
}

/// Errors keep their kind and their details when they are converted to `io::Error`.
#[test]
fn an_error_survives_being_an_io_error() {
    let error = full_disk_error();
    assert_eq!(error.report().strategy(), Some(Strategy::Buffered));
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let inner = error.get_ref().unwrap().downcast_ref::<zcopy::Error>();
    assert_eq!(inner.unwrap().undelivered(), b"hello");
    let error = error.downcast::<zcopy::Error>().unwrap();
    assert_eq!(
        (error.kind(), error.raw_os_error()),
        (ErrorKind::CallFailed, Some(28))
    );
    assert_eq!(error.report().ended(), Ended::Failed);
    assert_eq!(error.into_undelivered(), b"hello");
}

/// Programs print the text of an error, or the texts of its chain.
#[test]
fn an_error_prints_its_cause_once_before_and_after_it_becomes_an_io_error() {
    const TEXT: &str = "write to the sink failed after 0 bytes";
    const CAUSE: &str = "No space left on device (os error 28)";
    let whole = format!("{TEXT}: {CAUSE}");

    assert_eq!(full_disk_error().to_string(), TEXT);
    assert_eq!(
        format!("{:#}", anyhow::Error::new(full_disk_error())),
        whole
    );

    let error = std::io::Error::from(full_disk_error());
    assert_eq!(error.to_string(), whole);
    assert_eq!(format!("{:#}", anyhow::Error::new(error)), whole);

    let error = std::io::Error::from(full_disk_error());
    let error = error.downcast::<zcopy::Error>().unwrap();
    assert_eq!(format!("{error:#}"), whole);
    assert_eq!(format!("{:#}", anyhow::Error::new(error)), whole);
}

/// A pipe, a stream, and datagrams, whose second error is another one.
#[test]
fn a_peer_that_has_gone_is_told_from_a_full_disk() {
    let zeros = File::open("/dev/zero").unwrap();
    let (reader, writer) = pipe();
    drop(reader);
    let (stream, peer) = UnixStream::pair().unwrap();
    drop(peer);
    let (datagrams, peer) = UnixDatagram::pair().unwrap();
    drop(peer);
    let gone: [(&dyn AsFd, &str); 4] = [
        (&writer, "pipe"),
        (&stream, "stream"),
        (&datagrams, "datagrams"),
        (&datagrams, "datagrams again"),
    ];
    for (sink, what) in gone {
        let error = Transfer::new(&zeros, sink).limit(100).run().unwrap_err();
        assert!(
            error.is_disconnected() && !error.is_timed_out(),
            "{what}: {error:#}"
        );
        assert_eq!(error.side(), Side::Sink, "{what}");
    }
    assert!(!full_disk_error().is_disconnected());
}

#[test]
fn the_time_out_of_a_socket_is_told_from_a_peer_that_has_gone() {
    let (source, _peer) = UnixStream::pair().unwrap();
    source
        .set_read_timeout(Some(Duration::from_millis(1)))
        .unwrap();
    let error = zcopy::copy(&source, null()).unwrap_err();
    assert!(
        error.is_timed_out() && !error.is_disconnected(),
        "{error:#}"
    );
    assert_eq!(error.io_error_kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn each_kind_of_error_has_its_cause() {
    let directory = File::open("/").unwrap();
    let (null, zeros) = (null(), File::open("/dev/zero").unwrap());
    let refused = zcopy::copy(&directory, &null).unwrap_err();
    let unsuitable = Transfer::new(&zeros, &null)
        .strategy(Strategy::Reflink)
        .run();
    let mut filter = FilterTransfer::new(&null, |_: Input<'_>, _: &mut [u8]| Filtered::NEED_MORE);
    let version = File::open("/proc/version").unwrap();
    filter.run(&version).unwrap();
    for (error, kind) in [
        (refused, ErrorKind::Refused),
        (unsuitable.unwrap_err(), ErrorKind::Unsuitable),
        (full_disk_error(), ErrorKind::CallFailed),
        (filter.finish().unwrap_err(), ErrorKind::FilterFailed),
    ] {
        assert_eq!(error.kind(), kind, "{error:#}");
        assert_eq!(error.is_refused(), kind == ErrorKind::Refused);
        assert_eq!(error.is_unsuitable(), kind == ErrorKind::Unsuitable);
    }
}

/// For one sink and for several. A limit of 0 leaves a plan, and nothing to try.
#[test]
fn a_report_names_no_strategy_if_the_input_was_refused() {
    let (directory, zeros, null) = (File::open("/").unwrap(), File::open("/dev/zero"), null());
    let zeros = zeros.unwrap();
    let error = zcopy::copy(&directory, &null).unwrap_err();
    assert_eq!(error.report().strategy(), None);
    let unsuitable = Transfer::new(&zeros, &null).strategy(Strategy::Reflink);
    assert_eq!(unsuitable.run().unwrap_err().report().strategy(), None);

    let several = Transfer::new(&zeros, &null).also_to(&directory);
    let error = several.run().unwrap_err();
    assert_eq!(error.report().strategy(), None);
    let sinks = error.report().sinks();
    assert_eq!(sinks.len(), 2);
    assert!(sinks.iter().all(|sink| sink.strategy().is_none()));
    let text = format!("{:#}", error.report());
    assert!(
        text.ends_with("\nsink 2: 0 bytes, ended by: Is a directory (os error 21)"),
        "{text}"
    );

    let nothing = Transfer::new(&zeros, &null).limit(0);
    let planned = nothing.plan().unwrap().strategy();
    assert_eq!(nothing.run().unwrap().strategy(), Some(planned));
}

/// Undelivered bytes may be long and private.
#[test]
fn debugging_prints_the_number_of_undelivered_bytes_and_not_the_bytes() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, &[123; 321]));
    let full = full();
    let error = Transfer::new(&source, &full).run().unwrap_err();
    for text in [
        format!("{error:?}"),
        format!("{:?}", error.report()),
        format!("{error:#?}"),
    ] {
        assert!(
            text.contains("321 bytes") && !text.contains("123"),
            "{text}"
        );
    }
    assert_eq!(error.into_report().into_undelivered(), [123; 321]);
}

#[test]
fn results_of_a_transfer_can_be_sent_to_another_thread() {
    fn assert_sendable<T: Send + Sync + 'static>() {}
    assert_sendable::<zcopy::Report>();
    assert_sendable::<zcopy::Error>();
    assert_sendable::<zcopy::Plan>();
    assert_sendable::<zcopy::Progress>();
    assert_sendable::<zcopy::Stop>();
}

#[test]
fn a_rate_limiter_is_shared_by_threads_through_its_clones() {
    fn assert_shareable<T: Clone + Send + Sync + 'static>() {}
    assert_shareable::<zcopy::RateLimiter>();
}

#[test]
fn a_transfer_that_owns_its_ends_can_be_sent_and_borrows_nothing() {
    fn assert_sendable<T: Send + 'static>() {}
    assert_sendable::<Transfer<'static, File, TcpStream>>();
    assert_sendable::<Session<'static, File, TcpStream>>();
    assert_sendable::<FanOut<'static, File>>();
    assert_sendable::<Session<'static, File, Sinks<'static>>>();
}

#[test]
fn a_transfer_with_an_end_that_cannot_be_sent_cannot_be_sent() {
    assert!(is_send!(Transfer<'static, File, OwnedFd>));
    assert!(!is_send!(Transfer<'static, Rc<File>, OwnedFd>));
    assert!(!is_send!(Transfer<'static, File, Rc<OwnedFd>>));
    assert!(is_send!(FanOut<'static, File>));
    assert!(!is_send!(FanOut<'static, Rc<File>>));
    assert!(is_send!(Session<'static, File, OwnedFd>));
    assert!(!is_send!(Session<'static, Rc<File>, OwnedFd>));
    assert!(!is_send!(Session<'static, File, Rc<OwnedFd>>));
}

/// A function returns transfers that own their ends and what their callbacks use; a queue stores
/// them, and another thread runs them.
#[test]
fn a_transfer_that_owns_its_ends_is_returned_queued_and_run_elsewhere() {
    type Job = Transfer<'static, OwnedFd, Arc<File>>;

    fn job(bytes: &[u8], sink: &Arc<File>, moved: &Arc<AtomicU64>) -> Job {
        let (source, writer) = pipe();
        assert!(write_all(&writer, bytes));
        let moved = Arc::clone(moved);
        Transfer::new(source, Arc::clone(sink)).observe(move |progress| {
            moved.fetch_add(progress.bytes(), Ordering::Relaxed);
            ControlFlow::Continue(())
        })
    }

    let (sink, moved) = (Arc::new(file(b"")), Arc::default());
    let (queue, jobs) = mpsc::channel();
    let worker = std::thread::spawn(move || {
        let reports = jobs.iter().map(|job: Job| job.run().unwrap());
        reports.map(|report| report.bytes()).collect::<Vec<_>>()
    });
    for bytes in [&b"one "[..], b"two ", b"three"] {
        queue.send(job(bytes, &sink, &moved)).unwrap();
    }
    drop(queue);
    assert_eq!(worker.join().unwrap(), [4, 4, 5]);
    assert_eq!(moved.load(Ordering::Relaxed), 13);
    assert_eq!(contents(&sink), b"one two three");
}

/// A session holds the bytes in flight when it goes to another thread between two steps.
#[test]
fn a_session_continues_in_another_thread() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, b"hello world"));
    drop(writer);
    let sink = Arc::new(file(b""));
    let mut session = Transfer::new(source, Arc::clone(&sink)).start().unwrap();
    let progressed = session.step(5).unwrap();
    // Without splice a step takes a whole packet, of which any pipe may hold some.
    if needs(&[Strategy::Splice]) {
        assert_eq!(progressed, Progressed::Moved(5));
    }
    let other = std::thread::spawn(move || {
        let ended = session.drive().unwrap();
        (ended, session.finish().unwrap().bytes())
    });
    assert_eq!(other.join().unwrap(), (Ended::Eof, 11));
    assert_eq!(contents(&sink), b"hello world");
}
