//! The parts of a page in Markdown that can be checked: blocks of code, links and headings.

use anyhow::ensure;

#[cfg(test)]
mod tests;

/// A page, taken apart.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) blocks: Vec<Block>,
    pub(super) links: Vec<Link>,
    /// The fragment of a link that leads to a heading (behind `#`), as GitHub makes it.
    pub(super) anchors: Vec<String>,
}

/// A block of code between two fences.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Block {
    /// The word behind the opening fence, or an empty string.
    pub(super) language: String,
    /// The number of the first line behind the fence, from 1.
    pub(super) line: usize,
    pub(super) lines: Vec<String>,
}

/// Where a link leads, as it is written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// The number of the line, from 1.
    pub(super) line: usize,
    pub(super) target: String,
}

impl Page {
    /// # Errors
    ///
    /// If a block of code has no end.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut page = Self::default();
        let mut open: Option<Block> = None;
        for (line, content) in (1..).zip(text.lines()) {
            let fence = content.trim_start().strip_prefix("```");
            match (&mut open, fence) {
                (None, Some(language)) => {
                    open = Some(Block {
                        language: language.trim().to_owned(),
                        line: line + 1,
                        lines: Vec::new(),
                    });
                }
                (Some(_), Some(_)) => page.blocks.extend(open.take()),
                (Some(block), None) => block.lines.push(content.to_owned()),
                (None, None) => page.add_prose(line, content),
            }
        }
        ensure!(open.is_none(), "the last block of code has no end");
        Ok(page)
    }

    fn add_prose(&mut self, line: usize, content: &str) {
        if content.starts_with('#') {
            let anchor = anchor(content.trim_start_matches('#').trim());
            self.anchors.push(anchor);
        }
        let prose = without_code(content);
        let targets = inline_targets(&prose).chain(definition(&prose));
        self.links
            .extend(targets.map(|target| Link { line, target }));
    }
}

/// The anchor that GitHub gives a heading.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The line without its code spans, which hold no links.
fn without_code(line: &str) -> String {
    let parts: Vec<_> = line.split('`').collect();
    // An odd number of parts: each second one stands between two backticks.
    let is_closed = parts.len() % 2 == 1;
    let prose = parts.iter().enumerate();
    prose
        .filter(|(i, _)| i % 2 == 0 || (!is_closed && i + 1 == parts.len()))
        .map(|(_, part)| *part)
        .collect()
}

/// The targets of `[words](target)`.
fn inline_targets(prose: &str) -> impl Iterator<Item = String> {
    let behind = prose.split("](").skip(1);
    behind.filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
}

/// The target of `[words]: target`.
fn definition(prose: &str) -> Option<String> {
    let (_, target) = prose.strip_prefix('[')?.split_once("]: ")?;
    Some(target.trim().to_owned())
}
