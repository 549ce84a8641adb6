//! Runs that wait in a queue, and the workers that take them, on this machine or on several: what wakes a worker, paces it and is
//! asked of it, the files that a session carries along, and the moving of whole sessions.

pub mod carried;
pub mod moving;
pub mod worker;
