//! What the model may do.
