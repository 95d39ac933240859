//! The codec's records: the first byte chooses which.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockhold_conformance::parsers::PARSERS;

fuzz_target!(|data: &[u8]| {
    if let Some((choice, bytes)) = data.split_first() {
        PARSERS[usize::from(*choice) % PARSERS.len()].1(bytes);
    }
});
