//! The program as its users have it: the binary itself, as a child process, in folders of its own.

mod binary;
mod faults;
mod kill;
mod random;
mod signals;
mod streams;
mod talk;
