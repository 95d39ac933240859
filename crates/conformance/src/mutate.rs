//! Mutation tests for parsers: changes valid examples at random, from a seed, and parses the result. It runs on any toolchain;
//! `fuzz/` has the coverage-guided form. A parser may refuse any input and must never panic.

use std::panic::{AssertUnwindSafe, catch_unwind};
use stockhold_model::Random;

/// A parser and its name. The function asserts what must hold for any bytes.
pub type Parser = (&'static str, fn(&[u8]));

/// Maximum number of changes to one example.
const CHANGES: u64 = 6;
/// Maximum length of a piece that is repeated or copied from another example.
const PIECE: u64 = 64;
/// Bytes that are limits of numbers, or have a meaning in a format.
const EDGES: [u8; 16] =
    [0, 1, 0x7f, 0x80, 0xff, b'"', b'{', b'}', b'[', b',', b':', b'%', b'\r', b'\n', b' ', b'\\'];

/// Runs a parser on all examples and on `rounds` mutated ones. A panic reports the input.
///
/// # Panics
/// When the parser does.
pub fn mutate(parser: Parser, examples: &[Vec<u8>], rounds: u64) {
    let (name, parse) = parser;
    let mut random = Random::new(
        name.bytes().fold(7_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte))),
    );
    for example in examples {
        parse(example);
    }
    for _ in 0..rounds {
        let bytes = mutated(&mut random, examples);
        let held = catch_unwind(AssertUnwindSafe(|| parse(&bytes))).is_ok();
        assert!(held, "{name} panicked on {:?}", String::from_utf8_lossy(&bytes));
    }
}

/// One of the examples with a few changes.
pub fn mutated(random: &mut Random, examples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = if examples.is_empty() { Vec::new() } else { random.pick(examples) };
    for _ in 0..=random.below(CHANGES) {
        let at = place(random, bytes.len());
        match random.below(8) {
            0 => bytes.truncate(at),
            1 | 2 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            3 if at < bytes.len() => bytes[at] = random.pick(&EDGES),
            4 => bytes.insert(at, random.pick(&EDGES)),
            5 if at < bytes.len() => {
                bytes.remove(at);
            }
            6 => {
                let piece = piece(random, &bytes);
                bytes.splice(at..at, piece);
            }
            7 if !examples.is_empty() => {
                let other = random.pick(examples);
                let piece = piece(random, &other);
                let end = (at + piece.len()).min(bytes.len());
                bytes.splice(at..end, piece);
            }
            _ => bytes.push(random.byte()),
        }
    }
    bytes
}

fn piece(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let from = place(random, bytes.len());
    let to = (from + place(random, usize::try_from(PIECE).unwrap_or(0))).min(bytes.len());
    bytes[from..to].to_vec()
}

/// A place from 0 to `length`, both included.
fn place(random: &mut Random, length: usize) -> usize {
    usize::try_from(random.below(length as u64 + 1)).unwrap_or(0)
}
