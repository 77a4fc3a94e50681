use super::*;
use crate::codec::deflate::{Deflate, rust};
use crate::codec::testing::Dice;
use crate::codec::{Codec, Context, EncodeOutcome};

/// Inputs of many kinds, with names.
fn inputs(length: usize) -> Vec<(&'static str, Vec<u8>)> {
    let mut dice = Dice::new(length as u64 + 1);
    let random = dice.bytes(length);
    let text: Vec<u8> = std::iter::repeat_with(|| ["chunk ", "dataset ", "of ", "10 bytes\n"][dice.below(4)])
        .flat_map(str::bytes)
        .take(length)
        .collect();
    let mut dice = Dice::new(3);
    // Small counts, of 16 bits each.
    let counts: Vec<u8> =
        (0..length)
            .map(|at| {
                if at % 2 == 0 {
                    (dice.next() & dice.next() & 0x0101_0101_0101).count_ones() as u8
                } else {
                    0
                }
            })
            .collect();
    // Alternately compressible or not, so that blocks of all types occur.
    let mixed = (0..length).map(|at| if at / 7000 % 2 == 0 { random[at] } else { text[at] }).collect();
    // Codes of all lengths: each value is half as frequent as the one before.
    let skewed = (0..length).map(|_| dice.next().trailing_zeros() as u8 * 7).collect();
    let distant = (0..length).map(|at| random[at % 20_011]).collect();
    vec![
        ("zeros", vec![0; length]),
        ("random", random),
        ("text", text),
        ("counts", counts),
        ("mixed", mixed),
        ("skewed", skewed),
        ("distant", distant),
    ]
}

/// Returns the position of each block's header, the position after the last block, and the decompressed bytes.
/// Reads bit by bit, unlike `last_block`.
fn inflate(stream: &[u8]) -> (Vec<usize>, usize, Vec<u8>) {
    const BASES: [usize; 29] = [
        3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163,
        195, 227, 258,
    ];
    const EXTRA: [usize; 29] =
        [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0];
    const FAR: [usize; 30] = [
        1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049,
        3073, 4097, 6145, 8193, 12289, 16385, 24577,
    ];
    let at = std::cell::Cell::new(0);
    let take = |count: usize| {
        let bits = (0..count).map(|bit| {
            let place = at.get() + bit;
            usize::from(stream[place / 8] >> (place % 8) & 1) << bit
        });
        let value = bits.sum::<usize>();
        at.set(at.get() + count);
        value
    };
    // The codes as strings of bits after a leading one.
    let codes = |lengths: &[usize]| {
        let mut codes = std::collections::HashMap::new();
        let mut code = 0_usize;
        for length in 1..16 {
            code <<= 1;
            for (symbol, _) in lengths.iter().enumerate().filter(|pair| *pair.1 == length) {
                codes.insert(1 << length | code, symbol);
                code += 1;
            }
        }
        codes
    };
    let symbol = |codes: &std::collections::HashMap<usize, usize>| {
        let mut code = 1;
        loop {
            code = code << 1 | take(1);
            if let Some(symbol) = codes.get(&code) {
                return *symbol;
            }
        }
    };
    let (mut headers, mut output) = (Vec::new(), Vec::new());
    loop {
        headers.push(at.get());
        let last = take(1) == 1;
        let kind = take(2);
        if kind == 0 {
            at.set(at.get().next_multiple_of(8));
            let length = take(16);
            assert_eq!(take(16), 0xffff ^ length);
            output.extend((0..length).map(|_| take(8) as u8));
        } else {
            let mut lengths = [[8; 144].as_slice(), &[9; 112], &[7; 24], &[8; 8], &[5; 30]].concat();
            let mut symbols = 288;
            if kind == 2 {
                symbols = take(5) + 257;
                let (distances, stored) = (take(5) + 1, take(4) + 4);
                let mut few = [0; 19];
                for index in
                    [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15].iter().take(stored)
                {
                    few[*index] = take(3);
                }
                let few = codes(&few);
                lengths.clear();
                while lengths.len() < symbols + distances {
                    match symbol(&few) {
                        16 => lengths.extend(vec![lengths[lengths.len() - 1]; take(2) + 3]),
                        17 => lengths.extend(vec![0; take(3) + 3]),
                        18 => lengths.extend(vec![0; take(7) + 11]),
                        length => lengths.push(length),
                    }
                }
            }
            let (symbols, distances) = (codes(&lengths[..symbols]), codes(&lengths[symbols..]));
            loop {
                match symbol(&symbols) {
                    256 => break,
                    byte @ 0..256 => output.push(byte as u8),
                    length => {
                        let length = BASES[length - 257] + take(EXTRA[length - 257]);
                        let far = symbol(&distances);
                        let far = FAR[far] + take((far / 2).saturating_sub(1));
                        for _ in 0..length {
                            output.push(output[output.len() - far]);
                        }
                    }
                }
            }
        }
        if last {
            return (headers, at.get(), output);
        }
    }
}

