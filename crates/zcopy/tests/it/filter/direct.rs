//! Descriptors that are open with `O_DIRECT`.

use rustix::fs::OFlags;
use zcopy::FilterTransfer;

use super::{LARGE, QuoteLines, quoted};
use crate::files::{assert_same, contents, cursor, file_in, pattern, reopen, set_cursor};
use crate::mounts::Fs;

#[test]
fn a_direct_source_is_read_wherever_its_cursor_is() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern(LARGE);
    for start in [0, 1, 511, 4096, 70_001, LARGE - 1] {
        let file = file_in(&dir, &bytes);
        let source = reopen(&file, OFlags::RDONLY | OFlags::DIRECT);
        set_cursor(&source, start as u64);
        let sink = file_in(&dir, b"");
        let mut filter = FilterTransfer::new(&sink, QuoteLines::default());
        filter.run(&source).unwrap();
        filter.finish().unwrap();
        assert_eq!(cursor(&source), LARGE as u64);
        let what = format!("from {start}");
        assert_same(&contents(&sink), &quoted(&bytes[start..]), &what);
    }
}

#[test]
fn a_direct_sink_takes_any_length_at_any_offset() {
    let Some(dir) = Fs::Ext4.dir() else {
        return;
    };
    let bytes = pattern(LARGE);
    for start in [0, 1, 4096, 70_001] {
        let source = file_in(&dir, &bytes);
        let file = file_in(&dir, b"");
        let sink = reopen(&file, OFlags::WRONLY | OFlags::DIRECT);
        set_cursor(&sink, start);
        let mut filter = FilterTransfer::new(&sink, QuoteLines::default());
        filter.run(&source).unwrap();
        filter.finish().unwrap();
        let expected = quoted(&bytes);
        assert_eq!(cursor(&sink), start + expected.len() as u64);
        let arrived = contents(&file);
        let start = usize::try_from(start).unwrap();
        assert_same(&arrived[start..], &expected, &format!("at {start}"));
    }
}
