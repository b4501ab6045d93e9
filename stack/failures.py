"""What can go wrong while a stack starts or stops, told in sentences."""


class StackError(Exception):
    """One sentence (log lines may follow it) for the person at the terminal; never holds a password."""
