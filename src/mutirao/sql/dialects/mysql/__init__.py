"""MariaDB: what is said differently there. MySQL itself is not served yet."""
