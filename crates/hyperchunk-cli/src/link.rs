//! `hyperchunk link`.

use crate::Outcome;
use clap::Args;
use hyperchunk::output;
use std::path::PathBuf;

/// Make FILE a link to a file over a network. Programs that take no URLs, such as those that use netCDF-C,
/// read it through the VOL connector with the option `links`.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// URL of the file.
    url: String,
    /// Link to make.
    file: PathBuf,
    /// Replace an existing FILE.
    #[arg(long)]
    overwrite: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    if !crate::source::is_url(&arguments.url) {
        return Err(format!(
            "cannot link: expected a URL such as s3://BUCKET/KEY, got `{}`",
            arguments.url.escape_debug()
        )
        .into());
    }
    let bytes = hyperchunk_h5abi::pointer::encode(&arguments.url)?;
    output::accept(&arguments.file, &[output::Kind::Hdf5])?;
    Ok(output::write(&arguments.file, &bytes, arguments.overwrite)?)
}
