//! What may happen without a question, and changes of that.

pub use ah_conversation::{Behavior, Destination, PermissionMode, PermissionUpdate, RuleValue};
