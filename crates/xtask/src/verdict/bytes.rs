//! Whether an output holds the expected bytes, or a part of them that a failure may leave.

use crate::scenario::Expected;

/// How much of the expected bytes an output must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Strictness {
    /// All.
    Whole,
    /// Any number of the first ones.
    Prefix,
    /// Any number of the first bytes of each input in turn. A program may go on with the next input
    /// after it could not read all of one.
    PrefixOfEach,
}

/// Describes how an output differs from the expected bytes.
pub(super) fn compare(expected: &Expected, found: &[u8], strictness: Strictness) -> Option<String> {
    match expected {
        Expected::Inputs(inputs) => of_inputs(inputs, found, strictness),
        Expected::Repeated(unit, least) => {
            let expected = unit.iter().cycle();
            let same = common_prefix(found, expected);
            if same < found.len() {
                return Some(format!("byte {same} of {} is wrong", found.len()));
            }
            let is_short = strictness == Strictness::Whole && found.len() < *least;
            is_short.then(|| format!("{} of {least} bytes, and success", found.len()))
        }
    }
}

fn of_inputs(inputs: &[Vec<u8>], found: &[u8], strictness: Strictness) -> Option<String> {
    let mut rest = found;
    let mut is_whole = true;
    for input in inputs {
        let same = if rest.starts_with(input) {
            input.len()
        } else {
            common_prefix(rest, input.iter())
        };
        is_whole &= same == input.len();
        rest = &rest[same..];
        if !is_whole && strictness == Strictness::Prefix {
            break;
        }
    }
    let expected: usize = inputs.iter().map(Vec::len).sum();
    let (n, same) = (found.len(), found.len() - rest.len());
    if !rest.is_empty() {
        return Some(format!(
            "byte {same} of {n} is wrong; {expected} were expected"
        ));
    }
    let is_short = strictness == Strictness::Whole && !is_whole;
    is_short.then(|| format!("{n} of {expected} bytes, and success"))
}

fn common_prefix<'a>(found: &[u8], expected: impl Iterator<Item = &'a u8>) -> usize {
    let pairs = found.iter().zip(expected);
    pairs.take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_right(found: &[u8], strictness: Strictness) -> bool {
        let expected = Expected::Inputs(vec![b"abc".to_vec(), b"xyz".to_vec()]);
        compare(&expected, found, strictness).is_none()
    }

    #[test]
    fn only_a_failed_input_may_leave_a_gap() {
        for (found, whole, prefix, each) in [
            (&b"abcxyz"[..], true, true, true),
            (b"abcx", false, true, true),
            (b"abx", false, false, true),
            (b"", false, true, true),
            (b"abcxyzx", false, false, false),
            (b"xa", false, false, false),
        ] {
            let right = [
                is_right(found, Strictness::Whole),
                is_right(found, Strictness::Prefix),
                is_right(found, Strictness::PrefixOfEach),
            ];
            assert_eq!(right, [whole, prefix, each], "{found:?}");
        }
    }

    #[test]
    fn repetitions_may_end_anywhere_behind_the_least() {
        let expected = Expected::Repeated(b"y\n".to_vec(), 3);
        for (found, is_right) in [(&b"y\ny"[..], true), (b"y\n", false), (b"y\nn", false)] {
            let text = compare(&expected, found, Strictness::Whole);
            assert_eq!(text.is_none(), is_right, "{found:?}");
        }
    }
}
