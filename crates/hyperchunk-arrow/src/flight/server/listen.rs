//! The server's listening socket, and its connections.

use super::Log;
#[cfg(unix)]
use super::authority::AuthorityRewriter;
use super::peers::{ConnectionPermit, ConnectionState, Peers};
use futures_util::Stream;
use futures_util::stream::unfold;
use hyperchunk::{Error, ErrorKind, Result};
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
#[cfg(unix)]
use tokio::net::{UnixListener, UnixStream};
use tonic::codegen::http;
use tonic::transport::server::{Connected, TlsConnectInfo};

/// Pause after a failed accept, such as when the system has no descriptor left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// The address at which a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and a port; port 0 for a free one.
    Tcp {
        /// Host and port.
        at: String,
        /// Use TLS.
        tls: bool,
    },
    /// A Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// Parses a URL: `grpc://host:port`, `grpc+tls://host:port` or `grpc+unix:///path`.
    ///
    /// # Errors
    /// Invalid for other texts.
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = || {
            let message =
                format!("got {url:?}: expected grpc://HOST:PORT, grpc+tls://HOST:PORT or grpc+unix:///PATH");
            Error::invalid(message)
        };
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let rest = rest.trim_end_matches('/');
        match scheme.to_ascii_lowercase().as_str() {
            "grpc+unix" if rest.starts_with('/') => Ok(Self::Unix(rest.into())),
            scheme @ ("grpc" | "grpc+tcp" | "grpc+tls") if !rest.contains('/') && rest.contains(':') => {
                Ok(Self::Tcp { at: rest.to_owned(), tls: scheme == "grpc+tls" })
            }
            _ => Err(wrong()),
        }
    }
}

/// A listening socket.
pub(super) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, #[expect(dead_code, reason = "it acts when it is dropped")] SocketFile),
}

/// The path of a socket, which is removed on drop.
pub(super) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

fn cannot(at: &str, error: &io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::AddrInUse => "; choose another port with --listen, or port 0 for a free one",
        _ => "",
    };
    Error::new(ErrorKind::Io, format!("cannot listen at {at}: {error}{advice}"))
}

impl Listener {
    /// Starts to listen; returns the address for clients.
    pub(super) async fn bind(address: &Address) -> Result<(Self, String)> {
        match address {
            Address::Tcp { at, tls } => {
                let listener = TcpListener::bind(at.as_str()).await.map_err(|error| cannot(at, &error))?;
                let local = listener.local_addr().map_err(|error| cannot(at, &error))?;
                let scheme = if *tls { "grpc+tls" } else { "grpc" };
                Ok((Self::Tcp(listener), format!("{scheme}://{local}")))
            }
            #[cfg(unix)]
            Address::Unix(path) => {
                let shown = path.display().to_string();
                free(path).map_err(|error| cannot(&shown, &error))?;
                let listener = UnixListener::bind(path).map_err(|error| cannot(&shown, &error))?;
                // Accessible only to its owner: for users of the machine this takes the place of a token.
                use std::os::unix::fs::PermissionsExt as _;
                let allowed = std::fs::Permissions::from_mode(0o600);
                std::fs::set_permissions(path, allowed).map_err(|error| cannot(&shown, &error))?;
                let url = format!("grpc+unix://{shown}");
                Ok((Self::Unix(listener, SocketFile(path.clone())), url))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(Error::unsupported("this system has no Unix sockets")),
        }
    }

    /// Returns its local address, if it is a network socket.
    pub(super) fn local(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok(),
            #[cfg(unix)]
            Self::Unix(..) => None,
        }
    }

