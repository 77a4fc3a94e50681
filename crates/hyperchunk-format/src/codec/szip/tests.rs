use super::*;
use crate::codec::testing::{Dice, Packer, check_damaged, decoded, encoded, hex};

/// Converts values to integers of `size` bytes in a byte order.
fn integers(values: impl Iterator<Item = u64>, size: usize, order: Order) -> Vec<u8> {
    let element = |value: u64| match order {
        Order::Little => value.to_le_bytes()[..size].to_vec(),
        Order::Big => value.to_be_bytes()[8 - size..].to_vec(),
    };
    values.flat_map(element).collect()
}

/// Samples of libaec: parameters, its stream, and the original bytes.
fn samples() -> Vec<(&'static [u32], Vec<u8>, Vec<u8>)> {
    use Order::{Big, Little};
    let sample = |parameters: &'static [u32], stored, bytes| (parameters, hex(stored), bytes);
    vec![
        sample(
            &[169, 8, 8, 64],
            "400000008c9a920acb2dea4a57cedfce7f47e2f39824686d56d30d0151d84257e9a695aea526b89bf9daa563ff39ff39
             de2a9048d048d0",
            integers((0..64).map(|i| i * i % 37 + 100), 1, Little),
        ),
        sample(
            &[149, 4, 16, 30],
            "3c0000003d27263a1c64743348e40e91e43d27263a1c647400",
            integers((0..30).map(|i| i % 5 * 3), 2, Big),
        ),
        sample(
            &[169, 16, 32, 40],
            "a0000000ee1db27db1feb07db21c55985a135f8d5f27364ef6c2abf16aa7f54e7667160e370090880911ff8483d82a2d
             0000000000a23e0003ffbabaf9ababababacffffbedf7dbedbed4249124ffff80080e7e08001",
            integers((0..40).map(|i| 70000 + i * i - 900 * i), 4, Little),
        ),
        sample(
            &[177, 16, 64, 65],
            "0802000000008000400420001000080023e78c1e0e23fc807e99090840ceaaaa49276c12536c149b7ea80aaae31ae7bc
             211a41531d29736363af9254044444a4a4edd4b56585ca0003ffffc0000000000000038000840da03d5b5456ec8f6660
             2aa36875d31c806bf259821ff09a8763fba6631f7ac29c32ebbb4f6ffe72bcacb4d58f1fffe4644e4aa379f9ffda604d
             b00d699028000fffff0000000000000000",
            integers((0..65).map(|i| (1 << 40) + i * i * i), 8, Big),
        ),
        sample(
            &[169, 10, 24, 40],
            "a00000001c4aa202aaab55550d55556aaaa86aaaab55554355555aaaaa",
            integers((0..40).map(|i| 9_000_000 + 3 * i), 4, Little),
        ),
        sample(
            &[141, 2, 16, 256],
            "b004000000401000000251401004010040",
            integers((0..600).map(|i| if i == 299 { 7 } else { 0 }), 2, Little),
        ),
    ]
}

#[test]
fn as_libaec_has_it() {
    for (parameters, stored, bytes) in samples() {
        assert_eq!(decoded(&Szip, &stored, parameters, bytes.len()).unwrap(), bytes, "{parameters:?}");
        assert_eq!(encoded(&Szip, &bytes, parameters).unwrap(), stored, "{parameters:?}");
    }
}

/// Encoder that picks any valid code for a block.
struct AnyEncoder<'a> {
    dice: &'a mut Dice,
    out: Packer,
    bits: u32,
    name: u32,
}

impl AnyEncoder<'_> {
    fn zeros(&mut self, count: u32) {
        self.out.put(0, count);
        self.out.put(1, 1);
    }

    /// Codes the blocks of one line. The first sample is a reference, if there is one.
    fn line(&mut self, coded: &[u32], block: usize, reference: bool) {
        let blocks: Vec<&[u32]> = coded.chunks(block).collect();
        let mut done = 0;
        while let Some(block) = blocks.get(done) {
            let skip = usize::from(reference && done == 0);
            let values = &block[skip..];
            let head = |own: &mut Self, name: u32, low_entropy: Option<u128>| {
                own.out.put(name.into(), own.name);
                low_entropy.into_iter().for_each(|bit| own.out.put(bit, 1));
                if skip > 0 {
                    own.out.put(block[0].into(), own.bits);
                }
            };
            done += 1;
            let low = self.dice.below((1 << self.name) - 2) as u32;
            let pairs: Vec<[u32; 2]> = block.as_chunks().0.to_vec();
            let sums = |number: usize, pair: &[u32; 2]| {
                if number == 0 && skip > 0 { pair[1] } else { pair[0] + pair[1] }
            };
            if values.iter().all(|value| *value == 0) && self.dice.below(8) > 0 {
                head(self, 0, Some(0));
                let zero = |block: &&&[u32]| block.iter().all(|value| *value == 0);
                let follow = blocks[done..].iter().take_while(zero).count();
                let end = (done - 1) / 64 * 64 + 64;
                let to_end = end.min(blocks.len()) - done;
                let run = self.dice.below(follow + 1).min(to_end);
                if run == to_end && run >= 4 {
                    self.zeros(4);
                } else if run < 4 {
                    self.zeros(run as u32);
                } else {
                    self.zeros(run as u32 + 1);
                }
                done += run;
            } else if values.iter().all(|value| *value < 13)
                && pairs.iter().enumerate().all(|(number, pair)| sums(number, pair) < 13)
                && self.dice.below(3) > 0
            {
                head(self, 0, Some(1));
                for (number, pair) in pairs.iter().enumerate() {
                    let sum = sums(number, pair);
                    self.zeros(sum * (sum + 1) / 2 + pair[1]);
                }
            } else if values.iter().all(|value| value >> low < 300) && self.dice.below(4) > 0 {
                head(self, low + 1, None);
                values.iter().for_each(|value| self.zeros(value >> low));
                values.iter().for_each(|value| self.out.put((value & ((1 << low) - 1)).into(), low));
            } else {
                self.out.put((1 << self.name) - 1, self.name);
                block.iter().for_each(|value| self.out.put((*value).into(), self.bits));
            }
        }
    }
}

