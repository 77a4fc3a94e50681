//! A server of tables, and of the files that they lie in.

mod actions;
#[cfg(unix)]
mod authority;
mod follow;
mod frames;
mod front;
mod listen;
mod memory;
mod opened;
mod peers;
mod put;
mod service;
mod signals;
mod tables;
#[cfg(test)]
mod tests;

pub use listen::Address;

use super::names::Roots;
use super::token::Token;
use arrow_flight::flight_service_server::FlightServiceServer;
use front::Front;
use hyperchunk::{Error, ErrorKind, Result};
use listen::Listener;
use opened::OpenFiles;
use service::Flight;
pub use signals::Signals;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tonic::transport::{Identity, Server, ServerTlsConfig};

/// Takes lines about what happens.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// No request is larger, in bytes.
const LARGEST_REQUEST: usize = 2 << 20;
/// No message of a client with data in it is larger, in bytes.
const LARGEST_MESSAGE: usize = 256 << 20;
/// How many streams a connection may have.
const STREAMS_OF_ONE: u32 = 256;
/// How much a client may send ahead of what is read, in bytes.
const WINDOW: u32 = 8 << 20;
/// How long a client may be silent before it is asked whether it is there, and then before it is taken for gone.
const SILENT: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(30));
/// How long requests may go on when the server is asked to stop.
const GRACE: Duration = Duration::from_secs(5);

/// How a server runs.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// Where it listens.
    pub address: Address,
    /// Who may ask: whoever has it; everybody if it is `None`.
    pub token: Option<Token>,
    /// Certificate and key of TLS, as PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Whether clients may write.
    pub writable: bool,
    /// How many answers may be under way.
    pub streams: usize,
    /// How long one message may wait for its client.
    pub patience: Duration,
    /// Takes a line for each request.
    pub log: Option<Log>,
}

impl ServerOptions {
    /// At an address; read-only, without a token.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            token: None,
            identity: None,
            writable: false,
            streams: 64,
            patience: Duration::from_secs(300),
            log: None,
        }
    }
}

impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerOptions")
            .field("address", &self.address)
            .field("writable", &self.writable)
            .finish_non_exhaustive()
    }
}

/// Serves what lies at some paths, until a signal asks it to stop. `ready` is told the URL as soon as clients may come.
///
/// # Errors
/// As [`Roots::new`]; Io if it cannot listen there; Invalid without a token where others than this machine may come.
pub fn serve(paths: &[PathBuf], options: &ServerOptions, ready: impl FnOnce(&str)) -> Result<()> {
    let roots = Roots::new(paths)?;
    let signals = Signals::listen();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("hyperchunk-flight")
        .max_blocking_threads(options.streams.saturating_add(16))
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot start threads: {error}")))?;
    let ended = runtime.block_on(run(roots, options, ready));
    runtime.shutdown_timeout(Duration::from_millis(200));
    drop(signals);
    ended
}

async fn run(roots: Roots, options: &ServerOptions, ready: impl FnOnce(&str)) -> Result<()> {
    let (listener, url) = Listener::bind(&options.address).await?;
    if options.token.is_none() && listener.local().is_some_and(|address| !address.ip().is_loopback()) {
        let message =
            "without a token, only this machine may be served: listen at 127.0.0.1, or give a token";
        return Err(Error::invalid(message));
    }
    let tls = matches!(options.address, Address::Tcp { tls: true, .. });
    let flight = Flight::new(OpenFiles::new(roots), options, tls);
    let flight = Arc::new(flight);
    let taking = |largest| {
        FlightServiceServer::from_arc(Arc::clone(&flight))
            .max_decoding_message_size(largest)
            .max_encoding_message_size(usize::MAX)
    };
    let front = Front {
        small: taking(LARGEST_REQUEST),
        large: taking(LARGEST_MESSAGE),
        token: options.token.clone().map(Arc::new),
        log: options.log.clone(),
    };
    let mut server = Server::builder()
        .max_concurrent_streams(STREAMS_OF_ONE)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 2)
        .max_frame_size((1 << 20) as u32)
        .http2_keepalive_interval(Some(SILENT.0))
        .http2_keepalive_timeout(Some(SILENT.1));
    if tls {
        let (certificate, key) =
            options.identity.as_ref().ok_or_else(|| Error::invalid("TLS needs a certificate and its key"))?;
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        server = server.tls_config(tls).map_err(|error| Error::invalid(told(&error)))?;
    }
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let mut asked = stopped.clone();
    let until = async move { drop(asked.wait_for(|stop| *stop).await) };
    let serving = server.serve_with_incoming_shutdown(front, listener.incoming(options.log.clone()), until);
    tokio::pin!(serving);
    ready(&url);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = Signals::wait() => {
            stop.send_replace(true);
            // What takes longer is cut off.
            match tokio::time::timeout(GRACE, serving).await {
                Ok(ended) => ended,
                Err(_) => return Ok(()),
            }
        }
    };
    ended.map_err(|error| Error::new(ErrorKind::Io, told(&error)))
}

/// An error with its causes.
fn told(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        message = format!("{message}: {deeper}");
        cause = deeper.source();
    }
    message
}
