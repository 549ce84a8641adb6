//! Pictures on their way into a conversation, whatever brings them: prompts of people, editors and hosts, and tools of every
//! kind. A vendor refuses a whole conversation for one picture that it cannot decode, and with it each later prompt, so each
//! picture is decoded here before it is stored. Decoding itself is left to the port.

use std::sync::Arc;

use ah_conversation::{Content, ContentBlock, Image, Output, ResultBlock};

/// Returns a picture as models take it, or the text that they read in its place.
pub type Pictures = Arc<dyn Fn(&Image) -> Result<Image, String> + Send + Sync>;

/// Returns the port of a session whose pictures need no check.
pub fn unchecked_pictures() -> Pictures {
    Arc::new(|image| Ok(image.clone()))
}

/// Returns `output` with its pictures as models take them. Decoding takes a while, so others run meanwhile.
pub(crate) async fn in_output(mut output: Output, pictures: &Pictures) -> Output {
    let Content::Blocks(blocks) = &mut output.content else {
        return output;
    };
    let is_picture = |block: &ResultBlock| matches!(block, ResultBlock::Image(_));
    if !blocks.iter().any(is_picture) {
        return output;
    }
    let (unchecked, pictures) = (std::mem::take(blocks), pictures.clone());
    let checked = tokio::task::spawn_blocking(move || {
        let check = |block| match block {
            ResultBlock::Image(image) => match pictures(&image) {
                Ok(image) => ResultBlock::Image(image),
                Err(text) => ResultBlock::Text { text },
            },
            block => block,
        };
        unchecked.into_iter().map(check).collect()
    });
    match checked.await {
        Ok(checked) => *blocks = checked,
        // A decoder has panicked.
        Err(_) => output = Output::error("the pictures of this result cannot be decoded"),
    }
    output
}

/// Returns a prompt with its pictures as models take them.
pub(crate) async fn in_prompt(prompt: Vec<ContentBlock>, pictures: &Pictures) -> Vec<ContentBlock> {
    let is_picture = |block: &ContentBlock| matches!(block, ContentBlock::Image(_));
    if !prompt.iter().any(is_picture) {
        return prompt;
    }
    let pictures = pictures.clone();
    let checked = tokio::task::spawn_blocking(move || {
        let check = |block| match block {
            ContentBlock::Image(image) => match pictures(&image) {
                Ok(image) => ContentBlock::Image(image),
                Err(text) => ContentBlock::text(text),
            },
            block => block,
        };
        prompt.into_iter().map(check).collect()
    });
    let failed = |_| {
        vec![ContentBlock::text(
            "[the pictures of this prompt cannot be decoded]",
        )]
    };
    checked.await.unwrap_or_else(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(data: &str) -> Image {
        Image {
            media_type: "image/jpg".to_owned(),
            data: data.to_owned(),
        }
    }

    /// Takes pictures with this content alone, and names their type.
    fn port() -> Pictures {
        Arc::new(|image| match image.data.as_str() {
            "good" => Ok(Image {
                media_type: "image/jpeg".to_owned(),
                ..image.clone()
            }),
            "deadly" => panic!("a decoder"),
            _ => Err("[no picture]".to_owned()),
        })
    }

    fn block(data: &str) -> ResultBlock {
        ResultBlock::Image(image(data))
    }

    async fn result(blocks: Vec<ResultBlock>) -> Output {
        let content = Content::Blocks(blocks);
        let output = Output {
            content,
            ..Output::text("")
        };
        in_output(output, &port()).await
    }

    #[tokio::test]
    async fn a_result_has_only_pictures_that_can_be_decoded() {
        let words = ResultBlock::Text {
            text: "see".to_owned(),
        };
        let output = result(vec![words.clone(), block("good"), block("bad")]).await;
        let taken = Image {
            media_type: "image/jpeg".to_owned(),
            ..image("good")
        };
        let text = ResultBlock::Text {
            text: "[no picture]".to_owned(),
        };
        let expected = Content::Blocks(vec![words, ResultBlock::Image(taken), text]);
        assert_eq!(output.content, expected);
        assert!(!output.is_error);
        assert!(result(vec![block("deadly")]).await.is_error);
    }

    #[tokio::test]
    async fn so_has_a_prompt() {
        let words = ContentBlock::text("Look.");
        let given = vec![ContentBlock::Image(image("bad")), words.clone()];
        let prompt = in_prompt(given, &port()).await;
        assert_eq!(prompt, [ContentBlock::text("[no picture]"), words]);
    }
}
