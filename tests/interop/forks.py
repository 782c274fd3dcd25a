"""Python code that needs a process of its own, a hundred times: each run is a fork of an interpreter that has imported
torch or numpy once, which takes seconds."""

import atexit
import functools
import json
import subprocess
import sys
import tempfile

SERVER = """
import importlib, json, os, sys, traceback
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    code, arguments, environment = json.loads(line)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ.update(environment)
            sys.argv = ["-c", *arguments]
            exec(code, {"__name__": "__main__"})
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Forks:
    def __init__(self, *modules):
        self.errors = tempfile.TemporaryFile("w+")
        self.server = subprocess.Popen(
            [sys.executable, "-c", SERVER, *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.errors, text=True,
        )  # fmt: skip
        atexit.register(self.server.communicate)

    def run(self, code, *arguments, **environment):
        """As python -c CODE ARGUMENT..., with these variables of the environment; fails unless that exits with 0. What
        the code prints is lost."""
        before = self.errors.seek(0, 2)
        print(json.dumps([code, list(map(str, arguments)), environment]), file=self.server.stdin, flush=True)
        status = self.server.stdout.readline().strip()
        self.errors.seek(before)
        assert status == "0", f"exit {status}\n{self.errors.read()}"


of = functools.cache(Forks)  # of("numpy"): one interpreter for all tests that ask for it
