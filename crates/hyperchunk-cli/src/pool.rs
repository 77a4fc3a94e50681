//! `hyperchunk pool`.

use crate::Outcome;
use clap::{Args, Subcommand};
use hyperchunk_store::shared_memory_pool::{Pool, PoolStats};
use hyperchunk_udf::escape::escape;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// List your pools, or the objects of one.
    Ls(Ls),
    /// Delete objects of a pool; without names, the pool itself with all its memory.
    Rm(Rm),
    /// Print the memory that a pool takes, by use.
    Stats(Stats),
}

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// Name or folder of the pool.
    name: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Rm {
    /// Name or folder of the pool.
    name: String,
    /// Names of objects.
    objects: Vec<String>,
}

#[derive(Args, Debug)]
pub(crate) struct Stats {
    /// Name or folder of the pool.
    name: String,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Ls(Ls { name: None }) => {
            for name in Pool::all()? {
                let PoolStats { memory, quota, objects, spilled, .. } = Pool::open(&name)?.stats()?;
                say!("{name}\t{objects} objects\t{memory} of {quota} bytes\t{spilled} spilled");
            }
        }
        Command::Ls(Ls { name: Some(name) }) => {
            for entry in Pool::open(name)?.list()? {
                let place = if entry.spilled { "\tspilled" } else { "" };
                say!("{}\t{} bytes{place}", escape(&entry.name, 2000), entry.length);
            }
        }
        Command::Rm(Rm { name, objects }) if objects.is_empty() => Pool::remove(name)?,
        Command::Rm(Rm { name, objects }) => {
            let pool = Pool::open(name)?;
            for object in objects {
                if !pool.delete(object)? {
                    return Err(format!("object {object} not found in pool {name}").into());
                }
            }
        }
        Command::Stats(Stats { name }) => {
            let stats = Pool::open(name)?.stats()?;
            say!("quota     {} bytes", stats.quota);
            say!("memory    {} bytes, {} of them free", stats.memory, stats.free);
            say!("objects   {} ({} bytes)", stats.objects, stats.bytes);
            say!("unsealed  {}", stats.unsealed);
            say!("deleted   {} still in use", stats.deleted);
            say!("spilled   {} ({} bytes)", stats.spilled, stats.spilled_bytes);
        }
    }
    Ok(())
}
