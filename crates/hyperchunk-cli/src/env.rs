//! `hyperchunk env`.

use crate::Outcome;
use hyperchunk_udf::host::Programs;
use std::path::{Path, PathBuf};

const CONNECTOR: &str = "hyperchunk";

#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Print NAME=VALUE lines instead of shell commands.
    #[arg(long)]
    plain: bool,
    /// Also make HDF5 programs use the VOL connector, with these options: `hyperchunk env --vol
    /// 'store;writers=4'`.
    #[arg(long, value_name = "OPTIONS", num_args = 0..=1, default_missing_value = "")]
    vol: Option<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let programs = Programs::find()?;
    let mut folders = vec![programs.plugin_folder()?];
    if arguments.vol.is_some() {
        folders.push(programs.connector_folder()?);
    }
    print(arguments.plain, "HDF5_PLUGIN_PATH", &plugin_path(&folders));
    if let Some(options) = &arguments.vol {
        print(arguments.plain, "HDF5_VOL_CONNECTOR", format!("{CONNECTOR} {options}").trim_end());
    }
    Ok(())
}

/// Folders that builds of libhdf5 search if HDF5_PLUGIN_PATH is not set, but not if it is.
const BUILT_IN: [&str; 4] = [
    "/usr/local/hdf5/lib/plugin",
    "/usr/local/lib/hdf5/plugin",
    "/usr/lib/x86_64-linux-gnu/hdf5/serial/plugins",
    "/usr/lib/aarch64-linux-gnu/hdf5/serial/plugins",
];

/// Returns the value of `HDF5_PLUGIN_PATH`: `folders` that are not in it yet, then its current value, or
/// libhdf5's built-in folders if it is not set.
fn plugin_path(folders: &[PathBuf]) -> String {
    let current = std::env::var("HDF5_PLUGIN_PATH").unwrap_or_else(|_| {
        let there: Vec<&str> = BUILT_IN.into_iter().filter(|folder| Path::new(folder).is_dir()).collect();
        there.join(":")
    });
    let on_path = |folder: &String| current.split(':').any(|known| known == folder);
    let added = folders.iter().map(|folder| folder.display().to_string()).filter(|folder| !on_path(folder));
    let mut path: Vec<String> = added.collect();
    if !current.is_empty() {
        path.push(current.clone());
    }
    path.join(":")
}

fn print(plain: bool, name: &str, value: &str) {
    if plain {
        say!("{name}={value}");
    } else {
        say!("export {name}='{}'", value.replace('\'', "'\\''"));
    }
}
