//! `hyperchunk env`.

use crate::Outcome;
use hyperchunk_udf::host::Programs;

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Print NAME=VALUE lines instead of shell commands.
    #[arg(long)]
    plain: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let programs = Programs::find()?;
    let folder = programs.plugin_folder()?;
    let folder = folder.display().to_string();
    let value = match std::env::var("HDF5_PLUGIN_PATH") {
        Ok(path) if path.split(':').any(|p| p == folder) => path,
        Ok(path) if !path.is_empty() => format!("{folder}:{path}"),
        _ => folder,
    };
    if arguments.plain {
        say!("HDF5_PLUGIN_PATH={value}");
    } else {
        say!("export HDF5_PLUGIN_PATH='{}'", value.replace('\'', "'\\''"));
    }
    Ok(())
}
