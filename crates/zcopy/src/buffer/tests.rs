//! Tests of the buffer.

use super::*;

/// Fresh memory is zeroed, and costs its pages.
#[test]
fn memory_that_is_large_enough_is_kept() {
    for (first, second, is_kept) in [
        (ALIGNMENT, ALIGNMENT, true),
        (ALIGNMENT, 1, true),
        (1, ALIGNMENT, true),
        (ALIGNMENT, ALIGNMENT + 1, false),
    ] {
        let mut buffer = Buffer::default();
        buffer.reserve_exactly(first, Alignment::CacheLine).unwrap();
        assert_eq!(buffer.spare_mut(usize::MAX).len(), ALIGNMENT);
        buffer.spare_mut(usize::MAX).fill(7);
        buffer
            .reserve_exactly(second, Alignment::CacheLine)
            .unwrap();
        let room = buffer.spare_mut(second);
        assert_eq!(room.len(), second);
        let is_old = room.iter().all(|byte| *byte == 7);
        assert_eq!(is_old, is_kept, "{first}, {second}");
    }
}

fn fill(buffer: &mut Buffer, bytes: &[u8]) {
    buffer.spare_mut(bytes.len()).copy_from_slice(bytes);
    buffer.fill(bytes.len());
}

#[test]
fn truncated_bytes_are_forgotten_and_bytes_in_the_head_room_stay() {
    let mut buffer = Buffer::with_head_room(8, ALIGNMENT).unwrap();
    fill(&mut buffer, b"abcdef");
    assert_eq!(buffer.consume(1), b"a");
    buffer.truncate(3);
    assert_eq!(buffer.pending(), b"bcd");
    fill(&mut buffer, b"xy");
    assert_eq!(buffer.pending(), b"bcdxy");
    let mut next = Buffer::with_head_room(8, ALIGNMENT).unwrap();
    fill(&mut next, b"z");
    next.prepend(&mut buffer);
    assert_eq!((next.pending(), buffer.is_empty()), (&b"bcdxyz"[..], true));
}

#[test]
fn memory_that_was_allocated_for_copies_is_replaced_for_direct_reads() {
    let mut buffer = Buffer::with_max_capacity(8192);
    buffer.reserve(4096, Alignment::CacheLine).unwrap();
    // The allocator may have returned a whole page.
    buffer.start += 64;
    buffer.capacity -= 64;
    buffer.clear();
    buffer.extend_from_slice(b"pending").unwrap();
    buffer.reserve(4000, Alignment::Page).unwrap();
    let memory = buffer.bytes.as_ptr().wrapping_add(buffer.start);
    assert_eq!(memory.align_offset(ALIGNMENT), 0);
    assert_eq!(buffer.pending(), b"pending");
}

/// A read with `O_DIRECT` needs it.
#[test]
fn a_read_behind_held_bytes_is_aligned_and_may_have_the_whole_capacity() {
    for held in 0..8 {
        let mut buffer = Buffer::with_head_room(8, ALIGNMENT).unwrap();
        fill(&mut buffer, b"01234567");
        assert!(!buffer.has_head_room_left());
        buffer.consume(8 - held);
        assert!(buffer.has_head_room_left());
        let spare = buffer.spare_mut(usize::MAX);
        assert_eq!(spare.len(), ALIGNMENT);
        assert_eq!(spare.as_ptr().align_offset(ALIGNMENT), 0);
        assert_eq!(buffer.pending(), &b"01234567"[8 - held..]);
    }
}

/// No allocator gives more than half of the address space.
#[test]
fn a_buffer_that_gets_no_memory_keeps_what_it_has() {
    const REFUSED: usize = isize::MAX as usize + 1;
    let mut buffer = Buffer::with_max_capacity(REFUSED);
    assert_eq!(buffer.reserve(REFUSED, Alignment::Page), Err(Errno::NOMEM));
    assert_eq!(buffer.room(), 0);
    buffer.reserve(ALIGNMENT, Alignment::Page).unwrap();
    fill(&mut buffer, b"abcdef");
    buffer.consume(2);
    for reserve in [Buffer::reserve, Buffer::reserve_exactly] {
        let refused = reserve(&mut buffer, REFUSED, Alignment::Page);
        assert_eq!(refused, Err(Errno::NOMEM));
        assert_eq!(buffer.pending(), b"cdef");
        assert_eq!(buffer.room(), ALIGNMENT - 4);
    }
    // The largest length is refused, and this one is not.
    buffer.reserve(2 * ALIGNMENT, Alignment::Page).unwrap();
    assert_eq!(buffer.room(), 2 * ALIGNMENT - 4);
    assert_eq!(buffer.take_pending(), b"cdef");
}

#[test]
fn bytes_that_have_no_space_are_appended_in_more_memory() {
    let mut buffer = Buffer::with_head_room(8, ALIGNMENT).unwrap();
    fill(&mut buffer, b"ab");
    buffer.extend_from_slice(&[7; 3 * ALIGNMENT]).unwrap();
    assert_eq!(buffer.pending().len(), 2 + 3 * ALIGNMENT);
    assert!(!buffer.has_head_room_left());
    assert_eq!(buffer.consume(2), b"ab");
    assert_eq!(buffer.take_pending(), [7; 3 * ALIGNMENT]);
    assert_eq!(buffer.room(), 2 + 3 * ALIGNMENT);
}
