//! The tools of all layers. Of tools with one name the one of the highest layer is used; the others are listed.

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{Layer, Tool};

/// Origin of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOrigin {
    /// The layer.
    pub layer: Layer,
    /// Its file, if it has one.
    pub path: Option<PathBuf>,
}

/// A tool with its origin.
#[derive(Clone)]
pub struct LayeredTool {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Its origin.
    pub origin: ToolOrigin,
    /// Origins of the tools of its name that it replaces.
    pub overrides: Vec<ToolOrigin>,
}

/// The tools of all layers, in the order in which they are sent to the model.
#[derive(Clone, Default)]
pub struct Layered {
    tools: Vec<LayeredTool>,
}

impl Layered {
    /// Adds a tool. Of two tools with one name (ignoring case) the one of the higher layer is used, in the same layer the
    /// later one, at the position of the earlier one.
    pub fn add(&mut self, tool: Arc<dyn Tool>, origin: ToolOrigin) {
        let Some(at) = self.position(&tool.spec().name) else {
            self.tools.push(LayeredTool {
                tool,
                origin,
                overrides: Vec::new(),
            });
            return;
        };
        let known = &mut self.tools[at];
        if origin.layer < known.origin.layer {
            known.overrides.push(origin);
        } else {
            let lower = std::mem::replace(&mut known.origin, origin);
            known.overrides.push(lower);
            known.tool = tool;
        }
    }

    /// Removes the tool with this name; returns whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        self.position(name)
            .map(|at| self.tools.remove(at))
            .is_some()
    }

    /// Keeps the tools for which `is_wanted` is true.
    pub fn retain(&mut self, is_wanted: impl FnMut(&LayeredTool) -> bool) {
        self.tools.retain(is_wanted);
    }

    /// Iterates over the tools.
    pub fn iter(&self) -> impl Iterator<Item = &LayeredTool> {
        self.tools.iter()
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.tools
            .iter()
            .position(|known| known.tool.spec().name.eq_ignore_ascii_case(name))
    }
}
