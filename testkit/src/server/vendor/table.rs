//! The vendors, a value each.

use super::super::protocol::Protocol::{self, Chat, Messages, Responses};
use super::{
    Answers, CallSignature, Errors, Ids, Reasoning, Rule, Vendor, chat, messages, responses,
};

/// All vendors.
pub const ALL: &[&Vendor] = &[
    &ANTHROPIC,
    &AZURE,
    &BEDROCK,
    &VERTEX,
    &CEREBRAS,
    &DEEPSEEK,
    &FIREWORKS,
    &GEMINI,
    &GROQ,
    &LITELLM,
    &MINIMAX,
    &MISTRAL,
    &MOONSHOT,
    &OPENAI,
    &OPENROUTER,
    &QWEN,
    &TOGETHER,
    &VLLM,
    &XAI,
    &ZAI,
];

/// Anthropic, whose API the Messages API is.
pub const ANTHROPIC: Vendor = Vendor {
    name: "anthropic",
    refuses: CLAUDE,
    loses: &[messages::OLD_BETAS],
    ..of(&[Messages])
};

const CLAUDE: &[Rule] = &[
    messages::FIELDS,
    messages::PROPERTY_KEYS,
    messages::PICTURE_TYPE,
    messages::PICTURE_SIDES,
    messages::PICTURE_SIZE,
    messages::OUTPUT_LIMIT,
];

const BEDROCK: Vendor = Vendor {
    name: "bedrock",
    refuses: &[
        messages::BETAS,
        messages::NO_ADDRESSES,
        messages::FIELDS,
        messages::PROPERTY_KEYS,
        messages::PICTURE_TYPE,
        messages::PICTURE_SIDES,
        messages::PICTURE_SIZE,
        messages::OUTPUT_LIMIT,
    ],
    ..of(&[Messages])
};

const VERTEX: Vendor = Vendor {
    name: "vertex",
    refuses: &[
        messages::VERTEX_BETAS,
        messages::FIELDS,
        messages::PROPERTY_KEYS,
        messages::PICTURE_TYPE,
        messages::PICTURE_SIDES,
        messages::PICTURE_SIZE,
        messages::OUTPUT_LIMIT,
        messages::VERSION_IN_BODY,
    ],
    ..of(&[Messages])
};

/// OpenAI.
pub const OPENAI: Vendor = Vendor {
    name: "openai",
    refuses: GPT,
    loses: GPT_LOSES,
    ..of(&[Chat, Responses])
};

/// https://github.com/goose-ai/goose/issues/9825 of 31 July 2026: the same models with the same rules.
const AZURE: Vendor = Vendor {
    name: "azure",
    refuses: GPT,
    loses: GPT_LOSES,
    ..of(&[Chat, Responses])
};

const GPT: &[Rule] = &[
    chat::SOME_TOOLS,
    chat::TOOLS_BY_RESPONSES,
    chat::EFFORT,
    chat::SAMPLING,
    chat::OUTPUT_LIMIT,
    responses::FIELDS,
    responses::EFFORT,
    responses::SAMPLING,
    responses::IDS,
    responses::ITEMS,
    responses::ADDED_TOOLS,
    responses::CONFIGURATION,
    responses::CACHE,
];

const GPT_LOSES: &[Rule] = &[responses::PHASE, responses::PREFIX, responses::INSTRUCTIONS];

const GEMINI: Vendor = Vendor {
    name: "gemini",
    refuses: &[chat::THOUGHT_SIGNATURES, chat::NAMES, chat::FIRST_LETTER],
    answers: Answers {
        reasoning: Reasoning::Hidden,
        call_signature: CallSignature::ExtraContent,
        errors: Errors::Listed,
        ..Answers::OF_API
    },
    ..of(&[Chat])
};

const DEEPSEEK: Vendor = Vendor {
    name: "deepseek",
    refuses: &[chat::REASONING_OF_CALLS],
    ..of(&[Chat])
};

const MOONSHOT: Vendor = Vendor {
    name: "moonshot",
    refuses: &[chat::REASONING_WITH_CALLS, chat::LETTER_FIRST, chat::WARM],
    ..of(&[Chat])
};

const MISTRAL: Vendor = Vendor {
    name: "mistral",
    refuses: &[chat::MISTRAL_FIELDS, chat::NINE, chat::ORDER],
    // PyPI mistral-common 1.13.1, protocol/instruct/validator.py.
    in_answers: &["text", "thinking"],
    answers: Answers {
        reasoning: Reasoning::Parts,
        ids: Ids::Nine,
        errors: Errors::Flat,
        ..Answers::OF_API
    },
    ..of(&[Chat])
};

const GROQ: Vendor = Vendor {
    name: "groq",
    refuses: &[chat::GROQ_FIELDS],
    answers: Answers {
        reasoning: Reasoning::Plain,
        ..Answers::OF_API
    },
    ..of(&[Chat])
};

const CEREBRAS: Vendor = Vendor {
    name: "cerebras",
    refuses: &[chat::CEREBRAS_FIELDS],
    answers: Answers {
        reasoning: Reasoning::Plain,
        errors: Errors::Flat,
        ..Answers::OF_API
    },
    ..of(&[Chat])
};

const FIREWORKS: Vendor = Vendor {
    name: "fireworks",
    refuses: &[chat::FIREWORKS_FIELDS],
    ..of(&[Chat])
};

const XAI: Vendor = Vendor {
    name: "xai",
    refuses: &[chat::GROK, responses::GROK],
    answers: Answers {
        errors: Errors::Bare,
        ..Answers::OF_API
    },
    ..of(&[Chat, Responses])
};

const ZAI: Vendor = Vendor {
    name: "zai",
    refuses: &[chat::FOUR_ROLES],
    ..of(&[Chat])
};

const MINIMAX: Vendor = Vendor {
    name: "minimax",
    refuses: &[chat::PARAMETERS, messages::RESULTS_ALONE],
    loses: &[chat::DETAILS_COME_BACK],
    answers: Answers {
        reasoning: Reasoning::Details,
        ..Answers::OF_API
    },
    ..of(&[Chat, Messages])
};

const QWEN: Vendor = Vendor {
    name: "qwen",
    refuses: &[chat::SOME_CALLS],
    ..of(&[Chat])
};

const OPENROUTER: Vendor = Vendor {
    name: "openrouter",
    refuses: &[chat::GEMINI_DETAILS],
    loses: &[chat::DETAILS_COME_BACK],
    answers: Answers {
        reasoning: Reasoning::Details,
        call_signature: CallSignature::Details,
        ..Answers::OF_API
    },
    ..of(&[Chat])
};

const LITELLM: Vendor = Vendor {
    name: "litellm",
    refuses: &[chat::THINKING_BLOCKS],
    // It translates them for each vendor.
    in_results: &["text", "image_url"],
    ..of(&[Chat])
};

/// No rule of its own is known.
const TOGETHER: Vendor = Vendor {
    name: "together",
    ..of(&[Chat])
};

const VLLM: Vendor = Vendor {
    name: "vllm",
    refuses: &[chat::SOME_TOOLS],
    ..of(&[Chat])
};

/// A vendor of these APIs without rules of its own.
const fn of(apis: &'static [Protocol]) -> Vendor {
    Vendor {
        name: "",
        apis,
        refuses: &[],
        loses: &[],
        in_results: &["text"],
        in_answers: &["text", "refusal"],
        answers: Answers::OF_API,
    }
}
