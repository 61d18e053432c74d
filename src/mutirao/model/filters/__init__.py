"""The language of filters: which jobs are meant, as one text for everybody."""
