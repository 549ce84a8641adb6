//! What the store promises, seen from outside.
