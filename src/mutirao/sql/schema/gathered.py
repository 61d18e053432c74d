"""All tables together, wherever in this room each is described."""

from sqlalchemy import MetaData

metadata = MetaData()
