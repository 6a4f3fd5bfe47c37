-- What the store is called, so that it is known which contents are its own.
CREATE TABLE store (
    name TEXT NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);

-- Contents that are there, each once.
CREATE TABLE blobs (
    sha256 TEXT NOT NULL PRIMARY KEY,
    size BIGINT NOT NULL,
    place TEXT NOT NULL
);
CREATE INDEX blobs_by_size ON blobs (size);

CREATE TABLE origins (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body TEXT NOT NULL,
    added_ms BIGINT NOT NULL
);

CREATE TABLE records (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    previous TEXT,
    origin TEXT NOT NULL,
    body TEXT NOT NULL,
    added_ms BIGINT NOT NULL
);

CREATE TABLE artifacts (
    id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    cell BIGINT NOT NULL,
    name TEXT NOT NULL,
    size BIGINT NOT NULL,
    mime TEXT NOT NULL,
    sha256 TEXT NOT NULL REFERENCES blobs (sha256),
    created_ms BIGINT NOT NULL,
    tool_call TEXT,
    parents TEXT NOT NULL,
    origin TEXT NOT NULL REFERENCES origins (id),
    record TEXT,
    pinned BIGINT NOT NULL,
    taken_back BIGINT NOT NULL
);
CREATE INDEX artifacts_by_session ON artifacts (tenant, session, id);
CREATE INDEX artifacts_by_sha256 ON artifacts (sha256);
CREATE INDEX artifacts_by_age ON artifacts (created_ms);

-- What is held: of a session; of a tenant, where the session is empty; of all, where the tenant is empty too.
CREATE TABLE held (
    tenant TEXT NOT NULL,
    session TEXT NOT NULL,
    bytes BIGINT NOT NULL,
    files BIGINT NOT NULL,
    PRIMARY KEY (tenant, session)
);
