//! Properties of standard output: width and colours.

use std::io::IsTerminal as _;

/// Properties of standard output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Width in columns; `None` for no limit.
    pub(crate) width: Option<usize>,
    colour: bool,
}

/// Meaning of a text, which determines its colour.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ink {
    Group,
    Datatype,
    Link,
    Error,
    Quiet,
}

/// Use of colours in the output.
#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    Always,
    Never,
}

impl Terminal {
    pub(crate) fn new(colour: Colour) -> Self {
        let terminal = std::io::stdout().is_terminal();
        let width =
            terminal.then(terminal_size::terminal_size).flatten().map(|(width, _)| usize::from(width.0));
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
            && std::env::var_os("TERM").is_none_or(|value| value != "dumb");
        let colour = match colour {
            Colour::Auto => terminal && wanted,
            Colour::Always => true,
            Colour::Never => false,
        };
        Self { width, colour }
    }

    /// Returns a text in its colour.
    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if !self.colour {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Group => "1;34",
            Ink::Datatype => "35",
            Ink::Link => "36",
            Ink::Error => "31",
            Ink::Quiet => "2",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Shortens a text to the rest of a line on which `used` columns are taken. Counts characters: most have
    /// a width of one column.
    pub(crate) fn cut(self, text: &str, used: usize) -> String {
        let Some(width) = self.width else { return text.to_owned() };
        let left = width.saturating_sub(used).max(8);
        if text.chars().count() <= left {
            return text.to_owned();
        }
        text.chars().take(left - 1).chain(['…']).collect()
    }
}
