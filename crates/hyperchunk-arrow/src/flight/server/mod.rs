//! A server of tables, and of the files that contain them.

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

/// Callback that takes log lines.
pub type Log = Arc<dyn Fn(&str) + Send + Sync>;

/// Maximum size of a message of all requests except DoPut, in bytes.
const MAX_REQUEST_BYTES: usize = 2 << 20;
/// Maximum size of a message of DoPut, which contains data, in bytes.
const MAX_MESSAGE_BYTES: usize = 256 << 20;
/// Maximum number of concurrent streams on a connection.
const MAX_STREAMS_PER_CONNECTION: u32 = 256;
/// Flow control window of a stream, in bytes.
const WINDOW_BYTES: u32 = 8 << 20;
/// Idle time before a keep-alive ping, and the time to answer it.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(30));
/// Time that running requests get when the server is asked to stop.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// Options of a server.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerOptions {
    /// The address to listen at.
    pub address: Address,
    /// The token that clients must present; none is needed if `None`.
    pub token: Option<Token>,
    /// Certificate and key of TLS, as PEM.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Allow clients to write.
    pub writable: bool,
    /// Maximum number of concurrent responses.
    pub streams: usize,
    /// Maximum time that a response waits for its client to receive a message, or for memory.
    pub stall_timeout: Duration,
    /// Callback that gets a line for each request.
    pub log: Option<Log>,
}

impl ServerOptions {
    /// Makes options for an address; read-only, without a token.
    #[must_use]
    pub fn new(address: Address) -> Self {
        Self {
            address,
            token: None,
            identity: None,
            writable: false,
            streams: 64,
            stall_timeout: Duration::from_secs(300),
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

/// Serves the files and folders at some paths, until a signal asks it to stop. `ready` gets the URL as soon
/// as clients can connect.
///
/// # Errors
/// As [`Roots::new`]; Io if it cannot listen there; Invalid without a token if other machines can connect.
pub fn serve(paths: &[PathBuf], options: &ServerOptions, ready: impl FnOnce(&str)) -> Result<()> {
    hyperchunk_store::register();
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
            "without a token, the server may only serve this machine: listen at 127.0.0.1, or set a token";
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
        small: taking(MAX_REQUEST_BYTES),
        large: taking(MAX_MESSAGE_BYTES),
        token: options.token.clone().map(Arc::new),
        log: options.log.clone(),
    };
    let mut server = Server::builder()
        .max_concurrent_streams(MAX_STREAMS_PER_CONNECTION)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES * 2)
        .max_frame_size((1 << 20) as u32)
        .http2_keepalive_interval(Some(KEEPALIVE.0))
        .http2_keepalive_timeout(Some(KEEPALIVE.1));
    if tls {
        let (certificate, key) =
            options.identity.as_ref().ok_or_else(|| Error::invalid("TLS needs a certificate and its key"))?;
        let tls = ServerTlsConfig::new().identity(Identity::from_pem(certificate, key));
        server = server.tls_config(tls).map_err(|error| Error::invalid(error_chain(&error)))?;
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
            // Requests that take longer are aborted.
            match tokio::time::timeout(SHUTDOWN_GRACE, serving).await {
                Ok(ended) => ended,
                Err(_) => return Ok(()),
            }
        }
    };
    ended.map_err(|error| Error::new(ErrorKind::Io, error_chain(&error)))
}

/// Returns an error message with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(deeper) = cause {
        message = format!("{message}: {deeper}");
        cause = deeper.source();
    }
    message
}
