//! Taking tables from clients.

use super::opened::OpenFiles;
use super::service::Sent;
use arrow_flight::{FlightData, PutResult};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Status, Streaming};

pub(super) async fn put(
    _files: Arc<OpenFiles>,
    _messages: Streaming<FlightData>,
    _turn: OwnedSemaphorePermit,
) -> Result<mpsc::Receiver<Sent<PutResult>>, Status> {
    Err(Status::unimplemented("not yet"))
}
