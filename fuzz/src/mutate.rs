//! Damage that gets past checksums: bits, fields, addresses of other structures, pieces of other files.

use crate::blocks::{Map, number};
use crate::dice::Dice;

/// Numbers on which parsers stumble.
const INTERESTING: [u64; 28] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    16,
    31,
    32,
    33,
    64,
    127,
    128,
    255,
    256,
    0x7fff,
    0x8000,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff0,
    0xffff_ffff,
    1 << 32,
    1 << 60,
    u64::MAX >> 1,
    u64::MAX,
];

/// A sound file and what is known of it.
#[derive(Debug)]
pub struct Seed {
    /// Where it is from.
    pub name: String,
    /// The file.
    pub bytes: Vec<u8>,
    /// Its structures.
    pub map: Map,
}

/// A damaged copy of `seed`, always the same for a number. `others` give pieces.
#[must_use]
pub fn mutant(seed: &Seed, others: &[Seed], number: u64) -> Vec<u8> {
    let mut dice = Dice::new(number);
    let mut file = seed.bytes.clone();
    let map = &seed.map;
    let rounds = 1 + dice.below(4);
    for _ in 0..rounds {
        change(&mut file, seed, others, &mut dice);
    }
    // Damage to these bytes says nothing new.
    if !dice.one_in(10) && file.len() >= map.base + 8 {
        put(&mut file, map.base, b"\x89HDF\r\n\x1a\n");
    }
    if !dice.one_in(10) {
        map.repair(&mut file, &seed.bytes);
    }
    file
}

/// One change.
fn change(file: &mut Vec<u8>, seed: &Seed, others: &[Seed], dice: &mut Dice) {
    let map = &seed.map;
    let at = place(file, map, dice);
    match dice.below(20) {
        0..=3 => flip(file, at, dice),
        4..=5 => put(file, at, &[dice.next() as u8]),
        6..=9 => {
            let width = [1, 2, 4, 8][dice.below(4)];
            let value = *dice.pick(&INTERESTING).unwrap_or(&0);
            put(file, at, &value.to_le_bytes()[..width]);
        }
        10 => {
            // A neighbour of what is there.
            let width = [1, 2, 4, 8][dice.below(4)];
            let old = number(file.get(at..(at + width).min(file.len())).unwrap_or_default());
            let by = [1, 2, 4, 8, 16, 256][dice.below(6)];
            let new = if dice.one_in(2) { old.wrapping_add(by) } else { old.wrapping_sub(by) };
            put(file, at, &new.to_le_bytes()[..width]);
        }
        11..=14 => {
            // Where an address is, another: of another structure, of the structure it is in, of the end.
            let at = if dice.one_in(5) { at } else { dice.pick(&map.slots).copied().unwrap_or(at) };
            let address = other_address(file, map, at, dice).to_le_bytes();
            put(file, at, &address[..map.width.min(8)]);
        }
        15 => {
            // A structure takes the place of another.
            let (from, to) = (structure(map, dice), structure(map, dice));
            let length = 1 + dice.below(256);
            let piece = file.get(from..(from + length).min(file.len())).unwrap_or_default().to_vec();
            put(file, to, &piece);
        }
        16 => {
            let Some(other) = dice.pick(others) else { return };
            let from = place(&other.bytes, &other.map, dice);
            let length = 1 + dice.below(128);
            let piece = other.bytes.get(from..(from + length).min(other.bytes.len())).unwrap_or_default();
            put(file, at, piece);
        }
        17 => {
            let length = 1 + dice.below(32);
            let byte = if dice.one_in(2) { 0 } else { 0xff };
            put(file, at, &vec![byte; length]);
        }
        18 => {
            // Bytes too many or too few in the middle of a structure, at the cost of what follows.
            let length = 1 + dice.below(16);
            let end = (at + 512).min(file.len());
            if let Some(part) = file.get_mut(at..end) {
                let by = length.min(part.len());
                if dice.one_in(2) { part.rotate_left(by) } else { part.rotate_right(by) }
            }
        }
        _ => {
            if dice.one_in(3) {
                file.truncate(at.max(1));
            } else {
                flip(file, at, dice);
            }
        }
    }
}

/// A place to damage: mostly where structures are.
fn place(file: &[u8], map: &Map, dice: &mut Dice) -> usize {
    let at = match dice.below(20) {
        0..=9 => structure(map, dice) + dice.below(96),
        10..=13 => {
            dice.pick(&map.blocks).map_or(0, |block| block.start + dice.below(block.end - block.start))
        }
        14..=16 => structure(map, dice) + dice.below(512),
        _ => dice.below(file.len()),
    };
    at.min(file.len().saturating_sub(1))
}

fn structure(map: &Map, dice: &mut Dice) -> usize {
    dice.pick(&map.starts).copied().unwrap_or(0)
}

/// An address to be put at `at`.
fn other_address(file: &[u8], map: &Map, at: usize, dice: &mut Dice) -> u64 {
    let around =
        map.starts.partition_point(|start| *start <= at).checked_sub(1).map_or(0, |index| map.starts[index]);
    match dice.below(8) {
        0..=1 => map.address(around),
        2..=5 => map.address(structure(map, dice)),
        6 => map.address(file.len()).wrapping_sub(dice.below(64) as u64),
        _ => map.address(structure(map, dice)).wrapping_add(dice.below(64) as u64),
    }
}

/// Turns a bit around.
fn flip(file: &mut [u8], at: usize, dice: &mut Dice) {
    if let Some(byte) = file.get_mut(at) {
        *byte ^= 1 << dice.below(8);
    }
}

fn put(file: &mut [u8], at: usize, bytes: &[u8]) {
    file.iter_mut().skip(at).zip(bytes).for_each(|(place, byte)| *place = *byte);
}
