"""The dialect of MySQL and MariaDB."""
