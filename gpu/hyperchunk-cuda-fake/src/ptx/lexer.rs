//! The tokenizer of PTX.

/// A word (name, number, directive or opcode), a sign, or a quoted string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Word(&'a str),
    Sign(char),
    Text,
}

/// Splits a text into tokens, without its comments; with the line of each token for messages.
pub(super) fn tokens(text: &str) -> Vec<(Token<'_>, usize)> {
    let mut found = Vec::new();
    let mut rest = text;
    let mut line = 1;
    let mut skip = |rest: &mut &str, end: usize| {
        let (before, after) = rest.split_at(end.min(rest.len()));
        line += before.matches('\n').count();
        *rest = after;
        line
    };
    loop {
        let trimmed = rest.trim_start();
        let blank = rest.len() - trimmed.len();
        let at = skip(&mut rest, blank);
        let Some(first) = rest.chars().next() else { return found };
        if rest.starts_with("//") {
            let end = rest.find('\n').unwrap_or(rest.len());
            skip(&mut rest, end);
        } else if rest.starts_with("/*") {
            let end = rest.find("*/").map_or(rest.len(), |end| end + 2);
            skip(&mut rest, end);
        } else if first == '"' {
            let end = rest[1..].find('"').map_or(rest.len(), |end| end + 2);
            found.push((Token::Text, at));
            skip(&mut rest, end);
        } else if is_word(first) {
            let mut end = 0;
            while let Some(c) = rest[end..].chars().next() {
                if is_word(c) {
                    end += 1;
                } else if rest[end..].starts_with("::") {
                    end += 2;
                } else {
                    break;
                }
            }
            found.push((Token::Word(&rest[..end]), at));
            skip(&mut rest, end);
        } else {
            found.push((Token::Sign(first), at));
            skip(&mut rest, first.len_utf8());
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '%')
}
