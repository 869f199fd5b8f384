use zcopy_fuzz::holds_for_bytes;

use super::*;
use crate::dircopy::damage_map::MOST_RANGES;
use crate::dircopy::damage_map::tests::map;

fn parsed(text: impl AsRef<[u8]>) -> Option<DamageMap> {
    match MapText::parse(text.as_ref()).unwrap() {
        MapText::Whole { map, .. } => Some(map),
        MapText::Cut | MapText::Empty | MapText::Other => None,
    }
}

/// ddrescue refuses a map with gaps, or one whose blocks do not follow one another.
#[test]
fn the_blocks_of_a_map_follow_one_another_from_the_first_byte_to_the_last() {
    for (ranges, size) in [
        (&[(0, 4096)][..], 4096),
        (&[(4096, 4096)], 20_000),
        (&[(0, 1), (8192, 808)], 9000),
        (&[(1 << 40, 512)], 1 << 41),
    ] {
        let text = map(ranges).text(Path::new("a/b"), size);
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let lines: Vec<Vec<_>> = lines
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[0], ["0x00000000", "+", "1"]);
        let mut end = 0;
        for line in &lines[1..] {
            let [offset, bytes, "+" | "-"] = line[..] else {
                panic!("{line:?}");
            };
            assert_eq!(number(offset), Some(end), "{text}");
            end += number(bytes).unwrap();
        }
        assert_eq!(end, size, "{text}");
        assert_eq!(parsed(&text), Some(map(ranges)), "{text}");
    }
}

#[test]
fn a_map_names_its_file_and_size() {
    let text = map(&[(4096, 512)]).text(Path::new("a/two words\n"), 9000);
    assert!(
        text.starts_with("# Mapfile. Created by zc-dircopy "),
        "{text}"
    );
    assert!(text.contains("\n# File: 'a/two words'$'\\n'\n"), "{text}");
    assert!(text.contains("\n# Size: 9000 bytes, of which 512 could not be read\n"));
    assert!(text.contains("\n# Time: 20"), "{text}");
}

/// As ddrescue 1.27 writes it, with every status.
#[test]
fn a_map_that_ddrescue_has_rewritten_is_read() {
    let text = b"# Mapfile. Created by GNU ddrescue version 1.27\n\
        # Command line: ddrescue src/\xff dst/f dst/f.damaged\n\
        # Start time:   2026-11-23 07:11:18\n\
        # Finished\n\
        # current_pos  current_status  current_pass\n\
        0x00002000     F               1\n\
        #      pos        size  status\n\
        0x00000000  0x00002000  +\n\
        0x00002000  0x00001000  -\n\
        0x00003000  0x00001000  +\n\
        0x00004000  0x00001000  ?\n\
        0x00005000  4096  *\n\
        0x00006000  0x00001000  /\n\
        0x00007000  0x00001000  +\n";
    assert_eq!(
        parsed(text),
        Some(map(&[(0x2000, 0x1000), (0x4000, 0x3000)]))
    );
    let rescued = "# Mapfile. Created by GNU ddrescue version 1.27\n0x0 + 1\n0x0 0x8000 +\n";
    assert_eq!(parsed(rescued), Some(DamageMap::default()));
}

#[test]
fn another_file_is_no_map() {
    for other in [
        "",
        "hello",
        "# Mapfile. Created by hand\n",
        "# Mapfile. Created by hand\n0x0 + 1\n0x0 what +\n",
        "# Mapfile. Created by hand\n0x0 + 1\n\u{e9}\n",
        "# Mapfile. created by zc-dircopy\n0x0 + 1\n0x0 0x8000 -\n",
    ] {
        assert_eq!(parsed(other), None, "{other:?}");
    }
    let mut binary = MAGIC.to_vec();
    binary.extend_from_slice(b"hand\n0x0 + 1\n\xff\xfe\n");
    assert_eq!(parsed(binary), None);
}

#[test]
fn a_map_whose_blocks_do_not_follow_one_another_is_cut() {
    for blocks in [
        "0x1000 0x1000 -\n0x0 0x1000 +",
        "0x0 0x1000 +\n0x2000 0x1000 -",
        "0x1000 0x1000 +",
    ] {
        let text = format!("# Mapfile. Created by zc-dircopy 1\n0x0 + 1\n{blocks}\n");
        assert_eq!(
            MapText::parse(text.as_bytes()).unwrap(),
            MapText::Cut,
            "{blocks}"
        );
    }
}

/// A cut map describes more damage, never less.
#[test]
fn a_cut_map_tells_that_the_whole_file_is_damaged() {
    let whole = map(&[(4096, 512), (8192, 808)]);
    for text in [
        whole.text(Path::new("a"), 9000),
        map(&[]).text(Path::new("a"), 9000),
    ] {
        let found = |text: &[u8]| {
            let text = MapText::parse(text).unwrap();
            text.of_mapped(Some(9000), EmptyFile::CutMap)
        };
        for n in MAGIC.len()..text.len() {
            assert_eq!(found(&text.as_bytes()[..n]), Some(map(&[(0, 9000)])), "{n}");
        }
        assert_eq!(found(b""), Some(map(&[(0, 9000)])));
        assert!(found(text.as_bytes()).unwrap().lost_bytes() < 2000);
        let longer = MapText::parse(text.as_bytes()).unwrap();
        assert_eq!(
            longer.of_mapped(Some(9001), EmptyFile::Other),
            Some(map(&[(0, 9001)]))
        );
    }
}

#[test]
fn a_map_takes_little_memory() {
    let mut many = DamageMap::default();
    for n in 0..100_000 {
        many.push(BadRange {
            offset: n << 40,
            bytes: 512,
        });
    }
    assert_eq!(many.ranges().len(), MOST_RANGES);
    assert_eq!(many.ranges().last().unwrap().end(), (99_999 << 40) + 512);
    let text = many.text(Path::new("a"), 100_000 << 40);
    assert!(text.len() as u64 <= LARGEST, "{}", text.len());
    assert_eq!(parsed(&text), Some(many));
    let mut large = text.into_bytes();
    large.resize(LARGEST as usize + 1, b'\n');
    assert_eq!(MapText::parse(&large[..]).unwrap(), MapText::Cut);
}

/// Such a block made a range without bytes, and the file counted as damaged.
#[test]
fn a_bad_block_without_bytes_is_no_damage() {
    let text = "# Mapfile. Created by GNU ddrescue version 1.27\n0x0 ? 1\n0 010 +\n8 0 -\n";
    assert_eq!(parsed(text), Some(DamageMap::default()));
}

#[test]
fn any_map_that_is_whole_names_bytes_of_its_file_and_reads_the_same_when_it_is_written_again() {
    let seed = map(&[(0, 1), (8192, 808)]).text(Path::new("a/b"), 9000);
    let ddrescue = "# Mapfile. Created by GNU ddrescue version 1.27\n0x0 ? 1\n0 010 +\n8 0X8 *\n";
    holds_for_bytes(&[seed.as_bytes(), ddrescue.as_bytes()], |bytes| {
        let MapText::Whole { map, size } = MapText::parse(bytes).unwrap() else {
            return;
        };
        let mut end = 0;
        for range in map.ranges() {
            assert!(range.offset >= end && range.bytes > 0);
            end = range.offset.checked_add(range.bytes).unwrap();
        }
        assert!(end <= size);
        let again = map.text(Path::new("a/b"), size);
        let again = MapText::parse(again.as_bytes()).unwrap();
        assert_eq!(again, MapText::Whole { map, size });
    });
}
