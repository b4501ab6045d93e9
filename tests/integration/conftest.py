from tests.clean_slate import clean_slate, other

__all__ = ["clean_slate", "other"]
