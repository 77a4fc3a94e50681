//! `hyperchunk serve`.

use crate::Outcome;
use clap::Args;
use hyperchunk::{ErrorKind, File, OpenOptions};
use hyperchunk_arrow::flight::{self, Address, ServerOptions, Token};
use std::path::PathBuf;
use std::sync::Arc;

/// Serve files and folders until Ctrl-C or SIGTERM. Clients: `hyperchunk.open("grpc://HOST:PORT/FILE")`, and
/// any Arrow Flight client.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Serve by Arrow Flight.
    #[arg(long, required = true)]
    flight: bool,
    /// Address to listen at: grpc://HOST:PORT, grpc+tls://HOST:PORT or grpc+unix:///PATH. Port 0 takes a free
    /// one.
    #[arg(long, value_name = "URL", default_value = "grpc://127.0.0.1:8815")]
    listen: String,
    /// File with the token that clients must send. Without it, the token is $HYPERCHUNK_TOKEN.
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,
    /// Require no token. Only at an address that other machines cannot reach.
    #[arg(long)]
    no_token: bool,
    /// Certificate chain for grpc+tls, as PEM.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Let clients create files and append to sharded stores.
    #[arg(long)]
    writable: bool,
    /// Maximum number of concurrent responses.
    #[arg(long, value_name = "N", default_value_t = 64)]
    streams: usize,
    /// Print a line for each request.
    #[arg(long, short)]
    verbose: bool,
    /// Files to serve, and folders, with everything below them.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut options = ServerOptions::new(Address::parse(&arguments.listen)?);
    if arguments.no_token && std::env::var_os("HYPERCHUNK_TOKEN").is_some() {
        crate::print_message(
            &"note: $HYPERCHUNK_TOKEN is not used, because of --no-token: clients need no token",
        );
    }
    options.token = match &arguments.token_file {
        Some(path) => Some(Token::read(path)?),
        None if arguments.no_token => None,
        None => Some(Token::from_environment()?.ok_or(
            "cannot serve without a token; use --token-file or $HYPERCHUNK_TOKEN, or --no-token \
             for this machine only",
        )?),
    };
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
    };
    options.identity = match (&arguments.cert, &arguments.key) {
        (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
        _ => None,
    };
    options.writable = arguments.writable;
    options.streams = arguments.streams.max(1);
    options.log =
        arguments.verbose.then(|| Arc::new(|line: &str| crate::print_message(&line)) as flight::Log);
    for path in arguments.paths.iter().filter(|path| path.is_file()) {
        if let Err(error) = File::open(path, &OpenOptions::default())
            && error.kind() == ErrorKind::NotHdf5
        {
            crate::print_message(&format!(
                "note: clients cannot open {}: {}",
                path.display(),
                error.message()
            ));
        }
    }
    flight::serve(&arguments.paths, &options, |url| say!("serving at {url}"))?;
    Ok(())
}
