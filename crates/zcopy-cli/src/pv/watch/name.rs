//! The name of a row: the descriptor and the file.

use std::path::Path;

use super::Row;

/// The columns before the path, for the descriptor and a colon.
const FD_COLUMNS: usize = 6;

/// The columns before the path, for the process, the descriptor and their colons.
const PID_AND_FD_COLUMNS: usize = 15;

/// The fewest columns of a path: one character and three dots.
const MIN_PATH_COLUMNS: usize = 4;

/// Returns the name of a row. It takes at most half of the width of the terminal.
///
/// A path below `directory`, the working directory, is shown relative to it.
pub(super) fn name(row: &Row, is_of_several: bool, width: usize, directory: &Path) -> String {
    let taken = match row.pid {
        None => 0,
        Some(_) if is_of_several => PID_AND_FD_COLUMNS,
        Some(_) => FD_COLUMNS,
    };
    let path = row.path.strip_prefix(directory).unwrap_or(&row.path);
    let path = shortened(&path.to_string_lossy(), (width / 2).saturating_sub(taken));
    match row.pid {
        None => path,
        Some(pid) if is_of_several => format!("{pid:>8}:{:>4}:{path}", row.fd),
        Some(_) => format!("{:>4}:{path}", row.fd),
    }
}

/// Shortens a path to at most `limit` characters: a quarter of them from its beginning, three dots,
/// and the rest from its end, which tells more.
fn shortened(path: &str, limit: usize) -> String {
    let limit = limit.max(MIN_PATH_COLUMNS);
    let n = path.chars().count();
    if n <= limit {
        return path.to_owned();
    }
    let before = limit / 4;
    let after = limit - "...".len() - before;
    let beginning: String = path.chars().take(before).collect();
    let end: String = path.chars().skip(n - after).collect();
    format!("{beginning}...{end}")
}

#[cfg(test)]
mod tests {
    use jiff::Zoned;

    use super::*;
    use crate::pv::display::reading::Reading;

    fn row(path: &str) -> Row {
        Row {
            pid: Some(9691),
            fd: 3,
            path: path.into(),
            reading: Reading::before(Zoned::default(), None),
        }
    }

    #[test]
    fn paths_are_shortened_as_pv_shortens_them() {
        let path = "/w/a-very-long-directory-name/another-quite-long-name/file-with-a-long-name-0123456789.txt";
        for (width, shown) in [
            (20, "   3:a..."),
            (30, "   3:a-....txt"),
            (40, "   3:a-v...6789.txt"),
            (60, "   3:a-very...-0123456789.txt"),
            (80, "   3:a-very-l...ong-name-0123456789.txt"),
            (
                132,
                "   3:a-very-long-dir...-name/file-with-a-long-name-0123456789.txt",
            ),
        ] {
            assert_eq!(name(&row(path), false, width, Path::new("/w")), shown);
        }
        assert_eq!(
            name(&row(path), true, 100, Path::new("/w")),
            "    9691:   3:a-very-l...long-name-0123456789.txt"
        );
    }

    #[test]
    fn a_path_is_shown_from_where_we_are_and_whole_from_elsewhere() {
        for (directory, shown) in [
            ("/", "   3:w/x/file"),
            ("/w", "   3:x/file"),
            ("/w/x", "   3:file"),
            ("/w/xx", "   3:/w/x/file"),
            ("", "   3:/w/x/file"),
        ] {
            let name = name(&row("/w/x/file"), false, 80, Path::new(directory));
            assert_eq!(name, shown, "{directory}");
        }
    }

    #[test]
    fn a_file_that_is_watched_by_its_path_has_no_number() {
        let row = Row {
            pid: None,
            ..row("/w/file")
        };
        assert_eq!(name(&row, true, 80, Path::new("/w")), "file");
    }

    #[test]
    fn a_path_is_cut_between_characters() {
        assert_eq!(shortened("äöüäöüäöü", 8), "äö...äöü");
        assert_eq!(shortened("äöü", 0), "äöü");
        assert_eq!(shortened("äöüäö", 0), "ä...");
    }
}
