"""Where a panel can be shown."""

import os
import subprocess
import sys

import pytest

from agentflex_nb.widgets.kernel import SWITCH, is_notebook, running_cell


def test_a_plain_process_is_no_notebook():
    assert not is_notebook()
    assert running_cell() == ("", "")


def test_asking_does_not_load_ipython():
    code = "import sys; from agentflex_nb.widgets import is_notebook; print(is_notebook())"
    code += "; print('IPython' in sys.modules, 'anywidget' in sys.modules)"

    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["False", "False", "False"]


KERNEL = """
import sys
from ipykernel.kernelapp import IPKernelApp
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.kernel = object()
from agentflex_nb.widgets import is_notebook
print(is_notebook())
"""


@pytest.mark.parametrize(("said", "shown"), [(None, "True"), ("off", "False"), ("OFF", "False"), ("on", "True")])
def test_a_kernel_is_a_notebook_unless_it_is_switched_off(said, shown, tmp_path):
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path)} | ({SWITCH: said} if said else {})

    run = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", KERNEL], env=environment, capture_output=True, text=True, check=True
    )

    assert run.stdout.split()[-1] == shown
