//! `hyperchunk serve`.

use crate::Outcome;
use clap::Args;
use hyperchunk_arrow::flight::{self, Address, ServerOptions, Token};
use std::path::PathBuf;
use std::sync::Arc;

/// Serves until it is asked to stop (Ctrl-C, SIGTERM). Clients: `hyperchunk.open("grpc://HOST:PORT/FILE")`, and whatever
/// speaks Arrow Flight.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Serve by Arrow Flight.
    #[arg(long, required = true)]
    flight: bool,
    /// Where to listen: grpc://HOST:PORT, grpc+tls://HOST:PORT or grpc+unix:///PATH. Port 0 takes a free one.
    #[arg(long, value_name = "URL", default_value = "grpc://127.0.0.1:8815")]
    listen: String,
    /// The file that holds the token that clients must show. Without it, the token is $HYPERCHUNK_TOKEN.
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    token_file: Option<PathBuf>,
    /// Ask for no token. Only at an address that other machines cannot reach.
    #[arg(long)]
    no_token: bool,
    /// The certificate for grpc+tls, as PEM, with those that it stands on.
    #[arg(long, value_name = "FILE", requires = "key")]
    cert: Option<PathBuf>,
    /// Its private key, as PEM.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
    /// Let clients make files and append to tables.
    #[arg(long)]
    writable: bool,
    /// How many answers may be under way.
    #[arg(long, value_name = "N", default_value_t = 64)]
    streams: usize,
    /// Print a line for each request.
    #[arg(long, short)]
    verbose: bool,
    /// Files, and folders, of which everything below is served.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut options = ServerOptions::new(Address::parse(&arguments.listen)?);
    options.token = match &arguments.token_file {
        Some(path) => Some(Token::read(path)?),
        None if arguments.no_token => None,
        None => Some(Token::from_environment()?.ok_or(
            "a token is needed: --token-file, $HYPERCHUNK_TOKEN, or --no-token where only this machine can come",
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
    options.log = arguments.verbose.then(|| Arc::new(|line: &str| crate::complain(&line)) as flight::Log);
    flight::serve(&arguments.paths, &options, |url| say!("serving at {url}"))?;
    Ok(())
}
