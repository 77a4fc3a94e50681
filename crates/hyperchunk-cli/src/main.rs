//! The `hyperchunk` command as a program of its own.

fn main() {
    std::process::exit(hyperchunk_cli::run(std::env::args_os()));
}
