//! What the machine itself takes: one sync of a small write, one loopback round trip. Both run where the server would
//! run and are measured in the same round as what they are compared with.

use crate::load::http::Fixed;
use crate::load::{Plan, Run, SERVER_CPU, closed, histogram, pin};
use crate::{Outcome, fail};
use hdrhistogram::Histogram;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes written before each sync: one page of the log.
const WRITE_BYTES: usize = 4096;
/// Pages of the probe's file; they exist beforehand, as a log's do that is written over in place.
const FILE_PAGES: u64 = 1024;

/// Appends to a log whose blocks exist and syncs each, for so long; nanoseconds per sync.
pub(super) fn sync(folder: &Path, duration: Duration) -> Outcome<Histogram<u64>> {
    let path = folder.join("sync-probe");
    let worker = std::thread::spawn(move || -> Outcome<Histogram<u64>> {
        pin(SERVER_CPU)?;
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        let page = vec![0xa5_u8; WRITE_BYTES];
        for number in 0..FILE_PAGES {
            file.write_all_at(&page, number * WRITE_BYTES as u64)?;
        }
        file.sync_all()?;
        let mut times = histogram()?;
        let start = Instant::now();
        let mut number = 0;
        while start.elapsed() < duration {
            file.write_all_at(&page, (number % FILE_PAGES) * WRITE_BYTES as u64)?;
            let before = Instant::now();
            file.sync_data()?;
            times.record(u64::try_from(before.elapsed().as_nanos())?)?;
            number += 1;
        }
        std::fs::remove_file(&path)?;
        Ok(times)
    });
    worker.join().unwrap_or_else(|_| fail("the sync probe panicked"))
}

/// Round trips of messages of these sizes over one loopback connection to a peer that does nothing.
pub(super) fn round_trip(request: usize, answer: usize, plan: Plan) -> Outcome<Run> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    let peer = std::thread::spawn(move || -> Outcome<()> {
        pin(SERVER_CPU)?;
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let (mut taken, given) = (vec![0; request], vec![b'.'; answer]);
        // The end of the run closes the connection, which is all that can end this loop.
        while stream.read_exact(&mut taken).is_ok() {
            stream.write_all(&given)?;
        }
        Ok(())
    });
    let run = closed(address, 1, plan, None, &mut Fixed { request, answer });
    peer.join().unwrap_or_else(|_| fail("the echo panicked"))?;
    run
}
