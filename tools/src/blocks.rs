//! Content blocks that programs and Lua tools return, in the form of the Messages API. Their pictures are checked, since the
//! API refuses a whole conversation for one picture that it does not take.

use ah_conversation::ResultBlock;
use serde::Deserialize;

use crate::image;

/// A content block.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Block {
    Text { text: String },
    Image { source: ImageSource },
}

#[derive(Deserialize)]
pub(crate) struct ImageSource {
    data: String,
}

/// Converts the blocks and scales their pictures; the error says what is wrong with one.
pub(crate) fn shown(blocks: Vec<Block>) -> Result<Vec<ResultBlock>, String> {
    let convert = |block| match block {
        Block::Text { text } => Ok(ResultBlock::Text { text }),
        Block::Image { source } => image::in_base64(&source.data)
            .map(ResultBlock::Image)
            .map_err(|error| format!("the tool is faulty: a picture that it returned {error}")),
    };
    blocks.into_iter().map(convert).collect()
}
