//! Messages that no client of ours sends.

use super::*;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::flight_service_client::FlightServiceClient;
use arrow_flight::utils::batches_to_flight_data;
use arrow_flight::{Action, FlightData, FlightDescriptor};
use bytes::Bytes;
use std::path::Path;
use std::sync::mpsc::channel;
use tonic::Status;
use tonic::transport::Channel;

/// Runs a test against a server of an empty writable folder.
fn with_server<F: Future<Output = ()>>(
    name: &str,
    test: impl FnOnce(FlightServiceClient<Channel>, String, PathBuf) -> F,
) {
    let folder = std::env::temp_dir().join(format!("hyperchunk-flight-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let mut options = ServerOptions::new(Address::parse("grpc://127.0.0.1:0").unwrap());
    options.writable = true;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (to, from) = channel();
    let roots = Roots::new(std::slice::from_ref(&folder)).unwrap();
    let server =
        runtime.spawn(async move { run(roots, &options, |url| to.send(url.to_owned()).unwrap()).await });
    let url = from.recv().unwrap().replace("grpc://", "http://");
    runtime.block_on(async {
        test(connect(url.clone()).await, url, folder.clone()).await;
    });
    server.abort();
    runtime.shutdown_background();
    std::fs::remove_dir_all(folder).unwrap();
}

async fn connect(url: String) -> FlightServiceClient<Channel> {
    FlightServiceClient::new(Channel::from_shared(url).unwrap().connect().await.unwrap())
}

fn messages(command: &str) -> Vec<FlightData> {
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..100));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..100).map(|n| "x".repeat(n % 5))));
    let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
    let mut messages = batches_to_flight_data(&batch.schema(), [&batch, &batch]).unwrap();
    messages[0].flight_descriptor = Some(FlightDescriptor::new_cmd(command.to_owned()));
    messages
}

async fn put(
    client: &mut FlightServiceClient<Channel>,
    messages: Vec<FlightData>,
) -> std::result::Result<(), Status> {
    let mut results = client.do_put(futures_util::stream::iter(messages)).await?.into_inner();
    while results.message().await?.is_some() {}
    Ok(())
}

#[test]
fn damaged_messages_are_errors() {
    with_server("damaged", async |mut client, _, folder| {
        let command = |turn: usize| format!(r#"{{"file": "f{turn}.h5", "as": "hdf5"}}"#);
        let mut seed = 7_u32;
        let mut random = |below: usize| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (seed >> 8) as usize % below.max(1)
        };
        for turn in 0..150 {
            let mut sent = messages(&command(turn));
            let which = random(sent.len());
            let message = &mut sent[which];
            let header = random(2) == 0;
            let field = if header { &mut message.data_header } else { &mut message.data_body };
            let mut bytes = field.to_vec();
            match random(3) {
                0 => bytes.truncate(random(bytes.len())),
                1 if !bytes.is_empty() => {
                    for _ in 0..=random(4) {
                        let place = random(bytes.len());
                        bytes[place] = random(256).to_le_bytes()[0];
                    }
                }
                _ => bytes.extend((0..random(100)).map(|byte| byte.to_le_bytes()[0])),
            }
            *field = Bytes::from(bytes);
            if random(10) == 0 {
                let place = random(sent.len());
                sent.remove(place);
            }
            // Some of these have the same meaning in other bytes. The test is that the request ends, with an
            // answer.
            drop(put(&mut client, sent).await);
        }
        for (place, entry) in std::fs::read_dir(&folder).unwrap().enumerate() {
            // A complete file is valid; an incomplete one has no name.
            let path = entry.unwrap().path();
            assert!(
                hyperchunk::File::open(&path, &hyperchunk::OpenOptions::default()).is_ok(),
                "{place} {path:?}"
            );
        }
        put(&mut client, messages(&command(1000))).await.unwrap();
        let body = Bytes::from_static(br#"{"file": "f1000.h5"}"#);
        let action = Action { r#type: "hyperchunk.stat".into(), body };
        assert!(client.do_action(action).await.unwrap().into_inner().message().await.unwrap().is_some());
    });
}

#[test]
fn streams_that_lack_something_are_errors() {
    with_server("lacking", async |mut client, _, folder| {
        let whole = || messages(r#"{"file": "a.h5"}"#);
        let mut without = whole();
        without[0].flight_descriptor = None;
        for sent in [Vec::new(), without, whole().split_off(1), vec![FlightData::default(); 3]] {
            put(&mut client, sent).await.unwrap_err();
        }
        let exchange = client.do_exchange(futures_util::stream::iter(vec![FlightData::default()])).await;
        exchange.unwrap_err();
        assert_eq!(entries(&folder), 0);
    });
}

fn entries(folder: &Path) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Waits for something that the server does asynchronously.
async fn wait_for(what: &str, is_so: impl Fn() -> bool) {
    for _ in 0..3000 {
        if is_so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what}: not within 30 s");
}

#[test]
fn a_client_that_dies_leaves_nothing() {
    with_server("dying", async |_, url, folder| {
        // Dropping the runtime breaks its connection: the stream has no end.
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async {
            let mut client = connect(url).await;
            let some = futures_util::stream::iter(messages(r#"{"file": "a.h5"}"#).into_iter().take(2));
            let sent = futures_util::StreamExt::chain(some, futures_util::stream::pending());
            let mut results = client.do_put(sent).await.unwrap().into_inner();
            drop(results.message().await);
        });
        wait_for("the file is begun", || entries(&folder) > 0).await;
        runtime.shutdown_background();
        wait_for("what was begun is gone", || entries(&folder) == 0).await;
    });
}
