//! One flipped byte in any file of the data directory: after a clean stop, after a kill, and of old data. A start either refuses
//! with a message, or everything it serves is right (the byte lay in unused space) or withheld with a server error, or by a
//! server that ends with a message. What must never come of it: a wrong figure, something lost in silence, a panic, an end
//! by a signal.

use super::FaultTest;
use crate::http::Request;
use crate::load::http::{Reserves, Script, sku};
use crate::load::{Plan, closed};
use crate::rng::Rng;
use crate::spawn::{Launch, Readiness, STOP_TIMEOUT, Server, copy_dir, verify};
use crate::workload::{Depth, Fleet};
use crate::{Outcome, fail};
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

const CLIENTS: usize = 16;
const OPERATIONS: usize = 120;
const LATE_OPERATIONS: usize = 10;
/// Longest that a start may take to refuse or be ready.
const DECIDE_TIMEOUT: Duration = Duration::from_secs(10);
/// This many offsets of each file lie in its first bytes, where formats keep what everything hangs on.
const HEADER_BYTES: u64 = 128;
const HEADER_SHARE: u64 = 4;

/// Holds that bury what came before.
const BURY_HOLDS: u64 = 320_000;
const BURY_FAMILY: &str = "bury";
const BURY_TTL_SECONDS: u64 = 1_800;
const BURY_PAUSE: Duration = Duration::from_secs(2);
/// Flips of an aged image stay within the part of its database files that holds what is asked about.
const AGED_BYTES: u64 = 1 << 20;

/// Where the data lies when the byte is flipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Image {
    /// After a clean stop.
    Stopped,
    /// After a kill.
    Killed,
    /// After a clean stop, with a history that has left the logs long ago.
    Aged,
}

/// The effect of a flip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlipResult {
    Refused,
    RefusedAnswers,
    /// All answers were right, and `stockhold verify` finds the damage in what was not asked for.
    Verified,
    /// All answers were right, and the books too.
    Harmless,
}

/// Flips `flips` bytes of every file of each image; `short` leaves out the aged one.
pub(super) fn run(bench: &FaultTest<'_>, flips: u64, short: bool) -> Outcome<()> {
    let mut rng = Rng::new(bench.seed);
    let images =
        [("flip-stopped", Image::Stopped), ("flip-killed", Image::Killed), ("flip-aged", Image::Aged)];
    for (name, kind) in images.into_iter().filter(|(_, kind)| !short || *kind != Image::Aged) {
        let folder = bench.room(name)?;
        let image = folder.join("image");
        let mut fleet = prepare(bench, &image, kind)?;
        for (file, bytes) in files(&image)? {
            let buried = kind == Image::Aged && file.extension().is_none_or(|extension| extension != "db");
            if bytes == 0 || buried {
                continue;
            }
            let mut fates = Vec::new();
            let mut said = String::new();
            for number in 0..flips {
                let reach = if kind == Image::Aged { bytes.min(AGED_BYTES) } else { bytes };
                let bound = if number % HEADER_SHARE == 0 { bytes.min(HEADER_BYTES) } else { reach };
                let flip = Flip { file: &file, offset: rng.below(bound), mask: 1 << rng.below(8) };
                let (fate, words) = flip
                    .attempt(bench, &folder, &image, &mut fleet)
                    .map_err(|error| format!("{name}: {flip:?} of {bytes}: {error}"))?;
                if fate == FlipResult::Refused {
                    said = words;
                }
                fates.push(fate);
            }
            let count = |fate| fates.iter().filter(|found| **found == fate).count();
            println!(
                "{name}: {} ({bytes} bytes): {} refused at start, {} withheld, {} found by verify, {} harmless{}",
                file.display(),
                count(FlipResult::Refused),
                count(FlipResult::RefusedAnswers),
                count(FlipResult::Verified),
                count(FlipResult::Harmless),
                if said.is_empty() { said } else { format!("; the last refusal: {said}") },
            );
        }
    }
    Ok(())
}

/// A data directory with a known history. All clients have been answered, so nothing about it is uncertain.
fn prepare(bench: &FaultTest<'_>, image: &Path, kind: Image) -> Outcome<Fleet> {
    let launch = Launch::new(bench.binary, image);
    let mut server = Server::start(&launch)?;
    let mut fleet = Fleet::new(bench.seed, CLIENTS, false);
    fleet.set_stock(server.address)?;
    fleet.answers_everything(server.address, OPERATIONS)?;
    if kind == Image::Aged {
        bury(server.address)?;
        fleet.answers_everything(server.address, LATE_OPERATIONS)?;
        fleet.audit(server.address, Depth::Everything)?;
    }
    if kind == Image::Killed {
        server.process.kill()?;
    } else {
        server.stop()?;
    }
    Ok(fleet)
}

