//! What the store promises, seen from outside.

mod contract;
mod crash;
mod fixture;
mod roundtrip;
mod salvage;
mod sessions;
mod sharing;
mod tree;
