//! Ends a connection that cannot continue: sends the last answer and lets it arrive before the socket closes.

use super::admission::bounds::{LINGER_TIMEOUT, SEND_STALL_TIMEOUT, send_timeout};
use super::listeners::Peer;
use super::transport::Transport;
use super::worker::Worker;
use super::{fast_path, reply};
use std::io::{self, ErrorKind};
use std::rc::Rc;
use std::sync::atomic::Ordering;
use stockhold_api::problem::Problem;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout, timeout_at};

/// Bytes that are read and dropped at a time.
const SCRAPS: usize = 16 * 1024;

/// Answers a request that could not be read, and closes the connection.
pub(super) async fn reject_connection(worker: &Rc<Worker>, stream: TcpStream, peer: Peer, problem: &Problem) {
    if send(&stream, &last_answer(worker, peer, problem)).await.is_ok() {
        linger(worker, stream).await;
    }
}

/// The answer to a request that could not be read.
pub(super) fn last_answer(worker: &Worker, peer: Peer, problem: &Problem) -> Vec<u8> {
    let now = worker.clocks.wall.now();
    let request_id = worker.fresh_name(now);
    let reply = reply::error(peer.listener, problem, &request_id, None);
    worker.metrics.record(None, reply.status, std::time::Duration::ZERO);
    let mut answer = Vec::new();
    fast_path::put_head(&mut answer, &reply, &request_id, &worker.date(now), true);
    answer.extend_from_slice(&reply.body);
    answer
}

/// Ends a connection of the general path: TLS says first that nothing follows.
pub(super) async fn close(worker: &Worker, mut stream: impl Transport) {
    // A client that does not read may miss it.
    let _ = timeout(LINGER_TIMEOUT, stream.shutdown()).await;
    linger(worker, stream.into_tcp()).await;
}

/// Shuts down the sending side, and reads and drops data for a moment.
pub(super) async fn linger(worker: &Worker, mut stream: TcpStream) {
    if stream.shutdown().await.is_err() || worker.draining.load(Ordering::Relaxed) {
        return;
    }
    let ends = Instant::now() + LINGER_TIMEOUT;
    let mut scraps = Vec::with_capacity(SCRAPS);
    while let Ok(Ok(())) = timeout_at(ends, stream.readable()).await {
        scraps.clear();
        match stream.try_read_buf(&mut scraps) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// Sends all bytes, as long as the client reads.
pub(super) async fn send(stream: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    let mut ends = None;
    while !bytes.is_empty() {
        match stream.try_write(bytes) {
            Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let ends = *ends.get_or_insert_with(|| Instant::now() + send_timeout(bytes.len()));
                if let Ok(writable) =
                    timeout_at(ends.min(Instant::now() + SEND_STALL_TIMEOUT), stream.writable()).await
                {
                    writable?;
                } else {
                    metrics::counter!("stockhold_slow_consumers_total").increment(1);
                    return Err(ErrorKind::TimedOut.into());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::admission::connections::Connections;
    use super::super::socket::{ConnectionState, Socket};
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;
    use tokio::net::TcpSocket;
    use tokio::time::sleep;

    const ANSWER: usize = 1024 * 1024;
    /// Size of the buffers of both sockets.
    const BUFFER: u32 = 16 * 1024;
    /// Time between two reads.
    const REST: Duration = Duration::from_secs(5);

    /// A connection whose client reads a little now and then.
    async fn sipped() -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_send_buffer_size(BUFFER).unwrap();
        socket.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let listener = socket.listen(1).unwrap();
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(BUFFER).unwrap();
        let mut client = socket.connect(listener.local_addr().unwrap()).await.unwrap();
        tokio::spawn(async move {
            let mut sip = vec![0; 4 * BUFFER as usize];
            while matches!(client.read(&mut sip).await, Ok(1..)) {
                sleep(REST).await;
            }
        });
        listener.accept().await.unwrap().0
    }

    #[track_caller]
    fn assert_cut(sent: &io::Result<()>, took: Duration) {
        assert_eq!(sent.as_ref().map_err(io::Error::kind), Err(ErrorKind::TimedOut));
        assert!(took > SEND_STALL_TIMEOUT + REST && took <= send_timeout(ANSWER), "after {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn who_reads_a_long_answer_sip_by_sip_is_cut_off() {
        let answer = vec![b'x'; ANSWER];
        let (stream, begun) = (sipped().await, Instant::now());
        assert_cut(&send(&stream, &answer).await, begun.elapsed());

        let connection = Connections::new(1).admit(None).unwrap();
        let state = Rc::new(ConnectionState::new(Rc::new(connection)));
        assert!(state.begin());
        state.made.set(1);
        let (mut socket, begun) = (Socket::new(sipped().await, Vec::new(), state), Instant::now());
        socket.write_all(&answer).await.unwrap();
        assert_cut(&socket.flush().await, begun.elapsed());
    }
}