fn raw(bytes: &[u8], level: i32) -> Vec<u8> {
    let mut stream = vec![0; libdeflate::raw_bound(bytes.len(), level).unwrap()];
    let length = libdeflate::compress_raw(bytes, &mut stream, level).unwrap().unwrap();
    stream.truncate(length);
    stream
}

fn check_last_block(stream: &[u8], expected: &[u8], name: &str) {
    let (headers, end, output) = inflate(stream);
    assert!(output == expected, "{name}");
    let last = last_block::find(stream).unwrap();
    let header = headers[headers.len() - 1];
    let decoded = expected.len() as u64;
    assert_eq!(last, last_block::LastBlock { header, end, decoded }, "{name}: {headers:?}");
}

#[test]
fn test_last_block_is_the_one_of_a_bitwise_decoder() {
    for length in [0, 1, 50, 5000, 70_001] {
        for (name, bytes) in inputs(length) {
            for level in [0, 1, 2, 4, 6, 9] {
                let name = format!("{name}, {length} bytes, level {level}");
                check_last_block(&raw(&bytes, level), &bytes, &name);
            }
            // Another compressor, which also makes blocks with fixed codes.
            for level in [1, 6] {
                let stream = miniz_oxide::deflate::compress_to_vec(&bytes, level);
                check_last_block(&stream, &bytes, &format!("{name}, {length} bytes, miniz {level}"));
            }
        }
    }
}

#[test]
fn test_last_block_of_damaged_streams_does_not_panic() {
    let mut dice = Dice::new(8);
    let mut found = [0; 2];
    for (_, bytes) in inputs(12_000) {
        for level in [0, 1, 6] {
            let stream = raw(&bytes, level);
            for length in (0..stream.len().min(300)).chain(stream.len().saturating_sub(300)..stream.len()) {
                assert_eq!(last_block::find(&stream[..length]), None, "{length}");
            }
            for round in 0..300 {
                let mut damaged = stream.clone();
                for _ in 0..=round % 3 {
                    // Headers matter most.
                    let end = if round % 2 == 0 { damaged.len() } else { damaged.len().min(90) };
                    damaged[dice.below(end)] = dice.next() as u8;
                }
                if let Some(last) = last_block::find(&damaged) {
                    assert!(last.header < last.end && last.end <= damaged.len() * 8);
                    found[0] += 1;
                }
                found[1] += 1;
            }
        }
    }
    assert!(found[0] > 0 && found[0] < found[1], "{found:?}");
    for length in 0..2000 {
        last_block::find(&dice.bytes(length));
    }
}

