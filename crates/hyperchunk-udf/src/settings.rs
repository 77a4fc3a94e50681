//! Parsing of settings files (TOML), with errors in one line.

use serde::de::DeserializeOwned;

/// Parses settings.
///
/// # Errors
/// The place, as `LINE:COLUMN`, and the message.
pub(crate) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        match error.span().and_then(|span| text.get(..span.start)) {
            Some(before) => {
                let line = before.matches('\n').count() + 1;
                let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
                format!("{line}:{column}: {message}")
            }
            None => message,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;

    #[derive(Deserialize, Debug)]
    #[serde(deny_unknown_fields)]
    struct File {
        #[expect(dead_code, reason = "it is only read")]
        number: u32,
    }

    #[test]
    fn mistakes_are_one_line() {
        for (text, expected) in [
            ("number = 1\nother = 2", "2:1: unknown field `other`"),
            ("number = \"a\"", "1:10: invalid type"),
            ("\nnumber = [1,", "2:"),
            ("", "missing field `number`"),
        ] {
            let error = parse::<File>(text).unwrap_err();
            assert!(error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}
