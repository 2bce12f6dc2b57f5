"""A page in headless Chromium, driven over its DevTools pipe: real pointer, keys and console."""

import json
import os
import select
import shutil
import subprocess
from pathlib import Path

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PATIENCE = 120  # seconds for an answer: the machine may be busy


class Browser:
    """One browser with one page. `errors` is what its console said of errors and warnings."""

    def __init__(self, folder: Path, width: int = 1400, height: int = 900):
        to_read, to_write = os.pipe(), os.pipe()
        words = [CHROMIUM, *FLAGS, "--remote-debugging-pipe", f"--user-data-dir={folder}"]
        words += [f"--window-size={width},{height}", "about:blank"]
        kept = (to_read[0], to_write[1])
        script = 'exec "${@:3}" 3<&"$1" 4>&"$2"'  # it reads from descriptor 3 and answers on 4
        start = ["bash", "-c", script, "bash", *(str(end) for end in kept)]
        self.process = subprocess.Popen([*start, *words], pass_fds=kept, stderr=subprocess.DEVNULL)
        for end in kept:
            os.close(end)
        self.out, self.into, self.heard = os.fdopen(to_read[1], "wb"), to_write[0], [b""]
        self.number, self.session, self.errors, self.loaded = 0, None, [], 0
        targets = self.call("Target.getTargets")["targetInfos"]
        target = next(one for one in targets if one["type"] == "page")["targetId"]
        made = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = made["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters) -> dict:
        """A command's answer; what happens meanwhile is kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        message |= {"sessionId": self.session} if self.session else {}
        self.out.write(json.dumps(message).encode() + b"\0")
        self.out.flush()
        while (answer := self._read()).get("id") != self.number:
            pass
        assert "error" not in answer, (method, answer["error"])
        return answer["result"]

    def _read(self) -> dict:
        """The next message; of an event, what the console shows is kept."""
        while b"\0" not in self.heard[-1]:
            ready, _, _ = select.select([self.into], [], [], PATIENCE)
            assert ready, f"no answer in {PATIENCE} s"
            piece = os.read(self.into, 1 << 16)
            assert piece, "the browser is gone"
            self.heard.append(piece)
        text, rest = b"".join(self.heard).split(b"\0", 1)
        self.heard = [rest]
        answer = json.loads(text)
        what, said = answer.get("method"), answer.get("params", {})
        if what == "Runtime.exceptionThrown":
            self.errors.append(said["exceptionDetails"]["text"])
        elif what == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.errors.append(str(said["args"]))
        elif what == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.errors.append(said["entry"]["text"])
        elif what == "Page.loadEventFired":
            self.loaded += 1
        return answer

    def open(self, address: str) -> None:
        """Go there and wait until it is loaded."""
        before = self.loaded
        self.call("Page.navigate", url=address)
        while self.loaded == before:
            self._read()

    def eval(self, expression: str):
        """A value of the page."""
        options = {"returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", expression=expression, **options)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait, frame by frame, until the page makes it true; red after PATIENCE."""
        frame = f"() => {{ if ({condition}) done(); else requestAnimationFrame(again) }}"
        late = f"setTimeout(() => fail({json.dumps(condition)}), {PATIENCE * 500})"
        self.eval(f"new Promise((done, fail) => {{ const again = {frame}; again(); {late} }})")

    def wide(self, width: int, height: int = 900) -> None:
        """The screen; below 600 pixels a phone's."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)

    def place(self, selector: str) -> tuple[float, float]:
        """The middle of an element, scrolled into view."""
        x, y = self.eval(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]})()"
        )
        return x, y

    def point(self, selector: str) -> None:
        x, y = self.place(selector)
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector: str) -> None:
        x, y = self.place(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(30)
        self.out.close()
        os.close(self.into)
