"""A real JupyterLab in headless Chromium, driven as a person drives it: cells are run, buttons are clicked."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
import pytest

import agentflex_nb

HOME = Path(agentflex_nb.__file__).parents[1]
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

# Answers about the page's notebook; `jupyterapp` is what --LabApp.expose_app_in_browser puts there.
CURRENT = "window.jupyterapp.shell.currentWidget"
IDLE = f"() => {CURRENT}?.sessionContext?.session?.kernel?.status === 'idle'"
RUN = f"""index => {{
    const notebook = {CURRENT}.content;
    notebook.activeCellIndex = index;
    notebook.mode = 'command';
    window.lastRun = window.jupyterapp.commands.execute('notebook:run-cell');
    return null;
}}"""
OUTPUTS = f"index => JSON.stringify({CURRENT}.content.widgets[index].model.outputs.toJSON())"


class Notebook:
    """One notebook, open in one page."""

    def __init__(self, page: Any, address: str, file: Path) -> None:
        self.page, self.file = page, file
        self._address = address
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.load()

    def load(self, kernel: bool = True) -> None:
        """Load the page, or load it again."""
        self.page.goto(f"{self._address}/doc/tree/{self.file.name}?reset")
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=60_000)
        if kernel:
            self.page.wait_for_function(IDLE, timeout=60_000)

    def start(self, cell: int) -> None:
        """Run a cell, and wait for nothing."""
        self.page.evaluate(RUN, cell)

    def run(self, cell: int) -> str:
        """Run a cell to its end; what it printed."""
        self.start(cell)
        self.page.evaluate("() => window.lastRun.then(() => null)")
        return self.printed(cell)

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """The outputs of a cell as they would be saved."""
        return list(json.loads(self.page.evaluate(OUTPUTS, cell)))

    def printed(self, cell: int) -> str:
        """What a cell wrote to its streams."""
        texts = [output["text"] for output in self.outputs(cell) if output["output_type"] == "stream"]
        return "".join("".join(text) for text in texts)

    def cell(self, cell: int) -> Any:
        """A cell on the page."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell)

    def save(self) -> None:
        """Save the notebook to its file."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save').then(() => null)")

    def command(self, name: str, **args: Any) -> None:
        """Execute a command of JupyterLab."""
        execute = "([name, args]) => window.jupyterapp.commands.execute(name, args).then(() => null)"
        self.page.evaluate(execute, [name, args])

    def shut_down_kernel(self) -> None:
        """End the kernel as the menu does."""
        self.page.evaluate(f"() => {CURRENT}.sessionContext.shutdown()")


class JupyterLab:
    """A server in a folder of its own, and a browser."""

    def __init__(self, folder: Path, browser: Any, address: str) -> None:
        self.folder, self._browser, self._address = folder, browser, address

    def open(self, name: str, cells: Sequence[str], **page: Any) -> Notebook:
        """A new notebook with these cells, open in a new page."""
        notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
        notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
        file = self.folder / f"{name}.ipynb"
        nbformat.write(notebook, file)
        return Notebook(self._page(page), self._address, file)

    def reopen(self, notebook: Notebook) -> Notebook:
        """The saved notebook in a page that has never seen it, without a kernel of its own."""
        notebook.page.close()
        again = object.__new__(Notebook)
        again.page, again.file, again._address, again.errors = self._page({}), notebook.file, self._address, []
        again.load(kernel=False)
        return again

    def end_kernels(self) -> None:
        """End the kernels of all its notebooks."""
        with urllib.request.urlopen(f"{self._address}/api/kernels", timeout=20) as answer:
            kernels = json.load(answer)
        for kernel in kernels:
            end = urllib.request.Request(f"{self._address}/api/kernels/{kernel['id']}", method="DELETE")
            urllib.request.urlopen(end, timeout=20).close()

    def _page(self, options: dict[str, Any]) -> Any:
        return self._browser.new_page(**{"viewport": {"width": 1100, "height": 1000}, **options})


# Not for the session: while Playwright is open an event loop runs in this thread, and asyncio.run refuses elsewhere.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser; skips where there is none, unless AGENTFLEX_REQUIRE_BROWSER=1."""
    if CHROMIUM is None:
        if os.environ.get("AGENTFLEX_REQUIRE_BROWSER") == "1":
            pytest.fail("AGENTFLEX_REQUIRE_BROWSER is 1, and no Chromium is installed")
        pytest.skip("no Chromium is installed: the panel is not tried in a real JupyterLab")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    """A JupyterLab whose kernels import the package under test."""
    folder, private = tmp_path_factory.mktemp("lab"), tmp_path_factory.mktemp("private")
    settings = private / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(quiet))
    port = _free_port()
    environment = {
        **os.environ,
        "PYTHONPATH": str(HOME),
        "JUPYTER_CONFIG_DIR": str(private / "config"),
        "JUPYTER_DATA_DIR": str(private / "data"),
        "JUPYTER_RUNTIME_DIR": str(private / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(private / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(private / "workspaces"),
        "IPYTHONDIR": str(private / "ipython"),
    }
    options = ["--no-browser", "--allow-root", f"--port={port}", f"--ServerApp.root_dir={folder}"]
    options += ["--IdentityProvider.token=", "--ServerApp.disable_check_xsrf=True"]
    options += ["--LabApp.expose_app_in_browser=True"]
    log = private / "server.log"
    with log.open("w") as stream:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            cwd=folder, env=environment, stdout=stream, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            address = f"http://127.0.0.1:{port}"
            _wait_for(f"{address}/api", server, log)
            yield JupyterLab(folder, chromium, address)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            try:
                server.wait(10)
            except subprocess.TimeoutExpired:  # it hangs now and then on its way out, its kernels long gone
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()


@pytest.fixture
def jupyterlab(server: JupyterLab) -> Iterator[JupyterLab]:
    """The server, whose kernels end with the test: fifteen of them that end at once take too long."""
    yield server
    server.end_kernels()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    for _ in range(300):
        if server.poll() is not None:
            break
        try:
            urllib.request.urlopen(address, timeout=1).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-3_000:]}")