#[test]
fn test_last_block_of_invalid_blocks() {
    let find = |bytes: &[u8]| last_block::find(bytes);
    assert_eq!(find(&[]), None);
    // A reserved type, a stored block without its complement, and one with too few bytes.
    assert_eq!(find(&[7, 0, 0, 0, 0]), None);
    assert_eq!(find(&[1, 0, 0, 0, 0]), None);
    assert_eq!(find(&[1, 2, 0, 0xfd, 0xff, 9]), None);
    assert!(find(&[1, 1, 0, 0xfe, 0xff, 9]).is_some());
    // The empty block with fixed codes, and without its end.
    assert_eq!(find(&[3, 0]), Some(last_block::LastBlock { header: 0, end: 10, decoded: 0 }));
    assert_eq!(find(&[3]), None);
    // Symbols 286 and 287 of the fixed code do not occur.
    for symbol in [0b1100_0110_u32, 0b1100_0111] {
        let bits = 3 | (symbol.reverse_bits() >> 24) << 3;
        assert_eq!(find(&[bits as u8, (bits >> 8) as u8, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}

/// Decompresses a stream with both libraries and compares it with the input.
fn check_stream(stream: &[u8], expected: &[u8], name: &str) {
    let mut output = b"an earlier chunk".to_vec();
    let context = Context { parameters: &[], expected: Some(expected.len()), limit: expected.len() };
    Deflate.decode_over(stream, &mut output, &context).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(output == expected, "{name}");
    let mut output = vec![0; expected.len()];
    let length = rust::decompress(stream, &mut output).unwrap_or_else(|_| panic!("{name}"));
    assert!(length == expected.len() && output == expected, "{name}");
}

const MANDATORY: EncodeContext<'static> = EncodeContext { parameters: &[], optional: false };

#[test]
fn test_joined_streams_decode_with_both_libraries() {
    for length in [2, 3, 999, 30_000, 98_304, 98_305, 200_003] {
        for (name, bytes) in inputs(length) {
            for level in 0..=9 {
                let count = 2 + (length + level as usize) % 4;
                let name = format!("{name}, {length} bytes, level {level}, {count} parts");
                // An output buffer with old bytes: none, some, or more than the stream needs.
                let mut output = vec![0x77; [0, 100, length * 2 + 300][count % 3]];
                let size =
                    compress_parts(&bytes, &mut output, level, (count.min(3), count), &MANDATORY).unwrap();
                check_stream(&output[..size.expect(&name)], &bytes, &name);
            }
        }
    }
}

#[test]
fn test_streams_are_the_same_for_each_buffer_and_begin_like_those_of_one_thread() {
    for (name, bytes) in inputs(270_000) {
        for level in 1..=9 {
            let mut one = Vec::new();
            let parameters = [level as u32];
            let context = EncodeContext { parameters: &parameters, optional: false };
            Deflate.encode(&bytes, &mut one, &context).unwrap();
            let encode = |mut output: Vec<u8>| {
                let EncodeOutcome::Written(size) =
                    Deflate.encode_on(2, &bytes, &mut output, &context).unwrap()
                else {
                    panic!("{name}");
                };
                output[..size].to_vec()
            };
            let stream = encode(Vec::new());
            assert_eq!(stream[..2], one[..2], "level {level}");
            assert_eq!(encode(vec![0xff; 600_000]), stream, "{name}");
        }
    }
}

#[test]
fn test_few_bytes_or_one_thread_give_the_stream_of_one_thread() {
    let parts = |length: usize, level, threads| {
        compress(&vec![1; length], &mut Vec::new(), level, threads, &MANDATORY).unwrap()
    };
    assert_eq!(parts(2 * MIN_PART_BYTES - 1, 6, 8), None);
    assert_eq!(parts(2 * MIN_PART_BYTES, 6, 1), None);
    assert_eq!(parts(2 * MIN_PART_BYTES, 6, 0), None);
    assert_eq!(parts(2 * MIN_PART_BYTES, 1, 8), None);
    assert_eq!(parts(2 * MIN_FAST_PART_BYTES, 0, 8), None);
    assert!(parts(2 * MIN_FAST_PART_BYTES, 1, 8).is_some());
    assert!(parts(2 * MIN_PART_BYTES, 6, 8).is_some());
    for (length, threads) in [(1000, 9), (200_000, 1)] {
        for (name, bytes) in inputs(length) {
            let (mut one, mut other) = (Vec::new(), Vec::new());
            let outcome = Deflate.encode(&bytes, &mut one, &MANDATORY).unwrap();
            assert_eq!(Deflate.encode_on(threads, &bytes, &mut other, &MANDATORY).unwrap(), outcome);
            assert_eq!(one, other, "{name}");
        }
    }
}

#[test]
fn test_incompressible_chunks_are_refused_if_the_filter_is_optional() {
    let bytes = Dice::new(4).bytes(400_000);
    for level in 1..=9 {
        let parameters = [level];
        let context = |optional| EncodeContext { parameters: &parameters, optional };
        let mut output = Vec::new();
        let refused = Deflate.encode_on(3, &bytes, &mut output, &context(true)).unwrap();
        assert_eq!(refused, EncodeOutcome::Refused);
        let written = Deflate.encode_on(3, &bytes, &mut output, &context(false)).unwrap();
        let EncodeOutcome::Written(size) = written else { panic!("{written:?}") };
        assert!(size > bytes.len() && size < bytes.len() + 200, "{size}");
        check_stream(&output[..size], &bytes, "random");
    }
    let context = EncodeContext { parameters: &[10], optional: true };
    assert!(Deflate.encode_on(3, &bytes, &mut Vec::new(), &context).is_err());
}

#[test]
fn test_streams_of_which_a_part_cannot_be_continued() {
    let bytes = b"an earlier chunk".repeat(1000);
    let stream = raw(&bytes, 6);
    let padded = [&stream[..], &[0; 9]].concat();
    assert!(continued(&mut padded.clone(), stream.len(), bytes.len()).is_some());
    // Another size, bytes after the last block, an incomplete block, and no space for the empty block.
    assert_eq!(continued(&mut padded.clone(), stream.len(), bytes.len() + 1), None);
    assert_eq!(continued(&mut padded.clone(), stream.len() + 1, bytes.len()), None);
    assert_eq!(continued(&mut padded.clone(), stream.len() - 1, bytes.len()), None);
    assert_eq!(continued(&mut padded.clone(), 99_999, bytes.len()), None);
    assert_eq!(continued(&mut stream.clone(), stream.len(), bytes.len()), None);
}

#[test]
fn test_checksums_of_extreme_bytes() {
    for (value, length) in [(0xff, 500_000), (0, 500_000), (0xff, 3), (1, 65_521)] {
        let bytes = vec![value; length];
        for at in [0, 1, length / 3, length - 1, length] {
            let (before, after) = bytes.split_at(at);
            let part = Part { length: 0, decoded: after.len(), checksum: libdeflater::adler32(after) };
            assert_eq!(joined_checksum(libdeflater::adler32(before), &part), libdeflater::adler32(&bytes));
        }
    }
}
