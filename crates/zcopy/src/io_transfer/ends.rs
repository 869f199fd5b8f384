//! The ends of an [`IoTransfer`] that are no descriptors.

#[cfg(doc)]
use crate::{IoTransfer, Transfer};

/// The source of an [`IoTransfer`]: a reader, as [`Transfer::from_reader`] takes it.
///
/// Only the types of variables and fields need its name.
///
/// # Examples
///
/// ```
/// use std::fs::File;
/// use std::io::Cursor;
/// use zcopy::{FromReader, IoTransfer, Transfer};
///
/// type Job = IoTransfer<'static, FromReader<Cursor<Vec<u8>>>, File>;
///
/// let job: Job = Transfer::from_reader(Cursor::new(vec![7; 1000]), File::create("/dev/null")?);
/// let worker = std::thread::spawn(|| job.run());
/// assert_eq!(worker.join().expect("the worker does not panic")?.bytes(), 1000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct FromReader<R>(pub(crate) R);

/// The sink of an [`IoTransfer`]: a writer, as [`Transfer::to_writer`] takes it.
///
/// Only the types of variables and fields need its name.
///
/// # Examples
///
/// ```
/// use std::fs::File;
/// use std::io::Sink;
/// use zcopy::{IoTransfer, ToWriter, Transfer};
///
/// type Job = IoTransfer<'static, File, ToWriter<Sink>>;
///
/// let job: Job = Transfer::to_writer(File::open("/dev/zero")?, std::io::sink()).limit(1000);
/// let worker = std::thread::spawn(|| job.run());
/// assert_eq!(worker.join().expect("the worker does not panic")?.bytes(), 1000);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ToWriter<W>(pub(crate) W);
