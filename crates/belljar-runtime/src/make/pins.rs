//! What a runtime is made of. Change these and every runtime is made anew.

/// The Python that [`COMPONENTIZE`] carries.
pub(super) const PYTHON: &str = "3.14.0";

/// A release on the package index, with the SHA-256 of all its wheels.
#[derive(Debug)]
pub struct Pin {
    /// The project's name on the index.
    pub project: &'static str,
    /// The release.
    pub version: &'static str,
    /// File names and hashes.
    pub wheels: &'static [(&'static str, &'static str)],
}

/// Carries CPython for WebAssembly and makes components of it.
pub(super) const COMPONENTIZE: Pin = Pin {
    project: "componentize-py",
    version: "0.25.1",
    wheels: &[
        (
            "componentize_py-0.25.1-cp39-abi3-manylinux_2_28_x86_64.whl",
            "8623cd8cab8453cb0cd8bf03f3c7103420d06f2f3d360186a280a70a1ca5e89f",
        ),
        (
            "componentize_py-0.25.1-cp39-abi3-manylinux_2_28_aarch64.whl",
            "7b6a87c520358166843af0daa86d2312d7af4cbcbbf1e598951085cf7f2991ca",
        ),
        (
            "componentize_py-0.25.1-cp39-abi3-macosx_11_0_arm64.whl",
            "a556991534cc496207a9d2ca733c4b0f17ed38ef56a8d6b5f1847fdf1225dd1b",
        ),
        (
            "componentize_py-0.25.1-cp39-abi3-macosx_10_12_x86_64.whl",
            "65fbc4a94df1de8acf7da50a1f5ed1711230188844e53e6332d99029be4e0afa",
        ),
        (
            "componentize_py-0.25.1-cp39-abi3-win_amd64.whl",
            "c7fd552fb0849858b0c1e8981543ed5dff4b0cc1597a8ea0bc26a495786dc0c6",
        ),
    ],
};

/// The time zones, which CPython expects from the system.
pub(super) const TZDATA: Pin = Pin {
    project: "tzdata",
    version: "2026.6",
    wheels: &[(
        "tzdata-2026.6-py2.py3-none-any.whl",
        "0a10eec6e13ef16b627fabed9a5f2ba61a62b1c67f327305f4e7e412a70b4aec",
    )],
};
