"""The dialect of MariaDB. MySQL itself is not supported yet."""
