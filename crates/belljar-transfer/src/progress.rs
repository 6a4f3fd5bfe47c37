/// Hears how the work goes, and may end it. This crate never prints; whoever has a terminal does.
pub trait Progress: Sync {
    /// So much is done, and this is next.
    fn advance(&self, path: &str, files: u64, bytes: u64);

    /// Whether to stop, with [`TransferError::Stopped`](crate::TransferError::Stopped).
    fn stop(&self) -> bool {
        false
    }
}

/// Hears nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quiet;

impl Progress for Quiet {
    fn advance(&self, _: &str, _: u64, _: u64) {}
}
