//! `ah serve`: sessions of this folder over HTTP, for programs on this machine.

use std::net::Ipv4Addr;
use std::sync::Arc;

use ah_config::server_file::ServerFile;
use ah_config::{Config, Error};
use ah_conversation::Interface;
use ah_desk::{Start, Which};
use ah_engine::desk::{Desk, DeskRequest};
use ah_protocol::stream_json::{Source, Streams};
use ah_serve::{Call, Certificate, Door, Drive, Life, Served, Token, serve};
use ah_terminal::print::question::described;
use ah_terminal::repl::{NotificationKind, notify};
use ah_terminal::signals::{Signals, leave};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::output::print;
use super::runtime::runtime;
use crate::args::options::Options;
use crate::args::serve::Place;

/// Bytes of a token.
const TOKEN: usize = 32;

/// Serves until it is interrupted; returns the exit code.
///
/// # Errors
///
/// If the port is taken, or the settings are not valid for runs.
pub fn run(config: &Config, options: &Options, place: &Place) -> Result<u8, Error> {
    let runtime = runtime()?;
    let code = runtime.block_on(async {
        let server = Server::begin(config, options, Interface::AgentSdk, place).await?;
        let Server { url, token, .. } = &server;
        let key = Token::new(token).key();
        print(&format!(
            "{url}\ntoken: {token}\npage: {url}/{key}/#{token}\n"
        ))?;
        ah_terminal::note(&format!(
            "serving the sessions of this folder; `{}` has address and token, readable only by you; stop with Ctrl-C",
            server.file.path().display()
        ));
        server.serve(Life::UntilStopped).await
    });
    // Processes started by tools may still be ending.
    ah_process::finish_all();
    runtime.shutdown_background();
    code
}

/// Returns the sessions of the folder for a door. The runs are those of `-p`.
///
/// # Errors
///
/// If the options contradict each other, or the settings are not valid for runs.
pub fn desk(
    config: &Config,
    options: &Options,
    interface: Interface,
    stop: &CancellationToken,
) -> Result<Arc<Desk>, Error> {
    let desk = Desk::new(DeskRequest {
        overrides: options.overrides()?,
        interface,
        config,
        stop,
        warn: Arc::new(ah_terminal::warn),
        described,
    })?;
    Ok(Arc::new(desk))
}

/// Returns what has hosts drive sessions of the desk.
fn drive(desk: &Arc<Desk>) -> Drive {
    let desk = desk.clone();
    Arc::new(move |driven, streams| {
        let start = Start {
            which: match driven.resume {
                None => Which::New,
                Some(id) if driven.fork_session => Which::Fork(id, None),
                Some(id) => Which::Resume(id, None),
            },
            model: driven.model,
            ..Start::default()
        };
        let streams = Streams {
            source: Source::Lines(streams.input),
            output: streams.output,
        };
        desk.drive(start, driven.include_partial_messages, streams)
    })
}

/// Returns a new token as text.
fn new_token() -> Result<String, Error> {
    let mut bytes = [0; TOKEN];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::failure(format!("cannot get random numbers: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Returns what calls the person when a run needs somebody and nobody watches: the notification command of the settings.
fn call(config: &Config) -> Call {
    let config = config.clone();
    Arc::new(move |session, waits, about| {
        let folder = config.environment.cwd().file_name().unwrap_or_default();
        let folder = folder.to_string_lossy();
        let (kind, message) = match waits {
            true => (
                NotificationKind::Waiting,
                format!("is waiting for you in {folder}: {about} (ah attach {session})"),
            ),
            false => (
                NotificationKind::Done,
                format!("has {about} in {folder} (ah -r {session})"),
            ),
        };
        notify(&config, session, kind, &message);
    })
}

/// A server that has its address, and is known to the programs of this user.
pub struct Server {
    /// Those that end it.
    _signals: Signals,
    desk: Arc<Desk>,
    /// Ends it. One that ends by itself stops nothing else.
    stop: CancellationToken,
    call: Call,
    door: Door,
    url: String,
    token: String,
    file: ServerFile,
}

impl Server {
    /// Takes a place, for runs with this interface.
    ///
    /// # Errors
    ///
    /// If the settings are not valid for runs, the port is taken, the certificate cannot be used, or the user's folder cannot be
    /// written.
    pub async fn begin(
        config: &Config,
        options: &Options,
        interface: Interface,
        place: &Place,
    ) -> Result<Self, Error> {
        let signals = Signals::listen(leave)
            .map_err(|error| Error::failure(format!("cannot listen for signals: {error}")))?;
        let stop = signals.token().child_token();
        let desk = desk(config, options, interface, &stop)?;
        let certificate = match (&place.cert, &place.key) {
            (Some(cert), Some(key)) => Some(Certificate::read(cert, key).map_err(Error::failure)?),
            _ => None,
        };
        let ip = place.address.unwrap_or(Ipv4Addr::LOCALHOST.into());
        let listener = TcpListener::bind((ip, place.port)).await;
        let listener = listener.map_err(|error| {
            Error::failure(format!("cannot use port {} of {ip}: {error}", place.port))
                .hint("choose another with `--port`; 0 takes a free one")
        })?;
        let address = listener
            .local_addr()
            .map_err(|error| Error::failure(error.to_string()))?;
        let scheme = if certificate.is_some() {
            "https"
        } else {
            "http"
        };
        let name = match place.hosts.first() {
            Some(host) => format!("{host}:{}", address.port()),
            None => address.to_string(),
        };
        let (url, token) = (format!("{scheme}://{name}"), new_token()?);
        let file = config.announce(&url, &token)?;
        Ok(Self {
            _signals: signals,
            desk,
            stop,
            call: call(config),
            door: Door {
                listener,
                token: Token::new(&token),
                certificate,
                names: place.hosts.clone(),
            },
            url,
            token,
            file,
        })
    }

    /// Serves until it is interrupted or its life is over; returns the exit code.
    ///
    /// # Errors
    ///
    /// If the address cannot be served.
    pub async fn serve(self, life: Life) -> Result<u8, Error> {
        let served = Served {
            sessions: self.desk.clone(),
            environment: self.desk.config().environment.clone(),
            drive: drive(&self.desk),
            call: Some(self.call),
        };
        let served = serve(self.door, served, life, self.stop).await;
        // The runs end with all messages stored.
        self.desk.end().await;
        served.map_err(|error| Error::failure(format!("cannot serve: {error}")))?;
        Ok(0)
    }
}
