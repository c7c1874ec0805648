"""The panel in a real JupyterLab: run, watch, click, reload, reopen."""

import re
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SETUP = """
import time
import agentflex_nb as af
from agentflex_nb import ScriptedModel

@af.tool
def lookup(order_id: str) -> dict:
    "Look an order up."
    af.AgentToolContext.current().emit_progress("reading the ledger", percent=60)
    return {"order_id": order_id, "amount": 120.0}

@af.tool(approval=lambda call: call.arguments["amount"] > 50)
def refund(order_id: str, amount: float) -> dict:
    "Refund an order."
    return {"refunded": amount}

model = ScriptedModel(
    [ScriptedModel.think("Which order?"), "I look it up.", ScriptedModel.call("lookup", order_id="O-1001")],
    ["It can be **refunded**.", ScriptedModel.call("refund", order_id="O-1001", amount=120.0)],
    "Done: the money is on its way.",
    delay=0.02,
)
agent = af.Agent("refunds", model=model, tools=[lookup, refund])
lab = af.Lab(user="alice")
"""
RUN = 'turn = lab.run(agent, "Refund order O-1001")'


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as real

    real.set_options(timeout=20_000)  # a busy machine is no fault of the panel
    return real(locator, "the panel")


def status(notebook: Any, cell: int) -> Any:
    return notebook.cell(cell).locator(".afx:visible .afx-status")


def test_approve_resumes_the_turn_under_its_old_cell(jupyterlab):
    """K02: the cell has ended, no cell waits, and the click moves the turn on."""
    notebook = jupyterlab.open(
        "approve", [SETUP, RUN, "print(turn.status, turn.text)", "lab.suspensions().to_dict('records')"]
    )
    notebook.run(0)
    notebook.run(1)
    expect(status(notebook, 1)).to_have_text("Waiting for approval")
    expect(notebook.cell(1).locator(".afx:visible .afx-text strong")).to_have_text("refunded")

    notebook.page.get_by_role("button", name="Approve").click()

    expect(status(notebook, 1)).to_have_text("Completed")
    expect(notebook.cell(1)).to_contain_text("Approved by alice")
    expect(notebook.cell(1)).to_contain_text("Done: the money is on its way.")
    assert notebook.run(2) == "COMPLETED Done: the money is on its way.\n"
    notebook.run(3)
    told = "".join(notebook.outputs(3)[0]["data"]["text/plain"])
    assert "alice" in told
    assert "panel" in told
    assert notebook.errors == []


def test_reject_tells_the_model_why(jupyterlab):
    notebook = jupyterlab.open("reject", [SETUP, RUN, "print(turn.messages[-2].content)"])
    notebook.run(0)
    notebook.run(1)

    notebook.page.get_by_label("Reason, if you reject it").fill("over the limit")
    notebook.page.get_by_role("button", name="Reject").click()

    expect(status(notebook, 1)).to_have_text("Completed")
    assert "over the limit" in notebook.run(2)


def test_text_streams_while_the_cell_runs_and_cancel_is_heard_when_it_has_ended(jupyterlab):
    slow = 'agent = af.Agent("slow", model=ScriptedModel(" ".join(f"word{n}" for n in range(400)), delay=0.02))'
    notebook = jupyterlab.open("cancel", [SETUP, slow, 'turn = lab.start(agent, "Talk")', "print(turn.wait(5).status)"])
    notebook.run(0)
    notebook.run(1)
    notebook.run(2)
    live = notebook.cell(2).locator(".afx-text.afx-live")
    expect(live).to_contain_text("word5")

    notebook.page.get_by_role("button", name="Cancel").click()

    expect(status(notebook, 2)).to_have_text("Cancelled")
    assert notebook.run(3) == "CANCELLED\n"


FORM = """
from typing import Literal
from pydantic import BaseModel, Field

class Address(BaseModel):
    city: str

class Replacement(BaseModel):
    reason: Literal["damaged", "late"]
    quantity: int = Field(1, ge=1, le=5)
    note: str | None = None
    address: Address
    tags: list[str] = []

form = af.AgentForm("replacement", "Details of the replacement", Replacement)
asks = ScriptedModel.call("request_user_input", form_key="replacement", message="Where to?")
model = ScriptedModel(asks, "Thank you.")
turn = lab.run(af.Agent("replacements", model=model, forms=[form]), "Replace it")
"""


