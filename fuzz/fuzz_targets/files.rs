//! What stands in the embedded store's files: the first byte chooses what.
#![no_main]

use libfuzzer_sys::fuzz_target;
use stockhold_embedded::parsers::PARSERS;

fuzz_target!(|data: &[u8]| {
    if let Some((choice, bytes)) = data.split_first() {
        PARSERS[usize::from(*choice) % PARSERS.len()].1(bytes);
    }
});
