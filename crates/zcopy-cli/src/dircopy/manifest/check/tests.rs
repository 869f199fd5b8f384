use super::*;

#[test]
fn a_file_is_complete_with_the_newline_of_its_last_line() {
    for (bytes, expected) in [("", true), ("\n", true), ("a\n", true), ("a\nb", false)] {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes.as_bytes()).unwrap();
        assert_eq!(is_complete(&file).unwrap(), expected, "{bytes:?}");
        file.rewind().unwrap();
        assert_eq!(io::read_to_string(&file).unwrap(), bytes);
    }
}
