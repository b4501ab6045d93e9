"""Settings that know services of this machine: by the variable that a test hands to its stack."""

import json
import os

from project.settings import *  # noqa: F403

WEIGHBRIDGE_SERVICES = json.loads(os.environ["TEST_SERVICES"])
