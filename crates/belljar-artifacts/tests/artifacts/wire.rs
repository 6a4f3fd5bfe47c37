//! A wire to a PostgreSQL server, that can be cut at the worst moment.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// What a server says when it has committed.
const COMMITTED: &[u8] = b"COMMIT\0";

/// A wire.
pub(crate) struct Wire {
    address: SocketAddr,
    /// How many answers to commits are still to be lost.
    losing: Arc<AtomicU32>,
    /// Nothing that the server says arrives, for now.
    is_silent: Arc<AtomicBool>,
}

impl Wire {
    /// To the server that listens there.
    pub(crate) fn to(socket: PathBuf) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let wire = Self {
            address: listener.local_addr().unwrap(),
            losing: Arc::default(),
            is_silent: Arc::default(),
        };
        let (losing, is_silent) = (Arc::clone(&wire.losing), Arc::clone(&wire.is_silent));
        // It ends with the process.
        thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), UnixStream::connect(&socket).unwrap());
                let (mut from, mut to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut from, &mut to);
                    let _ = to.shutdown(Shutdown::Both);
                });
                let (losing, is_silent) = (Arc::clone(&losing), Arc::clone(&is_silent));
                thread::spawn(move || answer(server, client, &losing, &is_silent));
            }
        });
        wire
    }

    /// As `postgres://` has it.
    pub(crate) fn address(&self, database: &str) -> String {
        format!("postgres://belljar@{}/{database}?sslmode=disable", self.address)
    }

    /// From now on, nothing that the server says arrives; or it does again.
    pub(crate) fn silence(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }

    /// The next commit happens, but nobody hears so.
    pub(crate) fn lose_a_commit(&self) {
        self.losing.store(1, Ordering::SeqCst);
    }

    /// Whether that has happened.
    pub(crate) fn has_lost_it(&self) -> bool {
        self.losing.load(Ordering::SeqCst) == 0
    }
}

fn answer(mut server: UnixStream, mut client: TcpStream, losing: &AtomicU32, is_silent: &AtomicBool) {
    let mut buffer = [0; 16 << 10];
    while let Ok(length @ 1..) = server.read(&mut buffer) {
        while is_silent.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
        let is_commit = buffer[..length].windows(COMMITTED.len()).any(|window| window == COMMITTED);
        let lose = |left: u32| left.checked_sub(1);
        if is_commit && losing.fetch_update(Ordering::SeqCst, Ordering::SeqCst, lose).is_ok() {
            break;
        }
        if client.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}
