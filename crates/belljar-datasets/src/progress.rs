/// Hears how a fetch goes, and may end it. This crate never prints; whoever has a terminal does.
pub trait Progress: Sync {
    /// So many bytes of a dataset are here, of so many, if that is known.
    fn advance(&self, name: &str, bytes: u64, total: Option<u64>);

    /// An attempt failed, and after this long there is another.
    fn retry(&self, _name: &str, _reason: &str, _after: std::time::Duration) {}

    /// Whether to stop, with [`DatasetError::Stopped`](crate::DatasetError::Stopped).
    fn stop(&self) -> bool {
        false
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn advance(&self, _: &str, _: u64, _: Option<u64>) {}
}