/// Returns the distance from the left neighbour, mapped to a nonnegative number.
fn distance(before: u32, sample: u32, bits: u32) -> u32 {
    let most = (1_u64 << bits) as i64 - 1;
    let (before, sample) = (i64::from(before), i64::from(sample));
    let nearer = before.min(most - before);
    let distance = sample - before;
    (match distance {
        0.. if distance <= nearer => 2 * distance,
        ..0 if -distance <= nearer => -2 * distance - 1,
        _ => nearer + distance.abs(),
    }) as u32
}

/// Encodes samples to a stream.
fn stream(dice: &mut Dice, samples: &[u32], parameters: &Parameters) -> Vec<u8> {
    let name = [3, 4, 5][[8, 16].iter().filter(|bound| parameters.bits > **bound).count()];
    let mut encoder = AnyEncoder { dice, out: Packer::default(), bits: parameters.bits, name };
    for line in samples.chunks(parameters.line) {
        let mut line = line.to_vec();
        let whole = parameters.line.next_multiple_of(parameters.block);
        line.resize(whole, if parameters.predicted { *line.last().unwrap() } else { 0 });
        if parameters.predicted {
            for at in (1..whole).rev() {
                line[at] = distance(line[at - 1], line[at], parameters.bits);
            }
        }
        encoder.line(&line, parameters.block, parameters.predicted);
    }
    encoder.out.bytes
}

#[test]
fn every_code_width_and_shape() {
    let mut dice = Dice::new(11);
    for round in 0..600_u32 {
        let pixel = if round % 4 == 0 { [32, 64][dice.below(2)] } else { 1 + round % 31 };
        let mask = [4, 32][dice.below(2)] | [8, 16][dice.below(2)] | 128;
        let numbers = [mask, 2 + 2 * dice.below(16) as u32, pixel, 1 + dice.below(300) as u32];
        let parameters = Parameters::new(&numbers).unwrap();
        let most = u32::MAX >> (32 - parameters.bits);
        let mut value = dice.next() as u32;
        let smooth = [0, 1, 1, 3, 20, 1 << 20][dice.below(6)];
        let count = (1 + dice.below(900)) * parameters.planes;
        let samples: Vec<u32> = (0..count)
            .map(|_| {
                if dice.below(3) == 0 {
                    value = value.wrapping_add(dice.below(2 * smooth + 1) as u32).wrapping_sub(smooth as u32);
                }
                match parameters.predicted {
                    true => value & most,
                    false => (dice.next() % (smooth as u64 + 1)) as u32 & most,
                }
            })
            .collect();
        let bytes = match parameters.planes {
            1 => integers(samples.iter().map(|sample| (*sample).into()), parameters.width, parameters.order),
            planes => {
                (0..count).map(|at| samples[at % planes * (count / planes) + at / planes] as u8).collect()
            }
        };
        let mut stored = (bytes.len() as u32).to_le_bytes().to_vec();
        stored.extend(stream(&mut dice, &samples, &parameters));
        let done = decoded(&Szip, &stored, &numbers, bytes.len()).unwrap();
        assert!(done == bytes, "{round} {parameters:?} {smooth} {count}");
        let own = encoded(&Szip, &bytes, &numbers).unwrap();
        // The other encoder picks any code, and does not always fill the last line.
        let line = parameters.whole(parameters.line);
        assert!(own.len() <= stored.len() + parameters.bound(line), "{round} {parameters:?}");
    }
}

#[test]
fn damage() {
    let check = |numbers: &[u32], stored: &[u8], size, kind| {
        let error = decoded(&Szip, stored, numbers, size).unwrap_err();
        assert_eq!(error.kind(), kind, "{numbers:?}: {error}");
    };
    let (numbers, stored, bytes) = samples().remove(2);
    let wrong = ErrorKind::Filter;
    check(numbers, &stored[..3], bytes.len(), wrong);
    check(numbers, &stored[..60], bytes.len(), wrong);
    check(numbers, &stored, bytes.len() - 1, ErrorKind::Limit);
    check(&numbers[..3], &stored, bytes.len(), wrong);
    for (at, value) in [(1, 0), (1, 7), (1, 34), (2, 0), (2, 33), (2, 65), (3, 0)] {
        let mut others = numbers.to_vec();
        others[at] = value;
        check(&others, &stored, bytes.len(), wrong);
    }
    // A length that is no multiple of an element, one that no such stream can have, none, and no stream.
    check(numbers, &[&[158, 0, 0, 0], &stored[4..]].concat(), 200, wrong);
    check(numbers, &[0xff; 9], usize::MAX, wrong);
    check(numbers, &[4, 0, 0, 0], 200, wrong);
    assert_eq!(decoded(&Szip, &[0; 4], numbers, 200).unwrap(), []);
    // A code of zeros without its one; a nonexistent pair; a run longer than its line.
    let raw = [4, 2, 8, 2];
    check(&raw, &[2, 0, 0, 0, 0b001_00000, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], 2, wrong);
    check(&raw, &[&[2, 0, 0, 0, 0b0001_0000][..], &[0; 12], &[1; 9]].concat(), 2, wrong);
    check(&raw, &[2, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0], 2, wrong);
    for (numbers, stored, bytes) in samples() {
        check_damaged(&Szip, &stored, numbers, bytes.len());
    }
}
