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
    card.get_by_label("Reason", exact=True).select_option(label="late")
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


PAY = """
from typing import Annotated, Literal
from pydantic import Field

@af.tool(approval=True)
def pay(amount: Annotated[float, Field(ge=0)], to: Literal["shop", "bank"] = "shop", note: str | None = None) -> str:
    "Pay."
    return f"paid {amount:g} to {to}"

model = ScriptedModel(ScriptedModel.call("pay", amount=120.0), "Paid.")
turn = lab.run(af.Agent("payments", model=model, tools=[pay]), "Pay what is due")
"""


def card_of(notebook: Any, cell: int = 1) -> Any:
    return notebook.cell(cell).locator(".afx:visible .afx-card")


def test_a_call_is_approved_with_changed_arguments(jupyterlab):
    """A15: the tool's own form; what does not fit is refused beside its field, and the turn waits on."""
    notebook = jupyterlab.open("changed", [SETUP, PAY, "print(turn.messages[-2].content)"])
    notebook.run(0)
    notebook.run(1)
    card = card_of(notebook)

    card.get_by_role("button", name="Change the arguments…").click()
    expect(card.get_by_label("Amount")).to_have_value("120")
    card.get_by_label("Amount").fill("-5")
    card.get_by_role("button", name="Approve with changes").click()
    expect(card.locator("[aria-invalid=true]")).to_have_count(1)
    expect(card).to_contain_text("greater than or equal to 0")
    expect(status(notebook, 1)).to_have_text("Waiting for approval")
    card.get_by_label("Amount").fill("80")
    card.get_by_label("To").select_option(label="bank")
    card.get_by_label("Amount").press("Control+Enter")

    expect(status(notebook, 1)).to_have_text("Completed")
    expect(notebook.cell(1)).to_contain_text("Approved with changed arguments by alice")
    assert notebook.run(2) == "paid 80 to bank\n"
    assert notebook.errors == []


def test_a_form_is_declined_with_a_reason(jupyterlab):
    """F10"""
    notebook = jupyterlab.open("decline", [SETUP, FORM, "print(turn.messages[-2].content)"])
    notebook.run(0)
    notebook.run(1)
    card = card_of(notebook)

    card.get_by_label("Reason, if you decline").fill("none of your business")
    card.get_by_role("button", name="Decline").click()

    expect(status(notebook, 1)).to_have_text("Completed")
    expect(notebook.cell(1)).to_contain_text("Declined by alice")
    assert '"reason": "none of your business"' in notebook.run(2)


OUTSIDE = """
@af.tool(external=True)
def ship(order: str) -> str:
    "Ship an order."

model = ScriptedModel([ScriptedModel.call("ship", order="O-1"), ScriptedModel.call("ship", order="O-2")], "On its way.")
lenient = af.AgentExecutionPolicy(tool_errors="RETURN_ERROR_TO_MODEL")
turn = lab.run(af.Agent("shipping", model=model, tools=[ship], execution_policy=lenient), "Ship both")
"""


def test_work_outside_ends_with_a_result_or_an_error(jupyterlab):
    """O1"""
    notebook = jupyterlab.open(
        "outside", [SETUP, OUTSIDE, "print([m.content for m in turn.messages if m.role == 'tool'])"]
    )
    notebook.run(0)
    notebook.run(1)
    expect(status(notebook, 1)).to_have_text("Waiting for an outside result")
    first, second = card_of(notebook).nth(0), card_of(notebook).nth(1)

    second.get_by_label("Its result, or what went wrong").fill("lost in the post")
    second.get_by_role("button", name="Report an error").click()
    expect(card_of(notebook)).to_have_count(1)
    first.get_by_label("Its result, or what went wrong").fill("parcel 7")
    first.get_by_role("button", name="Use this result").click()

    expect(status(notebook, 1)).to_have_text("Completed")
    assert notebook.run(2) == "['parcel 7', 'Error: lost in the post']\n"


RETRY = """
replies = iter([af.RateLimitError("slow down", status=429), "Here it is."])
later = af.AgentExecutionPolicy(retry=af.AgentRetryPolicy(initial_delay=3_600, max_delay=3_600, jitter=0))
turn = lab.run(af.Agent("patient", model=ScriptedModel(lambda request: next(replies)), execution_policy=later), "Try")
"""


def test_a_retry_is_counted_down_and_made_at_once(jupyterlab):
    """R1"""
    notebook = jupyterlab.open("retry", [SETUP, RETRY, "print(turn.status, turn.text)"])
    notebook.run(0)
    notebook.run(1)
    expect(status(notebook, 1)).to_have_text("Trying again soon")
    countdown = card_of(notebook).get_by_role("timer")
    expect(countdown).to_contain_text(re.compile(r"Tried again in (1 h 0|59) min"))
    before = countdown.inner_text()
    notebook.page.wait_for_timeout(2_500)
    expect(countdown).not_to_have_text(before)

    card_of(notebook).get_by_role("button", name="Retry now").click()

    expect(status(notebook, 1)).to_have_text("Completed")
    assert notebook.run(2) == "COMPLETED Here it is.\n"


def test_what_nobody_answers_resolves_by_itself_under_its_cell(jupyterlab):
    """A16"""
    rules = (
        "rules = af.ApprovalRules([af.ApprovalRule(tool='refund', decision='ASK', expires_in=4, name='ask first')])\n"
        "agent = af.Agent('expiring', model=model, tools=[lookup, refund], approval_policy=rules)"
    )
    notebook = jupyterlab.open("expiry", [SETUP, rules, RUN])
    for cell in range(3):
        notebook.run(cell)
    expect(card_of(notebook, 2).get_by_role("timer")).to_contain_text("If nobody answers, it is rejected in")
    expect(card_of(notebook, 2)).to_contain_text("ask first")

    expect(status(notebook, 2)).to_have_text("Completed")
    expect(notebook.cell(2)).to_contain_text("Nobody answered in time: rejected")


def test_an_interruption_takes_the_place_of_what_is_asked(jupyterlab):
    """X5"""
    notebook = jupyterlab.open(
        "interrupt", [SETUP, RUN, "print([m.content for m in turn.messages if m.role == 'user'])"]
    )
    notebook.run(0)
    notebook.run(1)

    notebook.page.get_by_role("button", name="Interrupt…").click()
    notebook.page.get_by_label("Leave what goes on, and do this instead").fill("Never mind.")
    notebook.page.get_by_role("button", name="Send").click()

    expect(status(notebook, 1)).to_have_text("Completed")
    expect(notebook.cell(1)).to_contain_text("Interrupted by alice")
    assert notebook.run(2) == "['Refund order O-1001', 'Never mind.']\n"
