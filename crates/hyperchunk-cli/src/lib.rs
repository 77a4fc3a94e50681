//! The `hyperchunk` command, in the Python package and as a program of its own.
//!
//! **Invariant:** no logic; it parses arguments, calls the other crates and prints.
#![expect(clippy::print_stderr, reason = "a command prints its errors")]

/// Prints a line to standard output. If the reader has closed the pipe (`| head`), the command ends quietly.
macro_rules! say {
    ($($argument:tt)*) => { $crate::print_line(format_args!($($argument)*)) };
}

/// Adds a line to a text.
macro_rules! put {
    ($out:expr, $($argument:tt)*) => {{
        use std::fmt::Write as _;
        // Writing to a string cannot fail.
        let _ = writeln!($out, $($argument)*);
    }};
}

mod analyze;
mod arrow;
mod check;
mod collect;
mod describe;
mod doctor;
mod dump;
mod edit;
mod env;
mod get;
mod index;
mod json;
mod key;
mod legacy;
#[cfg(target_os = "linux")]
mod link;
mod ls;
mod output;
mod pack;
#[cfg(target_os = "linux")]
mod pool;
mod progress;
mod recover;
mod restructure;
mod salvage;
mod serve;
mod shell;
mod source;
mod store;
mod subcommands;
mod terminal;
mod trust;
mod udf;
mod verify;

pub use check::report_json;
pub use index::{IndexReport, Indexing};
pub use verify::explanation;

use clap::{CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use hyperchunk_udf::escape::escape_lines;
use std::ffi::OsString;
use std::sync::atomic::{AtomicBool, Ordering};

/// HDF5 that computes, streams and scales.
#[derive(Parser, Debug)]
#[command(name = "hyperchunk", version, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the objects of a file.
    Ls(ls::Arguments),
    /// Print the objects and values of a file.
    Dump(dump::Arguments),
    /// Read a dataset, or a part of it, into a file.
    Get(get::Arguments),
    /// Report whether a file is fit for object stores: the cost of reading it there, and the causes.
    Check(check::Arguments),
    /// Copy files to a new one, rechunked, recompressed or reorganised, as h5repack does, on all processors.
    Pack(pack::Arguments),
    /// Attributes: print, list, set and remove them.
    #[command(subcommand)]
    Attr(edit::attr::Command),
    /// Copy objects between files, or within one.
    Cp(edit::cp::Arguments),
    /// Move an object to another path of its file.
    Mv(edit::links::Move),
    /// Remove objects from a file.
    Rm(edit::links::Remove),
    /// Make groups in a file.
    Mkdir(edit::links::MakeGroup),
    /// Make a hard, soft or external link in a file.
    Ln(edit::links::MakeLink),
    /// Make another layout of a dataset (column order, other chunks or filters), which is read where it costs
    /// less.
    Restructure(restructure::Arguments),
    /// Record statistics of all values of a plain HDF5 file, so that queries need not read the data.
    Analyze(analyze::Arguments),
    /// Make an index of a file, so that reading it takes one round trip.
    Index(index::Arguments),
    /// Join many files of one layout into a collection, which opens in a few requests.
    Collect(collect::Arguments),
    /// Recover the data of a killed writer.
    Recover(recover::Arguments),
    /// Copy what is whole in a damaged, truncated or unclosed file to a new one.
    Salvage(salvage::Arguments),
    /// Serve files and their tables to other programs and machines.
    Serve(serve::Arguments),
    /// Make a local name for a file over a network, for programs that take no URLs.
    #[cfg(target_os = "linux")]
    Link(link::Arguments),
    /// Pass files over a network to an HDF5 program. The VOL connector starts it; it is not for direct use.
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Relay,
    /// Sharded stores: files that many processes write at once.
    #[command(subcommand)]
    Store(store::Command),
    /// Apache Arrow: export HDF5 files to Arrow and Parquet, and import them.
    #[command(subcommand)]
    Arrow(arrow::Command),
    /// Pools of shared memory.
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Pool(pool::Command),
    /// Live datasets: programs stored in a file as datasets.
    #[command(subcommand)]
    Udf(udf::Command),
    /// Your key, which signs the functions that you attach.
    #[command(subcommand)]
    Key(key::Command),
    /// Keys and profiles: the rights of signers.
    #[command(subcommand)]
    Trust(trust::Command),
    /// Print the environment that other HDF5 programs need: eval "$(hyperchunk env)".
    Env(env::Arguments),
    /// Check whether live datasets run on this machine, and how well they are sandboxed.
    Doctor,
    /// Print a script by which a shell completes commands and options.
    Completions(shell::CompletionArguments),
    /// Print the manual page of a command, or write all of them.
    Man(shell::ManArguments),
}

