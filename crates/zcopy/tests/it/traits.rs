//! The traits of transfers, reports and errors: `Debug`, `Send`, `Sync`, and the conversion to
//! `io::Error`.

use std::fs::File;
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use zcopy::{Ended, Progressed, Session, Strategy, Transfer};

use crate::endpoints::{full, pipe};
use crate::files::{contents, file, write_all};

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

/// Errors keep their kind and their details when they are converted to `io::Error`.
#[test]
fn an_error_survives_being_an_io_error() {
    let (source, writer) = pipe();
    assert!(write_all(&writer, b"hello"));
    let full = full();
    let error = zcopy::copy(&source, &full).unwrap_err();
    assert_eq!(error.report().strategy(), Strategy::Buffered);
    let error = std::io::Error::from(error);
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    let inner = error.get_ref().unwrap().downcast_ref::<zcopy::Error>();
    assert_eq!(inner.unwrap().undelivered(), b"hello");
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
}

#[test]
fn a_transfer_with_an_end_that_cannot_be_sent_cannot_be_sent() {
    assert!(is_send!(Transfer<'static, File, OwnedFd>));
    assert!(!is_send!(Transfer<'static, Rc<File>, OwnedFd>));
    assert!(!is_send!(Transfer<'static, File, Rc<OwnedFd>>));
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
    assert_eq!(session.step(5).unwrap(), Progressed::Moved(5));
    let other = std::thread::spawn(move || {
        let ended = session.drive().unwrap();
        (ended, session.finish().unwrap().bytes())
    });
    assert_eq!(other.join().unwrap(), (Ended::Eof, 11));
    assert_eq!(contents(&sink), b"hello world");
}
