//! The trait [`Filter`], its input and its result.

/// Turns the bytes of a source into the bytes of a sink, for a
/// [`FilterTransfer`](crate::FilterTransfer).
///
/// A closure with the arguments of [`filter`](Self::filter) is a filter too.
///
/// # Examples
///
/// ```
/// use zcopy::{Filter, Filtered, Input, Remaining};
///
/// /// Removes every zero byte.
/// struct WithoutZeros;
///
/// impl Filter for WithoutZeros {
///     fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
///         let consumed = input.bytes.len().min(room.len());
///         let kept = input.bytes[..consumed].iter().filter(|byte| **byte != 0);
///         let produced = room.iter_mut().zip(kept).map(|(to, from)| *to = *from).count();
///         Filtered { consumed, produced }
///     }
/// }
///
/// let mut room = [0; 8];
/// let input = Input { bytes: b"a\0b", remaining: Remaining::End };
/// let filtered = WithoutZeros.filter(input, &mut room);
/// assert_eq!(filtered, Filtered { consumed: 3, produced: 2 });
/// assert_eq!(&room[..2], b"ab");
/// ```
pub trait Filter {
    /// Consumes bytes at the start of `input.bytes` and writes their replacement to the start of
    /// `room`.
    ///
    /// It is called again, with the bytes that it has not consumed, until it returns
    /// [`Filtered::NEED_MORE`]. Everything that it has produced is then written to the sink, if it
    /// was not before. After the next read the filter is called with the bytes that it left,
    /// followed by the new ones. If the sink has failed, the bytes that it left may never be passed
    /// again, or only in a later run.
    ///
    /// `room` holds at least 64 KiB, all of which may be overwritten in each call. Its previous
    /// content has no meaning, and bytes behind the produced ones are discarded.
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered;
}

/// The input of a [`Filter`].
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes that have been read and not consumed, in order.
    pub bytes: &'a [u8],
    /// Whether more bytes can follow.
    pub remaining: Remaining,
}

/// Whether more bytes can follow the [input](Input) of a [`Filter`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remaining {
    /// More may follow, from this source or the next one.
    More,
    /// More may follow, but the buffer is full: the filter has to consume some of these bytes,
    /// which are 64 KiB or more. A filter receives this only after it has returned
    /// [`Filtered::NEED_MORE`].
    Full,
    /// These bytes are the last. The filter has to consume all of them.
    End,
}

/// How many bytes a [`Filter`] has consumed and produced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Bytes of the input that the filter no longer needs.
    pub consumed: usize,
    /// Bytes that the filter has written to the start of `room`.
    pub produced: usize,
}

impl Filtered {
    /// The filter needs more input.
    pub const NEED_MORE: Self = Self {
        consumed: 0,
        produced: 0,
    };
}

impl<F: FnMut(Input<'_>, &mut [u8]) -> Filtered> Filter for F {
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered {
        self(input, room)
    }
}
