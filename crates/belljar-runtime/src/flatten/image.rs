//! The memory as it is before the first call: all data segments in their places, and one page behind them.

use wasmparser::DataKind;

use super::{component::get, constants, error::FlattenError, resolve::Links};

/// The size of a page of WebAssembly memory.
pub const PAGE: usize = 64 * 1024;

/// An image is written, mapped and compared as a whole, so a wild size is refused: 1 GiB.
const LARGEST: u64 = 16 * 1024;

pub(super) struct Image {
    pub(super) bytes: Vec<u8>,
    /// In pages, with the extra one.
    pub(super) pages: u32,
    pub(super) maximum: Option<u64>,
}

impl Image {
    pub(super) fn build(links: &Links<'_>) -> Result<Self, FlattenError> {
        let memory = get(&links.module(links.memory.module)?.memories, links.memory.index, "memory")?;
        if memory.memory64 || memory.shared || memory.page_size_log2.is_some() {
            return Err(FlattenError::Memory("is 64-bit, shared, or has pages of its own size"));
        }
        let pages = match u32::try_from(memory.initial) {
            Ok(pages) if memory.initial <= LARGEST => pages,
            _ => return Err(FlattenError::Memory("is larger than 1 GiB")),
        };
        let used = pages as usize * PAGE;
        let mut bytes = vec![0; used + PAGE];
        for (module, parsed) in links.instantiated() {
            for (segment, data) in parsed.data.iter().enumerate() {
                let refuse = |how| FlattenError::Segment { what: "data segment", module, segment, how };
                let DataKind::Active { offset_expr, .. } = &data.kind else { return Err(refuse("passive")) };
                let start = constants::evaluate(links, module, offset_expr)?.cast_unsigned() as usize;
                let place = start.checked_add(data.data.len()).filter(|end| *end <= used);
                let place = place.and_then(|end| bytes.get_mut(start..end));
                place.ok_or_else(|| refuse("outside of the memory"))?.copy_from_slice(data.data);
            }
        }
        // The extra page must fit under the maximum as well, or the guest would lose one.
        let maximum = memory.maximum.map(|maximum| (maximum + 1).min(1 << 16));
        Ok(Self { bytes, pages: pages + 1, maximum })
    }

    /// The first word of the extra page. The guest's allocator never gets there: the page was not part of the
    /// memory when the component was made, and growing starts behind it.
    pub(super) fn poll_address(&self) -> u32 {
        (self.pages - 1) * PAGE as u32
    }
}
