-- Until when jobs are wanted: a row for each that somebody gave such a moment. No other table has a
-- column for it, so that jobs without one cost what they did. What counts is the job's metadata, which a
-- claim returns and a broker carries; this is where housekeeping looks, and people.
CREATE TABLE mutirao_expiry (
    job integer PRIMARY KEY,
    expires_at integer NOT NULL,
    look_at integer -- when housekeeping has to look; NULL: it is done
)
--;
CREATE INDEX mutirao_expiry_look_at ON mutirao_expiry (look_at) WHERE look_at IS NOT NULL
