//! Tables of hostile cells, each cell a test of its own.

/// `name(code) => [the ways it may end];` If a timeout isn't one of them, the cell has plenty of time.
macro_rules! hostile {
    ($($name:ident($code:expr) => [$($status:ident),+];)*) => {
        $(#[test]
        fn $name() {
            let allowed = [$(belljar::Status::$status),+];
            let stopped = allowed.contains(&belljar::Status::Timeout);
            let hostile = if stopped { Default::default() } else { belljar_tests::Hostile::patient() };
            hostile.run($code).ended(&allowed);
        })*
    };
}

/// `name(code) => "the exception it ends in";`
macro_rules! raising {
    ($($name:ident($code:expr) => $kind:literal;)*) => {
        $(#[test]
        fn $name() {
            belljar_tests::Hostile::patient().run($code).ended(&[belljar::Status::Error]).raised($kind);
        })*
    };
}

/// `name(code);` These may ruin their own session, and nothing else.
macro_rules! ruinous {
    ($($name:ident($code:expr);)*) => {
        $(#[test]
        fn $name() {
            belljar_tests::Hostile::default().ruin($code);
        })*
    };
}

pub(crate) use {hostile, raising, ruinous};
