"""Headless Chromium for tests of pages: opens a file, runs scripts in it, clicks, looks at screenshots.

It is driven by the DevTools protocol over two pipes, so that no port is opened and no package is needed. Each page is
opened with the network switched off, and what it asks for is recorded: `requests` has every address but the page's.
"""

import base64
import json
import os
import pathlib
import shutil
import struct
import subprocess
import tempfile
import time
import zlib

PROGRAMS = ("chromium-headless-shell", "chromium", "google-chrome", "chrome")
TIMEOUT_S = 60


def find():
    """The browser; a test without one fails: scripts/setup.sh's packages for tests have it."""
    for name in PROGRAMS:
        if path := shutil.which(name):
            return path
    raise RuntimeError(f"no browser: none of {', '.join(PROGRAMS)} is on PATH (tests/run.sh installs one)")


class Chromium:
    def __init__(self, width=1200, height=900, dark=False):
        self.folder = tempfile.TemporaryDirectory(prefix="slipway-chromium-", ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            find(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
            "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={self.folder.name}",
            f"--window-size={width},{height}",
        ]  # fmt: skip

        def three_and_four():
            # Through numbers out of the way: the pipes may have these numbers themselves.
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)
            os.set_inheritable(3, True)
            os.set_inheritable(4, True)

        self.process = subprocess.Popen(
            command, preexec_fn=three_and_four, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._next = 0
        self.events = []
        self.requests = []
        self.errors = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = None
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        self.send("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self._session = None
            self.send("Browser.close")
            self.process.wait(10)
        except (RuntimeError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self._out)
        os.close(self._in)
        self.folder.cleanup()

    def _message(self):
        while b"\0" not in self._buffer:
            data = os.read(self._in, 1 << 20)
            if not data:
                raise RuntimeError("the browser has ended")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(message)
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(json.dumps(message["params"]["exceptionDetails"])[:2000])
        if message.get("method") == "Log.entryAdded":
            self.errors.append(message["params"]["entry"]["text"])
        if "method" in message:
            self.events.append(message["method"])
        return message

    def send(self, method, **params):
        self._next += 1
        call = {"id": self._next, "method": method, "params": params}
        if getattr(self, "_session", None):
            call["sessionId"] = self._session
        data = json.dumps(call).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            message = self._message()
            if message.get("id") == self._next:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]

    def open(self, path):
        """Seconds from the request to a page that is loaded, drawn and painted."""
        self.events.clear()
        begin = time.monotonic()
        url = pathlib.Path(path).resolve().as_uri()
        result = self.send("Page.navigate", url=url)
        assert "errorText" not in result, result
        while "Page.loadEventFired" not in self.events:
            self._message()
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seconds = time.monotonic() - begin
        self.requests = [r for r in self.requests if r != url and not r.startswith("data:")]
        return seconds

    def run(self, script):
        """The value of an expression in the page; of a promise what it gives."""
        result = self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"])[:2000])
        return result["result"].get("value")

    def wait(self, script):
        """Waits until an expression is true."""
        end = time.monotonic() + TIMEOUT_S
        while not self.run(f"!!({script})"):
            assert time.monotonic() < end, f"never true: {script}"
            time.sleep(0.02)

    def click(self, selector, corner=False):
        """A click with the mouse on the middle of the first element that matches, or near its upper left corner."""
        place = self.run(
            f"""(() => {{
              const e = document.querySelector({json.dumps(selector)});
              if (!e) return null;
              e.scrollIntoView({{block: "center"}});
              const r = e.getBoundingClientRect();
              return {"[r.x + 8, r.y + 8]" if corner else "[r.x + r.width / 2, r.y + r.height / 2]"};
            }})()"""
        )
        assert place, f"nothing matches {selector}"
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def type(self, selector, text):
        self.click(selector)
        self.send("Input.insertText", text=text)

    def text(self, selector="body"):
        return self.run(f"document.querySelector({json.dumps(selector)}).innerText")

    def screenshot(self):
        data = self.send("Page.captureScreenshot", format="png")["data"]
        return Picture(base64.b64decode(data))


class Picture:
    """The pixels of a PNG of 8 bits a channel without interlacing, as Chromium writes them."""

    def __init__(self, png):
        assert png.startswith(b"\x89PNG\r\n\x1a\n")
        self.png, at, data = png, 8, b""
        while at < len(png):
            (size,), kind = struct.unpack(">I", png[at : at + 4]), png[at + 4 : at + 8]
            body = png[at + 8 : at + 8 + size]
            if kind == b"IHDR":
                self.width, self.height, depth, color, _, _, interlaced = struct.unpack(">IIBBBBB", body)
                assert depth == 8 and color in (2, 6) and interlaced == 0
                self.channels = 3 if color == 2 else 4
            elif kind == b"IDAT":
                data += body
            at += size + 12
        self._unfilter(zlib.decompress(data))

    def _unfilter(self, data):
        n, row, self.rows = self.channels, self.width * self.channels, []
        above = bytearray(row)
        for y in range(self.height):
            start = y * (row + 1)
            kind, line = data[start], bytearray(data[start + 1 : start + 1 + row])
            for i in range(row if kind else 0):
                left = line[i - n] if i >= n else 0
                up, corner = above[i], above[i - n] if i >= n else 0
                if kind == 1:
                    guess = left
                elif kind == 2:
                    guess = up
                elif kind == 3:
                    guess = (left + up) // 2
                else:
                    p = left + up - corner
                    guess = min((left, up, corner), key=lambda v: abs(p - v))
                line[i] = (line[i] + guess) & 255
            self.rows.append(bytes(line))
            above = line

    def colors(self):
        """How often each color is there, of every fourth pixel of every fourth row."""
        counts, n = {}, self.channels
        for line in self.rows[::4]:
            for i in range(0, len(line), 4 * n):
                color = tuple(line[i : i + 3])
                counts[color] = counts.get(color, 0) + 1
        return counts
