//! Connections that are opened before there is anything to send.
//!
//! The client has no call for it: it connects for a request. So it is given one that cannot be sent. A connection that speaks
//! HTTP/1.1 takes no request of version 2, and one that speaks HTTP/2 none to make a tunnel that has a body of its own. Both are
//! found when the connection is open, and it stays with the client.

use reqwest::{Client, Method, Url, Version};

/// Opens a connection to the host of `url`, unless `client` has one. Nothing is sent over it but what TLS and HTTP/2 begin with.
/// If it fails, so will the next request, and tell why.
pub async fn open(client: &Client, url: Url) {
    let request = client.request(Method::CONNECT, url);
    let _ = request.version(Version::HTTP_2).body("-").send().await;
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{HandshakeKind, ServerConfig, ServerConnection, StreamOwned};

    use super::*;
    use crate::Options;

    /// What a server has seen.
    #[derive(Debug, PartialEq)]
    enum Seen {
        Connection,
        /// TLS is set up.
        Tls(HandshakeKind),
        /// A request of this method, or in HTTP/2 any.
        Request(String),
    }

    /// Answers the requests of a connection that speaks HTTP/1.1.
    fn answer(mut stream: impl Read + Write, seen: &Sender<Seen>, closes: bool) {
        let mut head = Vec::new();
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() {
            head.push(byte[0]);
            if !head.ends_with(b"\r\n\r\n") {
                continue;
            }
            let text = String::from_utf8_lossy(&head).into_owned();
            let method = text.split(' ').next().unwrap_or_default();
            seen.send(Seen::Request(method.to_owned())).unwrap();
            let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer).unwrap();
            if closes {
                return;
            }
            head.clear();
        }
    }

    /// Answers the requests of a connection that speaks HTTP/2 (RFC 9113).
    fn answer_frames(mut stream: impl Read + Write, seen: &Sender<Seen>) {
        let mut preface = [0; 24];
        stream.read_exact(&mut preface).unwrap();
        // An empty SETTINGS frame.
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).unwrap();
        let mut head = [0; 9];
        while stream.read_exact(&mut head).is_ok() {
            let [a, b, c, kind, flags, id @ ..] = head;
            let mut payload = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
            stream.read_exact(&mut payload).unwrap();
            match kind {
                // HEADERS: answered by HEADERS that end the stream, with the status 200.
                1 => {
                    seen.send(Seen::Request("any".to_owned())).unwrap();
                    stream.write_all(&[0, 0, 1, 1, 5]).unwrap();
                    stream.write_all(&id).unwrap();
                    stream.write_all(&[0x88]).unwrap();
                }
                // SETTINGS are acknowledged.
                4 if flags == 0 => stream.write_all(&[0, 0, 0, 4, 1, 0, 0, 0, 0]).unwrap(),
                _ => {}
            }
        }
    }

    fn of_tls(protocol: &[u8]) -> Arc<ServerConfig> {
        crate::choose_cryptography();
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/early/localhost.pem");
        let certificate = CertificateDer::from_pem_file(&file).unwrap();
        let key = PrivateKeyDer::from_pem_file(&file).unwrap();
        let config = ServerConfig::builder().with_no_client_auth();
        let mut config = config.with_single_cert(vec![certificate], key).unwrap();
        config.alpn_protocols = vec![protocol.to_owned()];
        Arc::new(config)
    }

    fn serve(
        stream: TcpStream,
        config: Option<Arc<ServerConfig>>,
        closes: bool,
        seen: &Sender<Seen>,
    ) {
        seen.send(Seen::Connection).unwrap();
        let Some(config) = config else {
            return answer(stream, seen, closes);
        };
        let tls = ServerConnection::new(config).unwrap();
        let mut stream = StreamOwned::new(tls, stream);
        stream.conn.complete_io(&mut stream.sock).unwrap();
        let kind = stream.conn.handshake_kind().unwrap();
        seen.send(Seen::Tls(kind)).unwrap();
        match stream.conn.alpn_protocol() {
            Some(b"h2") => answer_frames(stream, seen),
            _ => answer(stream, seen, closes),
        }
    }

    /// What a server sees of `early` openings and two requests after them.
    fn seen(config: Option<Arc<ServerConfig>>, closes: bool, early: usize) -> Vec<Seen> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if config.is_some() { "https" } else { "http" };
        let url = Url::parse(&format!("{scheme}://localhost:{port}/x")).unwrap();
        let (sender, seen) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, sender) = (config.clone(), sender.clone());
                std::thread::spawn(move || serve(stream.unwrap(), config, closes, &sender));
            }
        });
        let options = Options {
            certificates: Some(
                Path::new(env!("CARGO_MANIFEST_DIR")).join("src/early/localhost.pem"),
            ),
            ..Options::default()
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let mut all = Vec::new();
        runtime.unwrap().block_on(async {
            let client = crate::client(&options, url.as_str()).unwrap();
            for _ in 0..early {
                open(&client, url.clone()).await;
            }
            all.extend(seen.try_iter());
            for _ in 0..2 {
                client.get(url.clone()).send().await.unwrap();
            }
        });
        all.extend(seen.try_iter());
        all
    }

    fn request(method: &str) -> Seen {
        Seen::Request(method.to_owned())
    }

    #[test]
    fn requests_use_the_connection_that_was_opened_before() {
        let full = || Seen::Tls(HandshakeKind::Full);
        for early in [0, 1, 3] {
            let plain = seen(None, false, early);
            assert_eq!(plain, [Seen::Connection, request("GET"), request("GET")]);
            let tls = seen(Some(of_tls(b"http/1.1")), false, early);
            assert_eq!(
                tls,
                [Seen::Connection, full(), request("GET"), request("GET")]
            );
            let two = seen(Some(of_tls(b"h2")), false, early);
            assert_eq!(
                two,
                [Seen::Connection, full(), request("any"), request("any")]
            );
        }
    }

    #[test]
    fn tls_is_resumed() {
        let seen = seen(Some(of_tls(b"http/1.1")), true, 1);
        let kinds = seen.iter().filter_map(|seen| match seen {
            Seen::Tls(kind) => Some(*kind),
            _ => None,
        });
        let kinds: Vec<_> = kinds.collect();
        assert_eq!(kinds, [HandshakeKind::Full, HandshakeKind::Resumed]);
    }

    #[test]
    fn a_server_that_is_not_there_is_no_error() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
        let client = crate::client(&Options::default(), url.as_str()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(open(&client, url));
    }
}
