//! Certificates of a test's own, a server that uses them, and clients over HTTP/1.1 and HTTP/2.

use crate::api::server::Server;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::HeaderMap;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::Value;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Who issues certificates.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) pem: String,
}

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    pub(crate) cert: String,
    pub(crate) key: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        Self::named("authority of a test")
    }

    pub(crate) fn named(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// A new pair for this machine.
    pub(crate) fn issue(&self) -> Pair {
        self.issue_for(&["localhost", "127.0.0.1"])
    }

    /// A new pair for these names and addresses.
    pub(crate) fn issue_for(&self, names: &[&str]) -> Pair {
        let key = KeyPair::generate().unwrap();
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        // OpenSSL and Erlang take a certificate for a root if it has the name of who issued it.
        let mut params = CertificateParams::new(names.clone()).unwrap();
        params.distinguished_name.push(DnType::CommonName, &names[0]);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// The certificates of those who trust it.
    pub(crate) fn roots(&self) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.pem.as_bytes()).unwrap()).unwrap();
        roots
    }

    /// The side of a client that trusts it, and shows its own certificate if it has one.
    pub(crate) fn client_config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Pair>,
        protocols: &[&str],
    ) -> Arc<ClientConfig> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(self.roots());
        let mut config = match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let key = PrivateKeyDer::from_pem_slice(own.key.as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![own.der()], key).unwrap()
            }
        };
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Arc::new(config)
    }
}

impl Pair {
    pub(crate) fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()
    }
}

/// A server that speaks TLS, and its files.
pub(crate) struct TlsServer {
    pub(crate) server: Server,
    pub(crate) authority: Authority,
    /// The first pair.
    pub(crate) pair: Pair,
    files: TempDir,
}

impl TlsServer {
    pub(crate) fn start() -> Self {
        Self::with(None)
    }

    /// One that asks clients for certificates of this authority.
    pub(crate) fn with(clients: Option<&Authority>) -> Self {
        Self::with_flags(clients, &[])
    }

    /// The same with further flags.
    pub(crate) fn with_flags(clients: Option<&Authority>, more: &[String]) -> Self {
        let (files, authority) = (TempDir::new().unwrap(), Authority::new());
        let pair = authority.issue();
        let put = |name: &str, text: &str| std::fs::write(files.path().join(name), text).unwrap();
        put("ca.pem", &authority.pem);
        put("cert.pem", &pair.cert);
        put("key.pem", &pair.key);
        let flag = |flag: &str, name: &str| format!("{flag}={}", files.path().join(name).display());
        let mut flags = vec![flag("--tls-cert", "cert.pem"), flag("--tls-key", "key.pem")];
        if let Some(clients) = clients {
            put("clients.pem", &clients.pem);
            flags.push(flag("--tls-client-ca", "clients.pem"));
        }
        flags.extend_from_slice(more);
        let flags = flags.iter().map(String::as_str).collect::<Vec<_>>();
        Self { server: Server::with(&flags), authority, pair, files }
    }

    /// Replaces the pair.
    pub(crate) fn renew(&self, cert: &str, key: &str) {
        for (name, text) in [("cert.pem", cert), ("key.pem", key)] {
            // As renewals do it: a new file in the place of the old one.
            let new = self.files.path().join("new");
            std::fs::write(&new, text).unwrap();
            std::fs::rename(new, self.files.path().join(name)).unwrap();
        }
    }

    /// The file of who issued its certificate.
    pub(crate) fn ca_file(&self) -> PathBuf {
        self.files.path().join("ca.pem")
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.server.address())
    }

    /// A client that trusts it, and prefers HTTP/2.
    pub(crate) async fn client(&self) -> HttpClient {
        let stream = self.handshake(&self.client_config(rustls::ALL_VERSIONS, None, &["h2"])).await.unwrap();
        HttpClient::begin(self.server.address(), stream).await.unwrap()
    }

    pub(crate) fn client_config(
        &self,
        versions: &[&'static SupportedProtocolVersion],
        own: Option<&Pair>,
        protocols: &[&str],
    ) -> Arc<ClientConfig> {
        self.authority.client_config(versions, own, protocols)
    }

    pub(crate) async fn handshake(&self, config: &Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
        self.handshake_at(self.server.address(), config).await
    }

    /// A handshake with one of its listeners.
    pub(crate) async fn handshake_at(
        &self,
        address: std::net::SocketAddr,
        config: &Arc<ClientConfig>,
    ) -> io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::from(std::net::IpAddr::from(Ipv4Addr::LOCALHOST));
        TlsConnector::from(Arc::clone(config)).connect(name, stream).await
    }

    /// The certificate that a new handshake shows.
    pub(crate) async fn shown(&self) -> CertificateDer<'static> {
        let config = self.client_config(rustls::ALL_VERSIONS, None, &[]);
        let stream = self.handshake(&config).await.unwrap();
        stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
    }
}

/// One connection over the protocol that was agreed on.
pub(crate) struct HttpClient {
    address: SocketAddr,
    sender: Sender,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl HttpClient {
    pub(crate) async fn begin(address: SocketAddr, stream: TlsStream<TcpStream>) -> hyper::Result<Self> {
        Self::with_window(address, stream, None).await
    }

    /// With HTTP/2, and this many bytes of each answer before the client takes more.
    pub(crate) async fn with_window(
        address: SocketAddr,
        stream: TlsStream<TcpStream>,
        window: Option<u32>,
    ) -> hyper::Result<Self> {
        if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder.initial_stream_window_size(window);
            let (sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            return Ok(Self { address, sender: Sender::Two(sender) });
        }
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { address, sender: Sender::One(sender) })
    }

    /// Sends a request; the answer's body is left to read.
    pub(crate) async fn open(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> hyper::Result<Response<Incoming>> {
        let mut request = Request::builder().method(method);
        request = match &self.sender {
            Sender::One(_) => request.uri(path).header("host", self.address.to_string()),
            Sender::Two(_) => request.uri(format!("https://{}{path}", self.address)),
        };
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if body.is_some() {
            request = request.header("content-type", "application/json");
        }
        let body = body.map(ToString::to_string).unwrap_or_default();
        let request = request.body(Full::new(body.into())).unwrap();
        match &mut self.sender {
            Sender::One(sender) => {
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Two(sender) => sender.send_request(request).await,
        }
    }

    /// The whole answer.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<&Value>,
    ) -> hyper::Result<(u16, HeaderMap, Bytes)> {
        let answer = self.open(method, path, headers, body).await?;
        let (head, body) = answer.into_parts();
        Ok((head.status.as_u16(), head.headers, body.collect().await?.to_bytes()))
    }

    /// Makes an item with so many units.
    pub(crate) async fn stock(&mut self, sku: &str, total: u64) {
        let body = serde_json::json!({ "total_units": total });
        let (status, _, body) =
            self.ask("PUT", &format!("/v1/inventory/{sku}"), &[], Some(&body)).await.unwrap();
        assert!(status == 200 || status == 201, "{status}: {body:?}");
    }
}
