//! `hyperchunk completions` and `hyperchunk man`.

use crate::{Outcome, Status};
use clap_mangen::Man;
use hyperchunk::output;
use std::path::{Path, PathBuf};

#[derive(clap::Args, Debug)]
pub(crate) struct CompletionArguments {
    /// The shell.
    shell: clap_complete::Shell,
}

#[derive(clap::Args, Debug)]
pub(crate) struct ManArguments {
    /// Command whose page is printed, such as `store commit`; without one, the page of hyperchunk itself.
    #[arg(value_name = "COMMAND", conflicts_with = "output")]
    command: Vec<String>,
    /// Write the pages of all commands into this folder, such as ~/.local/share/man/man1.
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Replace existing pages.
    #[arg(long, requires = "output")]
    overwrite: bool,
}

/// Prints a script that completes the command's arguments.
pub(crate) fn complete(arguments: &CompletionArguments, mut command: clap::Command) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, "hyperchunk", &mut script);
    crate::print_text(&String::from_utf8_lossy(&script));
    Ok(())
}

/// Prints or writes manual pages.
pub(crate) fn man(arguments: &ManArguments, command: clap::Command) -> Outcome {
    let mut command = without_help(command);
    // Gives subcommands the names and usage lines that they have as parts of the command.
    command.build();
    if let Some(folder) = &arguments.output {
        return write_pages(&command, folder, arguments.overwrite);
    }
    let mut wanted = &command;
    for name in &arguments.command {
        wanted = wanted.find_subcommand(name).ok_or_else(|| {
            Status(
                2,
                format!("hyperchunk has no command {:?}: see hyperchunk --help", arguments.command.join(" ")),
            )
        })?;
    }
    crate::print_text(&String::from_utf8_lossy(&page(wanted)?));
    Ok(())
}

/// Leaves out the subcommand `help` of a command and of its subcommands: a page is help.
fn without_help(command: clap::Command) -> clap::Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Writes the pages of a command and its subcommands.
fn write_pages(command: &clap::Command, folder: &Path, overwrite: bool) -> Outcome {
    let mut pages = Vec::new();
    collect(command, &mut pages)?;
    output::make_folders(folder)?;
    for (name, _) in &pages {
        output::check(&folder.join(name), overwrite, &[])?;
    }
    for (name, page) in &pages {
        output::write(&folder.join(name), page, overwrite)?;
    }
    say!(
        "wrote {} pages to {}",
        pages.len(),
        hyperchunk_udf::escape::escape(&folder.display().to_string(), 300)
    );
    Ok(())
}

fn collect(command: &clap::Command, pages: &mut Vec<(String, Vec<u8>)>) -> Outcome {
    pages.push((format!("{}.1", page_name(command)), page(command)?));
    for part in command.get_subcommands().filter(|part| !part.is_hide_set()) {
        collect(part, pages)?;
    }
    Ok(())
}

fn page(command: &clap::Command) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let mut page = Vec::new();
    Man::new(command.clone())
        .title(page_name(command))
        .source(concat!("hyperchunk ", env!("CARGO_PKG_VERSION")))
        .manual("Hyperchunk")
        .render(&mut page)?;
    Ok(page)
}

/// Returns the name of a command's page: `hyperchunk-store-commit`.
fn page_name(command: &clap::Command) -> String {
    command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned()
}
