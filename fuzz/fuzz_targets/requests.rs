//! Bodies, paths, queries and headers of every route: the first byte chooses the decoder.
#![no_main]

#[path = "../../crates/api/tests/it/parsers.rs"]
mod parsers;

use libfuzzer_sys::fuzz_target;
use parsers::PARSERS;

fuzz_target!(|data: &[u8]| {
    if let Some((choice, bytes)) = data.split_first() {
        PARSERS[usize::from(*choice) % PARSERS.len()].1(bytes);
    }
});
