"""How instants are shown in the admin."""
