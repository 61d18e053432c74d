-- Hosts that activities go to, and what they were told last.

-- Until `next_probe`, and while it is `held`, nothing is sent to a host; it has a limit of 0 then.
CREATE TABLE IF NOT EXISTS mutirao_host (
    name varchar(200) PRIMARY KEY CHECK (char_length(name) >= 1),
    state varchar(20) NOT NULL CHECK (state IN ('up', 'failing', 'unavailable')),
    failures int NOT NULL,
    failing_since bigint,
    next_probe bigint,
    held boolean NOT NULL,
    signature varchar(20) CHECK (signature IN ('rfc9421', 'cavage')),
    concurrency int,
    status int,
    error text,
    changed_at bigint
) ENGINE InnoDB ${bytes}
--;
-- The last activity about something that an inbox has taken. `about` is a digest of inbox, object and target.
CREATE TABLE IF NOT EXISTS mutirao_said (
    about varchar(64) PRIMARY KEY,
    host varchar(200) NOT NULL,
    kind text NOT NULL,
    digest varchar(64) NOT NULL,
    job bigint NOT NULL,
    said_at bigint NOT NULL,
    INDEX mutirao_said_host (host),
    INDEX mutirao_said_at (said_at)
) ENGINE InnoDB ${bytes}
