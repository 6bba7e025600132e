//! Acts on sockets.

use crate::{Act, errno_name, number, ok, result};
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixListener, UnixStream};
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(2);

pub(crate) fn act(act: &str, args: &[&str]) -> Option<Act> {
    Some(match (act, args) {
        ("socket", [family, kind, protocol]) => socket(family, kind, protocol),
        ("sockets", triples) => Ok(sockets(triples)),
        ("serve", [port, ms]) => serve(port, ms),
        ("socketpair", []) => UnixStream::pair().and_then(|_| ok()),
        ("connect-tcp", [address]) => tcp(address),
        ("connect-udp", [address]) => udp(address),
        ("connect-path", [path]) => UnixStream::connect(path).and_then(|_| ok()),
        ("connect-abstract", [name]) => {
            let address = UnixAddr::from_abstract_name(name);
            address.and_then(|address| UnixStream::connect_addr(&address)).and_then(|_| ok())
        }
        ("listen-path", [path]) => UnixListener::bind(path).and_then(|_| ok()),
        ("loopback", []) => loopback(),
        ("resolve", [name]) => resolve(name),
        _ => return None,
    })
}

fn socket(family: &str, kind: &str, protocol: &str) -> Act {
    let [family, kind, protocol] = [family, kind, protocol].map(|n| number(n) as i32);
    result(unsafe { libc::socket(family, kind, protocol) }.into())
}

/// Makes a socket for each `FAMILY:TYPE:PROTOCOL` and prints what it gave.
fn sockets(triples: &[&str]) -> String {
    let tried = triples.iter().map(|triple| {
        let parts: Vec<&str> = triple.split(':').collect();
        let [family, kind, protocol] = parts[..] else { panic!("not a triple: {triple}") };
        let made = socket(family, kind, protocol);
        format!("{triple} {}", made.unwrap_or_else(|error| errno_name(&error)))
    });
    tried.collect::<Vec<_>>().join("\n")
}

/// Listens on a port of its loopback interface for a while.
fn serve(port: &str, ms: &str) -> Act {
    let _listener = std::net::TcpListener::bind(("127.0.0.1", number(port) as u16))?;
    std::thread::sleep(Duration::from_millis(number(ms)));
    ok()
}

fn address(text: &str) -> io::Result<SocketAddr> {
    text.parse().map_err(io::Error::other)
}

fn tcp(text: &str) -> Act {
    TcpStream::connect_timeout(&address(text)?, WAIT).and_then(|_| ok())
}

fn udp(text: &str) -> Act {
    let to = address(text)?;
    let any: SocketAddr =
        if to.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    UdpSocket::bind(any)?.send_to(b"probe", to).and_then(|_| ok())
}

/// Serves and reaches a port of its own loopback interface.
fn loopback() -> Act {
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let to = listener.local_addr()?;
    // The connection is made before it is accepted, so that one that fails waits for nothing.
    let _client = TcpStream::connect_timeout(&to, WAIT)?;
    listener.accept().and_then(|_| ok())
}

fn resolve(name: &str) -> Act {
    use std::net::ToSocketAddrs;
    (name, 80).to_socket_addrs().and_then(|_| ok())
}
