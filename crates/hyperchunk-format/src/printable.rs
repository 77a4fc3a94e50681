//! Text from a file or a function, made safe for a terminal: characters that move the cursor, change the text
//! direction or are invisible are written as `\u{…}`. All output of such text goes through this module.

use std::fmt;

/// Text from a file, to be shown on a terminal.
#[derive(Debug, Clone, Copy)]
pub struct Printable<'a> {
    text: &'a str,
    lines: bool,
}

impl<'a> Printable<'a> {
    /// Creates a text that stays on one line.
    #[must_use]
    pub const fn new(text: &'a str) -> Self {
        Self { text, lines: false }
    }

    /// Creates a text that keeps its line breaks and tabs.
    #[must_use]
    pub const fn lines(text: &'a str) -> Self {
        Self { text, lines: true }
    }
}

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.text;
        while let Some((place, c)) =
            rest.char_indices().find(|(_, c)| is_unseen(*c) && !(self.lines && matches!(c, '\n' | '\t')))
        {
            let (before, after) = rest.split_at_checked(place).unwrap_or((rest, ""));
            f.write_str(before)?;
            match c {
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                c => write!(f, "{}", c.escape_unicode())?,
            }
            rest = after.get(c.len_utf8()..).unwrap_or_default();
        }
        f.write_str(rest)
    }
}

/// Escapes `text` for one line and cuts it after `max` characters.
///
/// ```text
/// escape("a\x1b[31mb", 80) == "a\\u{1b}[31mb"
/// ```
#[must_use]
pub fn escape(text: &str, max: usize) -> String {
    cut(text, max, Printable::new)
}

/// Escapes like [`escape`] but keeps line breaks and tabs, for the output of a function.
#[must_use]
pub fn escape_lines(text: &str, max: usize) -> String {
    cut(text, max, Printable::lines)
}

fn cut<'a>(text: &'a str, max: usize, printable: impl Fn(&'a str) -> Printable<'a>) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", printable(text.get(..end).unwrap_or_default())),
        None => printable(text).to_string(),
    }
}

/// True if a character moves the cursor, changes the text direction or is invisible: control characters,
/// bidirectional marks and overrides, zero-width characters and tags.
#[must_use]
pub fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{180b}'..='\u{180f}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{3164}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_written_out() {
        assert_eq!(escape("a\x1b]52;c;\x07b\u{202e}\n", 99), "a\\u{1b}]52;c;\\u{7}b\\u{202e}\\n");
        assert_eq!(escape_lines("1\n2\t\x00", 99), "1\n2\t\\u{0}");
        assert_eq!(escape("abcdef", 3), "abc…");
        assert_eq!(escape("abc", 3), "abc");
        assert_eq!(escape("\u{1b}", 0), "…");
        assert_eq!(escape("Zürich – 東京", 99), "Zürich – 東京");
    }

    #[test]
    fn what_is_not_seen_is_written_out() {
        let ranges = [0x200b..=0x200f, 0x202a..=0x202e, 0x2066..=0x2069, 0xfeff..=0xfeff, 0x80..=0x9f];
        for c in ranges.into_iter().flatten().filter_map(char::from_u32) {
            let shown = escape(&format!("pass{c}word"), 99);
            assert_eq!(shown, format!("pass{}word", c.escape_unicode()));
        }
    }
}
