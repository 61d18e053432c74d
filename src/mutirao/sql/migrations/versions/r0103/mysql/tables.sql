-- Until when jobs are wanted: a row for each that somebody gave such a moment. No other table has a
-- column for it, so that jobs without one cost what they did. What counts is the job's metadata, which a
-- claim returns and a broker carries; this is where housekeeping looks, and people.
CREATE TABLE IF NOT EXISTS mutirao_expiry (
    job bigint PRIMARY KEY,
    expires_at bigint NOT NULL,
    look_at bigint, -- when housekeeping has to look; NULL: it is done
    INDEX mutirao_expiry_look_at (look_at)
) ENGINE InnoDB ${bytes}
