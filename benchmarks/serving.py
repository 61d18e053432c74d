"""The application that `command` has the real `mutirao worker` run, as a user's own module."""

import os

from benchmarks.load import SERVED, Load

app = Load(os.environ[SERVED]).app
