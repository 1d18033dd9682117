"""A headless Chromium, driven over its debugging protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import aiohttp

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--disable-popup-blocking", "--hide-scrollbars",
]  # fmt: skip
PATIENCE_S = 30.0


class Tab:
    """One page. `complaints` holds what the browser reported: errors of scripts, and what the policy blocked."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self._loaded = asyncio.Event()
        self.complaints: list[str] = []

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return await self._browser.send(method, self._session, **parameters)

    def heard(self, method: str, parameters: dict[str, Any]) -> None:
        if method == "Page.loadEventFired":
            self._loaded.set()
        elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            entry = parameters["entry"]
            self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(parameters["exceptionDetails"]))

    async def screen(self, width: int, height: int, *, dark: bool = False) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = "dark" if dark else "light"
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def go(self, url: str) -> None:
        self._loaded.clear()
        await self.send("Page.navigate", url=url)
        await asyncio.wait_for(self._loaded.wait(), PATIENCE_S)

    async def run(self, script: str) -> Any:
        """The value of an expression of JavaScript; a promise is awaited."""
        answer = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = monotonic() + PATIENCE_S
        while not await self.run(f"Boolean({condition})"):
            assert monotonic() < end, f"never true: {condition}"
            await asyncio.sleep(0.05)

    async def after(self, script: str) -> None:
        """Run a script that leaves the page, and wait for the next one."""
        self._loaded.clear()
        await self.run(script)
        await asyncio.wait_for(self._loaded.wait(), PATIENCE_S)

    async def text(self) -> str:
        return str(await self.run("document.body.innerText"))

    async def key(self, character: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": character} if kind == "keyDown" else {}
            await self.send("Input.dispatchKeyEvent", type=kind, key=character, **text)

    async def picture(self) -> bytes:
        """The whole page, as long as it is, as PNG."""
        size = await self.run("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": min(size[1], 4000), "scale": 1}
        answer = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(answer["data"])


class Browser:
    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tabs: dict[str, Tab] = {}

    async def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        message = {"id": self._number, "method": method, "params": parameters}
        await self._socket.send_json(message | ({"sessionId": session} if session else {}))
        return await asyncio.wait_for(answer, PATIENCE_S)

    async def listen(self) -> None:
        async for message in self._socket:
            event = json.loads(message.data)
            if "id" in event:
                answer = self._answers.pop(event["id"])
                if answer.done():
                    continue
                if "error" in event:
                    answer.set_exception(AssertionError(event["error"]))
                else:
                    answer.set_result(event["result"])
            elif event.get("sessionId") in self._tabs:
                self._tabs[event["sessionId"]].heard(event["method"], event["params"])

    async def tab(self) -> Tab:
        """A new page with cookies of its own."""
        context = (await self.send("Target.createBrowserContext"))["browserContextId"]
        target = await self.send("Target.createTarget", url="about:blank", browserContextId=context)
        attached = await self.send("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        session = attached["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Log"):
            await tab.send(f"{domain}.enable")
        return tab


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    folder = Path(tempfile.mkdtemp(prefix="chromium-"))
    process = _start(folder)
    try:
        address = await _address(folder / "DevToolsActivePort", process)
        async with (
            aiohttp.ClientSession() as http,
            http.ws_connect(address, max_msg_size=0) as socket,
        ):
            browser = Browser(socket)
            listening = asyncio.create_task(browser.listen())
            try:
                yield browser
            finally:
                listening.cancel()
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path) -> subprocess.Popen[bytes]:
    command = ["chromium", *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-port=0", "about:blank"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _address(file: Path, process: subprocess.Popen[bytes]) -> str:
    """Where the browser listens: it writes port and path to a file."""
    end = monotonic() + PATIENCE_S
    while monotonic() < end and process.poll() is None:
        lines = _lines(file)
        if len(lines) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        await asyncio.sleep(0.05)
    raise AssertionError("chromium did not start")


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []
