//! Text that came from a file or from a function, made safe to print.

/// `text` on one line with control characters, terminal escapes and bidirectional overrides written as
/// `\u{…}`, cut after `max` characters.
///
/// ```text
/// escape("a\x1b[31mb", 80) == "a\\u{1b}[31mb"
/// ```
pub fn escape(text: &str, max: usize) -> String {
    escape_with(text, max, |_| false)
}

/// Like [`escape`], but line breaks and tabs stay: for what a function printed.
pub fn escape_lines(text: &str, max: usize) -> String {
    escape_with(text, max, |c| matches!(c, '\n' | '\t'))
}

fn escape_with(text: &str, max: usize, keep: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len().min(max) + 8);
    for (n, c) in text.chars().enumerate() {
        if n == max {
            out.push('…');
            break;
        }
        if !keep(c) && (c.is_control() || is_bidi(c) || ('\u{e0000}'..='\u{e007f}').contains(&c)) {
            match c {
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                c => out.extend(c.escape_unicode()),
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn is_bidi(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_are_written_out() {
        assert_eq!(escape("a\x1b]52;c;\x07b\u{202e}\n", 99), "a\\u{1b}]52;c;\\u{7}b\\u{202e}\\n");
        assert_eq!(escape_lines("1\n2\t\x00", 99), "1\n2\t\\u{0}");
        assert_eq!(escape("abcdef", 3), "abc…");
        assert_eq!(escape("Zürich – 東京", 99), "Zürich – 東京");
    }
}