/// Result of a command. The error is a message for people, printed to standard error.
type Outcome = Result<(), Box<dyn std::error::Error>>;

/// Exit status after Ctrl-C, as a shell's.
pub const INTERRUPTED: i32 = 130;

/// Failure with its own exit status.
#[derive(Debug)]
struct Status(i32, String);

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.1)
    }
}

impl std::error::Error for Status {}

/// Prints a line. Control characters are escaped in JSON; other text is printed as it is, with names that are escaped
/// already.
fn print_line(line: std::fmt::Arguments<'_>) {
    let line = format!("{line}\n");
    if line.starts_with(['{', '[']) {
        print_text(&json::TerminalSafe(&line).to_string());
    } else {
        print_text(&line);
    }
}

fn print_text(text: &str) {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    // A command that runs inside Python does not flush at its end.
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        handle_write_error(&error);
    }
}

/// Whether the command may end successfully when its standard output is closed.
static ONLY_PRINTS: AtomicBool = AtomicBool::new(false);

/// Handles an error of writing to standard output. Readers may close the pipe early (`| head`); a command
/// that only prints then succeeds, and one that also changes or checks something continues, for its own exit
/// status. Any other error, such as a full disk, is a failure.
fn handle_write_error(error: &std::io::Error) {
    if error.kind() != std::io::ErrorKind::BrokenPipe {
        eprintln!("hyperchunk: cannot write to standard output: {error}");
        std::process::exit(1);
    }
    if ONLY_PRINTS.load(Ordering::Relaxed) {
        std::process::exit(0);
    }
}

/// Prints an error that does not end the command.
fn print_message(error: &dyn std::fmt::Display) {
    eprintln!("hyperchunk: {}", hyperchunk_udf::escape::escape(&error.to_string(), 2000));
}

/// Joins the lines of each paragraph in the help of a command and its subcommands, so that only clap wraps
/// them.
fn join_help_lines(command: clap::Command) -> clap::Command {
    let help = command.get_after_help().map(|help| join_lines(&help.to_string()));
    let command = match help {
        Some(help) => command.after_help(help),
        None => command,
    };
    command.mut_subcommands(join_help_lines)
}

/// Joins the lines of each paragraph; lines that begin with a space are left alone.
fn join_lines(text: &str) -> String {
    let mut joined = String::with_capacity(text.len());
    let goes_on = |line: &str| !line.is_empty() && !line.starts_with(' ');
    let mut before = "";
    for line in text.lines() {
        if !joined.is_empty() {
            joined.push(if goes_on(before) && goes_on(line) { ' ' } else { '\n' });
        }
        joined.push_str(line);
        before = line;
    }
    joined
}

