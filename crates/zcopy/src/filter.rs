//! What becomes of bytes on their way: [`Filter`], what it is shown, and what it answers.

/// Makes a sink's bytes out of a source's: what [`FilterTransfer`](crate::FilterTransfer) is given.
///
/// A closure that takes the same arguments is one too.
///
/// # Examples
///
/// See [`FilterTransfer`](crate::FilterTransfer).
pub trait Filter {
    /// Takes the beginning of `input`, and makes bytes of it at the beginning of `room`.
    ///
    /// Then it is asked again, with what it did not take, until it answers [`Filtered::NEED_MORE`]: that it needs more
    /// than it is shown. What it has made goes to the sink by then, if not before. Later what it has left is shown
    /// again, followed by what has come; but if a sink has failed, what it has left may be shown never, or another time.
    ///
    /// `room` holds at least 64 KiB, and the whole of it is free each time. What it holds beforehand means nothing, and whatever
    /// is put behind what was made is forgotten.
    fn filter(&mut self, input: Input<'_>, room: &mut [u8]) -> Filtered;
}

/// What a [`Filter`] is shown.
///
/// # Examples
///
/// See [`FilterTransfer`](crate::FilterTransfer).
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes that have been read and not been taken yet, in order.
    pub bytes: &'a [u8],
    /// What is to be expected after them.
    pub remaining: Remaining,
}

/// What follows the bytes that a [`Filter`] is shown.
///
/// # Examples
///
/// See [`FilterTransfer`](crate::FilterTransfer).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remaining {
    /// More may come, if only from the next source.
    More,
    /// More may come, but there is no place for it: of these, 64 KiB or more, something has to be taken. Said
    /// only to a filter that has just asked for more.
    Full,
    /// Nothing: these are the last, and all of them have to be taken.
    End,
}

/// What a [`Filter`] did.
///
/// # Examples
///
/// See [`FilterTransfer`](crate::FilterTransfer).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filtered {
    /// How many bytes of the input it is done with.
    pub consumed: usize,
    /// How many bytes it has made.
    pub produced: usize,
}

impl Filtered {
    /// It waits for more.
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
