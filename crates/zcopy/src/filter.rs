//! What becomes of bytes on their way: [`Rewriter`], what it is shown, and what it answers.

/// Makes a sink's bytes out of a source's: what [`Rewrite`](crate::Rewrite) is given.
///
/// A closure that takes the same arguments is one too.
///
/// # Examples
///
/// See [`Rewrite`](crate::Rewrite).
pub trait Rewriter {
    /// Takes the beginning of `input`, and makes bytes of it at the beginning of `room`.
    ///
    /// Then it is asked again, with what it did not take, until it answers [`Rewritten::NOTHING`]: that it needs more
    /// than it is shown. What it has made goes to the sink by then, if not before. Later what it has left is shown
    /// again, followed by what has come; but if a sink has failed, what it has left may be shown never, or another time.
    ///
    /// `room` holds at least 64 KiB, and the whole of it is free each time. What it holds beforehand means nothing, and whatever
    /// is put behind what was made is forgotten.
    fn rewrite(&mut self, input: Input<'_>, room: &mut [u8]) -> Rewritten;
}

/// What a [`Rewriter`] is shown.
///
/// # Examples
///
/// See [`Rewrite`](crate::Rewrite).
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// Bytes that have been read and not been taken yet, in order.
    pub bytes: &'a [u8],
    /// What is to be expected after them.
    pub rest: Rest,
}

/// What follows the bytes that a [`Rewriter`] is shown.
///
/// # Examples
///
/// See [`Rewrite`](crate::Rewrite).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rest {
    /// More may come, if only from the next source.
    Open,
    /// More may come, but there is no place for it: of these, 64 KiB or more, something has to be taken. Said
    /// only to a rewriter that has just asked for more.
    Full,
    /// Nothing: these are the last, and all of them have to be taken.
    Last,
}

/// What a [`Rewriter`] did.
///
/// # Examples
///
/// See [`Rewrite`](crate::Rewrite).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rewritten {
    /// How many bytes of the input it is done with.
    pub taken: usize,
    /// How many bytes it has made.
    pub made: usize,
}

impl Rewritten {
    /// It waits for more.
    pub const NOTHING: Self = Self { taken: 0, made: 0 };
}

impl<F: FnMut(Input<'_>, &mut [u8]) -> Rewritten> Rewriter for F {
    fn rewrite(&mut self, input: Input<'_>, room: &mut [u8]) -> Rewritten {
        self(input, room)
    }
}
