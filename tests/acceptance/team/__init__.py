"""An application of a team that uses Weighbridge: its own settings, class, model, second database and job type."""
