"""Runs the LiteLLM proxy for as long as its own standard input stays open: `proxy.py --config FILE --port N`.

Whoever started it may be killed at any time; the pipe then closes, and the proxy ends with it.
"""

import os
import threading


def end_with_input():
    while os.read(0, 1024):
        pass
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()

# Reads the command line. Importing it takes seconds, and the thread must be there before.
from litellm import run_server

run_server()