/// Runs the command and returns its exit status: 0 for success, 1 for a failure, 2 for wrong arguments, or
/// the status of a [`Status`].
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    let parsed = join_help_lines(Arguments::command())
        .try_get_matches_from(arguments)
        .and_then(|matches| Arguments::from_arg_matches(&matches));
    let arguments = match parsed {
        Ok(arguments) => arguments,
        Err(error) => {
            let error = subcommands::advise(error, &Arguments::command());
            // Help and version are errors to clap, too.
            return match error.print() {
                Err(full) if full.kind() != std::io::ErrorKind::BrokenPipe => 1,
                _ => error.exit_code(),
            };
        }
    };
    // Standard output is for data: programs of live datasets print to standard error.
    let _clean = hyperchunk_udf::host::keep_output_clean();
    hyperchunk_store::register();
    hyperchunk_live::register_checks();
    hyperchunk_arrow::flight::enable();
    let before = hyperchunk::companion::set_warning(|text| print_message(&format!("warning: {text}")));
    let only_prints = match &arguments.command {
        Command::Ls(_) | Command::Dump(_) | Command::Get(_) | Command::Completions(_) | Command::Man(_) => {
            true
        }
        Command::Attr(command) => command.only_prints(),
        _ => false,
    };
    ONLY_PRINTS.store(only_prints, Ordering::Relaxed);
    let (outcome, is_interrupted) = hyperchunk::io::with_process_interrupt(|_| dispatch(arguments.command));
    // Restored because a program may run a command in its own process.
    hyperchunk::companion::set_warning(before);
    match outcome {
        Ok(()) => 0,
        Err(error) => {
            let status = error.downcast_ref::<Status>().map(|status| status.0);
            if is_interrupted && status.is_none() {
                eprintln!("hyperchunk: interrupted");
                return INTERRUPTED;
            }
            eprintln!("hyperchunk: {}", escape_lines(&error.to_string(), 100_000));
            status.unwrap_or(1)
        }
    }
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Ls(command) => ls::run(&command),
        Command::Dump(command) => dump::run(&command),
        Command::Get(command) => get::run(&command),
        Command::Check(command) => check::run(&command),
        Command::Pack(command) => pack::run(&command),
        Command::Attr(command) => edit::attr::run(&command),
        Command::Cp(command) => edit::cp::run(&command),
        Command::Mv(command) => edit::links::rename(&command),
        Command::Rm(command) => edit::links::remove(&command),
        Command::Mkdir(command) => edit::links::make_group(&command),
        Command::Ln(command) => edit::links::make_link(&command),
        Command::Restructure(command) => restructure::run(&command),
        Command::Analyze(command) => analyze::run(&command),
        Command::Index(command) => index::run(&command),
        Command::Collect(command) => collect::run(&command),
        Command::Recover(command) => recover::run(&command),
        Command::Salvage(command) => salvage::run(&command),
        Command::Serve(command) => serve::run(&command),
        #[cfg(target_os = "linux")]
        Command::Link(command) => link::run(&command),
        #[cfg(target_os = "linux")]
        Command::Relay => hyperchunk_h5abi::relay::serve().map_err(Into::into),
        Command::Store(command) => store::run(&command),
        Command::Arrow(command) => arrow::run(&command),
        #[cfg(target_os = "linux")]
        Command::Pool(command) => pool::run(&command),
        Command::Udf(command) => udf::run(command),
        Command::Key(command) => key::run(&command),
        Command::Trust(command) => trust::run(command),
        Command::Env(command) => env::run(&command),
        Command::Doctor => doctor::run(),
        Command::Completions(command) => shell::complete(&command, join_help_lines(Arguments::command())),
        Command::Man(command) => shell::man(&command, join_help_lines(Arguments::command())),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    #[test]
    fn arguments_are_consistent() {
        super::Arguments::command().debug_assert();
        super::join_help_lines(super::Arguments::command()).debug_assert();
    }

    #[test]
    fn help_is_wrapped_once() {
        let joined = super::join_lines("Costs are for\na reader.\n\nExamples:\n  a b\n  c\n\nEnd\nhere.");
        assert_eq!(joined, "Costs are for a reader.\n\nExamples:\n  a b\n  c\n\nEnd here.");
    }
}
