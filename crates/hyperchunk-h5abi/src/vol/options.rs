//! The connector's information string, which follows the name in `HDF5_VOL_CONNECTOR`.
//!
//! Items are separated by `;`, `,` or white space: `store;fsync=never`. Existing stores are recognised
//! without any item; `store` makes new files stores.

use super::failure::{Outcome, refuse};
use std::fmt;

/// The items of the string. The default corresponds to an empty string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    /// New files become sharded stores.
    pub(super) store: bool,
    /// The form in which writes are stored: raw values, or chunks encoded by the dataset's filters.
    pub(super) codec: Codec,
    /// The destination of rows.
    pub(super) segments: Segments,
    /// Number of written bytes that stay in shared memory until the file is flushed or closed.
    pub(super) memory: Option<u64>,
    /// When data are synced to the disk.
    pub(super) sync: Sync,
    /// The epoch of a committed store to read; the newest by default.
    pub(super) epoch: Option<u64>,
    /// Collect count, minimum, maximum and other statistics during writing.
    pub(super) statistics: bool,
    /// Store a checksum of every record.
    pub(super) checksum: bool,
    /// When the store is committed.
    pub(super) commit: Commit,
    /// Number of writers in a session.
    pub(super) writers: Option<u32>,
    /// The session's name; from the environment by default.
    pub(super) session: Option<String>,
    /// Follow links to files over a network.
    pub(super) links: bool,
    /// The command that reads files over a network; searched for by default.
    pub(super) command: Option<String>,
    /// The value of the connector below; 0 is the native one.
    pub(super) under_vol: i32,
    /// The information string of the connector below.
    pub(super) under_info: String,
}

/// See [`Options::segments`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Segments {
    Log,
    Arrow,
}

/// See [`Options::codec`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Raw,
    Filters,
}

/// See [`Options::sync`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    Never,
    Epoch,
    Record,
}

/// See [`Options::commit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Commit {
    /// The close that ends the session.
    Auto,
    /// Every close.
    Close,
    /// Only `hyperchunk store commit`.
    Manual,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            store: false,
            codec: Codec::Raw,
            segments: Segments::Log,
            memory: None,
            sync: Sync::Epoch,
            epoch: None,
            statistics: false,
            checksum: true,
            commit: Commit::Auto,
            writers: None,
            session: None,
            links: false,
            command: None,
            under_vol: 0,
            under_info: String::new(),
        }
    }
}

/// The values of an item and their meanings.
type Words<T> = &'static [(&'static str, T)];

const SWITCH: Words<bool> = &[
    ("on", true),
    ("off", false),
    ("yes", true),
    ("no", false),
    ("1", true),
    ("0", false),
    ("true", true),
    ("false", false),
];
const CODEC: Words<Codec> = &[("raw", Codec::Raw), ("filters", Codec::Filters)];
const SEGMENTS: Words<Segments> = &[("log", Segments::Log), ("arrow", Segments::Arrow)];
const SYNC: Words<Sync> = &[("never", Sync::Never), ("epoch", Sync::Epoch), ("record", Sync::Record)];
const COMMIT: Words<Commit> = &[("auto", Commit::Auto), ("close", Commit::Close), ("manual", Commit::Manual)];

fn word<T: Copy>(key: &str, value: &str, words: Words<T>) -> Outcome<T> {
    if let Some((_, found)) = words.iter().find(|(name, _)| *name == value) {
        return Ok(*found);
    }
    let known: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
    refuse!("connector information: {key}={value}: expected one of {}", known.join(", "))
}

fn name<T: Copy + PartialEq>(value: T, words: Words<T>) -> &'static str {
    words.iter().find(|(_, of)| *of == value).map_or("", |(name, _)| name)
}

fn number<T: std::str::FromStr>(key: &str, value: &str) -> Outcome<T> {
    match value.parse() {
        Ok(number) => Ok(number),
        Err(_) => refuse!("connector information: {key}={value}: expected a number"),
    }
}

/// Parses a number of bytes with an optional suffix K, M or G; `None` for "off".
fn size(key: &str, value: &str) -> Outcome<Option<u64>> {
    if value == "off" {
        return Ok(None);
    }
    let digits = value.trim_end_matches(['K', 'M', 'G']);
    let unit = match value.strip_prefix(digits) {
        Some("") => 1,
        Some("K") => 1 << 10,
        Some("M") => 1 << 20,
        Some("G") => 1_u64 << 30,
        _ => 0,
    };
    match digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)).filter(|bytes| *bytes > 0) {
        Some(bytes) => Ok(Some(bytes)),
        None => refuse!("connector information: {key}={value}: expected a size, such as 256M, or off"),
    }
}

/// Splits a string into items. Braces hold an item together, for the information of the connector below.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    let separator = move |c: char| {
        match c {
            '{' => depth = depth.saturating_add(1),
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && (c == ';' || c == ',' || c.is_whitespace())
    };
    text.split(separator).filter(|item| !item.is_empty())
}