/// Holds of another item, so many that what came before is written over in the logs and lies in the database files
/// alone.
fn bury(address: SocketAddr) -> Outcome<()> {
    let path = format!("/v1/inventory/{}", sku(BURY_FAMILY, 0));
    let body = Some(format!(r#"{{"total_units":{BURY_HOLDS}}}"#));
    let stock = Request { method: "PUT", path, key: None, if_match: None, body };
    closed(address, 1, Plan::ALL, None, &mut Script::new(std::iter::once(stock), &[201]))?;
    let mut holds = Reserves::new(BURY_FAMILY, 1, BURY_TTL_SECONDS, Rng::new(BURY_HOLDS)).keep(BURY_HOLDS);
    closed(address, CLIENTS, Plan::ALL, None, &mut holds)?;
    // The checkpoint runs beside the load; a moment later the next write starts the log anew.
    std::thread::sleep(BURY_PAUSE);
    Ok(())
}

fn files(folder: &Path) -> Outcome<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        files.push((PathBuf::from(entry.file_name()), entry.metadata()?.len()));
    }
    files.sort();
    Ok(files)
}

/// One byte.
#[derive(Debug)]
struct Flip<'a> {
    file: &'a Path,
    offset: u64,
    mask: u8,
}

impl Flip<'_> {
    /// Starts a server on a damaged copy and asks it about everything.
    fn attempt(
        &self,
        bench: &FaultTest<'_>,
        folder: &Path,
        image: &Path,
        fleet: &mut Fleet,
    ) -> Outcome<(FlipResult, String)> {
        let data = folder.join("damaged");
        let launch = Launch::new(bench.binary, &data);
        for old in [&data, &launch.log] {
            match std::fs::metadata(old) {
                Ok(found) if found.is_dir() => std::fs::remove_dir_all(old)?,
                Ok(_) => std::fs::remove_file(old)?,
                Err(_) => {}
            }
        }
        copy_dir(image, &data)?;
        let file = OpenOptions::new().read(true).write(true).open(data.join(self.file))?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, self.offset)?;
        file.write_all_at(&[byte[0] ^ self.mask], self.offset)?;

        let mut server = Server::spawn(&launch)?;
        let fate = match server.until_ready(DECIDE_TIMEOUT)? {
            Readiness::Ended(status) => {
                if !ended_in_order(status, &server.process.log()) {
                    return fail(format!("refused with {status}\n{}", server.process.log_tail()));
                }
                FlipResult::Refused
            }
            Readiness::Ready => {
                let withheld = fleet.compare(server.address)?;
                if !withheld.ends() {
                    server.process.terminate()?;
                }
                let status = server.process.wait(STOP_TIMEOUT)?;
                if !status.success() && !ended_in_order(status, &server.process.log()) {
                    return fail(format!("ended with {status}\n{}", server.process.log_tail()));
                }
                if withheld.ends() && status.success() {
                    return fail("ended by itself as if nothing were wrong");
                }
                match withheld.any() {
                    false if verify(bench.binary, &data).is_ok() => FlipResult::Harmless,
                    false => FlipResult::Verified,
                    true => FlipResult::RefusedAnswers,
                }
            }
        };
        let log = server.process.log();
        if log.contains("panicked") {
            return fail(format!("a panic\n{}", server.process.log_tail()));
        }
        Ok((fate, log.lines().last().unwrap_or_default().to_owned()))
    }
}

/// Whether a server that ended because of what it found says so, by its code and in words.
fn ended_in_order(status: ExitStatus, log: &str) -> bool {
    status.code().is_some_and(|code| code != 0) && !log.trim().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;

    #[test]
    fn an_end_by_a_signal_or_without_a_word_is_a_crash() {
        let (bus, silent, said) =
            (ExitStatus::from_raw(7), ExitStatus::from_raw(0), ExitStatus::from_raw(4 << 8));
        assert!(!ended_in_order(bus, "damaged") && !ended_in_order(silent, "damaged"));
        assert!(!ended_in_order(said, " ") && ended_in_order(said, "damaged"));
    }
}
