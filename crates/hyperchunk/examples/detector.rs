//! Detector frames, compressed by several threads and written as they arrive:
//! `cargo run --example detector OUT.h5`.

use hyperchunk::codec::Encoder;
use hyperchunk::model::{ByteOrder, Dataspace, Datatype, Filter};
use hyperchunk::write::{CreateOptions, DatasetOptions, NewLayout, NodeId, Writer};
use std::sync::atomic::{AtomicU64, Ordering};

const FRAMES: u64 = 64;
const SIDE_PIXELS: u64 = 256;

/// Synthetic photon counts.
fn frame(number: u64) -> Vec<u8> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..SIDE_PIXELS * SIDE_PIXELS)
        .flat_map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state.leading_zeros() as i32).to_le_bytes()
        })
        .collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: detector OUT.h5")?;
    let file = Writer::create(&path, &CreateOptions::default())?;
    let entry = file.create_group(NodeId::ROOT, b"entry", true)?;
    let filter = |id, parameters| Filter { id, optional: true, name: None, parameters };
    let pipeline = vec![filter(2, vec![4]), filter(1, vec![1])];
    let dataspace = Dataspace::Simple {
        dims: vec![0, SIDE_PIXELS, SIDE_PIXELS],
        max: vec![None, Some(SIDE_PIXELS), Some(SIDE_PIXELS)],
    };
    let options = DatasetOptions::new(Datatype::integer(4, true, ByteOrder::Little), dataspace)
        .with_layout(NewLayout::Chunked(vec![1, SIDE_PIXELS, SIDE_PIXELS]))
        .with_pipeline(pipeline.clone());
    let frames = file.create_dataset(entry, b"data", options)?;
    frames.resize(&[FRAMES, SIDE_PIXELS, SIDE_PIXELS])?;

    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut encoder = Encoder::default();
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= FRAMES {
                            return Ok(());
                        }
                        let raw = frame(number);
                        let (bytes, mask) = encoder.encode(&pipeline, &raw)?;
                        frames.write_chunk(&[number, 0, 0], bytes, mask)?;
                    }
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(broken())))
    })?;
    file.close()?;
    Ok(())
}

fn broken() -> hyperchunk::Error {
    hyperchunk::Error::invalid("a thread ended before its time")
}
