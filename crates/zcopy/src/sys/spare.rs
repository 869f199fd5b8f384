//! Memory that a read fills, and that need not be initialized before.

/// Memory for a read, which may not be initialized.
#[derive(Debug)]
pub(crate) struct Spare<'a>(Memory<'a>);

#[derive(Debug)]
enum Memory<'a> {
    Slice(&'a mut [u8]),
    /// `len` bytes from `start` on. Those behind the vector's end are spare capacity.
    Vec {
        bytes: &'a mut Vec<u8>,
        start: usize,
        len: usize,
    },
}

impl<'a> From<&'a mut [u8]> for Spare<'a> {
    fn from(slice: &'a mut [u8]) -> Self {
        Self(Memory::Slice(slice))
    }
}

impl<'a> Spare<'a> {
    /// Returns the `len` bytes from `start` on, for which the vector has memory. At least `start`
    /// bytes are initialized.
    pub(crate) fn behind(start: usize, len: usize, bytes: &'a mut Vec<u8>) -> Self {
        debug_assert!(start <= bytes.len() && start + len <= bytes.capacity());
        Self(Memory::Vec { bytes, start, len })
    }

    /// Initializes the memory, and returns it.
    pub(crate) fn into_slice(self) -> &'a mut [u8] {
        match self.0 {
            Memory::Slice(slice) => slice,
            Memory::Vec { bytes, start, len } => {
                let end = start + len;
                if bytes.len() < end {
                    bytes.resize(end, 0);
                }
                &mut bytes[start..end]
            }
        }
    }

    /// Returns a vector that ends where the memory begins, and the length of the memory, which is
    /// spare capacity of the vector. A read appends to it. Fails with the memory, if that is
    /// initialized.
    pub(crate) fn into_spare_capacity(self) -> Result<(&'a mut Vec<u8>, usize), &'a mut [u8]> {
        match self.0 {
            Memory::Vec { bytes, start, len } if bytes.len() < start + len => {
                bytes.truncate(start);
                Ok((bytes, len))
            }
            _ => Err(self.into_slice()),
        }
    }
}