def test_a_form_is_filled_in_refused_beside_its_field_and_mended(jupyterlab):
    """K28"""
    notebook = jupyterlab.open(
        "form", [SETUP, FORM, "import json; print(json.loads(turn.messages[-2].content)['data'])"]
    )
    notebook.run(0)
    notebook.run(1)
    card = notebook.cell(1).locator(".afx:visible .afx-card")
    submit = card.get_by_role("button", name="Submit")

    submit.click()
    expect(card.locator("[aria-invalid=true]")).to_have_count(2)  # caught here: a choice and a city are due
    card.get_by_label("Reason").select_option(label="late")
    card.get_by_label("Quantity").fill("9")
    card.get_by_label("City").fill("Paris")
    card.get_by_role("button", name="Add").click()
    card.get_by_label("Tags 1").fill("blue")
    submit.click()
    expect(card.locator("[aria-invalid=true]")).to_have_count(1)  # refused by the kernel
    expect(card).to_contain_text("9 is greater than the maximum of 5")
    expect(card.get_by_label("City")).to_have_value("Paris")
    card.get_by_label("Quantity").fill("2")
    card.get_by_label("Quantity").press("Control+Enter")

    expect(status(notebook, 1)).to_have_text("Completed")
    assert (
        notebook.run(2)
        == str({"reason": "late", "quantity": 2, "note": None, "address": {"city": "Paris"}, "tags": ["blue"]}) + "\n"
    )


def test_after_a_reload_with_the_kernel_alive_the_panel_goes_on(jupyterlab):
    slow = (
        "words = ' '.join(f'word{n}' for n in range(150))\n"
        "call = ScriptedModel.call('refund', order_id='O-1', amount=60.0)\n"
        "model = ScriptedModel([words, call], 'Done.', delay=0.02)"
    )
    start = 'turn = lab.start(af.Agent("slow", model=model, tools=[refund]), "Talk")'
    notebook = jupyterlab.open("reload", [SETUP, slow, start])
    for cell in range(3):
        notebook.run(cell)
    expect(notebook.cell(2).locator(".afx-text.afx-live")).to_contain_text("word3")
    notebook.save()

    notebook.load()

    expect(status(notebook, 2)).to_have_text("Waiting for approval")
    said = notebook.cell(2).locator(".afx:visible .afx-text").first.inner_text()
    assert said.split() == [f"word{n}" for n in range(150)]
    notebook.page.get_by_role("button", name="Approve").click()
    expect(status(notebook, 2)).to_have_text("Completed")


def test_a_saved_notebook_without_its_kernel_shows_the_run_and_how_to_answer(jupyterlab):
    """K14"""
    notebook = jupyterlab.open("reopened", [SETUP, RUN, "turn.approve()", 'waiting = lab.run(agent, "Another one")'])
    for cell in range(4):
        notebook.run(cell)
    expect(status(notebook, 3)).to_have_text("Waiting for approval")
    notebook.save()
    notebook.shut_down_kernel()

    again = jupyterlab.reopen(notebook)

    expect(again.cell(1).locator(".afx-still")).to_contain_text("Done: the money is on its way.")
    expect(again.cell(1)).not_to_contain_text("model not found")
    expect(again.cell(3).locator(".afx-still")).to_contain_text("refund asks for approval")
    expect(again.cell(3).locator(".afx-still")).to_contain_text(re.compile(r"lab\.restore\('\w+'\)\.approve\(\)"))


def test_a_panel_whose_kernel_is_gone_says_how_to_go_on(jupyterlab):
    notebook = jupyterlab.open("gone", [SETUP, RUN])
    notebook.run(0)
    notebook.run(1)
    expect(status(notebook, 1)).to_have_text("Waiting for approval")
    notebook.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    notebook.page.wait_for_timeout(1_000)

    notebook.page.get_by_role("button", name="Approve").click()

    expect(notebook.cell(1).locator(".afx:visible .afx-card")).to_contain_text("The kernel is gone")
    expect(notebook.cell(1).locator(".afx:visible .afx-card pre.afx-code")).to_be_visible()


EVIL = r"""
evil = (
    "<img src=x onerror=window.hurt=1><script>window.hurt=1</script>[x](javascript:window.hurt=1)"
    "<button class='afx-button' style='position:fixed'>Approve</button>"
)

@af.tool(approval=True)
def act(what: str) -> str:
    "Act."
    return what

model = ScriptedModel([evil, ScriptedModel.call("act", what=evil)], evil)
turn = lab.run(af.Agent("evil", model=model, tools=[act]), evil)
"""


@pytest.mark.parametrize("ended", [False, True])
def test_nothing_a_model_says_runs_in_the_page(jupyterlab, ended):
    notebook = jupyterlab.open(f"evil{ended}", [SETUP, EVIL, "turn.approve()"])
    for cell in range(2 + ended):
        notebook.run(cell)
    expect(status(notebook, 1)).to_have_text("Completed" if ended else "Waiting for approval")

    panel = notebook.cell(1).locator(".afx:visible")

    assert panel.locator("img, script, [style], a[href^=javascript]").count() == 0
    assert panel.get_by_role("button", name="Approve").count() == (0 if ended else 1)
    assert notebook.page.evaluate("() => window.hurt") is None
