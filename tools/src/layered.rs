//! The tools of all layers: of one name, the one of the highest layer is there, and the others are remembered.

use std::path::PathBuf;
use std::sync::Arc;

use ah_conversation::{Layer, Tool};

/// Where a tool comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolOrigin {
    /// The layer.
    pub layer: Layer,
    /// Its file, if it has one.
    pub path: Option<PathBuf>,
}

/// A tool and where it comes from.
#[derive(Clone)]
pub struct LayeredTool {
    /// The tool.
    pub tool: Arc<dyn Tool>,
    /// Where it comes from.
    pub origin: ToolOrigin,
    /// Where others of its name come from, which are not there because of it.
    pub overrides: Vec<ToolOrigin>,
}

/// The tools of all layers, in the order in which the model is told of them.
#[derive(Clone, Default)]
pub struct Layered {
    tools: Vec<LayeredTool>,
}

impl Layered {
    /// Adds a tool. Of two with one name (in any case), the one of the higher layer counts, or else the later, in the
    /// place of the earlier.
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

    /// Takes the tool of this name out; whether there was one.
    pub fn remove(&mut self, name: &str) -> bool {
        let at = self.position(name);
        at.map(|at| self.tools.remove(at)).is_some()
    }

    /// Keeps the tools of which `is_wanted` says so.
    pub fn retain(&mut self, is_wanted: impl FnMut(&LayeredTool) -> bool) {
        self.tools.retain(is_wanted);
    }

    /// The tools.
    pub fn iter(&self) -> impl Iterator<Item = &LayeredTool> {
        self.tools.iter()
    }

    fn position(&self, name: &str) -> Option<usize> {
        let mut tools = self.tools.iter();
        tools.position(|known| known.tool.spec().name.eq_ignore_ascii_case(name))
    }
}
