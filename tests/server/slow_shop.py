"""The shop, in a module that takes long to import in a server's child."""

import multiprocessing
import time

from tests.server.shop import app as app

if multiprocessing.parent_process() is not None:
    time.sleep(3)