    async fn accept(&self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // Small frames are sent at once; large ones are written whole, so that waiting would not
                // combine them.
                drop(stream.set_nodelay(true));
                Ok(Connection::Tcp(stream))
            }
            #[cfg(unix)]
            Self::Unix(listener, _) => {
                Ok(Connection::Unix(listener.accept().await?.0, AuthorityRewriter::new()))
            }
        }
    }

    /// Returns the stream of connections, limited in number.
    pub(super) fn incoming(self, log: Option<Log>) -> impl Stream<Item = io::Result<LimitedConnection>> {
        let peers = Arc::new(Peers::default());
        unfold((self, peers, log), |(listener, peers, log)| async move {
            loop {
                match listener.accept().await {
                    Ok(connection) => {
                        let peer = connection.peer();
                        if let Some(place) = peers.admit(peer.map(|peer| peer.ip())).await {
                            return Some((
                                Ok(LimitedConnection { inner: connection, place }),
                                (listener, peers, log),
                            ));
                        }
                        if let (Some(log), Some(peer)) = (&log, peer) {
                            log(&format!("{peer} refused: it has too many connections"));
                        }
                    }
                    Err(error) => {
                        // The client has disconnected, or there is no file descriptor left: the next
                        // connection
                        // may succeed.
                        if let Some(log) = &log {
                            log(&format!("a connection was not accepted: {error}"));
                        }
                        tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                    }
                }
            }
        })
    }
}

/// Removes a socket at which no process listens.
#[cfg(unix)]
fn free(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::FileTypeExt as _;
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(there) if !there.file_type().is_socket() => {
            Err(io::Error::new(io::ErrorKind::AlreadyExists, "the path is a file that is not a socket"))
        }
        Ok(_) => match std::os::unix::net::UnixStream::connect(path) {
            Ok(_) => Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens at this socket")),
            Err(_) => std::fs::remove_file(path),
        },
    }
}

enum Connection {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream, AuthorityRewriter),
}

/// A connection, and its permit.
pub(super) struct LimitedConnection {
    inner: Connection,
    place: ConnectionPermit,
}

macro_rules! on_stream {
    ($connection:expr, $stream:ident => $what:expr) => {
        match &mut $connection.get_mut().inner {
            Connection::Tcp($stream) => $what,
            #[cfg(unix)]
            Connection::Unix($stream, _) => $what,
        }
    };
}

impl AsyncRead for LimitedConnection {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = self.get_mut();
        if connection.place.poll_end(cx) {
            let message = "closed: the connection was not authorised in time";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)));
        }
        match &mut connection.inner {
            Connection::Tcp(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(unix)]
            Connection::Unix(stream, rewriter) => rewriter.poll_read(Pin::new(stream), cx, buffer),
        }
    }
}

impl AsyncWrite for LimitedConnection {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        on_stream!(self, stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        on_stream!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}

impl Connection {
    fn peer(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().ok(),
            #[cfg(unix)]
            Self::Unix(..) => None,
        }
    }
}

/// The other side of a connection, attached to its requests.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    /// Its address; `None` for a Unix socket.
    pub(super) address: Option<SocketAddr>,
    pub(super) state: Arc<ConnectionState>,
}

impl Peer {
    /// Returns the peer of a request.
    pub(super) fn of(extensions: &http::Extensions) -> Option<&Self> {
        extensions.get().or_else(|| extensions.get::<TlsConnectInfo<Self>>().map(TlsConnectInfo::get_ref))
    }
}

impl Connected for LimitedConnection {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        Peer { address: self.inner.peer(), state: self.place.state() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let tcp = |at: &str, tls| Some(Address::Tcp { at: at.into(), tls });
        let check =
            |url: &str, expected: Option<Address>| assert_eq!(Address::parse(url).ok(), expected, "{url}");
        check("grpc://0.0.0.0:5000", tcp("0.0.0.0:5000", false));
        check("grpc+tcp://[::1]:0/", tcp("[::1]:0", false));
        check("GRPC+TLS://host:1", tcp("host:1", true));
        check("grpc+unix:///tmp/x.sock", Some(Address::Unix("/tmp/x.sock".into())));
        for url in ["", "grpc://host", "http://host:1", "grpc+unix://x", "grpc://host:1/x", "host:1"] {
            check(url, None);
        }
    }
}
