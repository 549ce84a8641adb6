//! Sessions and their queue in PostgreSQL, so that many machines can work on them and any may die.
//!
//! A session is a row with an epoch, a log of changes ([`ah_store::log`]) and mail. Whoever leases it repeats the log into
//! a copy in memory and writes under the epoch of its lease; each write checks it in the same statement. [`Postgres`] is
//! also the [`Fleet`](ah_store::fleet::Fleet): the queue of runs. A row is the truth and a notification a hint: if all
//! of them are lost, work begins a little later.
//!
//! Each role of the server is a tenant and sees its own rows only. Time is the server's: the clocks of workers do not
//! matter.

mod connection;
mod error;
mod fleet;
mod lease;
mod limits;
mod open;
mod questions;
mod schedules;
mod schema;

pub use connection::Postgres;
