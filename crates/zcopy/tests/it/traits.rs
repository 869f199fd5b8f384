//! The traits of reports and errors: `Debug`, `Send`, `Sync`, and the conversion to `io::Error`.

use zcopy::{Strategy, Transfer};

use crate::endpoints::{full, pipe};
use crate::files::write_all;

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

/// A transfer borrows its descriptors and runs in one thread; its results can be sent.
#[test]
fn results_of_a_transfer_can_be_sent_to_another_thread() {
    fn assert_sendable<T: Send + Sync + 'static>() {}
    assert_sendable::<zcopy::Report>();
    assert_sendable::<zcopy::Error>();
    assert_sendable::<zcopy::Plan>();
    assert_sendable::<zcopy::Progress>();
}
