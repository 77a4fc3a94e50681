//! Advice for unknown subcommands: words of other HDF5 tools, and subcommands that are a level deeper.

use clap::error::{ContextKind, ContextValue, Error, ErrorKind};
use clap::{Command, builder::StyledStr};

/// Words that users try, with the command that does it.
const SYNONYMS: [(&str, &str); 16] = [
    ("convert", "pack` or `hyperchunk arrow export"),
    ("copy", "cp"),
    ("delete", "rm"),
    (
        "edit",
        "attr set`, `cp`, `mv`, `rm`, `mkdir`, `ln`; elements are changed in Python, as with h5py: `hyperchunk.open(FILE, \"r+\")",
    ),
    ("h5copy", "cp"),
    ("h5dump", "dump"),
    ("h5ls", "ls"),
    ("h5repack", "pack"),
    ("info", "ls -l"),
    ("list", "ls"),
    ("repack", "pack"),
    (
        "set",
        "attr set` for an attribute; elements are changed in Python, as with h5py: `hyperchunk.open(FILE, \"r+\")",
    ),
    ("show", "ls -l"),
    ("sql", "store query"),
    ("stat", "ls -l"),
    ("version", "--version"),
];

/// Adds the commands that may be meant to the error about an unknown subcommand; other errors stay as they are.
pub(crate) fn advise(mut error: Error, command: &Command) -> Error {
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    let mut meant = deeper(command, word);
    meant
        .extend(SYNONYMS.iter().filter(|(known, _)| known == word).map(|(_, instead)| (*instead).to_owned()));
    if !meant.is_empty() {
        let tips = meant.iter().map(|instead| StyledStr::from(format!("try `hyperchunk {instead}`")));
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips.collect()));
        error.remove(ContextKind::SuggestedSubcommand);
    }
    error
}

/// Returns the subcommands of subcommands that have a name, such as `store query`.
fn deeper(command: &Command, name: &str) -> Vec<String> {
    let groups = command.get_subcommands().filter(|group| !group.is_hide_set());
    let found = groups.filter(|group| group.find_subcommand(name).is_some_and(|found| !found.is_hide_set()));
    found.map(|group| format!("{} {name}", group.get_name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn unknown_subcommands_get_a_tip() {
        let check = |arguments: &[&str], tip: Option<&str>| {
            let command = crate::Arguments::command();
            let error = command.clone().try_get_matches_from(arguments).unwrap_err();
            let text = advise(error, &command).to_string();
            assert_eq!(text.contains("try `"), tip.is_some(), "{text}");
            assert!(text.contains(tip.unwrap_or("unrecognized")), "{text}");
        };
        check(&["hyperchunk", "query", "a.h5"], Some("try `hyperchunk store query`"));
        check(&["hyperchunk", "attach"], Some("try `hyperchunk udf attach`"));
        check(&["hyperchunk", "export"], Some("try `hyperchunk arrow export`"));
        check(&["hyperchunk", "h5ls"], Some("try `hyperchunk ls`"));
        check(&["hyperchunk", "convert"], Some("try `hyperchunk pack` or `hyperchunk arrow export`"));
        check(&["hyperchunk", "frobnicate"], None);
        check(&["hyperchunk", "store", "frobnicate"], None);
    }

    #[test]
    fn synonyms_name_existing_commands() {
        let command = crate::Arguments::command();
        for (_, instead) in SYNONYMS {
            let first = instead.split([' ', '`']).next().unwrap();
            assert!(first.starts_with('-') || command.find_subcommand(first).is_some(), "{instead}");
        }
    }
}
