//! Under which names the tools stand before the model: ours, or those that the official Agent SDKs' hosts know.

/// Which names tools and their arguments have. Both forms of a path argument are understood under either.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Naming {
    /// `read`, `edit`, …, with the argument `path`.
    #[default]
    Own,
    /// `Read`, `Edit`, …, with the argument `file_path`.
    Sdk,
}

impl Naming {
    /// The one of two words that belongs to this naming.
    pub(crate) fn pick(self, own: &'static str, sdk: &'static str) -> &'static str {
        match self {
            Self::Own => own,
            Self::Sdk => sdk,
        }
    }

    /// The argument that names a file.
    pub(crate) fn path_argument(self) -> &'static str {
        self.pick("path", "file_path")
    }
}
