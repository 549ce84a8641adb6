//! The queue of runs over PostgreSQL.
