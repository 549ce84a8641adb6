//! Sessions and their queue in PostgreSQL, so that many machines can work on them and any may die.
//!
//! A session is a row with an epoch, a log of changes ([`ah_store::log`]) and mail. Whoever leases it repeats the log into
//! a copy in memory and writes under the epoch of its lease; each write checks it in the same statement. [`Postgres`] is
//! also the [`Fleet`](ah_store::fleet::Fleet): the queue of runs. A row is the truth and a notification a hint: if all
//! of them are lost, work begins a little later. What gives hints is a [`Waker`](ah_store::fleet::Waker): `NOTIFY`, or
//! `graphile_worker` in builds with the feature `graphile`.
//!
//! Each role of the server is a tenant and sees its own rows only. Time is the server's: the clocks of workers do not
//! matter.

mod connection;
mod error;
mod fleet;
#[cfg(feature = "graphile")]
mod graphile;
mod lease;
mod limits;
mod notified;
mod open;
mod questions;
mod schedules;
mod schema;

pub use connection::Postgres;
