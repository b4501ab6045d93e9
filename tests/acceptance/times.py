"""The times of a stack: short ones, which everybody's tests can wait for, and with --full the defaults. Seconds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    lease: float
    limit_grace: float
    sweep: float
    stop_grace: float
    beat: float = 1.0

    @property
    def environ(self) -> dict[str, str]:
        return {
            "WEIGHBRIDGE_LEASE_SECONDS": str(self.lease),
            "WEIGHBRIDGE_LIMIT_GRACE_SECONDS": str(self.limit_grace),
            "WEIGHBRIDGE_SWEEP_SECONDS": str(self.sweep),
            "WEIGHBRIDGE_STOP_GRACE_SECONDS": str(self.stop_grace),
            "WEIGHBRIDGE_BEAT_SECONDS": str(self.beat),
        }


SHORT = Times(lease=3.0, limit_grace=0.5, sweep=0.2, stop_grace=5.0)
DEFAULT = Times(lease=30.0, limit_grace=5.0, sweep=1.0, stop_grace=30.0)