/// Returns a value without the braces around it.
fn unbraced(value: &str) -> &str {
    value.strip_prefix('{').and_then(|value| value.strip_suffix('}')).unwrap_or(value)
}

impl Options {
    /// Parses a string. Unknown items are errors, since a misspelt one would otherwise be ignored silently.
    pub(super) fn parse(text: &str) -> Outcome<Self> {
        let mut options = Options::default();
        for item in items(text) {
            let (key, value) = match item.split_once('=') {
                Some((key, value)) => (key.trim(), value.trim()),
                None => (item, "on"),
            };
            match key {
                "store" => options.store = word(key, value, SWITCH)?,
                "codec" => options.codec = word(key, value, CODEC)?,
                "segments" => options.segments = word(key, value, SEGMENTS)?,
                "memory" => options.memory = size(key, value)?,
                "fsync" => options.sync = word(key, value, SYNC)?,
                "epoch" => options.epoch = Some(number(key, value)?),
                "statistics" => options.statistics = word(key, value, SWITCH)?,
                "checksum" => options.checksum = word(key, value, SWITCH)?,
                "commit" => options.commit = word(key, value, COMMIT)?,
                "writers" => options.writers = Some(number(key, value)?),
                "session" => options.session = Some(value.to_owned()),
                "links" => options.links = word(key, value, SWITCH)?,
                "command" => {
                    options.command = Some(unbraced(value).to_owned()).filter(|name| !name.is_empty())
                }
                "under_vol" => options.under_vol = number(key, value)?,
                "under_info" => unbraced(value).clone_into(&mut options.under_info),
                _ => refuse!(
                    "connector information: {key} is not known; known are store, codec, segments, memory, fsync, epoch, statistics, checksum, commit, writers, session, links, command, under_vol, under_info"
                ),
            }
        }
        if options.writers == Some(0) {
            refuse!("connector information: writers=0: a session has at least one")
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    /// Writes the form that [`Options::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "under_vol={};under_info={{{}}}", self.under_vol, self.under_info)?;
        write!(f, ";store={};codec={}", name(self.store, SWITCH), name(self.codec, CODEC))?;
        write!(f, ";segments={}", name(self.segments, SEGMENTS))?;
        write!(f, ";fsync={};commit={}", name(self.sync, SYNC), name(self.commit, COMMIT))?;
        write!(f, ";statistics={}", name(self.statistics, SWITCH))?;
        write!(f, ";checksum={}", name(self.checksum, SWITCH))?;
        if let Some(memory) = self.memory {
            write!(f, ";memory={memory}")?;
        }
        if let Some(epoch) = self.epoch {
            write!(f, ";epoch={epoch}")?;
        }
        if let Some(writers) = self.writers {
            write!(f, ";writers={writers}")?;
        }
        if let Some(session) = &self.session {
            write!(f, ";session={session}")?;
        }
        if self.links {
            write!(f, ";links=on")?;
        }
        if let Some(command) = &self.command {
            write!(f, ";command={{{command}}}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &Options) {
        let parsed = Options::parse(text).unwrap();
        assert_eq!(&parsed, expected, "{text}");
        assert_eq!(&Options::parse(&parsed.to_string()).unwrap(), expected, "{text} written and read again");
    }

    fn refused(text: &str, says: &str) {
        let error = Options::parse(text).unwrap_err().reason().unwrap();
        assert!(error.contains(says), "{text}: {error}");
    }

    #[test]
    fn strings_and_what_they_mean() {
        let default = Options::default;
        check("", &default());
        check("under_vol=0;under_info={}", &default());
        check("store", &Options { store: true, ..default() });
        check(
            " store ; fsync=never,commit=manual",
            &Options { store: true, sync: Sync::Never, commit: Commit::Manual, ..default() },
        );
        check(
            "writers=4;session=job-7;epoch=3",
            &Options { writers: Some(4), session: Some("job-7".into()), epoch: Some(3), ..default() },
        );
        check(
            "checksum=off statistics=yes codec=filters",
            &Options { checksum: false, statistics: true, codec: Codec::Filters, ..default() },
        );
        check("memory=256M", &Options { memory: Some(256 << 20), ..default() });
        check("command={/a b/c;d}", &Options { command: Some("/a b/c;d".into()), ..default() });
        check("links", &Options { links: true, ..default() });
        check("memory=off", &default());
        check("store;segments=arrow", &Options { store: true, segments: Segments::Arrow, ..default() });
        check(
            "under_vol=1;under_info={under_vol=0;under_info={}};store",
            &Options {
                store: true,
                under_vol: 1,
                under_info: "under_vol=0;under_info={}".into(),
                ..default()
            },
        );
    }

    #[test]
    fn mistakes_are_named() {
        refused("stores", "stores is not known");
        refused("fsync=always", "never, epoch, record");
        refused("writers=many", "expected a number");
        refused("writers=0", "at least one");
        refused("epoch=-1", "expected a number");
        refused("memory", "such as 256M");
        refused("memory=0", "such as 256M");
        refused("memory=1KM", "such as 256M");
    }
}
