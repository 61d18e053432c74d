-- Hosts that activities go to, and what they were told last.

-- Until `next_probe`, and while it is `held`, nothing is sent to a host; it has a limit of 0 then.
CREATE TABLE mutirao_host (
    name text PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    state text NOT NULL CHECK (state IN ('up', 'failing', 'unavailable')),
    failures integer NOT NULL,
    failing_since integer,
    next_probe integer,
    held integer NOT NULL,
    signature text CHECK (signature IN ('rfc9421', 'cavage')),
    concurrency integer,
    status integer,
    error text,
    changed_at integer
)
--;
-- The last activity about something that an inbox has taken. `about` is a digest of inbox, object and target.
CREATE TABLE mutirao_said (
    about text PRIMARY KEY,
    host text NOT NULL,
    kind text NOT NULL,
    digest text NOT NULL,
    job integer NOT NULL,
    said_at integer NOT NULL
)
--;
CREATE INDEX mutirao_said_host ON mutirao_said (host)
--;
CREATE INDEX mutirao_said_at ON mutirao_said (said_at)
