use super::*;

const PAGE: &str = "\
# A `page`, and its parts

See [one](a.md), [two](b.md#c) and `[no](link)`.

```sh
echo [no](link)
```

[`three`]: src/c.rs

## What's `sh`?

```
text
```
";

#[test]
fn blocks_have_a_language_and_lines() {
    let page = Page::parse(PAGE).unwrap();
    let block = |language: &str, line, content: &str| Block {
        language: language.to_owned(),
        line,
        lines: vec![content.to_owned()],
    };
    assert_eq!(
        page.blocks,
        [block("sh", 6, "echo [no](link)"), block("", 14, "text")]
    );
}

#[test]
fn links_stand_in_prose_and_in_definitions() {
    let page = Page::parse(PAGE).unwrap();
    let found: Vec<_> = page
        .links
        .iter()
        .map(|link| (link.line, link.target.as_str()))
        .collect();
    assert_eq!(found, [(3, "a.md"), (3, "b.md#c"), (9, "src/c.rs")]);
}

#[test]
fn anchors_are_those_of_github() {
    let page = Page::parse(PAGE).unwrap();
    assert_eq!(page.anchors, ["a-page-and-its-parts", "whats-sh"]);
}

#[test]
fn a_block_without_an_end_is_an_error() {
    assert!(Page::parse("```sh\nls\n").is_err());
}
