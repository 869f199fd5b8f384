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
///     fn filter(&mut self, input: Input<'_>, output: &mut [u8]) -> Filtered {
///         let consumed = input.bytes.len().min(output.len());
///         let kept = input.bytes[..consumed].iter().filter(|byte| **byte != 0);
///         let produced = output.iter_mut().zip(kept).map(|(to, from)| *to = *from).count();
///         Filtered { consumed, produced }
///     }
/// }
///
/// let mut output = [0; 8];
/// let input = Input::new(b"a\0b", Remaining::End);
/// let filtered = WithoutZeros.filter(input, &mut output);
/// assert_eq!(filtered, Filtered { consumed: 3, produced: 2 });
/// assert_eq!(&output[..2], b"ab");
/// ```
pub trait Filter {
    /// Consumes bytes at the start of `input.bytes`, and writes what they become to the start of
    /// `output`.
    ///
    /// The transfer calls the filter again with the bytes that it has not consumed, until it
    /// returns [`Filtered::NEED_MORE`]. Then the transfer writes all output to the sink, reads from
    /// the source, and calls the filter with the unconsumed bytes, followed by the new ones. It
    /// also writes output between two calls, when little space is left for more.
    ///
    /// If a write fails, the transfer ends. Of the unconsumed bytes, those of a file are read again
    /// in a later run of that file, and those of a pipe or socket are
    /// [kept](crate::FilterTransfer::pending_input) for a later run.
    ///
    /// `output` has at least 64 KiB, all of which the filter may overwrite. Its previous content
    /// has no meaning, and the transfer ignores the bytes behind the produced ones.
    fn filter(&mut self, input: Input<'_>, output: &mut [u8]) -> Filtered;
}

/// The input of a [`Filter`].
///
/// The transfer makes it. A test of a filter makes one by [`Input::new`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Input<'a> {
    /// Bytes that have been read and not consumed, in order.
    pub bytes: &'a [u8],
    /// Whether more bytes can follow.
    pub remaining: Remaining,
}

impl<'a> Input<'a> {
    /// Returns an input, to call a filter without a transfer.
    ///
    /// # Examples
    ///
    /// ```
    /// use zcopy::{Filter, Filtered, Input, Remaining};
    ///
    /// let mut discard = |input: Input<'_>, _: &mut [u8]| Filtered {
    ///     consumed: input.bytes.len(),
    ///     produced: 0,
    /// };
    /// let filtered = discard.filter(Input::new(b"hello", Remaining::End), &mut []);
    /// assert_eq!(filtered.consumed, 5);
    /// ```
    #[must_use]
    pub const fn new(bytes: &'a [u8], remaining: Remaining) -> Self {
        Self { bytes, remaining }
    }
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
    /// The number of bytes at the start of the input that the filter no longer needs.
    pub consumed: usize,
    /// The number of bytes that the filter has written to the start of `output`.
    pub produced: usize,
}

impl Filtered {
    /// The filter needs more input: it has consumed nothing and produced nothing.
    pub const NEED_MORE: Self = Self {
        consumed: 0,
        produced: 0,
    };
}

impl<F: FnMut(Input<'_>, &mut [u8]) -> Filtered> Filter for F {
    fn filter(&mut self, input: Input<'_>, output: &mut [u8]) -> Filtered {
        self(input, output)
    }
}
